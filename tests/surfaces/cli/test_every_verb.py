"""Each public verb does its work once, as a real `python -m upthread` process on a real database.

The verbs are those of the program's own table, so a new verb without a test fails here by its name.
"""

import json
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path
from urllib.request import HTTPCookieProcessor, build_opener

import pytest
from tests.agent_stores.opencode_database import damaged_database
from tests.support.otlp_receiver import Receiver
from tests.support.postgres_server import drop_database_at, migrated_database_at
from tests.support.world import eventually
from tests.surfaces.cli.test_keeping import transcript

from upthread.core.decision.words import RESUME, done_in_words
from upthread.surfaces.cli.program import ALIASES, VERBS

AGENT = ("--agent", "rehearsal")
HELLO = "Quixotic zebra. [[rehearse: say hello]]"
ALLOWS = '[permissions]\nedit = "allow"\nexecute = "allow"\n'
WAITS, IN_DOUBT = 4, 4
DATABASE = "upthread.db"

EFFECTS: dict[str, Callable] = {}
"""What each verb does; each function gets the project, and starts the verb with `real`."""


def effect(check: Callable) -> Callable:
    EFFECTS[check.__name__.rstrip("_")] = check
    return check


@pytest.fixture
def up(make_upthread, tmp_path):
    """A project in which one role was told one thing."""
    made = make_upthread(tmp_path)
    made("tell", "w/planner", HELLO, *AGENT)
    return made


@pytest.fixture
def real(up):
    """The same project, with a process of its own for each verb."""
    cold = up.beside()
    cold.is_cold = True
    return cold


@pytest.mark.parametrize("verb", [*VERBS, *ALIASES])
def test_each_verb_does_its_work_as_a_real_process(verb, up, real):
    assert verb in EFFECTS, f"the verb {verb} has no test of what it does"
    EFFECTS[verb](up, real)


def test_only_verbs_of_the_program_are_tested():
    assert EFFECTS.keys() <= {*VERBS, *ALIASES}


def turns(up, *options: str) -> int:
    return up("show", "w/planner", "--json", *options).json["turns"]


def session_of(up, address: str = "w/planner") -> str:
    return up("id", address).out.strip()


def begin_run(up) -> None:
    up("run", "r", "--spec", "spec.md", *AGENT, code=WAITS)


@effect
def tell(up, real):
    assert real("tell", "w/planner", "[[rehearse: say again]]").out == "again\n"
    assert turns(up) == 2


@effect
def run(up, real):
    real("run", "r", "--spec", "spec.md", *AGENT, code=WAITS)
    assert up("show", "r", "--json").json["state"] == "waiting"


@effect
def answer(up, real):
    begin_run(up)
    real("answer", "r", "opening", "Good day", code=WAITS)
    assert "answered `opening`: `Good day`" in up("audit", "r").out


@effect
def ls(_up, real):
    (listed,) = real("ls", "--json").json["workstreams"]
    assert (listed["workstream"], listed["state"]) == ("w", "done")


@effect
def show(up, real):
    assert session_of(up) in real("show", "w/planner").out


@effect
def why(_up, real):
    assert real("why", "w/planner", "--json").json["now"]["decision"] == "resume"


@effect
def id_(up, real):
    shown = up("show", "w/planner", "--json").json["upstream_session_id"]
    assert real("id", "w/planner").out == f"{shown}\n"


@effect
def open_(up, real):
    up("tell", "o/planner", "[[rehearse: say hi]]", "--agent", "opencode")
    opened = real("open", "o/planner").out
    assert opened == f"opened --session {session_of(up, 'o/planner')} in {up.directory}\n"


@effect
def search(_up, real):
    assert "upthread show w/planner" in real("search", "zebra").out


@effect
def setup(up, real):
    real("setup", "claude", "--yes")
    settings = json.loads((up.home / ".claude" / "settings.json").read_text())
    assert "PreToolUse" in settings["hooks"]


@effect
def trust(up, real):
    (up.directory / "upthread.toml").write_text(ALLOWS)
    real("trust", "--yes")
    assert up("trust", "--json").json["pending"] == []


@effect
def use(up, real):
    real("use", "w")
    assert up("status", "--json").json["workstream"] == "w"


@effect
def status(up, real):
    up("use", "w")
    assert real("status", "--json").json["workstream"] == "w"


@effect
def brief(_up, real):
    assert real("brief", "w/planner").out.startswith("# Briefing\n\n## Goal\nQuixotic zebra.")


@effect
def adopt(up, real):
    elsewhere = up.beside(UPTHREAD_HOME=str(up.home / "elsewhere"))
    elsewhere("tell", "a/planner", HELLO, *AGENT)
    real("adopt", "a/planner", session_of(elsewhere, "a/planner"), *AGENT)
    assert session_of(up, "a/planner") == session_of(elsewhere, "a/planner")


@effect
def reset(up, real):
    real("reset", "w/planner", "--yes")
    assert "has no open session" in up("id", "w/planner", code=3).err


@effect
def fork(up, real):
    real("fork", "w/planner", "--as", "v/planner", "--yes")
    assert session_of(up, "v/planner") != session_of(up)


@effect
def effects(up, real):
    up.configure(ALLOWS)
    up("tell", "w/planner", "[[rehearse: announce git push]]", *AGENT, code=IN_DOUBT)
    real("effects", "w", "done")
    assert up("effects", "w").out == "nothing of w is held back\n"


@effect
def audit(_up, real):
    (conversation,) = real("audit", "w", "--json").json["conversations"]
    assert [turn["outcome"] for turn in conversation["turns"]] == ["ok"]


@effect
def export(_up, real):
    receiver = Receiver()
    real("export", "--endpoint", receiver.endpoint)
    receiver.close()
    assert receiver.names() == ["invoke_agent planner"]


@effect
def savings(_up, real):
    assert real("savings", "w").out.startswith("w: 1 delegation")


@effect
def encrypt(up, real):
    key = f'encryption_key = "file:{up.home / "key"}"\n'
    (up.home / "upthread" / "config.toml").write_text(key)
    real("encrypt", "--yes")
    assert b"Quixotic" not in (up.home / "upthread" / DATABASE).read_bytes()
    assert turns(up) == 1


@effect
def forget(up, real):
    real("forget", "w", "--yes")
    assert b"Quixotic" not in (up.home / "upthread" / DATABASE).read_bytes()


@effect
def help_(_up, real):
    assert real("help", "tell").out.startswith("Usage: upthread tell [OPTIONS] ADDRESS [TEXT]")


@effect
def keep(up, real):
    transcript(up, "s1", asked="Paint the crossing", said="It is painted").stat()
    real("keep", "s1")
    assert "It is painted" in up("audit", "fix-the-export").out


@effect
def worktree(up, real):
    up("run", "own", "Do it.", "--worktree", "--steps", "1", *AGENT, code=None)
    assert "own" in up("worktree").out
    real("worktree", "own", "--remove", "--yes")
    assert "no workstream has a working tree" in up("worktree").out


@effect
def agents(_up, real):
    listed = real("agents", "--json").json["agents"]
    assert "opencode" in [each["agent"] for each in listed]


@effect
def doctor(_up, real):
    assert "1 history sound, 0 not" in real("doctor", "upthread").out


@effect
def repair(up, real):
    damaged_database(up.home / ".local" / "share" / "opencode" / "opencode.db").close()
    (copy,) = real("repair", "opencode", "--json", code=1).json["copies"]
    assert Path(copy["after"]).exists(), "though what is on PATH opens no session"


@effect
def backup(up, real):
    real("backup", str(up.home / "copy.db"))
    assert turns(up, "--db", str(up.home / "copy.db")) == 1


@effect
def restore(up, real):
    up("backup", str(up.home / "copy.db"))
    up("tell", "w/planner", HELLO)
    real("restore", str(up.home / "copy.db"), "--yes")
    assert turns(up) == 1


@effect
def web(up, real):
    server = real.start("web", "--no-open")
    address = server.stderr.readline().decode().split()[-1]
    browser = build_opener(HTTPCookieProcessor())
    with browser.open(address) as page:
        assert "w" in page.read().decode()
    server.terminate()
    server.communicate(timeout=30)


@effect
def mcp(_up, real):
    asked = {"protocolVersion": "2025-06-18", "capabilities": {}}
    asked["clientInfo"] = {"name": "test", "version": "1"}
    lines = [
        {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": asked},
        {"jsonrpc": "2.0", "method": "notifications/initialized"},
        {"jsonrpc": "2.0", "id": 2, "method": "tools/list"},
    ]
    with real.start("mcp", stdin=subprocess.PIPE) as server:
        server.stdin.write("".join(f"{json.dumps(line)}\n" for line in lines).encode())
        server.stdin.flush()
        server.stdout.readline()
        listed = json.loads(server.stdout.readline())["result"]["tools"]
        server.stdin.close()
        server.wait(timeout=30)
    assert {"delegate", "answer"} <= {tool["name"] for tool in listed}


@effect
def worker(up, real):
    place = up.home / "server"
    real.environment["UPTHREAD_DB"] = up.environment["UPTHREAD_DB"] = migrated_database_at(place)
    up.configure('[[pipeline.steps]]\nrole = "planner"\ntask = "Plan it."\n' + ALLOWS)
    up("run", "r", "Do it.", "--detach", *AGENT)
    working = real.start("worker", *AGENT)
    eventually(lambda: up("show", "r", "--json").json["roles"])
    working.send_signal(signal.SIGTERM)
    working.communicate(timeout=60)
    assert working.returncode == 0
    drop_database_at(place)


@effect
def migrate(up, real):
    moved = str(up.home / "moved.db")
    real("migrate", "--from", "sqlite", "--to", moved, "--yes")
    assert turns(up, "--db", moved) == 1


@effect
def demo(_up, real):
    told = real("demo", "--json").json
    assert told["session"].startswith("ses_")
    assert done_in_words(RESUME, told["session"]) in told["line"]
    assert any("kill -9" in line for line in told["told"])
