"""Shapes: what `--json` says, key by key. docs/json.md has an example of each.

Others rely on these keys: one may be added, none renamed or taken away without a new `schema`.
"""

import shlex
from collections.abc import Mapping, Sequence

from msgspec.structs import asdict

from upthread.client.parts import Commands
from upthread.client.project import Project
from upthread.client.why import Why
from upthread.core import events
from upthread.core.decision.handshake import reasons_in_words
from upthread.core.decision.model import freshness_in, lacking_in, limit_in, price_in
from upthread.core.decision.words import Price, Tokens
from upthread.core.events import AgentEvent
from upthread.core.runs.pipeline import RunView, VerdictView
from upthread.core.runs.stops import shortfall
from upthread.core.states import Standing
from upthread.core.types import Conversation, Decision, Link, Outcome
from upthread.runtime.record.turn_views import RecordedEffect, Unseen
from upthread.runtime.record.workstream_views import RoleView, WorkstreamView
from upthread.runtime.turns.delegation import Notice, TurnResult, TurnStarted
from upthread.surfaces.cli.failures import EXIT_ERROR, EXIT_WAITING
from upthread.surfaces.cli.terminal.output import Shape, members, members_or_none

PART_KINDS: Mapping[type[AgentEvent], str] = {
    events.TextReceived: "text",
    events.ReasoningReceived: "reasoning",
    events.ToolCallAnnounced: "tool_call",
    events.ToolCallUpdated: "tool_call_update",
    events.ChildStarted: "child_started",
    events.ChildEnded: "child_ended",
    events.PlanChanged: "plan",
    events.UsageReported: "usage",
    events.ContextCompacted: "compacted",
    events.TitleChanged: "title",
    events.PermissionAnswered: "permission",
    events.UserTextReplayed: "user_text",
    events.UnknownReceived: "unknown",
}


_PARKED = "reason detail reset_at_ms"
_CUT_OFF = "detail prompt actions"


def turns_in(view: WorkstreamView) -> int:
    """Return how many turns its roles have taken."""
    return sum(role.turns for role in view.roles)


# --- a workstream ------------------------------------------------------------------------------


async def workstreams(project: Project, views: Sequence[WorkstreamView]) -> list[Shape]:
    """How workstreams stand, with the commands that open their roles' sessions."""
    commands = await project.resume_commands(role for view in views for role in view.roles)
    return [workstream(view, commands) for view in views]


def workstream(view: WorkstreamView, commands: Commands) -> Shape:
    """How a workstream stands."""
    return {
        "workstream": view.workstream.workstream,
        **members(view, "status state"),
        "standing": standing(view.standing),
        "base_name": view.workstream.base_name,
        "open_questions": _questions(view),
        "in_doubt": [effect(each) for each in view.in_doubt],
        "roles": [role(each, commands) for each in view.roles],
        "children": [
            {
                "role": child.key.role,
                **members(child, "conversation_id parent_conversation_id"),
            }
            for child in view.children
        ],
    }


def role(view: RoleView, commands: Commands) -> Shape:
    """How one conversation stands."""
    link = view.link
    command = commands.get(link) if link else None
    return {
        **members(view.conversation.key, "role slot address"),
        **members(view.conversation, "instance_name conversation_id"),
        **members(link, "agent upstream_session_id"),
        "resume_command": shlex.join(command) if command else None,
        "chain": chain(view.chain),
        "state": view.state,
        "standing": standing(view.standing),
        "holder": view.holder.in_words() if view.holder else None,
        "turns": view.turns,
        "last_turn": _last_turn(view),
        "verdict": _verdict(view.verdict),
        "in_doubt": [each.effect_id for each in view.in_doubt],
    }


def standing(stands: Standing) -> Shape:
    """Why something is in its state, since when and by whom, and what goes on with it."""
    return {
        **members(stands, "reason detail since_ms until_ms"),
        "role": stands.role or None,
        "agent": stands.agent or None,
        "cure": stands.cure or None,
        "command": stands.command or None,
    }


def chain(links: Sequence[Link]) -> list[Shape]:
    """The upstream sessions a conversation has held, oldest first."""
    return [
        members(link, "upstream_session_id agent opened_because ended_because") for link in links
    ]


def _questions(view: WorkstreamView | RunView) -> list[Shape]:
    """Questions only a human can answer, each with what a model would answer."""
    return [
        {
            "id": each.question_id,
            **members(each, "role text"),
            "suggested": {"text": by.text, "by": by.by.in_words}
            if (by := view.suggested.get(each.question_id))
            else None,
        }
        for each in view.open_questions
    ]


def _last_turn(view: RoleView) -> Shape | None:
    last = view.last_turn
    if last is None or last.intended is None:
        return None
    return {
        "turn_id": view.last_turn_id,
        **members(last.intended, "decision reasons"),
        **members(last.ended, "outcome"),
        "parked": members_or_none(last.parked if last.ended is None else None, _PARKED),
        "cut_off": members_or_none(view.cut_off, _CUT_OFF),
        "is_finished": view.ending.is_finished,
        "ending": view.ending.how,
    }


def _verdict(verdict: VerdictView | None) -> Shape | None:
    if verdict is None:
        return None
    return {
        **members(verdict, "outcome input_digest"),
        "tree_digest": verdict.tree_digest or None,
        **members(verdict, "is_current in_doubt evidence"),
    }


def effect(recorded: RecordedEffect) -> Shape:
    """Something that was done to the world, or may have been."""
    known = recorded.effect
    return {
        "effect_id": recorded.effect_id,
        **members(recorded.conversation, "address conversation_id"),
        **members(known, "seq call_id tool_kind title state"),
        "is_outward": bool(known.actions),
        "was_asked": known.was_asked,
        "actions": [each.in_words for each in known.actions],
        "looks": recorded.looks,
        "settled": known.settled,
    }


def unseen(what: Unseen) -> Shape:
    """What is not on record: turns inside agents, without a call; calls, with no more than that."""
    return members(what, "turns agents calls")


# --- a decision --------------------------------------------------------------------------------


def why(found: Why) -> Shape:
    """The last decision, and the one that would be taken now."""
    inside = {"agent": found.inside_agent, **_decision(found.inside)} if found.inside else None
    return {
        "address": found.address,
        "state": found.standing.state,
        "standing": standing(found.standing),
        "last": _decision(found.last) if found.last else None,
        "now": _decision(found.now),
        "inside": inside,
        "cut_off": members_or_none(found.cut_off, _CUT_OFF),
        "reading": found.reading,
    }


def _decision(decision: Decision) -> Shape:
    """A decision with what it rests on; the price is null where nothing is known of it.

    `stale_files` lists some of many; `stale_files_total` counts them all.
    """
    turns_lacking, not_compared, turns_gone = lacking_in(decision.inputs)
    found, price = freshness_in(decision.inputs), price_in(decision.inputs)
    limit = limit_in(decision.inputs)
    return {
        **members(decision, "decision reasons"),
        "words": reasons_in_words(decision.reasons),
        "stale_files": [changed.path for changed in found.changed],
        "stale_files_total": found.changed_count,
        **tokens(price),
        "cache": price.cache,
        "limit": members_or_none(limit, "reason until_ms"),
        "turns_lacking": turns_lacking,
        "not_compared": not_compared,
        "turns_gone": turns_gone,
    }


def tokens(price: Price) -> Shape:
    """What each way would cost, and the part of either that is the agent's own.

    `tokens_are_estimated`: the agent did not count what it holds, or what it reads by itself.
    """
    counted = (price.resume, price.fixed)
    return {
        **tokens_expected(price),
        "tokens_fixed": price.fixed.count if price.fixed else None,
        "tokens_are_estimated": any(each is None or each.is_estimate for each in counted),
    }


def tokens_expected(price: Price) -> Shape:
    """What each way would cost, null where the agent's own part is not known."""
    price = price.shown
    return {
        "tokens_to_resume": price.resume.count if price.resume else None,
        "tokens_to_brief": price.briefing.count if price.briefing else None,
    }


# --- the stream --------------------------------------------------------------------------------


def turn_started(started: TurnStarted) -> Shape:
    """A session is attached. `line` is what a person would read."""
    return {
        "type": "turn_started",
        **_where(started.conversation),
        **members(started, "turn_id turn_number decision reasons"),
        "recognition": started.recognition or None,
        **tokens(started.price),
        **members(started, "agent upstream_session_id line"),
    }


def notice(told: Notice) -> Shape:
    """Something to know that is no part of the work."""
    return {"type": "notice", **members(told, "kind text about")}


def part(event: AgentEvent) -> Shape:
    """Something the agent said or did; `upstream_session_id` tells a child's from its parent's."""
    told = asdict(event)
    for name in ("implied_kinds", "did_run"):  # for the judgement alone
        told.pop(name, None)
    if isinstance(event, events.UnknownReceived):
        told = {"unknown_kind": event.kind, "raw": event.raw}
    if isinstance(event, events.PlanChanged):
        told = {"entries": [{"text": text, "status": state} for text, state in event.entries]}
    kind = PART_KINDS.get(type(event), "unknown")
    return {"type": "part", "kind": kind, "upstream_session_id": event.upstream_session_id, **told}


def turn_ended(result: TurnResult) -> Shape:
    """A turn is over, or parked."""
    return {"type": "turn_ended", **_where(result.conversation), **_became(result)}


def told(result: TurnResult, total: Tokens, *, in_doubt: Sequence[RecordedEffect]) -> Shape:
    """The result of `tell`: the last line. `total` is what its conversation has taken.

    `in_doubt` are the actions of its workstream that may have been done or not.
    """
    return {
        "type": "result",
        "status": told_status(result),
        **_where(result.conversation),
        **_became(result),
        "in_doubt": [each.effect_id for each in in_doubt],
        **_total(total),
        "exit_code": told_exit_code(result, in_doubt),
    }


def told_exit_code(result: TurnResult, in_doubt: Sequence[RecordedEffect]) -> int:
    """Where an action of this conversation is in doubt somebody has to look, however well it went.

    Another role's is told, and is no fault of this turn's.
    """
    code = {"done": 0, "parked": EXIT_WAITING, "failed": EXIT_ERROR}[told_status(result)]
    mine = result.conversation.conversation_id
    whose = [each.conversation for each in in_doubt]
    is_own = any(mine in {each.conversation_id, each.parent_conversation_id} for each in whose)
    return EXIT_WAITING if is_own and not code else code


def told_status(result: TurnResult) -> str:
    """Return done, parked or failed: that it went well, as its agent says, is no answer yet."""
    if result.parked is not None:
        return "parked"
    # Agents end well without a word: taken for done, a script would go on with an empty reply.
    is_answered = shortfall(result.outcome, result.detail) is None
    return "done" if result.outcome is Outcome.OK and is_answered else "failed"


def ids(result: TurnResult) -> dict[str, str]:
    """The address and the ids of a turn, for an error about it; what is empty is left out."""
    named = {
        **members(result.conversation, "address conversation_id"),
        **members(result, "turn_id upstream_session_id"),
    }
    return {name: str(value) for name, value in named.items() if value}


def _where(conversation: Conversation) -> Shape:
    return {
        **members(conversation.key, "workstream role slot"),
        **members(conversation, "instance_name conversation_id"),
    }


def _became(result: TurnResult) -> Shape:
    return {
        **members(result, "turn_id turn_number decision reasons upstream_session_id"),
        "outcome": None if result.parked else result.outcome,
        **members(result, "detail reset_at_ms reply report"),
        "parked": members_or_none(result.parked, _PARKED),
        "tokens_spent": result.spent.count,
        "tokens_spent_are_estimated": result.spent.is_estimate,
    }


def _total(total: Tokens) -> Shape:
    return {"tokens_total": total.count, "tokens_total_are_estimated": total.is_estimate}


def waiting(workstream_name: str, view: RunView) -> Shape:
    """A run waits for a human."""
    return {"type": "waiting", "workstream": workstream_name, "questions": _questions(view)}


def ran(
    workstream_name: str,
    view: RunView,
    total: Tokens,
    *,
    next_commands: Sequence[str],
    stands: WorkstreamView,
) -> Shape:
    """The result of `run`: the last line. `stands` is how its workstream stands at the end."""
    in_doubt = [each.effect_id for each in stands.in_doubt]
    return {
        "type": "result",
        **run_state(workstream_name, view, next_commands=next_commands),
        "state": stands.state,
        "in_doubt": in_doubt,
        **_total(total),
        "exit_code": run_exit_code(run_status(view), is_in_doubt=bool(in_doubt)),
    }


def run_state(workstream_name: str, view: RunView, *, next_commands: Sequence[str]) -> Shape:
    """How a run stands. `next` are the commands that take it on."""
    return {
        "workstream": workstream_name,
        "status": run_status(view),
        "iteration": view.iteration,
        "open_questions": _questions(view),
        "parked": members_or_none(view.parked, "reason detail role reset_at_ms"),
        "evidence": view.ended.evidence if view.ended else [],
        "next": next_commands,
    }


def run_status(view: RunView) -> str:
    """Return running, waiting_for_human, parked, rejected, approved or done."""
    # A judge's no is an answer, and no failure: scripts tell it by a word of its own.
    if view.ended is None and view.parked and view.parked.reason == "rejected_too_often":
        return "rejected"
    return view.status


def run_exit_code(status: str, *, is_in_doubt: bool = False) -> int:
    """A run that was stopped by --steps has done what was asked of it.

    Whatever it ended with, where an action is in doubt somebody has to look.
    """
    is_waiting = status in {"waiting_for_human", "parked", "rejected"}
    return EXIT_WAITING if is_waiting or is_in_doubt else 0
