"""`show --tree`: the timeline in a terminal, a line for each session, turn and sub-agent."""

from collections.abc import Iterator

from upthread.core.decision.handshake import in_words
from upthread.core.decision.words import UNDECIDED
from upthread.core.types import ConversationId
from upthread.runtime.record.timeline import Branch, Item, Said, Timeline, TurnNode
from upthread.surfaces.cli import shapes
from upthread.surfaces.cli.terminal.output import Output, Shape, members
from upthread.surfaces.cli.terminal.phrases import counted, one_line, since

INDENT = "  "
PREVIEW_CHARACTERS_MAX = 60


def write_tree(output: Output, timeline: Timeline, only: ConversationId | None) -> None:
    """Write a workstream as a tree, or only one conversation of it."""
    branches = (
        each for each in timeline.branches if only in {None, each.conversation.conversation_id}
    )
    if output.is_json:
        told = [_branch_shape(branch) for branch in branches]
        state = timeline.workstream.state
        output.json({"workstream": timeline.name, "state": state, "conversations": told})
        return
    view = timeline.workstream
    name = f" ({view.workstream.base_name})" if view.workstream.base_name else ""
    output.row((timeline.name, "bold"), f"{name}: {view.state}")
    for branch in branches:
        _write_branch(output, branch, INDENT)


# --- for people --------------------------------------------------------------------------------


def _write_branch(output: Output, branch: Branch, indent: str) -> None:
    name = branch.name.rpartition("/")[2]
    if branch.is_child:
        said = counted(len(list(branch.items())), "part")
        output.row((f"{indent}sub-agent ", "dim"), (one_line(name), "bold"), (f" · {said}", "dim"))
    else:
        state = branch.standing.state if branch.standing else "closed"
        generation = branch.conversation.generation
        again = f", generation {generation}" if generation > 1 else ""
        output.row((f"{indent}{one_line(name)}", "bold"), f": {state}{again}")
        verdict = branch.verdict
        if verdict is not None:
            output.line(f"{indent}{INDENT}verdict: {verdict.in_words}")
    inner = indent + INDENT
    sessions = {link.upstream_session_id: link for link in branch.chain}
    shown: set[str] = set()
    for turn in branch.turns:
        attached = turn.view.attached
        link = sessions.get(attached.upstream_session_id) if attached else None
        # A session stands before the first turn that was told to it.
        if link is not None and link.upstream_session_id not in shown:
            shown.add(link.upstream_session_id)
            session, agent = one_line(link.upstream_session_id), one_line(link.agent)
            because = one_line(in_words(link.opened_because))
            output.line(f"{inner}{session} · {agent} · {because}", "cyan")
        _write_turn(output, turn, branch, inner)
    for child in _children_outside_turns(branch):
        _write_branch(output, child, inner)


def _write_turn(output: Output, turn: TurnNode, branch: Branch, indent: str) -> None:
    done = turn.decision.done if turn.decision else UNDECIDED
    became = turn.stop.said if turn.stop else "it has no end"
    facts = (
        since(turn.opened_at_ms),
        became if turn.outcome != "ok" else "",  # what went well needs no word
        f"{turn.spent.in_words} tokens" if turn.spent else "",
        counted(len(turn.calls), "call") if turn.calls else "",
    )
    prompt = one_line(turn.prompt, characters_max=PREVIEW_CHARACTERS_MAX)
    style = "" if turn.outcome == "ok" else "yellow"
    output.row(
        (f"{indent}{turn.number} ", "dim"),
        (one_line(done), "bold"),
        (f" · {one_line(' · '.join(filter(None, facts)))}", style),
        (f" · {prompt}" if prompt else "", "dim"),
    )
    for child in _children_in(turn.items, branch):
        _write_branch(output, child, indent + INDENT)


def _children_in(items: tuple[Item, ...], branch: Branch) -> Iterator[Branch]:
    for item in items:
        if not isinstance(item, Said):
            yield from branch.children_of(item)


def _children_outside_turns(branch: Branch) -> tuple[Branch, ...]:
    """Return the sub-agents of a sub-agent, and those whose call is not on record."""
    calls = [call.call_id for turn in branch.turns for call in turn.calls]
    return branch.other_children(calls)


# --- for programs ------------------------------------------------------------------------------


def _branch_shape(branch: Branch) -> Shape:
    conversation = branch.conversation
    return {
        "conversation_id": conversation.conversation_id,
        "address": None if branch.is_child else conversation.address,
        "role": conversation.key.role,
        **members(conversation, "instance_name generation"),
        **members(branch.standing, "state"),
        "call_id": branch.call_id,
        "chain": shapes.chain(branch.chain),
        "turns": [
            {
                **members(turn, "turn_id number run_id opened_at_ms"),
                **members(turn.decision, "decision"),
                "reasons": turn.decision.reasons if turn.decision else (),
                **members(turn.view.attached, "upstream_session_id"),
                "outcome": turn.outcome,
                "tokens_spent": turn.spent.count if turn.spent else None,
                "tokens_spent_are_estimated": bool(turn.spent and turn.spent.is_estimate),
                "calls": len(turn.calls),
                "children": [_branch_shape(child) for child in _children_in(turn.items, branch)],
            }
            for turn in branch.turns
        ],
        "children": [_branch_shape(child) for child in _children_outside_turns(branch)],
    }
