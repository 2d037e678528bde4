"""The hook as a process: read, answer, and let the agent continue whatever happens, in seconds."""

from __future__ import annotations

import os
import select
import sys
import time

from upthread.boundary.files import NOWHERE
from upthread.boundary.own_files import home_of_hooks

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from types import FrameType
    from typing import Any, TypeAlias

    Told: TypeAlias = Mapping[str, Any]

STORE_WAIT_S = 2.0
"""How long a record that is in use, or a server that does not answer, is waited for."""

TIME_MAX_S = 4.5
"""How long a hook takes at most before anything is recorded; agents give it 5 to 10 s."""

REQUEST_BYTES_MAX = 16 * 1024 * 1024
"""A prompt may quote whole files; a request without end must not fill the memory."""

TOOK_TOO_LONG = f"it took more than {TIME_MAX_S} s"
WHY_CHARACTERS_MAX = 500

PROBE = "probe"
"""In place of an agent's name: asks whether this program starts and answers."""

LINE_FIELDS = {"claude-code": "systemMessage", "codex": "systemMessage", "opencode": "line"}
"""The agents that have hooks of ours, and where each reads the line for the person."""

BEGINNINGS = frozenset({"PreToolUse", "before", "named", "guard"})
"""The events that tell of a database that cannot be reached; the others of a call are silent."""


class TooMuchError(Exception):
    """The hook took too long, and the agent must not wait; or it was handed more than it reads."""


def main(arguments: list[str]) -> None:
    """Answer one request of AGENT, with upthread's files in HOME; never fails the agent."""
    agent, home, event = (*arguments, "", "", "")[:3]
    if agent == PROBE:
        from upthread import __version__

        _tell({"version": __version__})
        return
    until = time.monotonic() + TIME_MAX_S
    try:
        request = _request(until)
        home = home_of_hooks(os.environ, home)
        told: Told = {}
        if event != EVENT or not is_clear(home, request, os.environ):
            told = _in_time(agent, home, request, until)
    except Exception as error:  # noqa: BLE001  # the agent continues and a person is told
        told = _undecided(agent, error)
    _tell(told)


def _in_time(agent: str, home: str, raw: bytes, until: float) -> Told:
    import signal  # from here on all that takes long to load

    def over(_signal: int, _frame: FrameType | None) -> None:
        raise TooMuchError(TOOK_TOO_LONG)

    signal.signal(signal.SIGALRM, over)
    signal.setitimer(signal.ITIMER_REAL, max(until - time.monotonic(), 0.001))
    try:
        return _answer(agent, home, raw)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)


def _answer(agent: str, home: str, raw: bytes) -> Told:
    import signal
    from pathlib import Path
    from typing import cast

    from upthread.errors import ConfigError, NotFoundError, StoreError, StoreUnreachableError

    if agent not in LINE_FIELDS:
        raise ValueError(agent[:40])
    # Else `msgspec` loads it, which takes half as long as all that is needed here.
    sys.modules["typing_extensions"] = None  # type: ignore[assignment]
    import msgspec

    del sys.modules["typing_extensions"]
    try:
        found: Any = msgspec.json.decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError):  # halves of characters, bytes of any path
        import json

        found = json.loads(raw.decode("utf-8", "surrogateescape"))
    request = cast("dict[str, Any]", found if isinstance(found, dict) else {})
    directory = Path(os.path.abspath(str(request.get("cwd") or ".")))
    translator = __import__(
        f"upthread.surfaces.hook.{agent.replace('-', '_')}", fromlist=("understand",)
    )
    step = translator.understand(request)
    if step is None:
        return {}
    # What is started from here shall not begin in a repository.
    os.chdir(NOWHERE)
    environment = {**os.environ, "UPTHREAD_HOME": home}
    from upthread.client.project_opener import open_agent_calls

    try:
        with open_agent_calls(directory, environment=environment, wait_s=STORE_WAIT_S) as calls:
            # What is decided is on record: the agent must not be told something else after it.
            signal.setitimer(signal.ITIMER_REAL, 0)
            told: Told = step(calls)
    except NotFoundError:
        return {}  # a place that nobody has used upthread in is left alone
    except (StoreError, ConfigError) as error:
        is_server = isinstance(error, StoreUnreachableError)
        if not is_server:
            _note_missed(environment)
        event = request.get("hook_event_name") or request.get("event")
        if is_server and event not in BEGINNINGS:
            return {}
        unheard: Told = _undecided(agent, error)
        # The next command finds the call by this line. Codex stores only what the model is given.
        if agent == "codex" and "spawn_agent" in str(request.get("tool_name")):
            context = {"hookEventName": event, "additionalContext": unheard["systemMessage"]}
            return {**unheard, "hookSpecificOutput": context}
        return unheard
    return told


def _note_missed(environment: Mapping[str, str]) -> None:
    from upthread.store.address import file_path, is_postgres
    from upthread.store.sqlite.database import note_missed

    database = environment.get("UPTHREAD_DB") or f"{environment['UPTHREAD_HOME']}/upthread.db"
    if not is_postgres(database):
        note_missed(file_path(database))


def _request(until: float) -> bytes:
    pieces: list[bytes] = []
    left = REQUEST_BYTES_MAX
    while left > 0:
        # An agent that never closes the pipe would else be waited for.
        if not select.select((0,), (), (), max(until - time.monotonic(), 0))[0]:
            raise TooMuchError(TOOK_TOO_LONG)
        if not (piece := os.read(0, min(left, 1024 * 1024))):
            return b"".join(pieces)
        left -= len(piece)
        pieces.append(piece)
    raise TooMuchError(f"it was handed more than {REQUEST_BYTES_MAX // 2**20} MiB")


def _undecided(agent: str, error: Exception) -> Told:
    from upthread.core.decision.words import UNDECIDED_LINE
    from upthread.core.text import visible_line

    line = visible_line(f"{UNDECIDED_LINE}, the agent continues without it: {_why(error)}")
    return {LINE_FIELDS.get(agent, "systemMessage"): line}


def _why(error: Exception) -> str:
    """Return what went wrong, and never what was said: an error may quote a prompt."""
    kind = type(error).__name__
    if isinstance(error, OSError):
        return f"{kind}: {error.strerror}"[:WHY_CHARACTERS_MAX]
    # Ours are written to be shown and quote no prompt; any other may have the text in its message.
    if type(error).__module__.startswith("upthread."):
        return str(error)[:WHY_CHARACTERS_MAX]
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    line = f" in line {trace.tb_lineno} of {trace.tb_frame.f_code.co_filename}" if trace else ""
    return f"{kind}{line}"[:WHY_CHARACTERS_MAX]


def _tell(told: Told) -> None:
    if not told:
        return
    import msgspec

    try:
        raw = msgspec.json.encode(told)
    except UnicodeEncodeError:  # half of a character
        raw = b""
    if not raw or not raw.isascii():
        import json

        raw = json.dumps(told).encode("ascii")
    try:
        while raw:
            raw = raw[os.write(1, raw) :]
    except OSError as error:
        # Nobody reads: standard error is what is left to say it to.
        sys.stderr.write(f"upthread: the answer could not be given: {error}\n")


# --- guard --------------------------------------------------------------------------------------
# The guard's first look: whether the record has anything that may be in doubt, in one statement.
#
# A hook asks this before each call that may act beyond this machine, so it loads apsw alone. Where
# nothing was left open in the project, the call runs. Otherwise, and where this look cannot tell (a
# server, an encrypted file, a repository with several working trees), the whole program decides:
# client/agent_calls.py.

EVENT = "Guard"
"""What the launcher is called with in place of an event's name."""

WAIT_MS = 200

# Whether a conversation's newest turn, and all before it, ended well is in its head: kinds.py.
_LEFT_OPEN = """
SELECT count(c.id) FILTER (
    WHERE json_extract(c.state, '$.turn') IS NOT NULL
    AND json_extract(c.state, '$.turn.is_clear') IS NOT 1
)
FROM tag AS t
JOIN head AS p ON p.id = t.stream
LEFT JOIN head AS c ON c.project = p.project AND c.kind = 'conversation'
WHERE t.tag IN ({paths})
HAVING count(p.id) > 0
"""


def is_clear(home: str, request: bytes, environment: Mapping[str, str]) -> bool:
    """Return whether nothing of the project is in doubt for certain; False where nobody can tell.

    Changes nothing.
    """
    database = environment.get("UPTHREAD_DB") or os.path.join(home, "upthread.db")
    if "://" in database:
        return False
    if not os.path.exists(database):
        return not os.path.lexists(f"{database}.key")  # without its key nothing was ever recorded
    import apsw

    try:
        connection: Any = apsw.Connection(database, flags=apsw.SQLITE_OPEN_READONLY)
        connection.set_busy_timeout(WAIT_MS)
        # Read by SQLite: Python's own module for JSON takes longer to load than all of this.
        told = connection.execute("SELECT json_extract(?, '$.cwd')", (request.decode(),)).fetchall()
        paths = list(_above(os.path.realpath(str(told[0][0]))))
        tags = ",".join(["'path ' || json_array(?)"] * len(paths))
        left_open = _LEFT_OPEN.format(paths=tags)
        return bool(connection.execute(left_open, paths).fetchall() == [(0,)])
    except (apsw.Error, TypeError, ValueError):
        return False


def _above(directory: str) -> Iterator[str]:
    while directory:
        yield directory
        directory = directory.rpartition("/")[0]
    yield "/"
