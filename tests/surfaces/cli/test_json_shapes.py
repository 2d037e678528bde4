"""What `--json` says is what docs/json.md shows: these keys, of these types, and no others."""

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.agent_stores.opencode_database import damaged_database
from tests.support.agent_homes import Months, make_home
from tests.support.otlp_receiver import Receiver
from tests.support.postgres_server import database_at, migrated_database_at
from tests.support.sets import EXTENDED

pytestmark = [EXTENDED, pytest.mark.timeout(420)]  # one fixture calls every verb

OTHER_STREAMS = {"worker", "hit", "result of search"}
DOCUMENT = Path(__file__).resolve().parents[3] / "docs" / "json.md"
SECTION = re.compile(r"^### (?P<name>.+?)\n(?P<body>.*?)(?=^##|\Z)", re.MULTILINE | re.DOTALL)


def examples() -> dict[str, tuple[object, frozenset[str]]]:
    """Each shape's example, and the keys that may be null."""
    found: dict[str, tuple[object, frozenset[str]]] = {}
    for section in SECTION.finditer(DOCUMENT.read_text(encoding="utf-8")):
        block = re.search(r"```json\n(.*?)```", section["body"], re.DOTALL)
        if block:
            nullable = re.search(r"^May be null: (.*)$", section["body"], re.MULTILINE)
            keys = frozenset(re.findall(r"`(\w+)`", nullable[1])) if nullable else frozenset()
            found[section["name"]] = (json.loads(block[1]), keys)
    return found


EXAMPLES = examples()


def faults(live: object, example: object, nullable: frozenset[str], key: str = "") -> Iterator[str]:
    """Yield each place where a live value is not shaped like the example. `{}` fits anything."""
    if example == {} or (live is None and (key in nullable or example is None)):
        return
    if example is None and key in nullable:
        return
    if type(live) is not type(example):
        yield f"{key}: {live!r} where the example has {example!r}"
    elif isinstance(live, dict) and isinstance(example, dict):
        yield from _faults_of_an_object(live, example, nullable, key)
    elif isinstance(live, list) and isinstance(example, list):
        for element in live:
            if not any(not list(faults(element, each, nullable, key)) for each in example):
                yield f"{key}[]: no example is like {json.dumps(element)[:300]}"


def _faults_of_an_object(live, example, nullable, key):
    if live.keys() != example.keys():
        yield f"{key}: the keys differ by {sorted(live.keys() ^ example.keys())}"
        return
    for name, value in live.items():
        yield from faults(value, example[name], nullable, name)


def fits(live: object, name: str) -> None:
    example, nullable = EXAMPLES[name]
    assert list(faults(live, example, nullable)) == [], f"{name}: {json.dumps(live)[:500]}"


def name_of(line: dict[str, object], verb: str) -> str:
    """The section a line of a stream belongs to."""
    if line["type"] == "part":
        return f"part {line['kind']}"
    if line["type"] == "result":
        return "result of a failure" if "error" in line else f"result of {verb}"
    return str(line["type"])


@pytest.fixture(scope="module")
def live(tmp_path_factory, make_upthread):
    """Every verb, called until every shape was seen: (name of the shape, live object)."""
    up = make_upthread(tmp_path_factory.mktemp("json"))
    seen: list[tuple[str, object]] = []

    def stream(verb: str, *arguments: str) -> None:
        lines = up(verb, *arguments, "--json", code=None).stream
        seen.extend((name_of(line, verb), line) for line in lines)

    def one(name: str, *arguments: str) -> None:
        seen.append((name, up(*arguments, "--json", code=None).json))

    everything = (
        "[[rehearse: think hm]] [[rehearse: read README.md]] [[rehearse: child explorer look]] "
        "[[rehearse: plan a|b]] [[rehearse: usage 1 2]] [[rehearse: unknown]] "
        "[[rehearse: unstamped x]] [[rehearse: say hi]]"
    )
    one("agents", "agents")
    few = Months(claude_code=4, codex=4, opencode=4, sub_agents=6, session_bytes=9_000, projects=1)
    make_home(up.home / "agents", few)
    agents = up.beside(HOME=str(up.home / "agents"))
    seen.append(("upthread alone", agents("--all", "--json", "-C", "/").json))
    one("ls", "ls")
    stream("tell", "w/planner", everything, "--agent", "opencode")
    stream("tell", "w/planner", "[[rehearse: write a.txt a]]")
    one("show of a workstream", "show", "w")
    one("show of an address", "show", "w/planner")
    one("show --tree", "show", "w", "--tree")
    one("fork", "fork", "w/planner", "--as", "v/planner", "--dry-run")
    one("fork", "fork", "w/planner", "--as", "v/planner", "--yes")
    stream("tell", "w/planner", "--continue")
    stream("tell", "w/planner", "[[rehearse: rate_limit 9]]")
    stream("tell", "w/nurse", "hi")
    one("open", "open", "w/planner")
    one("help", "help", "id")
    one("id", "id", "w/planner")
    one("why", "why", "w/planner")
    one("show --reply", "show", "w/planner", "--reply")
    one("brief", "brief", "w/planner")
    one("reset", "reset", "w/planner", "--dry-run")
    one("reset", "reset", "w/planner", "--yes")
    one("error", "show", "nowhere")
    (up.directory / "upthread.toml").write_text('agent = "rehearsal"\n')
    stream("run", "p", "--spec", "spec.md")
    one("show of a workstream", "show", "p")
    one("answer", "answer", "p", "opening", "Hi")
    one("answer", "answer", "p", "stranger", "friend")
    stream("run", "p")
    up.environment["UPTHREAD_HOME"] = str(up.home / "elsewhere")
    session = up("tell", "x/planner", "[[rehearse: say hi]]", "--json").stream[-1]
    up.environment["UPTHREAD_HOME"] = str(up.home / "upthread")
    one("adopt", "adopt", "w/planner", session["upstream_session_id"])
    rules = '[permissions]\nedit = "allow"\nexecute = "allow"\n'
    (up.directory / "upthread.toml").write_text(rules)
    one("trust", "trust")
    stream("tell", "y/planner", "[[rehearse: say hi]]", "--agent", "rehearsal")
    one("trust", "trust", "--yes")
    one("trust --list", "trust", "--list")
    one("trust --list", "trust", "--remove", "--dry-run")
    stream("run", "p")
    one("ls", "ls")
    one("show of a workstream", "show", "p")
    one("show of an address", "show", "p/validator")
    one("show --effects", "show", "p", "--effects")
    one("effects", "effects", "p")
    one("why", "why", "p/validator")
    one("audit", "audit", "p")
    one("savings", "savings", "w")
    one("savings", "savings", "--prices", "read=1,cached=1,cache_written=1,written=1")
    one("audit", "audit", "w")
    receiver = Receiver()
    one("export", "export", "w", "--endpoint", receiver.endpoint)
    receiver.close()
    damaged_database(up.home / ".local" / "share" / "opencode" / "opencode.db").close()
    one("doctor", "doctor")
    one("backup", "backup", str(up.home / "backup.db"))
    one("restore", "restore", str(up.home / "backup.db"), "--dry-run")
    one("doctor --probe", "doctor", "--probe", "rehearsal", "--yes")
    one("repair of an agent", "repair", "opencode")
    one("repair of an address", "repair", "w/planner")
    stream("run", "own", "x", "--worktree", "--steps", "1", "--agent", "rehearsal")
    one("worktree", "worktree")
    one("worktree --remove", "worktree", "own", "--remove", "--yes")
    found = agents("search", "parser", "--json").stream
    seen.extend((name_of(line, "search"), line) for line in found)
    one("keep", "keep", "--yes")
    one("keep SESSION", "keep", "--soon")
    one("forget", "forget", "w", "--dry-run")
    one("forget", "forget", "p", "--yes")
    one("setup", "setup", "opencode", "--yes")
    one("status", "use", "w")
    one("status", "status")
    one("status --snippet", "status", "--snippet")
    one("migrate", "migrate", "--db", database_at(up.directory))
    moving = ("migrate", "--from", "sqlite", "--to", database_at(up.directory))
    one("migrate --to", *moving, "--dry-run")
    one("migrate --to", *moving, "--yes")
    seen.extend(work(up))
    sealed = up.home / "sealed"
    sealed.mkdir(mode=0o700)
    (sealed / "config.toml").write_text(f'encryption_key = "file:{up.home / "key"}"\n')
    up.environment["UPTHREAD_HOME"] = str(sealed)
    one("encrypt", "encrypt", "--yes", "--db", str(sealed / "upthread.db"))
    return seen


def work(up) -> Iterator[tuple[str, object]]:
    """A worker that is looked at, and told to stop."""
    up.environment["UPTHREAD_DB"] = migrated_database_at(up.home)
    up("run", "p", "--spec", "spec.md", "--agent", "rehearsal", "--detach", code=None)
    worker = up.start("worker", "--agent", "rehearsal", "--json")
    yield "worker", json.loads(worker.stdout.readline())
    yield "ls --workers", up("ls", "--workers", "--json").json
    worker.terminate()
    told, _ = worker.communicate(timeout=60)
    assert worker.returncode == 0
    yield from (("worker", json.loads(line)) for line in told.splitlines())


def test_every_live_object_has_the_documented_shape(live):
    for name, value in live:
        fits(value, name)


def test_every_documented_shape_was_seen_alive(live):
    never_said = {"part title", "part compacted"}  # the rehearsal has no words for these
    assert EXAMPLES.keys() - never_said == {name for name, _ in live}


def test_comparison_finds_what_it_is_for():
    """A shape test that cannot fail would be none."""
    example, nullable = EXAMPLES["id"]
    assert isinstance(example, dict)
    assert list(faults({**example, "more": 1}, example, nullable))
    assert list(faults({**example, "agent": None}, example, nullable))
    assert list(faults({**example, "agent": 1}, example, nullable))
    assert list(faults([{"a": "x"}], [{"b": "x"}], nullable))
    assert list(faults({**example, "agent": "x"}, example, nullable)) == []


def test_stream_begins_with_the_decision_and_ends_with_the_result(live):
    names = [name for name, _ in live]
    for verb in ("tell", "run"):
        assert f"result of {verb}" in names
    kinds = [
        value["type"]
        for name, value in live
        if isinstance(value, dict) and "type" in value and name not in OTHER_STREAMS
    ]
    assert kinds[0] == "turn_started"
    ends = [index for index, kind in enumerate(kinds) if kind == "turn_ended"]
    assert {kinds[index + 1] for index in ends} <= {"result", "turn_started", "waiting"}
