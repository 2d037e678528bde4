"""`upthread why`: the last decision on a role, and the decision that would be made now."""

from upthread.client.project import Project
from upthread.client.why import Why
from upthread.core.decision.freshness import change_lines
from upthread.core.decision.handshake import reasons_in_words
from upthread.core.decision.model import freshness_in, lacking_in, limit_in, price_in
from upthread.core.decision.words import (
    NO_SESSION_TOOK_IT,
    done_in_words,
    intention_in_words,
    lacking_in_words,
    ordinal,
    price_in_words,
)
from upthread.core.types import Decision
from upthread.runtime.record.workstream_views import RoleView
from upthread.surfaces.cli import options, shapes
from upthread.surfaces.cli.call import Call
from upthread.surfaces.cli.terminal.output import Output
from upthread.surfaces.cli.terminal.phrases import (
    conversation_name,
    one_line,
    standing_in_words,
    stopped_in_words,
)
from upthread.surfaces.cli.terminal.state_lines import write_cut_off, write_doubts


@options.verb
@options.address
@options.agent
def main(call: Call, *, address: str, agent: str | None) -> None:
    """Show the last decision, and what would be decided now."""

    async def use(project: Project) -> tuple[Why, RoleView]:
        return await project.why(address, agent=agent), await project.role(address)

    found, view = call.with_project(use)
    output = call.output
    session = one_line(view.link.upstream_session_id if view.link else "")
    output.json({"instance_name": view.conversation.instance_name, **shapes.why(found)})
    output.row((conversation_name(view.conversation), "bold"), f": {found.standing.state}")
    output.line(f"  state {standing_in_words(found.standing)}", "dim")
    if found.standing.command:
        output.command("        go on with ", found.standing.command)
    if found.last is not None:
        last, said = (
            done_in_words(found.last.decision, session),
            reasons_in_words(found.last.reasons),
        )
        number = f" · {ordinal(view.turns)} turn" if view.turns else ""
        if view.last_turn and view.last_turn.was_refused:  # whatever had been decided
            last, said = NO_SESSION_TOOK_IT, one_line(view.last_turn.stopped_by[1])
        output.line(f"  last  {last}{number}: {said}")
        _write_grounds(output, found.last)
    write_cut_off(output, view, indent="        ")
    write_doubts(output, view.conversation.key.workstream, view.in_doubt)
    if found.reading is not None:
        output.line(f"  read  {found.reading.in_words}")
    now = intention_in_words(found.now.decision, session)
    output.line(f"  next  it would {now}: {reasons_in_words(found.now.reasons)}")
    _write_grounds(output, found.now)
    if found.now.hint:
        output.line(f"        {found.now.hint}", "dim")
    # Shown only where the reason differs, which is rare.
    if found.inside and found.inside.reasons[0] != found.now.reasons[0]:
        would = intention_in_words(found.inside.decision, session)
        output.line(f"  in    {found.inside_agent}, called by its own tool, it would {would}:")
        output.line(f"        {reasons_in_words(found.inside.reasons)}", "dim")


def _write_grounds(output: Output, decision: Decision) -> None:
    """Write the grounds of a decision: the changed files, and the cost of each way."""
    grounds = [one_line(line) for line in change_lines(freshness_in(decision.inputs))]
    limit = limit_in(decision.inputs)
    if limit is not None:
        grounds.append(stopped_in_words(limit.reason, detail="", until_ms=limit.until_ms)[0])
    grounds.append(one_line(lacking_in_words(*lacking_in(decision.inputs))))
    grounds.append(price_in_words(price_in(decision.inputs)))
    for line in filter(None, grounds):
        output.line(f"        {line}", "dim")
