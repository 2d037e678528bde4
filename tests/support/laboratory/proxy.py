"""A proxy before a PostgreSQL's socket, on loopback: cut, it neither answers nor hangs up."""

import select
import socket
import threading
from contextlib import suppress
from pathlib import Path
from typing import Self
from urllib.parse import parse_qs, urlsplit

CHUNK_BYTES = 65_536
LOOKS_EVERY_S = 0.05


class Proxy:
    """Forwards bytes both ways until it is cut, and again once it is mended."""

    def __init__(self, address: str) -> None:
        parts = urlsplit(address)
        self.lead_to(address)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._is_cut = threading.Event()
        self._is_over = threading.Event()
        port = self._listener.getsockname()[1]
        self.address = f"postgres://{parts.username}@127.0.0.1:{port}{parts.path}?sslmode=disable"
        threading.Thread(target=self._accept, daemon=True).start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._is_over.set()
        self._listener.close()

    def lead_to(self, address: str) -> None:
        """Lead new connections to the server of an address; those that there are stay."""
        directory = parse_qs(urlsplit(address).query)["host"][0]
        self._socket = str(Path(directory) / ".s.PGSQL.5432")

    def cut(self) -> None:
        """From now on nothing gets through; nobody is told."""
        self._is_cut.set()

    def mend(self) -> None:
        """Let everything through again, what was sent meanwhile too."""
        self._is_cut.clear()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                threading.Thread(target=self._forward, args=(client,), daemon=True).start()

    def _forward(self, client: socket.socket) -> None:
        server = socket.socket(socket.AF_UNIX)
        with client, server, suppress(OSError):
            server.connect(self._socket)
            to = {client: server, server: client}
            while not self._is_over.is_set():
                readable, _, _ = select.select(list(to), [], [], LOOKS_EVERY_S)
                while self._is_cut.is_set() and not self._is_over.is_set():
                    self._is_over.wait(LOOKS_EVERY_S)
                for each in readable:
                    chunk = each.recv(CHUNK_BYTES)
                    if not chunk:
                        return
                    to[each].sendall(chunk)
