"""Write the parts of the docs that follow from tables: `python -m tools.generate_docs [PAGE…]`.

`--check` writes nothing, and fails when one is stale. With pages, paths below the repository's root
such as `docs/decisions.md`, only these are looked at.

A generated part stands between `<!-- generated: NAME -->` and `<!-- end -->`. What is around it is
written by hand and left alone.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path

import msgspec
from tests.support.continuity import CASES, SUB_AGENT, Measured, Measurement, read_measured
from tests.support.secret_corpus import CHANNELS, recall_by_family, recall_of_plain_forms
from tools.counting import GENERATED_PART
from tools.shapes.measured import Row, table_of

from upthread.agents.acp.wire import QUIRKS, Quirk
from upthread.core.agents import AGENTS, WITH_A_STORE, Agent, Cache
from upthread.core.decision.model import DECISIONS
from upthread.core.decision.rollover import POISON_DETECTORS, ROLLOVER, PoisonRow, Recovery
from upthread.core.decision.rules import RULES
from upthread.core.decision.words import ANY_CACHE
from upthread.core.events import (
    Question,
    QuestionAnswered,
    QuestionsAsked,
    RunEnded,
    RunEvent,
    RunParked,
    RunResumed,
    RunStarted,
    StepEnded,
    StepStarted,
)
from upthread.core.history.repair import RULES as REPAIRS
from upthread.core.roles.reports import Report, ReportedQuestion, Verdict
from upthread.core.runs import pipeline as pipelines
from upthread.core.runs.pipeline import ContinueStep, Pipeline, PipelineCommand, RunStep, Step, Wait
from upthread.core.states import MEANINGS
from upthread.core.trust import TABLE as TRUST
from upthread.core.turns import turn as turns
from upthread.core.types import Outcome

DOCS = Path(__file__).resolve().parent.parent / "docs"


# --- the handshake -----------------------------------------------------------------------------


def states_table() -> str:
    """Return the states with the one meaning of each, the most urgent first."""
    return table(("state", "meaning"), [(f"`{each}`", says) for each, says in MEANINGS.items()])


def decisions_table() -> str:
    """Return the decisions with the session each uses, the context it gives, and its reasons."""
    rows = [
        (f"`{name}`", session, context, _reasons_for(name))
        for name, (session, context) in DECISIONS.items()
    ]
    return table(("decision", "upstream session", "context given", "reasons"), rows)


def _reasons_for(decision: str) -> str:
    reasons = [f"`{rule.reason}`" for rule in RULES if rule.decision == decision]
    return ", ".join(reasons) or "none leads to it yet"


def caches_table() -> str:
    """Return how long providers keep a session's prefix, with the sources."""
    rows = [
        *((f"`{row.name}`", *_cache_cells(row.cache)) for row in AGENTS.values() if row.cache),
        ("any other", *_cache_cells(ANY_CACHE)),
    ]
    return table(("agent", "warm until", "cold after", "source"), rows)


def _cache_cells(row: Cache) -> tuple[str, str, str]:
    return (f"{row.warm_s} s" if row.warm_s else "nobody can tell", f"{row.cold_s} s", row.source)


def rules_table() -> str:
    """Return the handshake's rules in order of priority."""
    rows = [
        (str(number), f"`{rule.reason}`", rule.says, f"`{rule.decision}`", rule.hint)
        for number, rule in enumerate(RULES, start=1)
    ]
    return table(("", "reason", "in words", "decision", "cure"), rows)


def trust_table() -> str:
    """Return what of a repository's configuration has to be agreed to, by key."""
    rows = [(f"`{'.'.join(row.field).replace('*', 'NAME')}`", row.asks or "never") for row in TRUST]
    return table(("in a repository's `upthread.toml`", "asks"), rows)


# --- a turn ------------------------------------------------------------------------------------


def rollover_table() -> str:
    """Every way a prompt can end, and what is done about it."""
    rows = [
        (
            f"`{outcome}`",
            row.says,
            _RECOVERIES[row.recovery],
            "stays" if row.keeps_session else "ends with this cause",
            _RECOVERIES[row.afterwards] if row.recovery in _SENDING else " ",
        )
        for outcome, row in ROLLOVER.items()
    ]
    return table(("outcome", "in words", "what is done", "the session", "the second time"), rows)


_RECOVERIES: Mapping[Recovery, str] = {
    Recovery.NONE: "the turn ends with it",
    Recovery.ROLL_OVER: "sent again to a new session, with what was said",
    Recovery.RELAY: "sent again to a new session, with what was said",
    Recovery.WAIT: "parked until the limit has passed",
    Recovery.RETRY_ONCE: "read back, then gone on with once",
    Recovery.PARK: "parked for a person",
}
_SENDING = {Recovery.ROLL_OVER, Recovery.RELAY, Recovery.RETRY_ONCE}


def poison_table() -> str:
    """The detectors of poisoned sessions, with their thresholds."""
    return table(
        ("detector", "fires when all of this holds", "by default"),
        [
            (f"`{row.name}`", _thresholds(row), "on" if row.is_on else "off")
            for row in POISON_DETECTORS
        ],
    )


def _thresholds(row: PoisonRow) -> str:
    told = (
        ("the turn before was cut off", row.needs_interruption),
        (f"the model read at most {row.tokens_in_max} tokens", row.tokens_in_max is not None),
        (f"it took less than {row.duration_s_max} s", row.duration_s_max is not None),
        (
            f"the prompt has at least {row.prompt_characters_min} characters",
            row.prompt_characters_min > 1,
        ),
        ("the model wrote something", row.needs_output),
        ("the reply is empty", row.needs_empty_reply),
    )
    return "; ".join(words for words, holds in told if holds)


def turn_diagram() -> str:
    """Return the turn's transitions as a mermaid state diagram."""
    lines = ["```mermaid", "stateDiagram-v2", f"    [*] --> {turns.TurnState.NEW.value}"]
    for state, row in turns.TRANSITIONS.items():
        lines += [
            f"    {state.value} --> {following.value}: {event.__name__}"
            for event, following in row.items()
        ]
        if not row:
            lines.append(f"    {state.value} --> [*]")
    return "\n".join([*lines, "```"])


def turn_commands() -> str:
    """Return what is done next in each state of a turn."""
    rows = [
        (state.value, "nothing" if command.value == "nothing" else f"`{command.value}`")
        for state, command in turns.NEXT_COMMAND.items()
    ]
    return table(("state", "next"), rows)


# --- a run -------------------------------------------------------------------------------------

PIPELINE = Pipeline(
    steps=(
        Step(role="planner", task="Plan."),
        Step(role="auditor", task="Audit.", on_rejected="planner", rejections_max=1),
    )
)
DONE = Report(status="done")
ASKING = Report(status="needs_input", questions=(ReportedQuestion(id="q1", text="Which?"),))
BLOCKED = Report(status="blocked")
APPROVED = Report(status="done", verdict=Verdict(result="approved"))
REJECTED = Report(status="done", verdict=Verdict(result="rejected"))

_BEGUN = StepStarted(role="planner", turn_id="trn")
_RESUMED = RunResumed()


def _ended(role: str, report: Report | None, outcome: Outcome = Outcome.OK) -> StepEnded:
    data = msgspec.to_builtins(report) if report else None
    return StepEnded(role=role, turn_id="trn", outcome=outcome, report=data)


def _step(role: str, report: Report | None, *, again: bool = False) -> tuple[RunEvent, ...]:
    return (StepStarted(role=role, turn_id="trn", asked_again=again), _ended(role, report))


def situations() -> Iterator[tuple[str, tuple[RunEvent, ...]]]:
    """Yield situations of a run in words, with events that lead to them."""
    started: tuple[RunEvent, ...] = (
        RunStarted(specification="", pipeline=pipelines.as_data(PIPELINE)),
    )
    planned = (*started, *_step("planner", DONE))
    asking = (*started, *_step("planner", ASKING))
    asked = (*asking, QuestionsAsked(role="planner", questions=_questions(asking)))
    answered = (*asked, QuestionAnswered(question_id="q1", text="That."))
    rejected = (*planned, *_step("auditor", REJECTED))
    failed = (*started, _BEGUN, _ended("planner", None, Outcome.RATE_LIMITED))
    yield "nothing was done yet", started
    yield "a step was begun and its end is not known", (*started, _BEGUN)
    yield "a step handed its report back", planned
    yield "a role asks something new", asking
    yield "a question is open", asked
    yield "every question is answered", answered
    yield "a role asks only what was answered", (*answered, *_step("planner", ASKING))
    yield (
        "… and once more",
        (*answered, *_step("planner", ASKING), *_step("planner", ASKING)),
    )
    yield (
        "a step ended without a report, or a judge without a verdict",
        (
            *started,
            *_step("planner", None),
        ),
    )
    yield (
        "… and without one again",
        (
            *started,
            *_step("planner", None),
            *_step("planner", None, again=True),
        ),
    )
    yield "a role is blocked", (*started, *_step("planner", BLOCKED))
    yield "a step failed, for instance on a rate limit", failed
    yield (
        "… and a person set the run going again",
        (
            *failed,
            RunParked(reason="rate_limited"),
            _RESUMED,
        ),
    )
    yield (
        "a turn parked the run, and a person set it going again",
        (
            *started,
            _BEGUN,
            RunParked(reason="undecidable"),
            _RESUMED,
        ),
    )
    yield "the run is parked", (*failed, RunParked(reason="rate_limited"))
    yield "a judge rejects", rejected
    yield (
        "a judge rejects more often than allowed",
        (
            *rejected,
            *_step("planner", DONE),
            *_step("auditor", REJECTED),
        ),
    )
    approved = (*planned, *_step("auditor", APPROVED))
    yield "the last step approves", approved
    yield (
        f"{pipelines.STEPS_MAX} steps were taken, and another would follow",
        (
            *started,
            *(_step("planner", None)[:1] * pipelines.STEPS_MAX),
            _ended("planner", DONE),
        ),
    )
    ended = (*approved, RunEnded(status="approved"))
    yield "the run has ended", ended
    yield (
        "… and what was approved has changed since",
        (*ended, RunResumed(because="the working tree has changed", role="auditor")),
    )


def _questions(events: Sequence[RunEvent]) -> tuple[Question, ...]:
    command = pipelines.next_command(pipelines.fold(events))
    assert isinstance(command, QuestionsAsked)
    return command.questions


def run_commands() -> str:
    """Return what a run does next in each situation, as the pipeline itself says."""
    rows = [
        (situation, in_words(pipelines.next_command(pipelines.fold(events))))
        for situation, events in situations()
    ]
    return table(("when", "next"), rows)


def in_words(command: PipelineCommand) -> str:
    """Return a command as a person would say it."""
    words: str
    match command:
        case RunStep(asked_again=True):
            words = f"ask the {command.step.role} for its report, once"
        case RunStep():
            words = f"run the {command.step.role}"
        case ContinueStep():
            words = f"go on with the {command.role}'s turn"
        case QuestionsAsked():
            words = "ask a person"
        case RunParked():
            words = f"park: `{command.reason}`"
        case RunEnded():
            words = f"finish: `{command.status}`"
        case Wait():
            words = f"wait: `{command.status}`"
    return words


# --- histories ---------------------------------------------------------------------------------


def repair_table() -> str:
    """Return the rules of repair in the order they are applied."""
    rows = [(f"`{name}`", _summary(rule)) for name, rule in REPAIRS.items()]
    return table(("rule", "what it does"), rows)


def _summary(function: object) -> str:
    return (function.__doc__ or "").strip().partition("\n")[0]


# --- what agents' sessions go through ------------------------------------------------------------

MEASURED = DOCS / "agents" / "measured"


def continuity_matrix() -> str:
    """Return how each case ended in each agent, and whether the session went on whole."""
    measured = read_measured(MEASURED)
    head = ("", *(f"`{each.name}` {each.version}" for each in measured))
    rows = [
        (case.what, *(_in_short(each.cases.get(case.name)) for each in measured)) for case in CASES
    ]
    return table(head, rows)


def _in_short(seen: Measurement | None) -> str:
    if seen is None:
        return "not measured"
    if seen.after is None:
        return f"`{seen.outcome}`"
    return f"`{seen.outcome}`, then `{seen.after}`"


def continuity_of(measured: Measured) -> str:
    """Return all that was measured of one way of driving an agent."""
    rows = [
        (case.what, *_in_full(measured.cases[case.name]))
        for case in CASES
        if case.name in measured.cases
    ]
    head = ("case", "outcome", "the next prompt", "earlier prompts the model is shown", "also seen")
    driven = f"{measured.driven_by}, version **{measured.version}**."
    return f"{driven}\n\n{table(head, rows)}"


def _in_full(seen: Measurement) -> tuple[str, ...]:
    after = f"`{seen.after}`" if seen.after else ""
    return f"`{seen.outcome}`", after, _SHOWN[seen.history], seen.note.replace("|", "\\|")


_SHOWN: Mapping[str | None, str] = {
    "whole": "all",
    "part": "some",
    "none": "none",
    None: "",
}


KILLS = DOCS / "agents" / "kills"


def kills_table() -> str:
    """Return how each kill in the middle of an outward action ended, by who had it and when."""
    counted = [msgspec.json.decode(each.read_bytes()) for each in sorted(KILLS.glob("*.json"))]
    moments = list(counted[0]["moments"])
    rows = [
        (each["way"], *(_kills_at(each["moments"][moment]) for moment in moments))
        for each in counted
    ]
    return table(("", *moments), rows)


def _kills_at(ended: Mapping[str, int]) -> str:
    told = ", ".join(f"{count} {how}" for how, count in ended.items())
    return told or "none tried"


def sub_agents_table() -> str:
    """Return what each agent shows of its sub-agents, by the way it is driven."""
    rows = [
        (f"`{each.name}`", each.driven_by, each.version, *_shown_of_sub_agents(each))
        for each in read_measured(MEASURED)
        if SUB_AGENT in each.cases
    ]
    head = ("", "driven by", "version", "the sub-agent is", "shown of it", "its end")
    return table(head, rows)


def _shown_of_sub_agents(measured: Measured) -> Sequence[str]:
    known, *more = measured.cases[SUB_AGENT].note.split("; ")
    return known, *(more or ("", ""))


# --- writing -----------------------------------------------------------------------------------


def tested_ways() -> str:
    """Every way of driving an agent, the version it was tested in, what it can do."""
    rows = [
        (
            f"`{row.name}`",
            {"native": "its own interface", "acp": "ACP"}[way.kind],
            way.version,
            ", ".join(word.replace("_", "-") for word in way.can),
        )
        for row in AGENTS.values()
        for way in row.ways
    ]
    return table(("agent", "driven by", "version", "can"), rows)


def quirk_table() -> str:
    """What is particular to each agent that speaks ACP."""
    rows = [
        (f"`{quirk.name}`", quirk.versions_seen, _settings_of(quirk), _errors_of(quirk))
        for quirk in QUIRKS
    ]
    return table(("agent", "seen in", "set for it", "its errors"), rows)


def _settings_of(quirk: Quirk) -> str:
    settings = [f"`{name}={value}`" for name, value in quirk.environment.items()]
    settings += ["announced: " + ", ".join(f"`{each}`" for each in quirk.client_meta)] * bool(
        quirk.client_meta
    )
    settings += ["its sub-agents' sessions are loaded"] * quirk.has_silent_children
    settings += ["a load waits for the next minute"] * bool(quirk.file_of_minute)
    return "; ".join(settings)


def _errors_of(quirk: Quirk) -> str:
    """`missing` that is not certain is confirmed by listing the sessions."""
    return "; ".join(
        f"`{each.words.replace('|', '` or `')}`: `{each.outcome}`"
        + ("" if each.is_certain else ", confirmed by listing")
        for each in quirk.errors
    )


def agents_table() -> str:
    """Return what each agent can and cannot, in the words of the page that comes first."""
    rows = list(AGENTS.values())
    head = ("", *(f"`{row.name}` {row.ways[0].version}" for row in rows), "any other, by ACP")
    asked: tuple[tuple[str, Callable[[Agent], str], str], ...] = (
        ("its sessions on the disk are listed, searched, kept", lambda row: _yes(row.home), "no"),
        ("`tell` and `run`: a role goes on in its session", _gone_on, "where it loads sessions"),
        ("what its sub-agents do is seen", lambda row: _yes(_sees_sub_agents(row)), "no"),
        ("`open`: a role in the agent's own interface", _opened, "no"),
    )
    return table(head, [(what, *(of(row) for row in rows), other) for what, of, other in asked])


def _yes(holds: object) -> str:
    return "yes" if holds else "no"


def _gone_on(row: Agent) -> str:
    return _yes({"resume", "load"} & set(row.ways[0].can))


def _sees_sub_agents(row: Agent) -> bool:
    return "sub_agents" in row.ways[0].can


def _opened(row: Agent) -> str:
    if not row.resumed_by:
        return "no"
    return "yes" if row.opens_sub_agents else "yes; a sub-agent by way of its main session"


# --- decisions of consequence --------------------------------------------------------------------

_ADR = re.compile(r"# (?P<number>\d+)\. (?P<title>.+)\n\n\*Accepted, \w+ \d{4}\.(?P<beside>.*)\*\n")
"""How each begins: its number and title, when it was accepted, and how it stands to others."""


def adr_index() -> str:
    """Return every decision with its title, in order; ValueError for one that begins otherwise."""
    rows = []
    for path in sorted((DOCS / "adr").glob("[0-9]*.md")):
        found = _ADR.match(path.read_text(encoding="utf-8"))
        if found is None or int(found["number"]) != int(path.name[:4]):
            raise ValueError(
                f"{path.name} does not begin as `# NUMBER. TITLE`, `*Accepted, DATE.*`"
            )
        beside = found["beside"].strip()
        rows.append((found["number"], f"[{found['title']}]({path.name})", beside))
    return table(("", "decision", "beside others"), rows)


# --- redaction ---------------------------------------------------------------------------------


def recall_table() -> str:
    """Return of how many secrets of each family nothing is kept, over all channels."""
    found = recall_by_family()
    rows = [
        (each.family, str(each.forms), f"{each.texts:,}", f"{each.share:.1%}") for each in found
    ]
    head = ("family", "forms", f"texts, over {len(CHANNELS)} channels", "nothing of it kept")
    plain = f"{recall_of_plain_forms(found):.1%}"
    return f"{table(head, rows)}\n\nOf all but the last family: **{plain}**."


PRICES = DOCS / "agents" / "prices.json"


def prices_table() -> str:
    """Return how near prices and spending were to what model servers were sent, for each agent."""
    measured = json.loads(PRICES.read_text())
    rows = [
        (
            f"`{agent}` {found['version']}",
            f"{found['delegations']}",
            f"{found['requests']}",
            f"{found['tokens']:,}",
            *(f"{found[figure]:.1%}" for figure in ("resume", "briefing", "spent")),
        )
        for agent, found in measured.items()
    ]
    head = ("agent", "delegations", "requests", "tokens")
    return table((*head, "to resume, off", "to brief, off", "spent, off"), rows)


CONTINUES = DOCS / "agents" / "continues.json"
WHERE = {
    "tell_again": "`tell`, in a new process",
    "same_main": "called again in its main session, which was resumed",
    "killed": "the same, after the agent was killed in the first call",
    "other_main": "called in another main session, in a named workstream",
    "handover": "the same, with `handover = true`",
    "unnamed": "called in another main session, without a named workstream",
    "after_tell": "called in an agent, after `tell`",
    "tell_after_call": "`tell`, after a call in an agent",
}
"""Where a role works a second time."""

FRESH = {
    "briefing": "from a briefing",
    "replay": "is sent what was said",
    "nothing": "from nothing",
}
"""How a role begins whose session does not continue."""


def continues_table() -> str:
    """Return in which agents a role continues: always, when the model follows, or not."""
    seen = json.loads(CONTINUES.read_text())
    rows = []
    for case, words in WHERE.items():
        by_way = {way: _joined(seen, case, way) for way in ("always", "followed", *FRESH)}
        not_told = [f"{by_way[way]}: {FRESH[way]}" for way in FRESH if by_way[way]]
        rows.append((words, by_way["always"], by_way["followed"], "; ".join(not_told)))
    head = ("a role", "always", "when the model follows the instruction", "not")
    return table(head, rows)


def _joined(seen: Mapping[str, Mapping[str, str]], case: str, way: str) -> str:
    # `followed/briefing` also says how a model begins that does not follow.
    ways = {agent: each.get(case, "").partition("/")[0] for agent, each in seen.items()}
    return ", ".join(f"`{agent}`" for agent in seen if ways[agent] == way)


# --- shapes of stored sessions -----------------------------------------------------------------


def shapes_table(agent: str) -> str:
    """Return what an agent does with each shape of a session, and what upthread reports of it."""
    head = ("shape", "the agent", "listed", "`doctor`", "kept", "the repaired copy")
    return table(head, [_shape_row(row) for _, row in sorted(table_of(agent).items())])


def _shape_row(row: Row) -> tuple[str, ...]:
    resumed = f"{row.outcome}: {row.shown}" if row.shown else f"{row.outcome}: {row.says}"
    cells = (row.what, resumed, row.listed, row.doctor, row.kept, row.repaired)
    return tuple(cell.strip(": ").replace("|", "\\|") for cell in cells)


PARTS: Mapping[str, Callable[[], str]] = {
    "adrs": adr_index,
    "agents": agents_table,
    "continues": continues_table,
    "decisions": decisions_table,
    "states": states_table,
    "rules": rules_table,
    "trust": trust_table,
    "caches": caches_table,
    "rollover": rollover_table,
    "poison": poison_table,
    "turn-diagram": turn_diagram,
    "turn-commands": turn_commands,
    "run-commands": run_commands,
    "repair-rules": repair_table,
    "continuity": continuity_matrix,
    "tested-ways": tested_ways,
    "acp-quirks": quirk_table,
    "sub-agents": sub_agents_table,
    "kills": kills_table,
    "recall": recall_table,
    "prices": prices_table,
    **{f"shapes-{agent}": partial(shapes_table, agent) for agent in WITH_A_STORE},
    **{f"continuity-{each.name}": partial(continuity_of, each) for each in read_measured(MEASURED)},
}


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a Markdown table."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(cell or " " for cell in line) + " |" for line in lines)


def generated(text: str) -> str:
    """Return a document with its generated parts as they should be; KeyError: unknown part."""
    return GENERATED_PART.sub(
        lambda found: f"{found['begin']}{PARTS[found['name']]()}\n{found['end']}", text
    )


def main(arguments: list[str]) -> int:
    """Return 1 with `--check` when a document is stale; without it, write what is."""
    is_check = "--check" in arguments
    pages = {DOCS.parent / each for each in arguments if not each.startswith("--")}
    known = (*DOCS.parent.glob("README.md"), *sorted(DOCS.rglob("*.md")))
    if unknown := pages - {*known}:
        print("no such page:", *sorted(map(str, unknown)))
        return 2
    stale = 0
    for path in known:
        if pages and path not in pages:
            continue
        text = path.read_text(encoding="utf-8")
        wanted = generated(text)
        if wanted == text:
            continue
        stale += 1
        if is_check:
            print(f"{path.relative_to(DOCS.parent)} is stale: make docs")
        else:
            path.write_text(wanted, encoding="utf-8")
            print(f"wrote {path.relative_to(DOCS.parent)}")
    return 1 if is_check and stale else 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
