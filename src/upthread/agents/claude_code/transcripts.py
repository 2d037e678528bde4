"""Claude Code's transcripts: where each is, its entries, and which of them are sent.

A session is `~/.claude/projects/*/<session>.jsonl`, its sub-agents are beside it in
`<session>/subagents/agent-*.jsonl`, each with a small `.meta.json` that names the call.

Entries form a tree by `parentUuid`. Claude Code sends the branch of the entry that the newest
`last-prompt` line names, or of the newest entry that hangs on it and was written after that line;
without such a line, the branch of the last message. A branch ends where a parent is missing: the
shapes in docs/agents/shapes/claude-code.json were measured. One answer is written as several
entries with the same `message.id`, one for each block, and the results of tools used at once hang
on different ones, so both are gathered beside the branch. Written for Claude Code 2.1 (2.1.197 to
2.1.332; seen 2026-11). A hook loads this file.
"""

import glob
from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import suppress
from pathlib import Path, PurePath
from sys import maxsize

from msgspec import Struct

from upthread.agent_stores.base import Unreadable, outlined, text_of_blocks
from upthread.agent_stores.lines import Line, decoded, lines_from_end, read_lines, read_object
from upthread.agent_stores.reader import FileWalk, LineFile, written_at_ns
from upthread.agents.claude_code.translation import SUBAGENTS, file_of
from upthread.boundary.files import read_all, through_links
from upthread.core import types
from upthread.core.codec import object_at, objects_at, text_at
from upthread.core.turns.agent_history import UNANSWERED
from upthread.core.types import JsonObject, JsonValue
from upthread.errors import StoreError

META_BYTES_MAX = 1024 * 1024
"""Of the file beside a sub-agent's transcript that names the call that made the sub-agent."""

TAIL_BYTES = 256 * 1024
"""How much of a transcript's end is searched for its newest entry."""

MESSAGES = frozenset({"user", "assistant"})
LAST_PROMPT = "last-prompt"
"""Written anew at each turn's end, with the entry that the turn ended with."""

_OF_A_COMPACTION = frozenset({"compactMetadata", "isCompactSummary"})
_HANGS_ON_NOTHING = (
    "the entry before it is missing: Claude Code resumes without all that was said before it"
)
_BESIDE = "another process wrote it to a branch of its own, which Claude Code leaves out"
_ASIDE = "every message is a sub-agent's: Claude Code does not resume the session"
_SYNTHETIC_MODEL = "<synthetic>"
_INTERRUPTED = frozenset(
    {"[Request interrupted by user]", "[Request interrupted by user for tool use]"}
)
"""The whole text of the note where a turn was cancelled (2.1.330); in the midst of another text the
words are a quotation."""


# --- where they are ------------------------------------------------------------------------------


def files(home: Path, walk: FileWalk, *, is_ordinary: bool = True) -> Iterator[LineFile]:
    """Yield the transcripts under a Claude home (`~/.claude`), those of sub-agents at the end."""
    for levels in (("*", "*.jsonl"), ("*", "*", SUBAGENTS, file_of("*"))):
        yield from walk.files(home / "projects", *levels, is_ordinary=is_ordinary)


def find_histories(home: Path, walk: FileWalk | None = None) -> Iterator[Path]:
    """Yield what is called like a transcript, sub-agents after their session."""
    found = files(home, walk or FileWalk(), is_ordinary=False)
    yield from map(Path, sorted(file.path for file in found))


def parent_of(directory: str) -> str:
    """Return the session whose sub-agents' transcripts are in a directory, empty for none's."""
    path = PurePath(directory)
    return path.parent.name if path.name == SUBAGENTS else ""


def find_transcript(home: Path, session_id: str) -> Path | None:
    """Return the path of a session's transcript under a Claude home, None when it has none.

    Whatever the working directory: the directory where a session began is part of the path.
    """
    return _found(home, session_id, "*/{}.jsonl")


def find_any_subagent(home: Path, agent_id: str) -> Path | None:
    """Return the path of a sub-agent's transcript, of whichever main session; None without it."""
    return _found(home, agent_id, f"*/*/{SUBAGENTS}/{file_of('{}')}")


def find_subagent(main: Path, agent_id: str) -> Path | None:
    """Return the path of a sub-agent's transcript beside its main session's, None without it."""
    found = subagents_of(main) / file_of(agent_id)
    return found if _is_name(agent_id) and found.exists() else None


def _found(home: Path, name: str, pattern: str) -> Path | None:
    if not _is_name(name):
        return None
    paths = (home / "projects").glob(pattern.format(glob.escape(name)))
    return max(paths, key=written_at_ns, default=None)


def _is_name(name: str) -> bool:
    # The name is not ours: neither a path nor a pattern in it may lead to another file.
    return bool(name) and PurePath(name).name == name


def subagents_of(transcript: Path) -> Path:
    """Return the directory of a session's sub-agents, which is that of their own sub-agents too."""
    is_subagent = transcript.parent.name == SUBAGENTS
    return transcript.parent if is_subagent else transcript.with_suffix("") / SUBAGENTS


def subagents_by_call(transcript: Path) -> dict[str, str]:
    """Return the id of each sub-agent of a session by the id of the call that made it."""
    made: dict[str, str] = {}
    for path in sorted(subagents_of(transcript).glob("agent-*.meta.json")):
        with suppress(OSError):
            descriptor = through_links(str(path))
            meta, _ = read_object(read_all(descriptor, str(path), bytes_max=META_BYTES_MAX))
            agent_id = path.name.removeprefix("agent-").removesuffix(".meta.json")
            made[text_at(meta, "toolUseId")] = agent_id
    made.pop("", None)
    return made


def call_of_subagent(transcript: str, agent_id: str) -> str:
    """Return the call that made a sub-agent, by the small file beside its transcript.

    Empty where there is none. The id may be any text: it is no path.
    """
    made = subagents_by_call(Path(transcript))
    return next((call_id for call_id, each in made.items() if each == agent_id), "")


# --- the newest entry ----------------------------------------------------------------------------


def version_in(path: Path) -> str:
    """Return the version that wrote to a transcript last, empty where its end has none."""
    lines = (line for line in lines_from_end(path, TAIL_BYTES) if b'"version"' in line)
    return next(filter(None, (text_at(decoded(line), "version") for line in lines)), "")


def newest_heard(path: Path) -> str:
    """Return the id of the newest entry that the model was given, empty where the end has none.

    With UNANSWERED after it while no text follows: Claude Code may write the model's last words
    after the turn's end. Raises OSError.
    """
    unanswered = UNANSWERED
    for line in lines_from_end(path, TAIL_BYTES):
        # A check that costs little, before decoding. The first piece may be the rest of a line.
        is_reply = bool(unanswered) and b'"assistant"' in line and b'"text"' in line
        if not is_reply and b'"user"' not in line:
            continue
        value = decoded(line)
        if value.get("type") == "user":
            return text_at(value, "uuid") + unanswered
        if is_reply and value.get("type") == "assistant":
            unanswered = ""
    return ""


# --- entries -------------------------------------------------------------------------------------


class Entry(Struct, kw_only=True):
    """What of an entry decides whether and how it is sent. `parts` are already outlined.

    `kind` is empty where it is not sent. `is_synthetic` marks what Claude Code itself put in, the
    words of neither person nor model. `is_beginning` marks an entry that a compaction wrote:
    nothing before it is sent. A branch may end with an entry that `ends`: no sub-agent's message.
    `usage` is what the model's provider counted.
    """

    number: int
    uuid: str
    parent: str
    kind: str
    message_id: str
    parts: tuple[types.Part, ...]
    is_synthetic: bool = False
    is_beginning: bool = False
    ends: bool = False
    usage: JsonObject = {}

    @property
    def is_failure(self) -> bool:
        """Whether it says how a request failed: it is not sent, but is what came of a prompt."""
        return bool(self.parts) and not self.kind

    @property
    def place(self) -> str:
        """`line 41`."""
        return f"line {self.number}"


class Transcript(Struct):
    """The entries of a transcript, which of its lines are unreadable, and its last message.

    `pointer` is the entry that the newest `last-prompt` line names, and `pointer_number` that line.
    """

    entries: list[Entry] = []
    unreadable: list[Unreadable] = []
    last: JsonObject = {}
    pointer: str = ""
    pointer_number: int = 0


def read_entries(
    path: Path, *, is_whole: bool = False, said_bytes_max: int = maxsize
) -> Transcript:
    """Return what a transcript holds, with the beginning of each text or with `is_whole` all of it.

    StoreError when the file cannot be opened, and when the messages in it have more than
    `said_bytes_max`; most of a large file may be progress.
    """
    read, said_bytes = Transcript(), 0
    is_subagent = path.match(file_of("*"))
    for line in read_lines(path):
        kind = text_at(line.value, "type")
        if line.why:
            read.unreadable.append(line.unreadable)
        elif kind == LAST_PROMPT:
            read.pointer, read.pointer_number = text_at(line.value, "leafUuid"), line.number
        # Titles, snapshots, queue operations have no id: they are no part of the tree.
        elif text_at(line.value, "uuid") or kind in MESSAGES:
            entry = _entry(line, is_whole=is_whole, is_subagent=is_subagent)
            read.entries.append(entry)
            if entry.kind:
                read.last = line.value
                said_bytes += len(line.raw)
            if said_bytes > said_bytes_max:
                raise StoreError(
                    f"{path} is not read: its messages have more than {said_bytes_max:,} bytes",
                    hint="Claude Code itself may open it",
                )
    return read


def _entry(line: Line, *, is_whole: bool, is_subagent: bool) -> Entry:
    value = line.value
    kind = text_at(value, "type")
    message = object_at(value, "message")
    is_said = kind in MESSAGES and not value.get("isApiErrorMessage")
    parts = parts_of(message.get("content") if kind in MESSAGES else None)
    return Entry(
        number=line.number,
        uuid=text_at(value, "uuid") or line.place,
        parent=text_at(value, "parentUuid"),
        # What is not sent stays a link of the tree: what was said after it hangs on it.
        kind=kind if is_said else "",
        message_id=text_at(message, "id") if kind == "assistant" else "",
        parts=tuple(parts if is_whole else map(outlined, parts)),
        is_synthetic=_is_synthetic(value, message),
        ends=is_said and (is_subagent or not value.get("isSidechain")),
        is_beginning=not value.keys().isdisjoint(_OF_A_COMPACTION),
        usage=object_at(message, "usage"),
    )


def _is_synthetic(value: JsonObject, message: JsonObject) -> bool:
    is_marked = is_put_in(value) or bool(value.get("isCompactSummary"))
    # What Claude Code notes, in a user's name, of a turn that was cancelled.
    blocks = objects_at(message, "content")
    is_note = len(blocks) == 1 and text_at(blocks[0], "text") in _INTERRUPTED
    is_interruption = is_note and message.get("role") == "user"
    return is_marked or message.get("model") == _SYNTHETIC_MODEL or is_interruption


def is_put_in(entry: JsonObject) -> bool:
    """Return whether Claude Code itself put a user's entry in: nobody has said it.

    A message that a main session sends to its sub-agent is a prompt, though it is marked so too.
    """
    is_asked = text_at(entry, "origin", "kind") == "coordinator"
    return bool(entry.get("isMeta")) and not is_asked


class Branch(Struct):
    """The branch of a transcript that counts, in file order.

    `said` has, beside what is sent, all before the compactions, and how requests failed.
    `joined` has the entries that hang on nothing, each with the message stored before it: Claude
    Code resumes without all that was said before such an entry. `beside` are the messages that
    another process wrote meanwhile to a branch of its own. `faults` has both as reports.
    """

    sent: list[Entry] = []
    said: list[Entry] = []
    joined: dict[str, str] = {}
    beside: set[str] = set()
    faults: list[Unreadable] = []


def branch_of(read: Transcript) -> Branch:
    """Return the branch that Claude Code resumes, joined to all that was said before it."""
    entries, branch = read.entries, Branch()
    position = {entry.uuid: index for index, entry in enumerate(entries)}
    members: set[int] = set()
    index = _newest(read, position)
    while index >= 0 and index not in members:
        members.add(index)
        entry = entries[index]
        index = position.get(entry.parent, -1)
        # Parents in a damaged file may be missing, or go in a circle.
        if not entry.is_beginning and (index < 0 or index in members):
            index = _message_before(entry.number, entries, members)
            if index >= 0 or entry.parent:
                branch.joined[entry.uuid] = entries[index].uuid if index >= 0 else ""
                branch.faults.append(Unreadable(place=entry.place, why=_HANGS_ON_NOTHING))
    _gather(entries, members)
    failures = [i for i, each in enumerate(entries) if each.is_failure]
    members |= {i for i in failures if position.get(entries[i].parent) in members}
    for entry in _beside(entries, members, position):
        branch.beside.add(entry.uuid)
        branch.faults.append(Unreadable(place=entry.place, why=_BESIDE))
    if not members and any(entry.kind for entry in entries):
        branch.faults.append(Unreadable(place=entries[0].place, why=_ASIDE))
    branch.sent = [entries[i] for i in sorted(members) if entries[i].kind]
    members |= _before_compactions(entries, members, position)
    branch.said = [entries[i] for i in sorted(members) if entries[i].parts or entries[i].kind]
    return branch


def _before_compactions(
    entries: Sequence[Entry], members: set[int], position: Mapping[str, int]
) -> set[int]:
    """Return the branch before the first compaction of a branch, and before those it had itself."""
    before: set[int] = set()
    index = min(members, default=-1)
    while index >= 0 and index not in before:
        before.add(index)
        entry = entries[index]
        index = position.get(entry.parent, -1)
        if index < 0 and entry.is_beginning:
            index = _message_before(entry.number, entries, before)
    _gather(entries, before)
    return before


def _message_before(number: int, entries: Sequence[Entry], but: AbstractSet[int]) -> int:
    """Return the position of the newest message above a line, -1 for none."""
    places = reversed(range(len(entries)))
    return next(
        (i for i in places if entries[i].ends and entries[i].number < number and i not in but), -1
    )


def _newest(read: Transcript, position: Mapping[str, int]) -> int:
    """Return the position of the entry whose branch Claude Code resumes, -1 for none."""
    newest, beneath = position.get(read.pointer, -1), {read.pointer}
    if newest < 0 or not read.entries[newest].ends:
        return _message_before(maxsize, read.entries, set())
    for index, entry in enumerate(read.entries):
        is_beneath = entry.parent in beneath or entry.is_beginning
        if entry.number > read.pointer_number and is_beneath:
            beneath.add(entry.uuid)
            newest = index if entry.ends else newest
    return newest


def _beside(
    entries: Sequence[Entry], members: set[int], position: Mapping[str, int]
) -> Iterator[Entry]:
    """Yield the messages beside the branch that were written after the branch had gone on.

    A person who goes back leaves messages behind as well, but before the new ones are written.
    """
    fork: dict[int, int] = {}
    newest = -1
    for index, entry in enumerate(entries):
        above = position.get(entry.parent, -1)
        if index in members:
            newest = index
        elif above in members or above in fork:
            fork[index] = fork.get(above, above)
            if entry.ends and fork[index] != newest:
                yield entry


def _gather(entries: Sequence[Entry], members: set[int]) -> None:
    """Add the other blocks of the branch's answers, and the results of their tool uses."""
    answers = {entries[i].message_id for i in members} - {""}
    members |= {i for i, entry in enumerate(entries) if entry.message_id in answers}
    called = {
        part.call_id
        for i in members
        for part in entries[i].parts
        if isinstance(part, types.ToolCallPart)
    }
    members |= {
        i
        for i, entry in enumerate(entries)
        if any(isinstance(p, types.ToolResultPart) and p.call_id in called for p in entry.parts)
    }


def parts_of(content: JsonValue) -> Iterator[types.Part]:
    """Yield a message's content as parts."""
    if isinstance(content, str):
        yield types.TextPart(text=content)
        return
    for block in objects_at(content):
        yield _part(block)


def _part(block: JsonObject) -> types.Part:
    match block.get("type"):
        case "text":
            return types.TextPart(text=text_at(block, "text"))
        case "thinking":
            return types.ReasoningPart(text=text_at(block, "thinking"))
        case "tool_use":
            return types.ToolCallPart(
                call_id=text_at(block, "id"),
                title=text_at(block, "name"),
                tool_kind="other",
                arguments=block.get("input"),
            )
        case "tool_result":
            return types.ToolResultPart(
                call_id=text_at(block, "tool_use_id"),
                status="failed" if block.get("is_error") else "completed",
                text=text_of_blocks(block.get("content")),
            )
        case "image" | "document":
            source = object_at(block, "source")
            return types.FilePart(
                uri=text_at(block["type"]), mime_type=text_at(source, "media_type")
            )
        case kind:
            # So that it can be searched: for example what a provider's own tool was asked.
            raw = {name: block[name] for name in ("input", "content") if name in block}
            return types.UnknownPart(kind=text_at(kind), raw=raw)
