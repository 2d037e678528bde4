"""JSON-RPC 2.0 over lines: read frames, hand requests to their methods, write the answers.

It knows nothing of sessions. Requests are answered in the order they come; a method that takes
long hands back `Work`, which gets a thread, so that a cancel is heard while a prompt runs. All
JSON is written as ASCII: lone surrogates and NUL travel as escapes and arrive as they were.
"""

import json
import os
import sys
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from queue import Empty, SimpleQueue
from typing import Any, BinaryIO, NamedTuple, TypeAlias, cast

Json: TypeAlias = dict[str, Any]

PARSE_ERROR = -32700
INVALID_REQUEST = -32600
METHOD_NOT_FOUND = -32601
INVALID_PARAMS = -32602
INTERNAL_ERROR = -32603
AUTH_REQUIRED = -32000
NOT_FOUND = -32002

FRAME_BYTES_MAX = 128 * 1024 * 1024
POLL_S = 0.02
"""How long a waiting thread sleeps before it looks again whether it was cancelled."""


class RpcError(Exception):
    """An error for the client. `data` is sent as it is, and left out when None."""

    def __init__(self, code: int, message: str, data: Json | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.data = data

    def as_json(self) -> Json:
        """Return the error object of the answer."""
        said: Json = {"code": self.code, "message": self.message}
        return said if self.data is None else {**said, "data": self.data}


class Work(NamedTuple):
    """A request answered from a thread: `run` gives the result, `afterwards` follows the answer."""

    run: Callable[[], Json]
    afterwards: Callable[[], None]


Request: TypeAlias = Callable[[Json], Json | Work]


class Connection:
    """One client, over a stream of lines in and a file descriptor out."""

    def __init__(
        self, frames: BinaryIO, *, output_descriptor: int, outlives_client: bool = False
    ) -> None:
        self._frames = frames
        self._output = output_descriptor
        self._outlives_client = outlives_client
        self._client_has_gone = threading.Event()
        self._writing = threading.Lock()
        self._waiting: dict[int, SimpleQueue[Json]] = {}
        self._last_id = 0
        self.at_exit: list[Callable[[], None]] = []

    def serve(self, requests: Mapping[str, Request], cancel: Callable[[Json], None]) -> None:
        """Answer until the client closes its end."""
        while line := self._frames.readline(FRAME_BYTES_MAX + 1):
            if len(line) > FRAME_BYTES_MAX:
                self._send_error(None, RpcError(INVALID_REQUEST, "the frame is too long"))
                return
            if line.strip():
                self._take(line, requests, cancel)
        self._client_has_gone.set()

    def notify(self, method: str, params: Json) -> None:
        """Tell the client something."""
        self._send({"method": method, "params": params})

    def ask(self, method: str, params: Json, *, stop: Callable[[], None]) -> Json:
        """Ask the client and wait; `stop` is called while waiting and may raise.

        Raises RpcError when the client answers with an error, or has gone.
        """
        answers: SimpleQueue[Json] = SimpleQueue()
        with self._writing:
            self._last_id += 1
            request_id = self._last_id
        self._waiting[request_id] = answers
        try:
            self._send({"id": request_id, "method": method, "params": params})
            while True:
                with suppress(Empty):
                    frame = answers.get(timeout=POLL_S)
                    break
                stop()
                if self._client_has_gone.is_set():
                    raise RpcError(INTERNAL_ERROR, "the client has gone")
        finally:
            del self._waiting[request_id]
        if frame.get("error") is not None:
            raise RpcError(INTERNAL_ERROR, f"the client answered with an error: {frame['error']}")
        result: Any = frame.get("result")
        return cast("Json", result) if isinstance(result, dict) else {}

    def write_line(self, line: bytes) -> None:
        """Write a line as it is, even one that is no frame."""
        rest = memoryview(line + b"\n")
        # Turns write from threads of their own: no frame may land within another.
        with self._writing:
            try:
                while rest:
                    rest = rest[os.write(self._output, rest) :]
            except BrokenPipeError:
                self._client_has_gone.set()
                if not self._outlives_client:
                    self.leave()

    def leave(self, exit_code: int = 0) -> None:
        """End the process at once, without waiting for threads that may hang on request."""
        for call in self.at_exit:
            call()
        os._exit(exit_code)

    def _take(
        self, line: bytes, requests: Mapping[str, Request], cancel: Callable[[Json], None]
    ) -> None:
        try:
            frame = _decoded(line)
        except RpcError as error:
            self._send_error(None, error)
            return
        method, params = frame.get("method"), frame.get("params")
        arguments = cast("Json", params) if isinstance(params, dict) else {}
        if not isinstance(method, str):
            request_id: object = frame.get("id")
            if isinstance(request_id, int) and request_id in self._waiting:
                self._waiting[request_id].put(frame)
        elif "id" in frame:
            self._answer(frame["id"], method, requests.get(method), arguments)
        elif method == "session/cancel":
            cancel(arguments)

    def _answer(self, request_id: object, method: str, call: Request | None, params: Json) -> None:
        if call is None:
            unknown = RpcError(METHOD_NOT_FOUND, "Method not found", {"method": method})
            self._send_error(request_id, unknown)
            return
        result = self._attempt(request_id, lambda: call(params))
        if isinstance(result, Work):
            work = result
            threading.Thread(target=lambda: self._work(request_id, work), daemon=True).start()
        elif result is not None:
            self._send({"id": request_id, "result": result})

    def _work(self, request_id: object, work: Work) -> None:
        result = self._attempt(request_id, work.run)
        if result is not None:
            self._send({"id": request_id, "result": result})
        work.afterwards()

    def _attempt(self, request_id: object, call: Callable[[], Json | Work]) -> Json | Work | None:
        """Return the result; None after an error, which was sent in its place."""
        try:
            return call()
        except RpcError as error:
            self._send_error(request_id, error)
        except Exception as error:  # noqa: BLE001  a fault of ours is an answer, not a dead agent
            sys.excepthook(type(error), error, error.__traceback__)
            details = {"details": f"{type(error).__name__}: {error}"}
            self._send_error(request_id, RpcError(INTERNAL_ERROR, "Internal error", details))
        return None

    def _send_error(self, request_id: object, error: RpcError) -> None:
        self._send({"id": request_id, "error": error.as_json()})

    def _send(self, frame: Json) -> None:
        self.write_line(json.dumps({"jsonrpc": "2.0", **frame}).encode("ascii"))


def _decoded(line: bytes) -> Json:
    try:
        frame: object = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise RpcError(PARSE_ERROR, "Parse error", {"details": str(error)}) from error
    if not isinstance(frame, dict):
        raise RpcError(INVALID_REQUEST, "Invalid request: a frame is a JSON object")
    return cast("Json", frame)
