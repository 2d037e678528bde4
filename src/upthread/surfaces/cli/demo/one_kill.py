"""One kill: a role at work, its process ended in mid-turn, started again. Twenty seconds at most.

Each line that begins with an address is what `upthread tell` said, word for word but for its ids.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from upthread.core.lazy_regex import regex
from upthread.errors import UpthreadError
from upthread.surfaces.cli.demo.processes import Finished, run_child
from upthread.surfaces.cli.demo.stage import WORKSTREAM, Stage

ROLE: Final = "planner"
ADDRESS: Final = f"{WORKSTREAM}/{ROLE}"
CALLS_BEFORE_KILL: Final = 2
SHOWN_ID: Final = regex(r"\b(ses_[0-9a-f]{8})[0-9a-f]+")

Say = Callable[[str, str], None]
"""Says a line in a style."""


def play(stage: Stage, say: Say) -> dict[str, str]:
    """Play it, and return what was shown. Raises UpthreadError where it did not come out so."""
    say(f'$ upthread tell {ADDRESS} "Plan it. $(cat spec.md)"', "bold")
    specification = stage.specification.partition("\n")[2]
    killed = _tell(stage, f"Plan it.\n\n# Specification\n{specification}", kill_when=_nth_call())
    _show(killed, say)
    if not killed.was_killed:
        raise UpthreadError("the turn ended before it could be killed")
    say(f"  ✗ kill -9 {killed.pid}, in the middle of its work\n", "red")
    say(f"$ upthread tell {ADDRESS} --continue", "bold")
    again = _tell(stage, "--continue")
    _show(again, say)
    before, after = (_started(each)["upstream_session_id"] for each in (killed, again))
    result = again.last("result") or {}
    if before != after or result.get("status") != "done":
        raise UpthreadError(f"{before} was not gone on with: {after}, {result.get('status')}")
    say(
        f"\nKilled in the middle of its work, the {ROLE} went on in the session it had, "
        f"{_short(before)}, and made its plan.",
        "green",
    )
    return {"session": before, "line": _started(again)["line"], "reply": str(result["reply"])}


def _tell(
    stage: Stage, said: str, *, kill_when: Callable[[Mapping[str, Any]], bool] = lambda _: False
) -> Finished:
    return run_child(
        ("upthread", "tell", ADDRESS, said, "--agent", "rehearsal", "--json"),
        directory=str(stage.project),
        environment=stage.environment,
        kill_when=kill_when,
    )


def _nth_call() -> Callable[[Mapping[str, Any]], bool]:
    """Return a judge that says yes once the agent has begun so many calls."""
    calls = 0

    def judge(line: Mapping[str, Any]) -> bool:
        nonlocal calls
        calls += _is_call(line)
        return calls >= CALLS_BEFORE_KILL

    return judge


def _is_call(line: Mapping[str, Any]) -> bool:
    return line.get("type") == "part" and line.get("kind") == "tool_call"


def _show(done: Finished, say: Say) -> None:
    say(_short(str(_started(done)["line"])), "cyan")
    for line in done.lines:
        if _is_call(line):
            say(f"  {line['title']}", "dim")
    ended = done.last("turn_ended")
    if ended is not None:
        reply = str(ended["reply"])
        for step in reply.splitlines():
            if step[:1].isdigit():  # of the plan, its steps
                say(f"  {step.partition(':')[0]}", "")


def _started(done: Finished) -> Mapping[str, Any]:
    started = done.last("turn_started")
    if started is None:
        raise UpthreadError(f"a turn did not begin: {done.lines[-1:]}")
    return started


def _short(text: str) -> str:
    return SHOWN_ID.sub(r"\1", text)
