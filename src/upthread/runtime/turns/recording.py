"""What is recorded of a turn while its agent works: its events, files and tokens.

What the agent says goes into the store in batches, while it is said: one commit a batch, one thread
hop a commit. `take` is awaited by the adapter, so a store that is slow slows the agent down instead
of filling memory. A commit that fails ends the turn: a lost write is a failure, never a log line.

The examiner looks at what is being recorded: a call with its result names the files, and with the
next batch they are looked at and kept beside it. Children examine for themselves: what they read,
the parent has not. A command names no files; those the session knows and that were touched while it
ran are its own doing.

A file is hashed in pieces, up to HASHED_BYTES_MAX; above that it is known by its size and time.
Paths are what an agent said: only regular files are opened, without following what blocks, and
nothing of them is kept but a digest. Whatever cannot be read is a state, never an error.
"""

import fnmatch
import hashlib
import os
import re
import stat
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from glob import escape
from itertools import chain, islice
from pathlib import Path
from typing import Any, TypeVar

import anyio
from msgspec import Struct
from msgspec.structs import replace

from upthread.agent_stores.homes import settings_of
from upthread.agents.base import PermissionRequest, PromptResult
from upthread.boundary.files import OPEN_FLAGS, is_ordinary, read_start
from upthread.boundary.own_files import agents_home
from upthread.core.agents import AGENTS, Agent
from upthread.core.commands import RecordExamined, RecordParts, Write
from upthread.core.decision.freshness import (
    FAILED,
    HASHED_BYTES_MAX,
    RUNNING_KINDS,
    UNNAMED,
    Examination,
    ExaminedFile,
    How,
    Surroundings,
    examination_of,
    kept_path,
    known_after,
    left_in,
    left_open,
)
from upthread.core.decision.words import TOKENS_MAX, Spending, Tokens
from upthread.core.events import AgentEvent, TurnEnded, TurnParked, Usage
from upthread.core.names import shown
from upthread.core.quotas import TurnQuota
from upthread.core.roles.role import Role
from upthread.core.turns.recorder import Recorder, child_named
from upthread.core.turns.spent_tokens import (
    NOTHING_COUNTED,
    Counted,
    added,
    going_on,
    spending_in_words,
    spent_on_prompt,
    together,
    unfinished,
    usage_of_prompt,
)
from upthread.core.types import (
    Durability,
    Environment,
    Fence,
    Link,
    Outcome,
    Part,
    ToolCallPart,
    ToolResultPart,
    TurnId,
    UpstreamSessionId,
)
from upthread.errors import UpstreamError
from upthread.runtime.system import System, now_ns
from upthread.runtime.working_tree.repository import git_facts
from upthread.store.base import Store

Last = TypeVar("Last", TurnEnded, TurnParked)

PIECE_BYTES = 1024 * 1024
BINARY_LOOK_BYTES = 8_000
"""How far a NUL is looked for that makes a file binary; git looks as far."""

SETTLED_NS = 2_000_000_000
"""How old a time of change must be to tell later ones by it; the coarsest file systems count in
2 s. A younger one could be that of a second change right after the first."""

CLOCK_SLACK_NS = 20_000_000
"""The kernel stamps files with a clock that is up to a tick behind the one it tells."""


_WILD = frozenset("*?[")

ENTRIES_MAX = 10_000
MATCHED_MAX = 64
"""How many names of a directory a pattern is held against, and how many it may mean."""

IMPORTED_MAX = 512
IMPORTING_BYTES_MAX = 1024 * 1024
_IMPORT = re.compile(r"(?<![\w`])@(?![~/])(\S+)")
"""Claude Code (2.1.332) follows `@docs/style.md`, outside of code and in the project."""

_NAMES = re.compile(r'"instructions"\s*:\s*\[([^\]]*)')
_NAME = re.compile(r'"([^"\\]+)"')
"""OpenCode (1.18.33) looks for each pattern from the working directory up."""


_NOT_SEEN: Mapping[str, Any] = {"state": "unreadable", "digest": None, "mtime_ns": None}

FILES_MAX = 1 << 16
"""How many files are numbered between two events of a turn."""

BATCH_WRITES_MAX = 64

FLUSH_EVERY_S = 0.5
"""Text that is still running is recorded at least this often."""


# --- the files that a session examined ------------------------------------------------------------


def examine(root: str, path: str, *, how: How) -> ExaminedFile:
    """Return a file as it is now. `path` is relative to `root`, or absolute. Blocking."""
    place = os.path.join(root, path)  # noqa: PTH118  # text that may be no valid path
    try:
        found = os.stat(place)  # noqa: PTH116  # ten thousand of them
    except (FileNotFoundError, NotADirectoryError):
        return ExaminedFile(path=path, how=how, state="missing")
    except (OSError, ValueError):  # ValueError: surrogates that are no bytes of a name
        return ExaminedFile(path=path, how=how, state="unreadable")
    return _hashed(place, ExaminedFile(path=path, how=how, state="no_file"), found)


def meant_by(root: str, word: str) -> tuple[str, ...]:
    """Return the files that a word of a command means: itself, or what its pattern matches.

    Empty where there is none. Only the last part may hold a pattern: whole trees are not searched.
    Blocking.
    """
    place = os.path.join(root, word)  # noqa: PTH118  # text that may be no valid path
    try:
        # Before it is read as a pattern: a file may really be called `*`.
        if os.path.lexists(place):
            return (word,)
        directory, _, pattern = word.rpartition("/")
        if not set(pattern) & _WILD or set(directory) & _WILD:
            return ()
        with os.scandir(os.path.join(root, directory)) as entries:  # noqa: PTH118
            names = [entry.name for entry in islice(entries, ENTRIES_MAX)]
    except (OSError, ValueError):
        return ()
    # As a shell expands it: a star stands for no name that begins with a dot.
    hidden = pattern.startswith(".")
    matched = (name for name in sorted(names) if hidden or not name.startswith("."))
    found = (name for name in matched if fnmatch.fnmatchcase(name, pattern))
    prefix = f"{directory}/" if directory else ""
    return tuple(prefix + name for name in islice(found, MATCHED_MAX))


def instruction_files(row: Agent, directory: Path, environment: Environment) -> Iterable[Path]:
    """Return the instructions that an agent reads by itself when it works in a directory.

    They are looked for from the directory up to the top of its repository, and then among the
    person's own. Those that they import are among them. Blocking.
    """
    above = [directory, *directory.parents]
    tops = (number for number, each in enumerate(above, 1) if os.path.lexists(each / ".git"))
    places = [(each, "") for each in above[: next(tops, 1)]]
    if row.home:
        places.append((settings_of(row.name, environment), f"{row.home.below}/"))
    home, found = str(agents_home(environment)), list[Path]()
    settings = [_text_of(place / name) for place, _ in places for name in row.names_instructions_in]
    named = _NAME.findall(" ".join(each for text in settings for each in _NAMES.findall(text)))
    named = [each.replace("~/", f"{home}/") for each in named]
    for place, own in places:
        names = [name.removeprefix(own) for name in row.project_instructions]
        names += [f"{home}/{row.instead_of_own}"] if own else ()
        found += islice(_files(place, names), MATCHED_MAX if row.reads_all_instructions else 1)
        found += islice(_files(place, named), MATCHED_MAX)
    for each in found:  # and each that is imported, in its turn
        if row.reads_all_instructions and len(found) < IMPORTED_MAX:
            names = _IMPORT.findall(_text_of(each))[:MATCHED_MAX]
            imported = filter(Path.is_file, map(each.parent.joinpath, names))
            found += [new for new in imported if new not in found]
    return found


def _files(place: Path, patterns: Iterable[str]) -> Iterator[Path]:
    for each in patterns:
        pattern = Path(escape(str(place)), each).relative_to("/")
        yield from filter(Path.is_file, sorted(Path("/").glob(str(pattern))))


def _text_of(file: Path) -> str:
    try:
        return read_start(str(file), IMPORTING_BYTES_MAX).decode(errors="replace")
    except OSError:  # whatever cannot be read is looked at, and is a state
        return ""


def look_again(root: str, known: Iterable[ExaminedFile]) -> Iterator[ExaminedFile]:
    """Yield known files as they are now, hashing only those whose size or time moved. Blocking."""
    prefix = root.rstrip("/") + "/"
    look = os.stat
    for each in known:
        if each.path == UNNAMED.path:
            continue
        # The usual case without a call of ours: ten thousand unmoved files in a tenth of a second.
        if each.mtime_ns is not None:
            try:
                found = look(each.path if each.path[:1] == "/" else prefix + each.path)
            except (OSError, ValueError):
                found = None
            if found and (found.st_mtime_ns, found.st_size) == (each.mtime_ns, each.size_bytes):
                yield each
                continue
        yield examine(root, each.path, how=each.how)


def changed_between(
    root: str, known: Iterable[ExaminedFile], *, started_at_ns: int, ended_at_ns: int
) -> tuple[ExaminedFile, ...]:
    """Return the known files, as they are now, that were touched between two moments. Blocking.

    A file is dated by its inode, so that one moved into its place counts; one that is gone, by the
    nearest directory that is left. Whoever else touches a file in between is not told apart.
    """
    first_ns = started_at_ns - CLOCK_SLACK_NS
    return tuple(
        examine(root, each.path, how="ran")
        for each in known
        if first_ns <= _touched_at_ns(f"{root}/{each.path}", each.path) <= ended_at_ns
    )


def _touched_at_ns(place: str, path: str) -> int:
    """Return when a place was last touched; 0 where nobody can tell."""
    place = path if path.startswith("/") else place
    while place not in {"", "/"}:
        try:
            return os.stat(place).st_ctime_ns  # noqa: PTH116  # of every known file
        except (FileNotFoundError, NotADirectoryError):
            place = place.rpartition("/")[0]
        except (OSError, ValueError):
            return 0
    return 0


def _hashed(place: str, file: ExaminedFile, found: os.stat_result) -> ExaminedFile:
    if not stat.S_ISREG(found.st_mode):
        return file
    seen = replace(file, size_bytes=found.st_size, mtime_ns=_settled(found.st_mtime_ns))
    if found.st_size > HASHED_BYTES_MAX:
        return replace(seen, state="too_large")
    try:
        digest = _digest_of(place)
    except OSError:
        # Without its time: by that alone it would count as unmoved, and not be tried again.
        return replace(seen, state="unreadable", mtime_ns=None)
    return replace(seen, state="too_large" if digest is None else "hashed", digest=digest)


def _settled(mtime_ns: int) -> int | None:
    # Without a time it is hashed at the next look: a second change
    # within one tick of a coarse clock leaves the same time behind.
    return mtime_ns if mtime_ns <= now_ns() - SETTLED_NS else None


def _digest_of(place: str) -> str | None:
    """Return the digest of a regular file's content, None when it grows over the limit meanwhile.

    Text counts with its line ends as LF: a checkout with others is the same text.
    """
    hashed = hashlib.sha256()
    left = HASHED_BYTES_MAX
    descriptor = os.open(place, OPEN_FLAGS)
    try:
        # By the descriptor too: the name may be given to something else after the look (ADR 66).
        if not is_ordinary(descriptor):
            raise OSError("it became something that is no file")
        piece = os.read(descriptor, PIECE_BYTES)
        is_text = b"\0" not in piece[:BINARY_LOOK_BYTES]
        carried = b""
        while piece:
            left -= len(piece)
            if left < 0:
                return None
            piece = carried + piece
            # Pieces are cut anywhere, also between the two bytes of one line end: a CR at the end
            # waits for what follows it.
            carried = b"\r" if is_text and piece.endswith(b"\r") else b""
            text = piece.removesuffix(carried).replace(b"\r\n", b"\n")
            hashed.update(text if is_text else piece)
            piece = os.read(descriptor, PIECE_BYTES)
        hashed.update(carried)
    finally:
        os.close(descriptor)
    return hashed.hexdigest()


def first_file_after(events: int) -> int:
    """Return the number of the first file that a turn examines after so many of its events."""
    # Each send of a turn adds an event, so no two examiners of a turn number alike.
    return events * FILES_MAX


class Examiner:
    """Watches one turn. `known` are the files its session knew before.

    `first_ordinal` is `first_file_after` the turn's events, for a turn that is continued. What
    is looked at later than it happened may have changed meanwhile: a file that was touched after
    `unseen_after_ns`, in epoch nanoseconds, is kept as one whose content the session does not know.
    The agent of `link` reads instructions by itself, those of a person where `environment` says,
    and its shell may keep the directory between calls.
    """

    def __init__(
        self,
        *,
        root: str,
        link: Link,
        turn_id: TurnId,
        known: Iterable[ExaminedFile] = (),
        first_ordinal: int = 0,
        unseen_after_ns: int | None = None,
        environment: Environment,
    ) -> None:
        self._root = self._directory = root
        self._agent = AGENTS.get(link.agent)
        self._unseen_after_ns = unseen_after_ns
        self._link = link
        self._turn_id = turn_id
        self._known = {each.path: each for each in known}
        self._ordinal = first_ordinal
        self._calls: dict[str, tuple[ToolCallPart, int]] = {}
        self._due = list[Examination]()
        self._environment = environment
        self._instructed = set[Path]()
        self._answered: list[tuple[ToolCallPart, ToolResultPart, str]] = []
        self._ran: list[tuple[int, int]] = []
        self._seen_at_ns = now_ns()

    def notice(self, writes: Sequence[Write]) -> None:
        """Take what was just recorded. Cheap: no file is looked at."""
        for write in writes:
            if (
                isinstance(write, RecordParts)
                and write.conversation_id == self._link.conversation_id
            ):
                for part in write.parts:
                    self._notice(part)
        self._seen_at_ns = now_ns()

    def look(self, *, at_ms: int) -> tuple[Write, ...]:
        """Look at what is due and return the writes that keep it. Blocking."""
        # Taken out first: on another thread, more may be noticed meanwhile.
        ran, self._ran = self._ran, []
        due_now, self._due = self._due, []
        answered, self._answered = self._answered, []
        found: dict[str, ExaminedFile] = {}
        for started_at_ns, ended_at_ns in ran:
            touched = changed_between(
                self._root,
                self._known.values(),
                started_at_ns=started_at_ns,
                ended_at_ns=ended_at_ns,
            )
            # A touch that left the content as it was tells nothing new of the file.
            found.update((each.path, each) for each in touched if self._has_changed(each))
        for due in due_now:
            # Of a command those files that its words may mean.
            meant = (meant_by(self._root, each) for each in due.paths)
            paths = chain.from_iterable(meant) if due.how == "shown" else due.paths
            found.update((path, self._examined(path, due.how)) for path in paths)
        for path in self._instructions(found):
            found.setdefault(path, self._examined(path, "read"))
        there = {each.path for each in found.values() if each.state != "no_file"}
        seen = self._known.keys() | there
        if UNNAMED.path not in seen and any(
            left_open(call, result, seen, root=self._root, directory=directory)
            for call, result, directory in answered
        ):
            found[UNNAMED.path] = UNNAMED
        return self._kept(found.values(), at_ms)

    def with_files(self, said: Sequence[Write], *, at_ms: int) -> tuple[Write, ...]:
        """Return what was said with the writes that keep its files. Blocking."""
        self.notice(said)
        return (*said, *self.look(at_ms=at_ms))

    def _notice(self, part: Part) -> None:
        if isinstance(part, ToolCallPart):
            # From the last sign before it: a command may run before its call reaches us.
            self._calls[part.call_id] = (part, self._seen_at_ns)
        elif isinstance(part, ToolResultPart) and part.call_id in self._calls:
            call, started_at_ns = self._calls.pop(part.call_id)
            examination = examination_of(
                call, root=self._root, directory=self._directory, printed=part.text
            )
            self._answered.append((call, part, self._directory))
            if self._agent and self._agent.keeps_directory and part.status != FAILED:
                self._directory = left_in(call, self._directory, root=self._root)
            is_command = not examination or examination.how == "shown"
            # A command that failed may have shown files before, and written all the same (ADR 23).
            if examination and (is_command or part.status != FAILED):
                self._due.append(examination)
            if (is_command or part.status == FAILED) and call.tool_kind in RUNNING_KINDS:
                self._ran.append((started_at_ns, now_ns()))

    def _instructions(self, read: Iterable[str]) -> Iterator[str]:
        """Yield the instructions that belong to the working directory, and to files read now."""
        if not self._agent:
            return
        below = read if self._agent.instructions_below else ()
        places = {Path(self._root)}
        places |= {Path(self._root, each).parent for each in below if each[0] != "/"}
        for place in places - self._instructed:
            for each in instruction_files(self._agent, place, self._environment):
                if path := kept_path(str(each), root=self._root):
                    yield path
        self._instructed |= places

    def _examined(self, path: str, how: How) -> ExaminedFile:
        now = examine(self._root, path, how=how)
        after_ns = self._unseen_after_ns
        # One that is gone has no content that the session could be wrong about.
        if after_ns is None or now.state == "missing":
            return now
        # The slack is put back: it is for moments told by
        # our own clock, and this one is the store's word.
        touched = changed_between(
            self._root, [now], started_at_ns=after_ns + CLOCK_SLACK_NS, ended_at_ns=now_ns()
        )
        return replace(now, **_NOT_SEEN) if touched else now

    def _has_changed(self, now: ExaminedFile) -> bool:
        known = self._known[now.path]
        return (known.state, known.digest) != (now.state, now.digest)

    def _kept(self, found: Iterable[ExaminedFile], at_ms: int) -> tuple[Write, ...]:
        kept = [
            known
            for each in found
            # A directory, or a word of a command that is no file, was not read (ADR 23).
            if each.state != "no_file"
            and (known := known_after(each, before=self._known.get(each.path)))
        ]
        if not kept:
            return ()
        write = RecordExamined(
            conversation_id=self._link.conversation_id,
            turn_id=self._turn_id,
            first_ordinal=self._ordinal,
            upstream_session_id=self._link.upstream_session_id,
            files=tuple(kept),
            recorded_at_ms=at_ms,
        )
        self._ordinal += len(kept)
        self._known.update((each.path, each) for each in kept)
        return (write,)


# --- what it works in -----------------------------------------------------------------------------


def surroundings(
    *, working_directory: str, agent: str, agent_version: str, role: Role, at_ms: int
) -> Surroundings:
    """Return what a session works in now. Blocking: asks git."""
    # Runs nothing, so that no repository can keep a prompt waiting (ADR 58).
    git = git_facts(Path(working_directory))
    return Surroundings(
        working_directory=working_directory,
        agent=agent,
        agent_version=agent_version,
        configuration=role.configuration,
        repository=git.repository,
        branch=git.branch,
        commit=git.commit,
        git_fault=git.fault,
        at_ms=at_ms,
    )


# --- its events -----------------------------------------------------------------------------------


class Answer(Struct, frozen=True, kw_only=True):
    """How a prompt ended."""

    result: PromptResult
    prompt_characters: int
    duration_s: float
    late_events: int


class Recording:
    """Feeds one turn's events to its recorder and commits what is ready.

    `is_own` says whether a session may be a sub-agent's of this conversation: that of another
    conversation may not, whatever the agent says. It blocks.
    """

    def __init__(
        self,
        *,
        store: Store,
        system: System,
        recorder: Recorder,
        examiner: Examiner,
        fences: Sequence[Fence],
        is_own: Callable[[UpstreamSessionId], bool],
    ) -> None:
        self._store = store
        self._system = system
        self._recorder = recorder
        self._examiner = examiner
        self._fences = tuple(fences)
        self.on_event: Callable[[AgentEvent], None] = lambda _: None
        self._quota = TurnQuota()
        self._is_own = is_own
        self._own: set[UpstreamSessionId] = set()
        self._pending: list[Write] = []
        self._is_dirty = False
        self._lock = anyio.Lock()

    async def take(self, event: AgentEvent) -> None:
        """Record one event; commits when a batch is full or a write is to be synced.

        Raises QuotaExceededError for one that goes past a limit; what came before it is kept.
        """
        # Before it is recorded, and for every adapter alike (ADR 63).
        self._quota.take(event)
        await self._require_own_child(event)
        self._recorder.record(event, at_ms=self._system.now_ms())
        self._is_dirty = True
        self.on_event(event)
        writes = self._recorder.drain()
        self._take_in(writes)
        self._quota.take_parts(len(writes))  # last: what was drained is kept in any case
        # What is to survive a loss of power waits for no batch: its action may run at any moment.
        is_urgent = any(write.durability is Durability.SYNCED for write in self._pending)
        if is_urgent or len(self._pending) >= BATCH_WRITES_MAX:
            await self._commit()

    async def _require_own_child(self, event: AgentEvent) -> None:
        child = child_named(event)
        # Asked once a session, since each time costs a hop to the store's thread.
        if child is None or child in self._own:
            return
        if not await self._system.in_thread(lambda: self._is_own(child)):
            raise held_elsewhere(child, "a sub-agent's")
        self._own.add(child)

    async def keep_flushing(self) -> None:
        """Commit what is there, and the text still running, at every interval. Runs for ever."""
        while True:
            await anyio.sleep(FLUSH_EVERY_S)
            if self._is_dirty:
                # Here alone: a commit that could not wait leaves a text that still runs.
                self._is_dirty = False
                self._take_in(self._recorder.flush())
                await self._commit()

    async def intend(self, request: PermissionRequest) -> None:
        """Commit an action that is about to be allowed, synced, with all that came before it."""
        self._recorder.intend(
            request.upstream_session_id,
            ToolCallPart(
                call_id=request.call_id or "",
                title=request.title,
                tool_kind=request.tool_kind,
                arguments=request.arguments,
                locations=request.locations,
            ),
            at_ms=self._system.now_ms(),
        )
        self._take_in(self._recorder.drain())
        await self._commit()

    def close(self, *, is_whole: bool = True) -> tuple[Write, ...]:
        """Return the writes that are left, for the commit that ends the turn; then `examined`.

        Calls without an end get an unknown one if it `is_whole`, else they stay open.
        """
        now_ms = self._system.now_ms()
        recorder = self._recorder
        self._take_in(recorder.finish(at_ms=now_ms) if is_whole else recorder.flush(is_end=True))
        left = tuple(self._pending)
        self._pending.clear()
        # Handed over and not committed: one synced commit has them and the turn's end (ADR 140).
        return left

    def examined(self) -> Sequence[Write]:
        """Return what keeps the files that the writes which are left tell of. Blocking."""
        return self._examiner.look(at_ms=self._system.now_ms())

    def _take_in(self, writes: Sequence[Write]) -> None:
        self._examiner.notice(writes)
        self._pending += writes

    async def _commit(self) -> None:
        # Shielded: a batch that is taken out of `_pending` is written or raises, never dropped.
        with anyio.CancelScope(shield=True):
            # The flushing task and the prompt's events meet here: batches keep their order.
            async with self._lock:
                batch = tuple(self._pending)
                self._pending.clear()
                if batch:
                    # With what names the files that were examined: a crash between two commits
                    # would leave files read and never examined.
                    await self._system.in_thread(
                        lambda: self._store.commit((*batch, *self.examined()), fences=self._fences)
                    )


def held_elsewhere(session: UpstreamSessionId, named_as: str, holder: str = "") -> UpstreamError:
    """Return the error for an agent that names a session which another conversation holds."""
    return UpstreamError(
        f"the agent named {shown(session)} as {named_as}, and {holder or 'another conversation'} "
        "holds that session",
        outcome=Outcome.UNKNOWN,
        hint="it was not used: one upstream session has one conversation",
        upstream_session_id=session,
    )


# --- its tokens -----------------------------------------------------------------------------------


class Account:
    """Of one turn in this process.

    `spent` is what its prompts took that are over, None before the first; `usage` what of it its
    agent counted. `allowed` is what may be spent in all, and was before this process took the turn
    up; None where nothing limits it.
    `stopped` says why the running prompt was cancelled that would have passed that, and
    `prompt_characters` how long the last prompt was.
    """

    def __init__(self) -> None:
        self.spent: Tokens | None = None
        self.usage: Usage | None = None
        self.allowed: Spending | None = None
        self.stopped: TurnParked | None = None
        self._recorder: Recorder | None = None
        self.prompt_characters = 0
        self._is_noted = False

    def begin(self, recorder: Recorder) -> None:
        """Count what the next prompt takes, as its recorder hears it."""
        self._recorder, self.stopped, self._is_noted = recorder, None, False

    def note(self, result: PromptResult, *, prompt_characters: int, reply_characters: int) -> None:
        """Add what a prompt took, as its agent told it: once for each prompt."""
        if self._is_noted:
            return
        took = spent_on_prompt(
            self._counted,
            characters=prompt_characters + reply_characters,
            read=result.tokens_in,
            written=result.tokens_out,
            held=result.tokens_used,
        )
        self._add(took)
        told = usage_of_prompt(
            self._counted.usage, read=result.tokens_in, written=result.tokens_out
        )
        self.usage = together(self.usage, told)
        self.prompt_characters, self._is_noted = prompt_characters, True

    def note_cut_off(self) -> None:
        """Add what a prompt took that was left without an answer, as far as it was told."""
        # Not once more what an answer has told already.
        if self._counted.usage.requests and not self._is_noted:
            self._add(Tokens(count=self._counted.tokens, is_estimate=True))
            # The request that was cut off is in no figure: what it took nobody has told.
            self.usage = together(self.usage, unfinished(self._counted.usage))

    def _add(self, took: Tokens) -> None:
        self.spent = added((self.spent, took)) if self.spent else took

    @property
    def _counted(self) -> Counted:
        return self._recorder.counted if self._recorder else NOTHING_COUNTED

    def is_passing(self) -> bool:
        """Whether the running prompt would pass what may be spent; `stopped` then says so. Once."""
        allowed, next_read = self.allowed, self._recorder.next_read if self._recorder else None
        # A turn that has come to its end is not stopped.
        if not allowed or next_read is None or self.stopped:
            return False
        taken = self._counted.tokens + (self.spent.count if self.spent else 0)
        going = going_on(allowed, taken=taken, next_read=next_read)
        if not going.is_over:
            return False
        self.stopped = TurnParked(reason=TOKENS_MAX, detail=spending_in_words(going))
        # That request has left by now, and no agent tells of one that was stopped.
        self._add(Tokens(count=next_read, is_estimate=True))
        return True

    def told_in(self, last: Last) -> Last:
        """Return a turn's last event, which tells of its tokens."""
        if not self.spent:
            return last
        return replace(
            last,
            tokens_spent=self.spent.count,
            is_spent_estimated=self.spent.is_estimate,
            usage=self.usage,
        )
