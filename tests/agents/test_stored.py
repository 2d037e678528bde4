"""Stores as the real agents left them, killed in the middle of a sub-agent's turn.

`recorded_cut_off` holds what Claude Code 2.1.330, OpenCode 1.18.33 and Codex 0.169.0 had written
when they were killed, shortened.

Finding: every store on the machine, where its agent keeps it; a damaged one is told.
A session of the rehearsal agent, read from its file: as its `session/load` replays it.
"""

import hashlib
import json
import os
import shutil
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
from msgspec import structs
from tests.agent_stores.opencode_database import OpenCodeDatabase
from tests.agent_stores.transcripts import ClaudeTranscript, rollout, spoken
from tests.support.agent_homes import Months, compressed, make_home
from tests.support.by_hand import of_each

from upthread.agent_stores.base import Look, look
from upthread.agent_stores.homes import agent_environment
from upthread.agent_stores.reader import Words
from upthread.agents import registry, stored
from upthread.agents.registry import part_of
from upthread.agents.rehearsal.sessions import HOME_VARIABLE, SessionStore
from upthread.agents.stored import (
    read_session,
    read_stored,
    searched_sessions,
    stamp_of,
    stored_histories,
    stored_outlines,
)
from upthread.core.agents import AGENTS, WITH_A_STORE
from upthread.core.events import (
    AgentsCall,
    TextReceived,
    ToolCallAnnounced,
    ToolCallUpdated,
    UserTextReplayed,
)
from upthread.core.turns.agent_history import StoredSession, stored_turns
from upthread.core.types import UpstreamSessionId
from upthread.errors import StoreError

RECORDED = Path(__file__).with_name("recorded_cut_off")
CODEX_CHILD = "01a20601-8661-7d90-8014-80c2410a5e75"


@dataclass(frozen=True)
class Store:
    """One agent's store, the call that was cut off, and what its sub-agent had made."""

    call: AgentsCall
    transcript: Path
    made: tuple[str, str, str]
    session: str = ""

    def read(self, home: Path) -> StoredSession | None:
        where = {"HOME": str(home)}
        if self.session:
            return read_session(where, self.call.agent, UpstreamSessionId(self.session))
        return read_stored(where, self.call)


def claude_code(home: Path) -> Store:
    main = home / ".claude/projects/-work-project/main-1.jsonl"
    transcript = main.with_suffix("") / "subagents" / "agent-acdcda4fdd8708866.jsonl"
    transcript.parent.mkdir(parents=True)
    main.write_text("")
    shutil.copy(RECORDED / "claude_code_agent.jsonl", transcript)
    shutil.copy(RECORDED / "claude_code_agent.meta.json", transcript.with_suffix(".meta.json"))
    call = AgentsCall(agent="claude-code", main_session="main-1", call_id="toolu_e8e66651531_0")
    made = ("Write /work/project/made.txt", "edit", "completed")
    return Store(call, transcript, made)


def opencode(home: Path) -> Store:
    path = home / ".local/share/opencode/opencode.db"
    rows = json.loads((RECORDED / "opencode_rows.json").read_text())
    database = OpenCodeDatabase(path)
    execute = database.connection.execute
    for session, parent, directory, version, created, updated in rows["session"]:
        named = (session, "global", parent, "s", directory, "T", version, created, updated)
        execute(
            "INSERT INTO session (id, project_id, parent_id, slug, directory, title, version,"
            " time_created, time_updated) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
            named,
        )
    for message, session, created, data in rows["message"]:
        execute("INSERT INTO message VALUES (?, ?, ?, 0, ?)", (message, session, created, data))
    for part, message, session, updated, data in rows["part"]:
        of_part = (part, message, session, updated, data)
        execute("INSERT INTO part VALUES (?, ?, ?, 0, ?, ?)", of_part)
    database.close()
    main = rows["session"][0][0]
    call = AgentsCall(agent="opencode", main_session=main, call_id="call_e4ed415dcc2_0")
    return Store(call, path, ("write /work/project/made.txt", "edit", "completed"))


def codex(home: Path) -> Store:
    day = home / ".codex/sessions/2026/11/23"
    day.mkdir(parents=True)
    path = day / f"rollout-2026-11-23T01-24-52-{CODEX_CHILD}.jsonl"
    shutil.copy(RECORDED / "codex_rollout.jsonl", path)
    call = AgentsCall(agent="codex", main_session="m", call_id="c")
    return Store(call, path, ("echo hi > ran.txt", "execute", "completed"), CODEX_CHILD)


STORES = of_each(WITH_A_STORE, {"claude-code": claude_code, "opencode": opencode, "codex": codex})
EVERY_STORE = pytest.mark.parametrize("make", STORES.values(), ids=STORES)
IN_A_DATABASE = frozenset({"opencode"})
IN_FILES = {agent: make for agent, make in STORES.items() if agent not in IN_A_DATABASE}
FILES = pytest.mark.parametrize("make", IN_FILES.values(), ids=IN_FILES)


def calls(found: StoredSession) -> dict[str, tuple[str, str, str]]:
    """The calls of the last turn by title: kind, and how each ended, `open` for one without."""
    turn = stored_turns(found.events)[-1]
    assert turn is not None
    ends = {e.call_id: e.status for e in turn.events if isinstance(e, ToolCallUpdated)}
    made = [event for event in turn.events if isinstance(event, ToolCallAnnounced)]
    return {e.title: (e.title, e.tool_kind, ends.get(e.call_id) or "open") for e in made}


@EVERY_STORE
def test_a_killed_agents_store_tells_the_prompt_and_the_action(
    make: Callable[[Path], Store], tmp_path: Path
):
    store = make(tmp_path)
    found = store.read(tmp_path)
    assert found is not None
    turn = stored_turns(found.events)[-1]
    assert turn is not None
    assert turn.prompt.startswith("Make the file KIWI-9.")
    assert store.made in calls(found).values()
    if make in IN_FILES.values():
        killed = calls(found)["sleep 600"]
        assert killed == ("sleep 600", "execute", "open"), "the kill interrupted it"
    assert found.written_at_ns > 0
    session = UpstreamSessionId(store.session or store.call.main_session)
    environment = {"HOME": str(tmp_path)}
    whole = read_session(environment, store.call.agent, session)
    assert whole is not None
    assert whole.upstream_session_id == session
    stamp = stamp_of(environment, store.call.agent, session)
    assert stamp == stamp_of(environment, store.call.agent, session) != ""
    assert_nothing(environment, structs.replace(store.call, main_session="no", call_id="no"))
    assert_nothing({"HOME": str(tmp_path / "empty")}, store.call)


def test_a_thread_of_codex_tells_what_was_read_and_what_was_refused(tmp_path: Path):
    found = codex(tmp_path).read(tmp_path)
    assert found is not None
    assert calls(found)["cat a.txt"] == ("cat a.txt", "read", "completed")
    assert calls(found)["apply_patch made.txt"][1:] == ("edit", "failed")
    read = [e for e in found.events if isinstance(e, ToolCallAnnounced) and e.tool_kind == "read"]
    assert read[0].locations == ("a.txt",)


def assert_nothing(environment, call: AgentsCall, *names: str) -> None:
    """Assert that nothing is known of a call, nor of sessions of other names."""
    assert read_stored(environment, structs.replace(call, call_id="no")) is None
    for name in ("", "nobody", "../nobody", *names):
        session = UpstreamSessionId(name)
        assert read_session(environment, call.agent, session) is None
        assert stamp_of(environment, call.agent, session) == ""


def test_an_item_of_no_known_kind_is_passed_over(tmp_path: Path):
    path = tmp_path / "sessions" / "2026" / "11" / "25" / "rollout-1-t1.jsonl"
    path.parent.mkdir(parents=True)
    message = {"type": "UserMessage", "content": [{"type": "text", "text": "plan it"}]}
    lines = [
        *({"type": "response_item", "payload": {"type": odd}} for odd in ([], {}, 7, None)),
        {"type": "event_msg", "payload": {"type": "item_completed", "item": message}},
    ]
    path.write_text("".join(json.dumps(each) + "\n" for each in lines))
    session = UpstreamSessionId("t1")
    found = stored.read_session({"CODEX_HOME": str(tmp_path)}, "codex", session)
    assert [each.text for each in found.events] == ["plan it"]


@pytest.mark.parametrize("agent", [*sorted(AGENTS.keys() - WITH_A_STORE), "nobody", "storeless"])
def test_of_an_agent_that_nobody_reads_nothing_is_known(agent: str, tmp_path: Path, monkeypatch):
    """`storeless` has a folder and no home."""
    row = structs.replace(AGENTS["codex"], name="storeless", folder="acp", home=None)
    monkeypatch.setattr(registry, "AGENTS", {**AGENTS, row.name: row})
    assert part_of(row.name, "adapter") is not None
    call = AgentsCall(agent=agent, main_session="m", call_id="c")
    assert_nothing({"HOME": str(tmp_path)}, call, "ses_1")


@FILES
@pytest.mark.parametrize("session", ["../../../../secret", "*", "a/b", ".", ""])
def test_an_id_is_never_a_path(make, session: str, tmp_path: Path):
    call = make(tmp_path).call
    hostile = structs.replace(call, call_id="", main_session=session)
    assert read_stored({"HOME": str(tmp_path)}, hostile) is None
    where = {"HOME": str(tmp_path)}
    assert read_session(where, call.agent, UpstreamSessionId(session)) is None


@FILES
@pytest.mark.parametrize("what", ["a link out", "a pipe", "a directory", "too large"])
def test_what_is_no_ordinary_file_of_the_agents_own_is_refused_at_once(
    make, what: str, tmp_path: Path
):
    store = make(tmp_path / "home")
    store.transcript.unlink()
    if what == "a link out":
        outside = tmp_path / "outside.jsonl"
        outside.write_text('{"type": "user", "uuid": "u", "message": {"content": "secret"}}\n')
        store.transcript.symlink_to(outside)
    elif what == "a pipe":
        os.mkfifo(store.transcript)
    elif what == "a directory":
        store.transcript.mkdir()
    else:
        with store.transcript.open("wb") as file:
            file.truncate(513 * 1024 * 1024)
    with pytest.raises(StoreError, match="is not read"):
        store.read(tmp_path / "home")


def test_a_database_that_is_none_is_said_to_be(tmp_path: Path):
    store = opencode(tmp_path)
    store.transcript.write_bytes(b"no database at all" * 100)
    for beside in store.transcript.parent.glob("opencode.db-*"):
        beside.unlink()
    with pytest.raises(StoreError, match="OpenCode"):
        store.read(tmp_path)


def fill_claude_code(home):
    transcript = ClaudeTranscript()
    transcript.user("go")
    transcript.write(home / "projects" / "-work" / "s1.jsonl")


def fill_opencode(home):
    database = OpenCodeDatabase(home / "opencode" / "opencode.db")
    database.session()
    database.close()


def fill_codex(home):
    rollout(home / "sessions" / "2026" / "11" / "20" / "rollout-1.jsonl", spoken("user", "x"))


HOMES = of_each(
    WITH_A_STORE,
    {
        "claude-code": ("CLAUDE_CONFIG_DIR", ".claude", fill_claude_code),
        "opencode": ("XDG_DATA_HOME", ".local/share", fill_opencode),
        "codex": ("CODEX_HOME", ".codex", fill_codex),
    },
)
"""Of each agent's store: the variable that says where it is, where it is else, and a session."""


def filled(home):
    for _, below, fill in HOMES.values():
        fill(home / below)
    return {"HOME": str(home)}


def test_the_stores_are_found_under_a_home_and_elsewhere_where_a_variable_says_so(tmp_path):
    assert [each.agent for each in stored_histories(filled(tmp_path))] == list(WITH_A_STORE)
    told = {variable: str(tmp_path / below) for variable, below, _ in HOMES.values()}
    environment = {"HOME": "/nowhere", **told}
    assert [each.agent for each in stored_histories(environment)] == list(WITH_A_STORE)
    for agent in WITH_A_STORE:
        assert [each.agent for each in stored_histories(environment, agent=agent)] == [agent]


def test_a_store_that_cannot_be_read_is_told_and_the_others_are_read(tmp_path):
    environment = filled(tmp_path)
    (tmp_path / ".local" / "share" / "opencode" / "opencode.db").write_bytes(b"damaged" * 99)
    (tmp_path / ".claude" / "projects" / "-work" / "s2.jsonl").mkdir()
    found = list(stored_histories(environment))
    told = ["" if isinstance(each, StoreError) else each.agent for each in found]
    damaged = {"claude-code": ["claude-code", ""], "opencode": [""]}
    assert told == [each for agent in WITH_A_STORE for each in damaged.get(agent, [agent])]


def test_a_session_is_read_as_it_is_replayed_and_known_by_its_file(tmp_path: Path) -> None:
    environment = {HOME_VARIABLE: str(tmp_path)}
    call = AgentsCall(agent="rehearsal", main_session="m", call_id="c")
    assert_nothing(environment, call, "ses_abc", "../ses_abc")
    store = SessionStore(tmp_path)
    session = UpstreamSessionId(store.create("/somewhere"))
    store.append(session, {"entry": "prompt", "text": "plan it", "messageId": "msg_1"})
    before = stored.stamp_of(environment, "rehearsal", session)
    content = {"type": "text", "text": "planned"}
    chunk = {"sessionUpdate": "agent_message_chunk", "content": content, "messageId": "msg_2"}
    store.append(session, {"entry": "update", "update": chunk})
    found = stored.read_session(environment, "rehearsal", session)
    assert found is not None
    assert found.events == (
        UserTextReplayed(upstream_session_id=session, text="plan it", message_id="msg_1"),
        TextReceived(upstream_session_id=session, text="planned", message_id="msg_2"),
    )
    assert before
    assert stored.stamp_of(environment, "rehearsal", session) not in {"", before}


@pytest.mark.parametrize("agent", ["claude-code", "codex"])
def test_a_profile_that_cannot_be_listed_may_have_the_session(agent, tmp_path):
    own = AGENTS[agent].home
    assert own is not None
    other, here = tmp_path / "other", {own.variable: str(tmp_path / "here")}
    profile = f"{own.variable}={other}"
    session = UpstreamSessionId("01990000-0000-7000-8000-000000000001")
    assert stored.profile_without(here, session, profile) == "", "nothing is there"
    other.mkdir()
    assert stored.profile_without(here, session, profile) == "", "it has no session"
    for name in ("projects", "sessions"):
        (other / name).symlink_to(name)  # as a disk that is not there: listing it fails
    assert stored.profile_without(here, session, profile) == f"{own.variable}={tmp_path / 'here'}"


def test_a_database_that_opencode_is_told_of_is_another_profile(tmp_path):
    databases = [OpenCodeDatabase(tmp_path / "opencode" / f"{name}.db") for name in ("a", "b")]
    data = {"XDG_DATA_HOME": str(tmp_path)}
    here, there = ({**data, "OPENCODE_DB": str(each.path)} for each in databases)
    session = UpstreamSessionId(databases[1].session())
    databases[1].message(session, "user", {"type": "text", "text": "hi"})
    profile = stored.profile_of(there, "opencode")
    assert profile == f"OPENCODE_DB={databases[1].path}"
    assert profile == stored.profile_of({**data, "OPENCODE_DB": "b.db"}, "opencode")
    for each in (here, data):
        assert stored.profile_without(each, session, profile) == stored.profile_of(each, "opencode")
    assert stored.profile_without(there, session, stored.profile_of(data, "opencode")) == ""
    assert stored.stamp_of(there, "opencode", session)


def test_a_place_is_absolute_and_one_set_to_nothing_counts_as_not_set(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_DATA_HOME", "profile")
    given = agent_environment({"CLAUDE_CONFIG_DIR": "", "CODEX_HOME": "../other", "OTHER": ""})
    assert given["XDG_DATA_HOME"] == str(tmp_path / "profile")
    assert given["CODEX_HOME"] == str(tmp_path / "../other")
    assert "CLAUDE_CONFIG_DIR" not in given
    assert given["OTHER"] == ""


# --- more -----------------------------------------------------------------------------------------

# Every session of a home at a glance, whatever else lies in it; and for a search, newest first.


SMALL = Months(claude_code=9, codex=8, opencode=7, sub_agents=6, session_bytes=60_000)


def looked_at(home: Path, seen: Look | None = None):
    return list(stored_outlines({"HOME": str(home)}, seen or look()))


def digest(home: Path) -> str:
    """Every name, kind, size, time and content, of pipes and links only what they are."""
    told = hashlib.sha256()
    for path in sorted(home.rglob("*")):
        found = path.lstat()
        told.update(f"{path} {found.st_mode} {found.st_size} {found.st_mtime_ns}".encode())
        if path.is_file() and not path.is_symlink() and found.st_size < 1_000_000:
            told.update(path.read_bytes())
    return told.hexdigest()


def test_every_session_and_sub_agent_of_a_home_is_found(tmp_path):
    found = looked_at(make_home(tmp_path, SMALL))
    numbers = Counter((each.agent, each.is_sub_agent) for each in found)
    own = {"claude-code": 9, "codex": 8, "opencode": 7}
    assert {agent: numbers[agent, False] for agent in own} == own
    assert {agent: numbers[agent, True] for agent in own} == dict.fromkeys(own, 2)
    assert numbers.total() == len(found) == 30
    main = {each.session_id for each in found if not each.is_sub_agent}
    assert {each.parent_session_id for each in found if each.is_sub_agent} <= main
    for each in found:
        assert each.directory.startswith("/src/project-")
        assert each.unredacted_title.startswith("Make the ")
        assert each.tokens
        assert each.model
        assert each.version
        assert each.ending == "ended"
        assert each.begun_at_ms
        assert each.used_at_ms >= each.begun_at_ms - 1_000
        assert bool(each.role) == each.is_sub_agent
        assert (each.deleted_at_ms is not None) == (each.agent == "claude-code")


def test_one_agent_is_read_alone_and_a_look_that_is_cut_short_has_what_it_reached(tmp_path):
    home = make_home(tmp_path / "home", SMALL)
    only = stored_outlines({"HOME": str(home)}, look(), agent="codex")
    assert {each.agent for each in only} == {"codex"}
    assert looked_at(tmp_path / "empty") == []
    seen = Look(until_s=float("inf"), sessions_max=5)
    assert len(looked_at(home, seen)) == 5
    assert seen.is_cut_short


CONTENTS = {
    "empty": b"",
    "binary": b"\0\x93\xfe" * 60,
    "text": b"this is a letter\nto nobody\n",
    "cut": b'{"type":"user","cwd":"/x"}\n{"type":"us',
    "foreign": b'{"colour":"red"}\n' * 3,
    "deep": b"[" * 50_000 + b"\n",
}
KINDS = (*CONTENTS, "link", "dangling", "pipe", "folder")


def strew(directory: Path, number: int) -> None:
    """Put files into a directory that are called as an agent's are, and are none of them."""
    directory.mkdir(parents=True, exist_ok=True)
    for index in range(number):
        kind = KINDS[index % len(KINDS)]
        suffix = ".jsonl.zst" if index % 3 == 0 and "sessions" in str(directory) else ".jsonl"
        name = "agent" if directory.name == "subagents" else "rollout-2026-11-20T10-00-00"
        path = directory / f"{name}-{kind}-{index}{suffix}"
        if kind in CONTENTS:
            path.write_bytes(CONTENTS[kind])
        elif kind == "pipe":
            os.mkfifo(path)
        elif kind == "folder":
            path.mkdir()
        else:
            path.symlink_to("/dev/zero" if kind == "link" else "/nowhere")
        if not path.is_symlink():
            os.utime(path, (1_700_000_000, 1_700_000_000))


@pytest.mark.parametrize(
    "each", [200, pytest.param(33_400, marks=[pytest.mark.soak, pytest.mark.timeout(900)])]
)
def test_whatever_lies_in_the_agents_folders_is_passed_over_at_once_and_left_as_it_is(
    tmp_path, each
):
    home = make_home(tmp_path, SMALL)
    expected = {outline.session_id for outline in looked_at(home)}
    strewn = home / ".claude" / "projects" / "-strewn"
    day = home / ".codex" / "sessions" / "2026" / "11" / "20"
    folders = (strewn, strewn / "s" / "subagents", day)
    for folder in folders:
        strew(folder, each)
    huge = folders[0] / "huge.jsonl"
    huge.touch()
    os.truncate(huge, 10 * 1024**3)
    (home / ".claude" / "projects" / "-out").symlink_to("/")
    opencode = home / ".local" / "share" / "opencode"
    (opencode / "opencode-2.db").write_bytes(b"damaged" * 99)
    os.mkfifo(opencode / "opencode-3.db")
    before = digest(home)
    seen = look()
    found = looked_at(home, seen)
    sound = {outline.session_id for outline in found if not outline.is_foreign}
    assert sound >= expected or seen.is_cut_short
    if each == 200:
        assert all("-cut-" in session for session in sound - expected), "Claude Code resumes these"
        assert seen.passed_over["claude-code", "binary"] == 2 * each // 10 + 1
        assert seen.passed_over["opencode", "not a database of a known form"] == 2
    assert digest(home) == before


def test_a_directory_that_cannot_be_entered_is_counted(tmp_path):
    home = make_home(tmp_path, SMALL)
    if os.geteuid() == 0:
        pytest.skip("root may enter any directory")
    closed = next((home / ".claude" / "projects").iterdir())
    closed.chmod(0)
    seen = look()
    assert len(looked_at(home, seen)) > 0
    assert seen.passed_over["claude-code", "Permission denied"] == 1
    closed.chmod(0o700)


@pytest.mark.parametrize(
    ("agent", "place"),
    [
        ("claude-code", ".claude/projects"),
        ("codex", ".codex/sessions"),
        ("opencode", ".local/share/opencode"),
    ],
)
def test_a_place_that_cannot_be_read_is_named_with_its_cure(tmp_path, agent, place):
    closed = tmp_path / place
    closed.parent.mkdir(parents=True)
    closed.write_text("a file, which no directory can be read from, not even by root")
    (error,) = stored_histories({"HOME": str(tmp_path)}, agent=agent)
    assert isinstance(error, StoreError)
    assert str(closed) in error.message
    assert str(closed) in error.hint


# --- for a search --------------------------------------------------------------------------------

FEW = Months(claude_code=6, codex=6, opencode=6, sub_agents=6, session_bytes=20_000)


def found(home, *words: str, agent=None):
    """(agent, speaker, text) of all that has the words."""
    wanted = Words(words)
    with searched_sessions({"HOME": str(home)}, look(), agent=agent) as sessions:
        return [
            (session.agent, said.speaker, said.text)
            for session in sessions
            for said in session.said(wanted)
            if wanted.place_in(said.text) is not None
        ]


def test_the_sessions_come_newest_first_whichever_agent_has_them(tmp_path):
    home = make_home(tmp_path, FEW)
    with searched_sessions({"HOME": str(home)}, look()) as sessions:
        times = [each.used_at_ms for each in sessions]
    assert len(times) == 24
    assert times == sorted(times, reverse=True)


def test_each_agent_is_gone_through_and_what_the_outline_says_is_its_session(tmp_path):
    home = make_home(tmp_path, FEW)
    hits = found(home, "the", "parser", "part")
    assert {agent for agent, _, _ in hits} == {"claude-code", "codex", "opencode"}
    assert {speaker for _, speaker, _ in hits} == {"user"}
    assert {agent for agent, _, _ in found(home, "rows", agent="codex")} == {"codex"}
    with searched_sessions({"HOME": str(home)}, look()) as sessions:
        assert all(each.outline().agent == each.agent for each in sessions)


def test_calls_and_results_are_found_as_the_tools_they_are_of(tmp_path):
    claude = {"type": "assistant", "message": {"content": [
        {"type": "tool_use", "name": "Bash", "input": {"command": "make zebra"}}]}}  # fmt: skip
    path = tmp_path / ".claude" / "projects" / "-w" / "s.jsonl"
    path.parent.mkdir(parents=True)
    path.write_text(json.dumps(claude) + "\n")
    call = {"type": "function_call", "name": "exec", "arguments": '{"cmd": "make zebra"}'}
    line = json.dumps({"type": "response_item", "payload": call}) + "\n"
    rollout = tmp_path / ".codex" / "archived_sessions" / "rollout-2026-11-20T10-00-00-x.jsonl.zst"
    rollout.parent.mkdir(parents=True)
    rollout.write_bytes(compressed(line.encode()))
    hits = found(tmp_path, "ZEBRA")
    of = sorted((agent, speaker) for agent, speaker, _ in hits)
    assert of == [("claude-code", "tool"), ("codex", "tool")]
