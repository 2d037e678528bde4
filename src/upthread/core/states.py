"""States: how a role or a workstream stands, in one word of twelve, why, and what goes on.

Every surface says this word and no other. A role's state is that of its last turn, whoever holds
it, and of the verdict it handed back. A workstream's is the most urgent of what its run says and of
what its roles did after the run last moved: a run covers the turns that led to where it stands.
What would else be at rest is unsettled while an action of it may have been done or not. Words of
strangers are in `detail` alone, and no time is in any of the words.
"""

from collections.abc import Iterable, Sequence
from enum import StrEnum

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from upthread.core.events import Question, RunParked, TurnEnded, TurnParked
from upthread.core.roles.reports import Report
from upthread.core.runs import pipeline as pipelines
from upthread.core.runs.pipeline import RunView, VerdictView
from upthread.core.runs.stops import OURS, Source, Stop, shortfall, stop_in_words
from upthread.core.text import command, visible_line
from upthread.core.turns.turn import HELD_BACK, TurnView
from upthread.core.types import Link, Outcome, ready


class State(StrEnum):
    """How something stands. MEANINGS says what each one means."""

    RUNNING = "running"
    WAITING = "waiting"
    PARKED = "parked"
    BLOCKED = "blocked"
    INTERRUPTED = "interrupted"
    FAILED = "failed"
    UNSETTLED = "unsettled"
    OUTDATED = "outdated"
    HALFWAY = "halfway"
    APPROVED = "approved"
    DONE = "done"
    IDLE = "idle"


MEANINGS = {
    State.RUNNING: "a living process holds it, and a turn or a run is under way",
    State.WAITING: "it has asked a question that only a person can answer, and nobody has",
    State.PARKED: "it stopped until something has happened outside of it: a limit has passed, "
    "a permission was given, a person has looked",
    State.BLOCKED: "its last report says that it cannot do what was asked",
    State.INTERRUPTED: "its last turn was cut off: killed, cancelled or stopped with Ctrl-C",
    State.FAILED: "its last turn ended with an error, or without an answer",
    State.UNSETTLED: "all else is at rest, and an action of it beyond this machine may have been "
    "done, or not, until a person says so",
    State.OUTDATED: "it was approved, and what was judged has changed since",
    State.HALFWAY: "a run has its next step still to begin, and nobody is at it",
    State.APPROVED: "it was approved, and what was judged is still the same",
    State.DONE: "its last turn ended well, and nothing of it is open",
    State.IDLE: "nothing was asked of it yet",
}
"""Each state with its one meaning, the most urgent first. The glossary is generated from here."""

_URGENCY = {state: number for number, state in enumerate(MEANINGS)}

BLOCKED = "blocked"
"""What a run is parked for whose role says that it cannot go on."""

_CUT_OFF = frozenset({Outcome.CANCELLED, Outcome.PROCESS_DIED})

_AT_REST = frozenset({State.OUTDATED, State.HALFWAY, State.APPROVED, State.DONE, State.IDLE})
"""What would hide that an action is in doubt. Any other state has a person look by itself."""

_STOPPED = frozenset({State.INTERRUPTED, State.FAILED, State.PARKED, State.BLOCKED})
"""What somebody has to go on with."""

_AT_IT_OR_WELL = frozenset({State.RUNNING, State.DONE, State.APPROVED})
"""What nobody has to go on with."""

LOOK = "look whether it was done, and say so; until then nobody does it again"
"""What helps where an action is in doubt."""


class Standing(Struct, frozen=True, kw_only=True):
    """A state with what a person needs to know of it.

    `reason` is ours, `detail` what an agent or a role said, as it is. `since_ms` is None where
    nothing happened yet, `until_ms` where no time is known at which it passes by itself. `cure` is
    what a person can do, `command` what goes on with it; both empty where there is nothing to do.
    """

    state: State
    reason: str
    detail: str = ""
    since_ms: int | None = None
    until_ms: int | None = None
    role: str = ""
    agent: str = ""
    cure: str = ""
    command: str = ""


NOTHING_ASKED = Standing(state=State.IDLE, reason="nothing was asked of it yet")


class _Facts(Struct, frozen=True, kw_only=True):
    workstream: str
    is_held: bool
    moved_at_ms: int | None = None
    verdict: VerdictView | None = None


class RoleFacts(_Facts, frozen=True, kw_only=True):
    """What a role's state follows from.

    `held_since_ms` is when a call began that no turn is recorded of yet. `agent` is whose turn it
    was, `waits` what it says of its connection meanwhile; `opened_at_ms` and `moved_at_ms` are when
    the last turn began and last moved. `run` is the newest run if that turn was a step of it;
    `verdict` what that turn handed back, bound to what it judged; `source` who started its agent.
    """

    address: str
    role: str
    held_since_ms: int | None = None
    agent: str = ""
    waits: str = ""
    turn: TurnView | None = None
    opened_at_ms: int | None = None
    run: RunView | None = None
    source: Source = OURS


class RunFacts(_Facts, frozen=True, kw_only=True):
    """What a run's state follows from; `verdict` is that of the role that ended it."""

    run: RunView


# --- commands ----------------------------------------------------------------------------------


def tell_command(address: str) -> str:
    """Return the command that gives a role its next prompt."""
    return f'{_on("tell", address)} "…"'


def go_on_command(address: str) -> str:
    """Return the command that goes on with a turn that has not ended."""
    return _on("tell", address, "--continue")


def run_command(workstream: str, *, is_limited: bool = False) -> str:
    """Return the command that goes on with a run; it waits for a limit that has an end."""
    return _on("run", workstream, *(("--wait",) if is_limited else ()))


def effects_command(workstream: str) -> str:
    """Return the command that lists what is in doubt, with those that say what came of it."""
    return _on("effects", workstream)


def answer_command(workstream: str, question_id: str) -> str:
    """Return the command that answers a question."""
    dashes = ("--",) if workstream.startswith("-") else ()
    return f'{command("upthread", "answer", *dashes, workstream, question_id)} "…"'


def _on(verb: str, name: str, *options: str) -> str:
    """Return a verb on a name; one that begins with a dash would be taken for an option."""
    if name.startswith("-"):
        return command("upthread", verb, *options, "--", name)
    return command("upthread", verb, name, *options)


# --- a role ------------------------------------------------------------------------------------


def of_role(facts: RoleFacts) -> Standing:
    """Return how a role stands."""
    said = _of_turn(facts)
    is_under_way = facts.turn is None or not facts.turn.is_over
    begun_at_ms = facts.held_since_ms or (facts.opened_at_ms if is_under_way else None)
    return replace(
        said,
        since_ms=begun_at_ms if said.state is State.RUNNING else facts.moved_at_ms,
        role=facts.role,
        agent=facts.agent,
        **_next(said, facts.workstream, _command_of_role(facts, said)),
    )


def _of_turn(facts: RoleFacts) -> Standing:
    turn = facts.turn
    if facts.is_held:
        return Standing(state=State.RUNNING, reason="a turn is under way", detail=facts.waits)
    if turn is None:
        return NOTHING_ASKED
    if turn.ended is not None:
        return _of_end(facts, turn.ended)
    return _of_park(turn.parked) if turn.parked else _cut_off("its last turn was cut off")


def _of_park(parked: TurnParked | RunParked) -> Standing:
    state = State.BLOCKED if parked.reason == BLOCKED else State.PARKED
    stopped = _standing(state, stop_in_words(parked.reason, parked.detail))
    return replace(stopped, until_ms=parked.reset_at_ms)


def _next(said: Standing, workstream: str, going_on: str) -> dict[str, str]:
    """Return cure and command; what is held back for an action begins with settling that."""
    if said.reason != stop_in_words(HELD_BACK).said:
        return {"command": going_on}
    return {"cure": f"{said.cure}: {going_on}", "command": effects_command(workstream)}


def _standing(state: State, stop: Stop) -> Standing:
    return Standing(state=state, reason=stop.said, detail=stop.detail, cure=stop.cure)


def _cut_off(reason: str) -> Standing:
    return Standing(state=State.INTERRUPTED, reason=reason)


def _of_failure(outcome: Outcome, detail: str, source: Source = OURS) -> Standing:
    state = State.INTERRUPTED if outcome in _CUT_OFF else State.FAILED
    return _standing(state, stop_in_words(outcome, detail, source=source))


def _of_end(facts: RoleFacts, ended: TurnEnded) -> Standing:
    if ended.outcome is not Outcome.OK:
        return _of_failure(ended.outcome, ended.detail, facts.source)
    missing = shortfall(ended.outcome, ended.detail)
    if missing is not None:
        return _standing(State.FAILED, missing)
    if ended.report is None:
        return _done("its last turn ended well")
    return _of_report(facts, msgspec.convert(ended.report, ready(Report)))


def _of_report(facts: RoleFacts, report: Report) -> Standing:
    if report.status == "blocked":
        return _standing(State.BLOCKED, stop_in_words(BLOCKED, report.summary))
    if report.status == "needs_input":
        return _of_questions(facts, report)
    if facts.verdict is not None:
        return _of_verdict(facts.verdict)
    if report.verdict is not None:
        said = f"it {report.verdict.result} what it looked at, outside of a run"
        return _done(said, report.verdict.evidence)
    return _done("its last turn ended well")


def _of_questions(facts: RoleFacts, report: Report) -> Standing:
    """A run asks a role's questions and keeps the answers; a prompt of a person's own does not."""
    if facts.run is not None and facts.run.ended is not None:
        return _done("it asked in a run that is over")
    if facts.run is None:
        texts = [question.text for question in report.questions]
    else:
        texts = [each.text for each in _open_of(facts.run, facts.role)]
    return _asked(texts) if texts else _done("what it asked was answered")


def _open_of(run: RunView, role: str) -> list[Question]:
    return [question for question in run.open_questions if question.role == role]


def _asked(texts: list[str]) -> Standing:
    number = "a question" if len(texts) == 1 else f"{len(texts)} questions"
    return Standing(state=State.WAITING, reason=f"it has asked {number}", detail="; ".join(texts))


def _of_verdict(verdict: VerdictView) -> Standing:
    if verdict.outcome == "approved":
        return _of_approval(verdict)
    return _done("it rejected what it judged", verdict.evidence)


def _of_approval(verdict: VerdictView | None) -> Standing:
    """What was judged is not known any more once it was forgotten."""
    detail = "; ".join(verdict.evidence) if verdict else ""
    state, said = State.OUTDATED, "what was judged has changed since"
    if verdict is not None and verdict.is_current:
        state, said = State.APPROVED, "that still holds"
    return Standing(state=state, reason=f"approved, and {said}", detail=detail)


def _done(reason: str, evidence: tuple[str, ...] = ()) -> Standing:
    return Standing(state=State.DONE, reason=reason, detail="; ".join(evidence))


def _command_of_role(facts: RoleFacts, said: Standing) -> str:
    if said.state in _AT_IT_OR_WELL:
        return ""
    if facts.run is not None and (said.state is State.OUTDATED or facts.run.ended is None):
        return _command_of_run(facts.workstream, facts.run, said, facts.role)
    is_open = facts.turn is not None and facts.turn.ended is None
    return go_on_command(facts.address) if is_open else tell_command(facts.address)


# --- a run -------------------------------------------------------------------------------------


def of_run(facts: RunFacts) -> Standing | None:
    """Return how a run stands, None for one that was forgotten."""
    run = facts.run
    if run.ended is not None and run.ended.status == "forgotten":
        return None
    said = _of_run(facts)
    is_over = said.state in _AT_IT_OR_WELL
    going_on = "" if is_over else _command_of_run(facts.workstream, run, said, said.role)
    told = _next(said, facts.workstream, going_on)
    return replace(said, since_ms=facts.moved_at_ms, **told)


def _of_run(facts: RunFacts) -> Standing:
    run = facts.run
    role = pipelines.next_role(run)
    if facts.is_held:
        return Standing(state=State.RUNNING, reason="a run is under way", role=role)
    return _of_open_run(run, role) if run.ended is None else _of_run_end(facts)


def _of_open_run(run: RunView, role: str) -> Standing:
    """Nobody holds it: it waits for somebody, or its process has gone."""
    if run.parked is not None:
        return replace(_of_park(run.parked), role=run.parked.role)
    if run.open_questions:
        texts = [question.text for question in run.open_questions]
        return replace(_asked(texts), role=run.open_questions[0].role)
    if run.started is not None:
        return replace(_cut_off("the run was cut off in a step"), role=run.started.role)
    if run.last is not None and run.last.outcome is not Outcome.OK:
        failed = _of_failure(run.last.outcome, run.last.report_error)
        return replace(failed, role=run.last.role)
    reason = f"the run goes on with {role}" if role else "the run goes on from here"
    return Standing(state=State.HALFWAY, reason=reason, role=role)


def _of_run_end(facts: RunFacts) -> Standing:
    run = facts.run
    assert run.ended is not None
    role = run.last.role if run.last else ""
    evidence = run.ended.evidence
    if run.ended.status == "rejected":
        said, detail = "rejected, and no role is there to mend it", "; ".join(evidence)
        return Standing(state=State.PARKED, reason=said, detail=detail, role=role)
    if run.ended.status == "approved":
        return replace(_of_approval(facts.verdict), role=role)
    return replace(_done("the run has ended", evidence), role=role)


def _command_of_run(workstream: str, run: RunView, said: Standing, role: str) -> str:
    if said.state is State.WAITING:
        asked = _open_of(run, role)
        return answer_command(workstream, asked[0].question_id)
    return run_command(workstream, is_limited=said.until_ms is not None)


# --- a workstream ------------------------------------------------------------------------------


def of_workstream(
    run: Standing | None, roles: Iterable[Standing], *, steps: frozenset[str] = frozenset()
) -> Standing:
    """Return how a workstream stands: the most urgent of its run and of what came after it.

    `steps` are roles whose last turn was a step of the run and is over: the run says it for them.
    """
    roles = tuple(roles)
    moved_at_ms = -1 if run is None or run.since_ms is None else run.since_ms
    after = (e for e in roles if e.role not in steps and (e.since_ms or 0) > moved_at_ms)
    later = (*(each for each in roles if each.state is State.RUNNING), *after)
    standings = [*later, *((_with_agent(run, roles),) if run else ())]
    # The newest of those that are as urgent; where nothing tells them apart, what the run says.
    return min(
        reversed(standings),
        key=lambda each: (_URGENCY[each.state], -(each.since_ms or 0)),
        default=NOTHING_ASKED,
    )


def _with_agent(run: Standing, roles: tuple[Standing, ...]) -> Standing:
    agents = {each.role: each.agent for each in reversed(roles)}
    return replace(run, agent=agents.get(run.role, ""))


def with_doubts(standing: Standing, actions: Sequence[str], *, workstream: str) -> Standing:
    """Return how something stands of which these actions are in doubt, as its own command says.

    What would be at rest is unsettled; what has stopped short stays what it is, and whoever goes on
    with it looks first.
    """
    is_stopped = standing.state in _STOPPED
    if not actions or not (is_stopped or standing.state in _AT_REST):
        return standing
    settle = effects_command(workstream)
    after = ": ".join(filter(None, (standing.cure or "go on", standing.command)))
    cure = standing.cure if standing.command == settle else f"{LOOK}; then {after}"
    told = [standing.detail] if is_stopped and standing.detail else []
    return replace(
        standing,
        state=standing.state if is_stopped else State.UNSETTLED,
        reason=f"{standing.reason}; {doubts_in_words(len(actions))}",
        detail="; ".join((*told, *actions)),
        cure=cure if is_stopped else LOOK,
        command=settle,
    )


def doubts_in_words(count: int) -> str:
    """`an action beyond this machine may have been done, or not`."""
    number = "an action" if count == 1 else f"{count} actions"
    return f"{number} beyond this machine may have been done, or not"


def status_of(standing: Standing, run: RunView | None) -> str:
    """Return the coarser word that programs knew before there were more.

    It is kept for them; whether an approval still holds, and what is in doubt, the state says.
    """
    match standing.state:
        case State.WAITING:
            return "waiting_for_human"
        case State.PARKED | State.BLOCKED:
            return "rejected" if run is not None and _is_rejected(run) else "parked"
        case State.APPROVED | State.OUTDATED:
            return "approved"
        case State.RUNNING:
            return "running"
        case State.UNSETTLED if run is not None and run.status == "approved":
            return "approved"
        case _:
            return "idle"


def _is_rejected(run: RunView) -> bool:
    if run.ended is not None:
        return run.ended.status == "rejected"
    return run.parked is not None and run.parked.reason == pipelines.REJECTED_TOO_OFTEN


# --- how a session is opened ----------------------------------------------------------------------

# With the agent's own interface, or something says why not. A sub-agent's session may be one that
# its agent opens only inside of the main session that it was started in: then that one is opened,
# and the sub-agent is reached from there.


class OwnInterface(Struct, frozen=True, kw_only=True):
    """How a session is opened.

    `command` opens the session itself, in `working_directory`; without one `why_not` says why.
    `main_command` opens the main session that a sub-agent's is reached from, and `there` says how.
    """

    command: tuple[str, ...] | None = None
    working_directory: str = ""
    why_not: str = ""
    main_command: tuple[str, ...] | None = None
    there: str = ""


NO_SESSION = OwnInterface(why_not="no session of it is open")


class MainSession(Struct, frozen=True, kw_only=True):
    """The session that a sub-agent's lies in, the command that opens it, and how it is reached."""

    upstream_session_id: str
    command: tuple[str, ...] | None
    there: str = ""


def of_link(
    link: Link,
    *,
    command: tuple[str, ...] | None,
    is_configured: bool = True,
    main: MainSession | None = None,
) -> OwnInterface:
    """Return how a link's session is opened; `main` is set where only its main session opens it."""
    agent = visible_line(link.agent)
    # Before anything of the agent's is asked: its commands are those of a program nobody names.
    if not is_configured:
        return OwnInterface(why_not=f"the configuration no longer names the agent {agent}")
    if main is not None:
        return OwnInterface(
            working_directory=link.working_directory,
            why_not=f"it is a sub-agent's session, which {agent} opens only inside the main "
            f"session that it was started in, {visible_line(main.upstream_session_id)}",
            main_command=main.command,
            there=main.there,
        )
    if command is None:
        return OwnInterface(why_not=f"{agent} has no interface of its own")
    return OwnInterface(command=command, working_directory=link.working_directory)
