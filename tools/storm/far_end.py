"""The far end of every deed: an HTTP server on loopback that counts them, case by case."""

from __future__ import annotations

import re
import threading
from collections import defaultdict
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

SLOW_S = 40.0
"""How long a deed may be held up at most."""

_CASE = re.compile(r"/c(\d+)(?:/|$)")


class Deeds:
    """The deeds of one case. While `is_slow`, the first is counted and not answered."""

    def __init__(self) -> None:
        self.said: list[str] = []
        self.is_slow = False
        self._let_go = threading.Event()

    @property
    def count(self) -> int:
        """How many have arrived."""
        return len(self.said)

    def arrive(self, said: str) -> None:
        """Count a deed, and return when it may be answered."""
        self.said.append(said)
        if self.is_slow and len(self.said) == 1:
            self._let_go.wait(SLOW_S)

    def let_go(self) -> None:
        """Answer the first deed, and those that come at once."""
        self._let_go.set()


class FarEnd:
    """Listens until `close`; as a proxy too, so that a host's name can be reached."""

    def __init__(self) -> None:
        self.deeds: defaultdict[int, Deeds] = defaultdict(Deeds)
        deeds = self.deeds

        class Handler(BaseHTTPRequestHandler):
            def arrive(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
                if found := _CASE.search(self.path):
                    deeds[int(found[1])].arrive(f"{self.command} {self.path} {body[:200]!r}")
                self.answer()

            def answer(self) -> None:
                self.send_response(200)
                self.send_header("Content-Length", "3")
                self.end_headers()
                self.wfile.write(b"{}\n")

            def log_message(self, format: str, *args: object) -> None:  # noqa: A002
                """Write nothing."""

            def handle(self) -> None:
                try:
                    super().handle()
                except OSError:
                    """Whoever did the deed was stopped in the middle of it."""

            do_POST = do_PUT = do_DELETE = do_PATCH = arrive  # noqa: N815  (http.server's names)
            do_GET = do_HEAD = answer  # noqa: N815

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.port = self._server.server_port
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def close(self) -> None:
        """Answer whoever waits, and listen no more."""
        for deeds in self.deeds.values():
            deeds.let_go()
        self._server.shutdown()
        self._server.server_close()
