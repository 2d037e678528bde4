"""What upthread says a delegation costs, beside what the model server was sent for it."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median

from tests.live import claude_code, codex, opencode
from tests.live.shell import Shell, agents_left, only

from upthread.testing.rehearsal_model import RecordedRequest, RehearsalModel

ADDRESS = "spec-42/planner"
CHARACTERS_PER_TOKEN = 4
"""As the rehearsal model counts what it is sent."""
ERROR_MAX = 0.1
"""The most that a median may be off."""
LONG = 30
"""How many delegations are measured for the docs."""
KEPT = Path(__file__).resolve().parents[2] / "docs" / "agents" / "prices.json"
FRESH_EVERY = 3
"""Every third delegation is asked for a fresh session, so that both prices are held to account."""


def opencode_command(line: str) -> str:
    """The step that runs a shell line."""
    return f"[[CALL bash {json.dumps({'command': line, 'description': 'run it'})}]]"


def opencode_delegation(prompt: str) -> str:
    """The step that gives a prompt to a sub-agent."""
    arguments = {"description": "sub", "prompt": prompt, "subagent_type": "general"}
    return f"[[CALL task {json.dumps(arguments)}]]"


@dataclass(frozen=True, kw_only=True)
class Priced:
    """One agent as people have it: its binary, its environment, the step that runs a line."""

    agent: str
    binary: str
    environment: Callable[..., dict[str, str]]
    step: Callable[[str], str]


PRICED = {
    each.agent: each
    for each in (
        Priced(
            agent="opencode",
            binary="opencode",
            environment=opencode.opencode_environment,
            step=opencode_command,
        ),
        Priced(
            agent="claude-code",
            binary="claude",
            environment=claude_code.claude_environment,
            step=claude_code.command,
        ),
        Priced(
            agent="codex",
            binary="codex",
            environment=codex.codex_environment,
            step=codex.command,
        ),
    )
}


@dataclass(frozen=True, kw_only=True)
class Delegation:
    """What was said of one delegation, and what the model server saw of it, in tokens.

    `said` is the price of what was done, None where none was said; `first` is what its first
    request read, `all` what all of its requests read and wrote.
    """

    number: int
    way: str
    requests: int
    said: int | None
    is_said_estimated: bool
    first: int
    spent: int
    is_spent_estimated: bool
    all: int

    @property
    def price_error(self) -> float | None:
        """How far the price was off, as a share of what was read; None where none was said."""
        return None if self.said is None else abs(self.said - self.first) / self.first

    @property
    def spent_error(self) -> float:
        return abs(self.spent - self.all) / self.all


def tokens_in(request: RecordedRequest) -> int:
    """What the rehearsal model counts of what it was sent."""
    return max(1, len(json.dumps(request.body)) // CHARACTERS_PER_TOKEN)


def tokens_out(request: RecordedRequest) -> int:
    """What it counts of its answer."""
    said = f"{request.response.get('text', '')}{request.response.get('thinking', '')}"
    return max(1, len(said) // CHARACTERS_PER_TOKEN)


def answered(requests: Sequence[RecordedRequest]) -> list[RecordedRequest]:
    """The requests that a model answered, in order."""
    return [
        each for each in requests if each.response.get("kind") == "reply" and each.status == 200
    ]


@contextmanager
def priced_shell(
    priced: Priced, binary: Path, model: RehearsalModel, place: Path
) -> Iterator[Shell]:
    """A project and a home of its own, with the one agent on PATH."""
    binaries, home, project = place / "bin", place / "home", place / "project"
    binaries.mkdir()
    (binaries / priced.binary).symlink_to(binary)
    environment = {
        **priced.environment(home, model),
        "PATH": f"{binaries}:/usr/bin:/bin",
        "UPTHREAD_HOME": str(place / "upthread"),
    }
    subprocess.run(["git", "init", "-q", "-b", "main", project], check=True)
    Path(environment["UPTHREAD_HOME"]).mkdir(mode=0o700)
    own = Path(environment["UPTHREAD_HOME"]) / "config.toml"
    own.write_text('[permissions]\nexecute = "allow"\nother = "allow"\n')
    own.chmod(0o600)
    yield Shell(project, environment)
    assert agents_left(place) == []


def delegations(
    priced: Priced, shell: Shell, model: RehearsalModel, *, count: int
) -> Iterator[Delegation]:
    """Delegate so many times, of different lengths, one in three afresh, each priced beforehand."""
    for number in range(count):
        is_fresh = number % FRESH_EVERY == FRESH_EVERY - 1
        now = shell.lines("why", ADDRESS)[0]["now"] if number else {}
        key = "tokens_to_brief" if is_fresh else "tokens_to_resume"
        before = len(model.requests)
        steps = [priced.step(f"echo {number} {each} {'word ' * 40}") for each in range(number % 6)]
        prompt = "\n".join(["Look at it.", "", *steps, f"[[SAY Done, {'as said ' * 20}.]]"])
        words = ["tell", ADDRESS, prompt, "--agent", priced.agent]
        told = only(shell.lines(*words, *(["--fresh"] if is_fresh else [])), "turn_ended")
        assert told["outcome"] == "ok", told
        sent = answered(model.requests[before:])
        assert len(sent) > number % 6, [each.path for each in model.requests[before:]]
        yield Delegation(
            number=number + 1,
            way=told["decision"],
            requests=len(sent),
            said=now.get(key),
            is_said_estimated=bool(now.get("tokens_are_estimated")),
            first=tokens_in(next(each for each in sent if not each.is_side_request)),
            spent=told["tokens_spent"],
            is_spent_estimated=told["tokens_spent_are_estimated"],
            all=sum(tokens_in(each) + tokens_out(each) for each in sent),
        )


@dataclass(frozen=True, kw_only=True)
class Errors:
    """The median errors over some delegations, as shares, and what all of them took in tokens."""

    delegations: int
    requests: int
    tokens: int
    resume: float
    briefing: float
    spent: float


def errors(done: Sequence[Delegation]) -> Errors:
    def of(*ways: str) -> float:
        known = [each.price_error for each in done if each.way in ways]
        return median(error for error in known if error is not None)

    return Errors(
        delegations=len(done),
        requests=sum(each.requests for each in done),
        tokens=sum(each.all for each in done),
        resume=of("resume", "resume_with_update"),
        briefing=of("start_fresh_with_briefing"),
        spent=median(each.spent_error for each in done),
    )


def version_of(agent: str) -> str:
    """The version that is measured."""
    return {"opencode": opencode, "claude-code": claude_code, "codex": codex}[
        agent
    ].pinned_version()


def keep(agent: str, version: str, found: Errors) -> None:
    """Keep what was measured of one agent, for the docs."""
    kept = json.loads(KEPT.read_text()) if KEPT.exists() else {}
    kept[agent] = {"version": version, **asdict(found)}
    KEPT.write_text(json.dumps(dict(sorted(kept.items())), indent=2) + "\n")
