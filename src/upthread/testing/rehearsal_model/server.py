"""The scripted model on loopback: HTTP around the engine, nothing decided here.

Real agents are run against it in tests and in rehearsals, so they need no network and no key. It
says in every title and model name that it is a rehearsal.
"""

import contextlib
import select
import socket
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import BinaryIO, Self, cast

from upthread.testing.rehearsal_model.engine import Engine, Outgoing, RecordedRequest
from upthread.testing.rehearsal_model.protocol import Violation
from upthread.testing.rehearsal_model.script import parse_script

POLL_S = 0.05
"""How often a hanging answer looks whether its client is still there."""


class RehearsalModel:
    """A model server on 127.0.0.1, from `start` (or `with`) to `close`.

    `port` 0 takes a free one. Not `strict`, a history its provider would refuse is answered all the
    same; its violations are recorded either way. `log` gets one JSON line per request.
    """

    def __init__(self, *, port: int = 0, strict: bool = True, log: BinaryIO | None = None) -> None:
        self._engine = Engine(strict=strict, log=log)
        self._server = _Server(("127.0.0.1", port), self._engine)
        self._thread = threading.Thread(
            target=self._server.serve_forever, kwargs={"poll_interval": POLL_S}, daemon=True
        )

    @property
    def base_url(self) -> str:
        """Where the server listens, without a path: what Anthropic's clients want."""
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    @property
    def openai_base_url(self) -> str:
        """The address with `/v1`: what OpenAI's clients want."""
        return f"{self.base_url}/v1"

    @property
    def requests(self) -> list[RecordedRequest]:
        """Every request so far, oldest first; side requests are marked, not left out."""
        return self._engine.recorded()

    @property
    def model_requests(self) -> list[RecordedRequest]:
        """The requests that asked the model on a user's behalf."""
        return [
            request for request in self.requests if request.protocol and not request.is_side_request
        ]

    @property
    def violations(self) -> list[Violation]:
        """Every rule that any request broke, oldest first."""
        return [found for request in self.requests for found in request.violations]

    def answer_next(self, script: str) -> None:
        """Answer the next model requests by a script's steps, whatever they ask.

        For what no prompt of ours says, such as how a model takes a continuation.
        """
        self._engine.answer_next(*parse_script(script))

    def forget_answers(self) -> None:
        """Drop what `answer_next` gave and no request has taken yet."""
        self._engine.forget_answers()

    def start(self) -> None:
        """Serve, in a thread of its own."""
        self._thread.start()

    def close(self) -> None:
        """Stop: open answers are cut off, no thread and no port stays. Recorded requests stay."""
        if self._thread.is_alive():
            self._server.shutdown()
            self._thread.join()
        self._server.cut_connections()
        self._server.server_close()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()


class _Server(ThreadingHTTPServer):
    daemon_threads = False  # `server_close` then waits for every answer's thread
    request_queue_size = 128

    def __init__(self, address: tuple[str, int], engine: Engine) -> None:
        self.engine = engine
        self.is_stopping = threading.Event()
        self._open: set[socket.socket] = set()
        self._open_lock = threading.Lock()
        super().__init__(address, _Handler)

    def get_request(self) -> tuple[socket.socket, tuple[str, int]]:
        connection, address = self.socket.accept()
        with self._open_lock:
            self._open.add(connection)
        return connection, address

    def shutdown_request(self, request: socket.socket | tuple[bytes, socket.socket]) -> None:
        connection = cast("socket.socket", request)
        with self._open_lock:
            self._open.discard(connection)
        super().shutdown_request(connection)

    def cut_connections(self) -> None:
        """Wake every thread that waits for its client, so that `server_close` can end."""
        self.is_stopping.set()
        with self._open_lock:
            for connection in self._open:
                with contextlib.suppress(OSError):  # the client may have gone first
                    connection.shutdown(socket.SHUT_RDWR)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server_version = "upthread-rehearsal"
    disable_nagle_algorithm = True

    def do_GET(self) -> None:
        self._respond("GET", b"")

    def do_HEAD(self) -> None:
        self._respond("HEAD", b"")

    def do_POST(self) -> None:
        self._respond("POST", self.rfile.read(int(self.headers["content-length"])))

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002  (http.server's name)
        """Write nothing: requests are recorded, not printed."""

    def handle(self) -> None:
        with contextlib.suppress(ConnectionError):  # agents are stopped in mid-answer on purpose
            super().handle()

    @property
    def _model_server(self) -> _Server:
        return cast("_Server", self.server)

    def _respond(self, method: str, raw: bytes) -> None:
        headers = {name.lower(): value for name, value in self.headers.items()}
        self._send(self._model_server.engine.answer(method, self.path, headers, raw))

    def _send(self, outgoing: Outgoing) -> None:
        if not self._client_waited(None if outgoing.body is None else outgoing.delay_s):
            return
        match outgoing.body:
            case None:
                return
            case bytes() as body:
                self._start(outgoing, "application/json")
                self.send_header("content-length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)
            case frames:
                self._send_frames(outgoing, frames)

    def _send_frames(self, outgoing: Outgoing, frames: Iterator[bytes]) -> None:
        """Without a length: the end of the connection is the end of the answer."""
        self.close_connection = True
        self._start(outgoing, "text/event-stream; charset=utf-8")
        self.send_header("cache-control", "no-cache")
        self.send_header("connection", "close")
        self.end_headers()
        for frame in frames:
            if not self._client_waited(outgoing.pace_s):
                return
            self.wfile.write(frame)

    def _start(self, outgoing: Outgoing, content_type: str) -> None:
        self.send_response(outgoing.status)
        self.send_header("content-type", content_type)
        for name, value in outgoing.headers.items():
            self.send_header(name, value)

    def _client_waited(self, seconds: float | None) -> bool:
        """Wait (None: for ever); False as soon as the client has gone or the server stops."""
        left = seconds
        while left is None or left > 0:
            pause = POLL_S if left is None else min(POLL_S, left)
            if self._model_server.is_stopping.wait(pause) or self._client_has_gone():
                self.close_connection = True
                return False
            left = None if left is None else left - pause
        return True

    def _client_has_gone(self) -> bool:
        readable, _writable, _failed = select.select([self.connection], [], [], 0)
        if not readable:
            return False
        try:
            return not self.connection.recv(1, socket.MSG_PEEK)
        except OSError:
            return True
