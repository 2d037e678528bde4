"""An hour-old copy of the record is put back: what it misses is read from the real agents."""

import json
import re
import shutil
import signal
import subprocess
import urllib.request
from pathlib import Path

import pytest
from tests.live.agents import ADDRESS, AGENTS, over_acp
from tests.live.far_ends import Pushes
from tests.live.opencode import PROVIDER, REPOSITORY
from tests.live.shell import PATIENCE_S, Shell, only, wait_until
from tests.live.test_open_elsewhere import started as opencode_started
from tests.support.sets import EXTENDED, spread

from upthread.agents.stored import stamp_of
from upthread.core.events import TurnEnded
from upthread.core.types import ConversationId, UpstreamSessionId
from upthread.runtime.record.turn_views import turn_events
from upthread.store.sqlite import SqliteStore
from upthread.testing.rehearsal_model import MODEL_ID, RehearsalModel

pytestmark = [pytest.mark.live, pytest.mark.timeout(600)]

OLDER = "older_record"


def database(shell: Shell) -> Path:
    return shell.own / "upthread.db"


def put_back(shell: Shell, copy: Path) -> None:
    for suffix in ("-wal", "-shm"):
        database(shell).with_name(f"upthread.db{suffix}").unlink(missing_ok=True)
    shutil.copyfile(copy, database(shell))


def kept_stamp(shell: Shell) -> tuple[str, UpstreamSessionId]:
    """Return the stamp of the session at the newest turn's end: while equal, nothing is read."""
    found = shell.one("id", ADDRESS)
    store = SqliteStore(database(shell))
    (newest,) = store.turns(ConversationId(found["conversation_id"]), newest=1)
    (ended,) = [
        e
        for e in turn_events(store, newest.conversation_id, newest.turn_id)
        if isinstance(e, TurnEnded)
    ]
    store.close()
    return ended.session_stamp, UpstreamSessionId(found["upstream_session_id"])


@pytest.mark.parametrize("name", spread(AGENTS, first=0, extended=["claude-code", "codex"]))
def test_the_turns_that_an_older_record_misses_are_reported_and_read(name, shell, tmp_path):
    pushes = Pushes(tmp_path, shell.project)
    pushes.let_go()
    assert OLDER not in shell.tell("Remember KIWI-1.")["reasons"]
    copy = tmp_path / "copy.db"
    shutil.copyfile(database(shell), copy)
    shell.tell(f"Do it. {AGENTS[name].command(pushes.words)}")
    assert OLDER not in shell.tell("Remember KIWI-3.")["reasons"], "a whole record is not read"
    assert shell.one("why", ADDRESS)["now"]["reasons"] == ["unchanged"]
    stamp, session = kept_stamp(shell)
    assert stamp == stamp_of(shell.environment, name, session) != ""
    assert pushes.count == 1

    put_back(shell, copy)
    now = shell.one("why", ADDRESS)["now"]
    assert (now["reasons"], now["turns_lacking"]) == ([OLDER, "unchanged"], 2)
    shown = shell.one("show", ADDRESS)
    assert (shown["turns"], shown["turns_lacking"]) == (1, 2)
    pushes.prepare()
    told = shell.tell(f"Do it. {AGENTS[name].command(pushes.other_words)}", exit_code=4)
    assert OLDER in told["reasons"]
    assert (told["parked"]["reason"], pushes.count) == ("held_back", 1)
    shown = shell.one("show", ADDRESS)
    assert (shown["turns"], shown["turns_lacking"]) == (4, 0)
    effects = shell.one("show", ADDRESS, "--effects")["effects"]
    assert pushes.words in effects[0]["title"]


@EXTENDED
@pytest.mark.parametrize("name", ["claude-code"])
def test_after_a_restore_the_next_prompt_reads_back_what_the_session_has(name, shell, model):
    shell.tell("Remember KIWI-1.")
    copy = str(shell.home / "copy.db")
    shell.run(*shell.command("backup", copy))
    shell.tell("Remember KIWI-2.")
    shell.run(*shell.command("restore", copy, "--yes"))
    told = shell.tell("Go on.", exit_code=4)  # until a person settles what the restore left open
    assert (told["decision"], OLDER in told["reasons"]) == ("resume", True)
    assert shell.one("show", ADDRESS)["turns"] == 3


@pytest.mark.parametrize("way", ["native", pytest.param("acp", marks=EXTENDED)])
@pytest.mark.parametrize("name", spread(AGENTS, first=["claude-code", "codex"]))
def test_a_session_that_lost_its_last_turns_is_told_them(
    name, way, shell, tmp_path, model, request
):
    """The agent's store is put back as it was yesterday, or its last file is cut off."""
    shell = over_acp(shell, name, request) if way == "acp" else shell
    session = shell.tell("Remember. [[SAY KIWI-1]]")["upstream_session_id"]
    sockets = shutil.ignore_patterns("*.sock")
    shutil.copytree(shell.home, tmp_path / "yesterday", symlinks=True, ignore=sockets)
    shell.tell(f"Remember. {AGENTS[name].command('echo out')} [[SAY KIWI-2]]")
    shell.tell("Remember. [[SAY KIWI-3]]")
    shutil.rmtree(shell.home)
    shutil.copytree(tmp_path / "yesterday", shell.home, symlinks=True)
    assert_told(shell, model, session, which="turns 2 to 3", lost=3)
    assert shell.tell("Remember. [[SAY KIWI-5]]")["reasons"] == ["unchanged"]
    if name != "opencode":
        (file,) = shell.home.glob(f".c*/**/*{session}.jsonl")
        lines = file.read_text().splitlines(keepends=True)
        at = next(at for at, line in enumerate(lines) if re.search(r"(?<!SAY )KIWI-5", line))
        file.write_text("".join(lines[:at]) + lines[at][:40])
        assert_told(shell, model, session, which="turn 5", lost=5)


@EXTENDED
@pytest.mark.parametrize("name", ["opencode", "codex"])
def test_a_session_that_a_person_compacted_is_told_its_turns_once(name, shell, model):
    session = shell.tell("Remember. [[SAY KIWI-1]]")["upstream_session_id"]
    shell.tell("Remember. [[SAY KIWI-2]]")
    COMPACTIONS[name](shell, session)
    assert_told(shell, model, session, which="turns 1 to 2", lost=2)
    assert shell.tell("And now?")["reasons"] == ["unchanged"]


def compact_opencode(shell: Shell, session: str) -> None:
    with opencode_started(shell, "serve") as serving:
        assert serving.stdout is not None
        url = next(line.split()[-1] for line in serving.stdout if b"listening" in line).decode()
        body = {"providerID": PROVIDER, "modelID": MODEL_ID, "auto": False}
        asked = f"{url}/session/{session}/summarize?directory={shell.project}"
        headers = {"content-type": "application/json"}
        request = urllib.request.Request(asked, json.dumps(body).encode(), headers)
        with urllib.request.urlopen(request, timeout=PATIENCE_S) as answer:
            assert answer.read() == b"true"


def compact_codex(shell: Shell, session: str) -> None:
    with subprocess.Popen(
        [str(shutil.which("codex", path=shell.environment["PATH"])), "app-server"],
        cwd=shell.project,
        env=shell.environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as server:
        assert server.stdin is not None
        assert server.stdout is not None
        for number, (method, parameters, last) in enumerate(
            (
                ("initialize", {"clientInfo": {"name": "test", "version": "1"}}, "codexHome"),
                ("thread/resume", {"threadId": session}, '"result"'),
                ("thread/compact/start", {"threadId": session}, "turn/completed"),
            )
        ):
            asked = {"id": number, "method": method, "params": parameters}
            server.stdin.write(json.dumps(asked).encode() + b"\n")
            server.stdin.flush()
            assert any(last.encode() in line for line in server.stdout)


COMPACTIONS = {"opencode": compact_opencode, "codex": compact_codex}


@pytest.mark.parametrize("name", spread(AGENTS, first=0, extended=["claude-code"]))
def test_over_acp_a_whole_session_is_never_taken_for_an_older_one(name, shell, model, request):
    shell, agent, made = over_acp(shell, name, request), AGENTS[name], shell.project / "made"
    shutil.copyfile(REPOSITORY / "docs/pictures/list-400.png", shell.project / "image.png")
    shell.tell("Begin.")
    for prompt in (
        f"[[THINK so]] {agent.command('echo out')} {agent.command('exit 3')} [[SAY done]]",
        f"{agent.read(shell.project / 'image.png')} {agent.delegation('[[SAY child]]')} [[SAY so]]",
        *(f"[[SAY {'long words, ' * 8_000}]]", "And?", "/compact", "And then?", "The end?"),
    ):
        assert shell.tell(prompt, exit_code=None)["reasons"] == ["unchanged"]
    model.answer_next(agent.command(f"touch {made}; sleep 60"))
    running = shell.start("tell", ADDRESS, "Do it.")
    wait_until(made.exists, "the command's file")
    running.send_signal(signal.SIGINT)
    running.communicate(timeout=PATIENCE_S)
    reasons = [shell.tell("And now?", exit_code=None)["reasons"] for _ in range(2)]
    assert reasons == [["interrupted", "unchanged"], ["unchanged"]]


def assert_told(
    shell: Shell, model: RehearsalModel, session: str, *, which: str, lost: int
) -> None:
    """Send a prompt, and check that the session is told the turns that it lost, and only once."""
    lines = shell.lines("tell", ADDRESS, f"Go on. [[SAY KIWI-{lost + 1}]]")
    notice = only(lines, "notice")
    assert notice["kind"] == "older_session"
    assert f"lacks {which}, which this record has" in notice["text"]
    started = only(lines, "turn_started")
    assert (started["reasons"][0], started["upstream_session_id"]) == ("older_session", session)
    assert f"> KIWI-{lost}" in json.dumps(model.requests[-1].body)
    assert shell.one("why", ADDRESS)["now"]["reasons"] == ["unchanged"]
