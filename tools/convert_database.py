"""Convert a database from before the one log: `python tools/convert_database.py OLD NEW`.

OLD and NEW are a file or a postgres:// address. OLD is read with the code of the last commit that
knew its tables, taken from this repository's history, and is never written to: a file is copied
first, with its log, and the copy is opened. NEW is told all of it again, and every read of it is
compared with what was told. A file has its name only then, so that whoever ends this program can
simply start it again; a PostgreSQL database must be empty.

The key of redactions beside a file (`OLD.key`) belongs beside the new one, too: it is copied.
"""

from __future__ import annotations

import argparse
import fcntl
import os
import pickle
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from collections import defaultdict, deque
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from msgspec import structs

from upthread.client.stores import key_of, migrate_store, open_store
from upthread.config import load_settings
from upthread.core import commands as c
from upthread.core.events import PromptSent
from upthread.core.types import RunId
from upthread.store.address import KEY_SUFFIX, SQLITE_PREFIX, file_path, is_postgres
from upthread.store.log import LogStore
from upthread.store.sqlite.files import BESIDE, sync_file

LAST_WITH_TABLES = "84762f6cb9bc0c6a74f899503fb2366a1b665b57"
"""The commit whose code reads what was stored in tables."""

WRITES_AT_ONCE = 500
_PREFIX = "upthread-convert-"

_READ = """
import pickle, sys
from msgspec import structs
from upthread.client.stores import open_store
from upthread.store.base import CONVERSATION_SECTIONS, PROJECT_SECTIONS

address, key = pickle.load(sys.stdin.buffer)
store = open_store(address, key=key)
out = sys.stdout.buffer

def told(section, owner):
    after = None
    while page := store.recorded(section, owner, after=after, limit=1000):
        for each in page:
            pickle.dump((section, (type(each.write).__name__, structs.asdict(each.write))), out)
        after = page[-1].place

for project in dict.fromkeys(each.project_id for each in store.known_projects()):
    pickle.dump(("begin", project), out)
    for section in PROJECT_SECTIONS:
        told(section, project)
    for workstream in store.workstreams(project):
        for each in store.conversations(project, workstream.workstream):
            pickle.dump(("conversation's", each.conversation_id), out)
            for section in CONVERSATION_SECTIONS:
                told(section, each.conversation_id)
pickle.dump(("end", None), out)
"""

# Modules of the old code whose values are in another file now.
_MOVED = {
    "upthread.core.actors": "upthread.core.agents",
    "upthread.core.acts": "upthread.core.commands",
    "upthread.core.decision.examined": "upthread.core.decision.freshness",
    "upthread.core.project": "upthread.core.names",
    "upthread.core.sessions": "upthread.core.states",
}

Told = dict[str, list[Any]]


def main() -> int:
    """Convert, and return 0 when all of it was compared."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("old")
    parser.add_argument("new")
    parser.add_argument("--commit", default=LAST_WITH_TABLES, help="whose code reads OLD")
    given = parser.parse_args()
    settings = load_settings(Path.cwd(), environment=os.environ, database=given.old)
    key = None if is_postgres(given.old) else key_of(settings)
    _on_stop(lambda number, _: sys.exit(128 + number))
    with _private_place() as place:
        source = _code_of(given.commit, place)
        address = given.old
        if not is_postgres(address):
            address = f"{SQLITE_PREFIX}{_copied(file_path(given.old), place / 'old.db')}"
        if is_postgres(given.new):
            migrate_store(given.new)
            made = open_store(given.new)
        else:
            target = file_path(given.new)
            if target.exists():
                sys.exit(f"{target} is there already: name a file that is not")
            # What is left of a conversion that was ended.
            for suffix in ("", *BESIDE):
                _beside(target, suffix).unlink(missing_ok=True)
            made = open_store(f"{SQLITE_PREFIX}{_beside(target)}", key=key)
        if made.known_projects():
            sys.exit(f"{given.new} is not empty: name another database")
        count = _convert(_told(source, (address, key)), made)
        made.close()
        if not is_postgres(given.new):
            _put(_beside(target), target, file_path(given.old))
    print(f"converted and compared: {count} writes. {given.old} was only read")
    return 0


@contextmanager
def _private_place() -> Generator[Path]:
    """Give a directory that is removed at the end. Remove those of killed conversions first.

    The lock of a directory shows that its conversion is running.
    """
    for left in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*"):
        with suppress(OSError), _locked(left):
            shutil.rmtree(left)
    with tempfile.TemporaryDirectory(prefix=_PREFIX) as place, _locked(Path(place)):
        try:
            yield Path(place)
        finally:
            _on_stop(signal.SIG_IGN)  # otherwise a stop now leaves half of the directory


def _on_stop(action: Callable[[int, object], Any] | signal.Handlers) -> None:
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, action)


@contextmanager
def _locked(directory: Path) -> Generator[None]:
    """Lock a directory of this account. OSError where another process has it."""
    handle = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        if os.fstat(handle).st_uid != os.getuid():
            raise PermissionError(directory)
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    finally:
        os.close(handle)


def _copied(old: Path, copy: Path) -> Path:
    """Copy a file and its log as they are: whoever opens a file may write to it."""
    if not old.exists():
        sys.exit(f"there is no database {old}")
    before = _state_of(old)
    for suffix in ("", "-wal"):
        if old.with_name(old.name + suffix).exists():
            shutil.copy2(old.with_name(old.name + suffix), copy.with_name(copy.name + suffix))
    if _state_of(old) != before:
        sys.exit(f"{old} was written to meanwhile: end what uses it, and convert it again")
    return copy


def _state_of(old: Path) -> list[tuple[int, int]]:
    found = [old.with_name(old.name + suffix) for suffix in ("", "-wal")]
    return [(each.stat().st_size, each.stat().st_mtime_ns) for each in found if each.exists()]


def _beside(target: Path, suffix: str = "") -> Path:
    return target.with_name(f"{target.name}.converting{suffix}")


def _code_of(commit: str, place: Path) -> Path:
    """Return a directory with the source of a commit."""
    root = Path(__file__).parent.parent
    archive = place / "source.tar"
    words = ["git", "-C", str(root), "archive", "-o", str(archive), commit, "src"]
    subprocess.run(words, check=True)
    shutil.unpack_archive(archive, place / "source")
    return place / "source" / "src"


class _Values(pickle.Unpickler):
    """Reads the values of the old code as those of today's."""

    def find_class(self, module_name: str, global_name: str, /) -> Any:
        return super().find_class(_MOVED.get(module_name, module_name), global_name)


def _told(source: Path, asked: object) -> Iterator[tuple[str, Any]]:
    """Yield what the old code tells of the old database."""
    process = subprocess.Popen(
        # Without compiled files: if this process is killed, nothing is written to what is removed.
        [sys.executable, "-Bc", _READ],
        env={**os.environ, "PYTHONPATH": str(source)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    pickle.dump(asked, process.stdin)
    process.stdin.close()
    kind = ""
    try:
        while kind != "end":
            try:
                kind, value = _Values(process.stdout).load()
            except EOFError:
                sys.exit("the old database could not be read: see above")
            yield kind, value
    except BaseException:
        process.kill()  # else it would read on in a directory that is removed
        raise
    if process.wait():
        sys.exit("the old database could not be read: see above")


def _convert(told: Iterator[tuple[str, Any]], made: LogStore) -> int:
    """Tell a store all there is, project by project; return how many writes that were."""
    count = 0
    project: Told = {}
    conversations: dict[str, Told] = {}
    current, owner = project, ""
    for kind, value in told:
        if kind in {"begin", "end"}:
            count += _project(project, conversations, made)
            project, conversations = defaultdict(list), {}
            current = project
        elif kind == "conversation's":
            current = conversations[value] = defaultdict(list)
            owner = value
        else:
            name, fields = value
            # Now they name their conversation, as they did by their section.
            named = {"conversation_id": owner} if kind in {"turn_event", "quarantine"} else {}
            current[kind].append(getattr(c, name)(**fields, **named))
    return count


def _project(project: Told, conversations: dict[str, Told], made: LogStore) -> int:
    """Tell a store one project, and compare what it reads."""
    if not project:
        return 0
    project = defaultdict(list, project)
    batch = [
        each for kind in ("project", "workstream", "conversation", "run") for each in project[kind]
    ]
    _commit(made, batch)
    count = len(batch)
    for run in project["run"]:
        mine = [
            each
            for kind in ("run_event", "transition", "act")
            for each in project[kind]
            if each.run_id == run.run_id
        ]
        _commit(made, _in_order_of_a_run(mine))
        count += len(mine)
        _compare_run(run.run_id, mine, made)
    for name, of in conversations.items():
        for kind in ("link", "link_end", "turn", "act"):
            of[kind] = [each for each in project[kind] if _owner(each) == name]
        writes = list(_conversation(of))
        _commit(made, writes)
        count += len(writes)
    _commit(made, project["once"])
    for name, of in conversations.items():
        _compare(name, of, made)
    last = {each.key: each for each in project["once"]}
    found = {key: made.once(each.project_id, key) for key, each in last.items()}
    _must_equal("actions", "the project", list(last.values()), list(found.values()), _ONCE)
    return count + len(project["once"])


def _owner(write: Any) -> str | None:
    return write.link.conversation_id if isinstance(write, c.OpenLink) else write.conversation_id


def _in_order_of_a_run(writes: Sequence[Any]) -> Iterator[Any]:
    """Yield a run's events, each with the transition that follows it."""
    due = defaultdict(list)
    for each in writes:
        if isinstance(each, c.EnqueueTransition):
            due[each.run_seq].append(each)
    yield from due[0]
    for each in writes:
        if not isinstance(each, c.EnqueueTransition):
            yield each
        if isinstance(each, c.RecordRunEvent):
            yield from due[each.seq]


def _conversation(of: Told) -> Iterator[Any]:
    """Yield a conversation's writes, turn by turn, about as they were made."""
    events: dict[str, list[Any]] = defaultdict(list)
    beside: dict[str, list[Any]] = defaultdict(list)
    for each in of["turn_event"]:
        events[each.turn_id].append(each)
    for each in (*of["quarantine"], *of["examined"]):
        beside[each.turn_id].append(each)
    for each in of["act"]:
        beside[each.detail].append(each)
    yield from (*of["link"], *of["link_end"], *of["refusal"], *of["briefing_edit"])
    parts, later = deque(of["part"]), {each.turn_id for each in of["turn"]}
    for turn in of["turn"]:
        mine = events.pop(turn.turn_id, [])
        sent = [at for at, each in enumerate(mine, 1) if isinstance(each.event, PromptSent)]
        later.discard(turn.turn_id)
        yield turn
        yield from (*beside.pop(turn.turn_id, ()), *mine[: max(sent, default=0)])
        while parts and parts[0].turn_id not in later:
            yield parts.popleft()
        yield from mine[max(sent, default=0) :]
    # A child speaks in its caller's turns.
    yield from parts
    yield from (each for left in beside.values() for each in left)


def _commit(made: LogStore, writes: Any) -> None:
    batch: list[Any] = []
    for write in writes:
        batch.append(write)
        if len(batch) >= WRITES_AT_ONCE:
            made.commit(batch)
            batch = []
    made.commit(batch)


def _compare(name: str, of: Told, made: LogStore) -> None:
    """Compare every read of a conversation with what was told; the program ends at a difference."""
    messages: dict[int, list[Any]] = {}
    for each in of["part"]:
        told = messages.setdefault(
            each.seq,
            [each.seq, each.speaker, each.turn_id, each.upstream_session_id, each.recorded_at_ms],
        )
        told += each.parts
    ends = {each.seq: each for each in of["link_end"]}
    links = [
        structs.replace(
            each.link,
            ended_because=ends[each.link.seq].ended_because,
            ended_at_ms=ends[each.link.seq].ended_at_ms,
        )
        if each.link.seq in ends
        else each.link
        for each in of["link"]
    ]
    edits = [(each.seq, each.edit, each.recorded_at_ms) for each in of["briefing_edit"][-1:]]
    edit = made.briefing_edit(name)
    turns = {each.turn_id for each in of["turn"]}
    expected = {
        "messages": list(messages.values()),
        "links": links,
        "turns": [(each.turn_id, each.opened_at_ms, each.run_id) for each in of["turn"]],
        "events": [(e.turn_id, e.event) for e in of["turn_event"] if e.turn_id in turns],
        "refusals": of["refusal"],
        "acts": sorted(map(repr, of["act"])),
        "edit": edits,
        "proof": None,
    }
    found = {
        "messages": [
            [m.seq, m.speaker, m.turn_id, m.upstream_session_id, m.recorded_at_ms, *m.parts]
            for m in made.messages(name)
        ],
        "links": list(made.links(name)),
        "turns": [(each.turn_id, each.opened_at_ms, each.run_id) for each in made.turns(name)],
        "events": [
            (each.turn_id, event.event)
            for each in of["turn"]
            for event in made.turn_events(name, each.turn_id)
        ],
        "refusals": list(made.refusals(name)),
        "acts": sorted(map(repr, made.acts(name))),
        "edit": [] if edit is None else [(edit.seq, edit.edit, edit.recorded_at_ms)],
        "proof": made.verify(name),
    }
    for what, told in expected.items():
        _must_equal(what, name, told, found[what])


def _compare_run(run_id: str, of: Sequence[Any], made: LogStore) -> None:
    """Compare what is read of a run."""
    for what, kind, found in (
        ("events", c.RecordRunEvent, made.run_events(RunId(run_id))),
        ("acts", c.RecordAct, made.acts(RunId(run_id))),
    ):
        told = [each for each in of if isinstance(each, kind)]
        fields = [name for name in kind.__struct_fields__ if name != "durability"]
        _must_equal(what, run_id, told, found, fields)


def _must_equal(what: str, name: str, told: Any, found: Any, fields: Sequence[str] = ()) -> None:
    """End the program where two values, or these fields of two lists of values, differ."""
    if fields:
        told, found = (
            [[getattr(each, field) for field in fields] for each in side] for side in (told, found)
        )
    # As text: NaN is not equal to itself, and 1, 1.0 and True are.
    if _plain(told) != _plain(found):
        sys.exit(f"the {what} of {name} are not what was told: nothing was converted")


_ONCE = ("key", "attempt_id", "state", "receipt", "recorded_at_ms")


def _plain(value: object) -> str:
    """Return a value as text, what was forgotten by its kind and call alone."""
    return _DIGESTS.sub("", repr(value))


_DIGESTS = re.compile(r", digest=(?:None|b(?:'[^']*'|\"[^\"]*\")), size_bytes=(?:None|\d+)")


def _put(made: Path, target: Path, old: Path) -> None:
    """Give a finished file its name, and its key beside it."""
    key = old.with_name(old.name + KEY_SUFFIX)
    if key.exists():
        shutil.copy2(key, target.with_name(target.name + KEY_SUFFIX))
    made.rename(target)
    for suffix in BESIDE:
        _beside(target, suffix).unlink(missing_ok=True)
    sync_file(target.parent)


if __name__ == "__main__":
    sys.exit(main())
