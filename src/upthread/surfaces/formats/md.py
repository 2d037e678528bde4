"""The record as Markdown, to be read from top to bottom.

Headings, tables and sentences are ours. Whatever an agent, a person or a file said stands in a
fence longer than any inside it, or in a code span: it cannot forge a heading or close its place.
"""

import json
from collections.abc import Iterator, Sequence
from typing import assert_never

from upthread.core import events, types
from upthread.core.agents import answerer_in_words
from upthread.core.codec import object_at, text_at
from upthread.core.commands import RecordAct
from upthread.core.decision.handshake import in_words, is_known, reasons_in_words
from upthread.core.runs.stops import stop_in_words
from upthread.core.states import Standing
from upthread.core.text import visible_line, visible_text
from upthread.core.turns.recorder import ALARM, ALARMS
from upthread.runtime.record.timeline import Branch, RunNode, Timeline, TurnNode
from upthread.surfaces.cli.shapes import run_status
from upthread.surfaces.cli.terminal.output import plain
from upthread.surfaces.cli.terminal.phrases import code, counted, fenced, moment, one_line, spaced
from upthread.surfaces.formats import Asked
from upthread.surfaces.formats.json import noted


def pieces(timeline: Timeline, asked: Asked) -> Iterator[str]:
    """Yield the document piece by piece, each made when it is asked for: a turn, a message."""
    for piece in in_pieces(timeline):
        yield visible_text(asked.redactor.redact(piece))


def in_pieces(timeline: Timeline) -> Iterator[str]:
    """Yield the document as it is recorded."""
    for lines in _parts(timeline):
        yield "".join(f"{line}\n" for line in lines)


def _parts(timeline: Timeline) -> Iterator[Iterator[str]]:
    yield _head_lines(timeline)
    yield from map(_run_lines, timeline.runs)
    for branch in timeline.conversations:
        yield _conversation_lines(branch)
        yield from map(_turn_lines, branch.turns)
        yield from map(_message_lines, branch.child_messages)


def _head_lines(record: Timeline) -> Iterator[str]:
    view = record.workstream
    conversations = record.conversations
    turns = sum(len(each.turns) for each in conversations)
    yield f"# Audit of {code(view.workstream.workstream)}"
    yield ""
    yield f"- state: {_standing(view.standing)}"
    yield f"- base name: {code(view.workstream.base_name)}"
    counts = (counted(len(conversations), "conversation"), counted(turns, "turn"))
    yield f"- recorded: {', '.join((*counts, counted(len(record.runs), 'run')))}"
    yield f"- integrity: {_integrity(record)}"
    alarms = sum(len(noted(turn.messages, ALARM)) for c in conversations for turn in c.turns)
    if alarms:
        yield f"- sub-agents: {counted(alarms, 'alarm')} of the depth counter; the record stands"


def _integrity(record: Timeline) -> str:
    messages = sum(each.messages for each in record.conversations)
    if not record.faults:
        return f"every message verifies against its hash chain ({counted(messages, 'message')})"
    places = ", ".join(
        f"{code(conversation.conversation_id)} from message {seq}"
        for conversation, seq in record.faults
    )
    return f"**BROKEN**: {places} does not match what was recorded"


# --- a conversation ----------------------------------------------------------------------------


def _conversation_lines(audited: Branch) -> Iterator[str]:
    conversation = audited.conversation
    yield ""
    name = f"({code(conversation.instance_name)})"
    if conversation.key.slot != types.CHILD_SLOT:
        yield f"## {code(conversation.address)} {name}"
    else:
        yield f"## Child {code(conversation.key.role)} {name}"  # it has no address: none finds it
    yield ""
    generation = f", generation {conversation.generation}" if conversation.generation > 1 else ""
    opened = moment(conversation.opened_at_ms)
    yield f"Conversation {code(conversation.conversation_id)}{generation}, opened {opened}."
    if conversation.parent_conversation_id:
        call = (
            f", its call {code(conversation.parent_call_id)}" if conversation.parent_call_id else ""
        )
        yield f"A child of {code(conversation.parent_conversation_id)}{call}."
    if audited.standing:
        yield f"It is {_standing(audited.standing)}."
    yield from _chain_lines(audited)
    for refusal in audited.refusals:
        reasons = reasons_in_words(refusal.reasons)
        yield ""
        yield f"Refused at {moment(refusal.decided_at_ms)}: {reasons}."
    yield from _act_lines(audited.acts)


def _chain_lines(audited: Branch) -> Iterator[str]:
    yield ""
    if not audited.chain:
        yield "No upstream session."
        return
    yield "| # | upstream session | agent | opened | because | ended | because |"
    yield "|--:|---|---|---|---|---|---|"
    for link in audited.chain:
        ended = moment(link.ended_at_ms) if link.ended_at_ms is not None else "—"
        cells = (
            str(link.seq),
            _cell(link.upstream_session_id),
            _cell(f"{link.agent} {link.agent_version}".strip()),
            moment(link.opened_at_ms),
            _because(link.opened_because),
            ended,
            _because(link.ended_because) if link.ended_because else "—",
        )
        yield f"| {' | '.join(cells)} |"


def _because(reason: str) -> str:
    """Our words for a reason; one that has none may be anybody's, and stands in a code span."""
    return in_words(reason) if is_known(reason) else _cell(in_words(reason))


def _cell(text: str) -> str:
    # A bar ends a cell even within a code span.
    return code(text).replace("|", "\\|")


# --- a turn ------------------------------------------------------------------------------------


def _turn_lines(turn: TurnNode) -> Iterator[str]:
    view = turn.view
    ended, parked = view.ended, view.parked
    became = stop_in_words(ended.outcome).said if ended else "parked" if parked else "not ended"
    found = turn.decision
    done = found.done if found else "undecided"
    yield ""
    yield f"### Turn {turn.number}: {one_line(done)}, {became}"
    yield ""
    yield f"- turn {code(turn.turn_id)}, {moment(turn.opened_at_ms)}"
    if turn.run_id:
        yield f"- of run {code(turn.run_id)}"
    if found:
        session = view.attached.upstream_session_id if view.attached else None
        where = f" {code(session)}" if session else ""
        yield f"- decision: {done}{where}: {found.because}"
    if ended:
        adopted = ", the reply was taken over from the agent's own history" if ended.adopted else ""
        yield f"- outcome: {stopped(ended.outcome, ended.detail)}{adopted}"
    elif parked:
        yield f"- parked: {stopped(parked.reason, parked.detail)}"
    for message in turn.messages:
        yield from _message_lines(message)
    for quarantined in turn.quarantined:
        yield ""
        yield f"Quarantined, {code(quarantined.reason)}:"
        yield ""
        yield _json(quarantined.raw)


def _message_lines(message: types.Message) -> Iterator[str]:
    session = f", {code(message.upstream_session_id)}" if message.upstream_session_id else ""
    for part in message.parts:
        yield ""
        yield f"**{message.speaker}** {message.seq}{session} — {_title(part)}"
        body = _body(part)
        if body:
            yield ""
            yield body


def _title(part: types.Part) -> str:
    match part:
        case types.TextPart():
            title = "text"
        case types.ContextPart():
            title = "context sent by upthread"
        case types.ReasoningPart():
            title = "reasoning"
        case types.ToolCallPart():
            where = "".join(f", {code(location)}" for location in part.locations)
            what = f"{code(part.title)} ({code(spaced(part.tool_kind))}){where}"
            title = f"tool call {code(part.call_id)}: {what}"
        case types.ToolResultPart():
            child = part.child_conversation_id
            of_child = f", child {code(child)}" if child else ""
            title = f"tool result {code(part.call_id)}: {code(spaced(part.status))}{of_child}"
        case types.FilePart():
            title = f"file {code(part.uri)}"
        case types.UnknownPart(kind=kind, raw=raw):
            title = _NOTES[kind](raw) if kind in _NOTES else code(spaced(kind))
        case types.ErasedPart():
            title = f"{code(spaced(part.kind))}, erased"
        case _:
            assert_never(part)
    return title


def _body(part: types.Part) -> str:
    match part:
        case (
            types.TextPart(text=text)
            | types.ContextPart(text=text)
            | types.ReasoningPart(text=text)
        ):
            return fenced(text)
        case types.ToolResultPart(text=text):
            return fenced(text) if text else ""
        case types.ToolCallPart(arguments=arguments):
            return _json(arguments) if arguments else ""
        case types.UnknownPart(kind=kind, raw=raw):
            return "" if kind in _NOTES else _json(raw)
        case types.FilePart() | types.ErasedPart():
            return ""


def _permission(raw: types.JsonValue) -> str:
    title, answer, answered_by = (text_at(raw, n) for n in ("title", "answer", "answered_by"))
    given = f"{code(spaced(answer))}, answered by {code(answered_by)}"
    return f"permission for {code(title)}: {given}"


def _alarm(raw: types.JsonValue) -> str:
    session, alarm = code(text_at(raw, "upstream_session_id")), text_at(raw, "alarm")
    said = ALARMS.get(alarm) or code(alarm)
    return f"alarm: {said}, at depth {code(str(object_at(raw).get('depth', '')))}: {session}"


_NOTES = {
    types.PERMISSION: _permission,
    ALARM: _alarm,
}
"""Notes that are a line of words."""


def _json(value: types.JsonValue) -> str:
    return fenced(json.dumps(plain(value), indent=2, ensure_ascii=False), "json")


# --- a run ---------------------------------------------------------------------------------------


def _run_lines(audited: RunNode) -> Iterator[str]:
    """Yield the section of one run."""
    run = audited.run
    yield ""
    status = audited.standing.state if audited.standing else spaced(run_status(audited.view))
    yield f"## Run {audited.number}: {status}"
    yield ""
    if audited.standing:
        yield f"It is {_standing(audited.standing)}."
        yield ""
    yield f"Run {code(run.run_id)}, started {moment(run.opened_at_ms)}, on this specification:"
    yield ""
    yield fenced(audited.view.specification, "markdown")
    yield ""
    for number, event in enumerate(audited.events, start=1):
        yield f"{number}. {_event_line(event)}"
    yield from _act_lines(audited.acts)


def _standing(standing: Standing) -> str:
    """Return a state, why, and since when; what a stranger said of it is in a code span."""
    said = f"{standing.state}: {standing.reason}"
    if standing.until_ms is not None:
        said += f" until {moment(standing.until_ms)}"
    if standing.detail:
        said += f", {code(standing.detail)}"
    return said + (f"; since {moment(standing.since_ms)}" if standing.since_ms is not None else "")


def stopped(reason: str, detail: str) -> str:
    """Return why something stopped, and in a code span what a stranger said of it."""
    stop = stop_in_words(reason, detail)
    return visible_line(stop.said) + (f": {code(stop.detail)}" if stop.detail else "")


def _act_lines(acts: Sequence[RecordAct]) -> Iterator[str]:
    """Yield who did what, one line an act; nothing where nobody did anything."""
    if acts:
        yield ""
    for act in acts:
        about = f" {code(act.detail)}" if act.detail else ""
        yield f"- {moment(act.recorded_at_ms)}: {code(act.by_user)} {spaced(act.what)}{about}"


def _event_line(event: events.RunEvent) -> str:
    match event:
        case events.RunStarted(iteration=iteration):
            line = f"the run began, iteration {iteration}"
        case events.StepStarted(role=role, turn_id=turn_id, asked_again=asked_again):
            again = ", asked again for its report" if asked_again else ""
            line = f"{code(role)} was asked{again} (turn {code(turn_id)})"
        case events.StepEnded():
            line = _step_ended(event)
        case events.QuestionsAsked(role=role, questions=questions):
            asked = "; ".join(f"{code(q.question_id)}: {code(q.text)}" for q in questions)
            line = f"{code(role)} asked a human: {asked}"
        case events.QuestionAnswered(question_id=question_id, text=text, answered_by=by):
            line = f"{answerer_in_words(by)} answered {code(question_id)}: {code(text)}"
        case events.AnswerSuggested(question_id=question_id, text=text, by=by):
            line = f"{by.in_words} suggested an answer to {code(question_id)}: {code(text)}"
        case events.RunParked(reason=reason, detail=detail):
            line = f"the run was parked, {stopped(reason, detail)}"
        case events.RunResumed(because=because):
            line = f"it goes on: {code(because)}"
        case events.RunEnded(status=status):
            line = f"the run ended: {code(spaced(status))}"
        case _:
            assert_never(event)
    return line


def _step_ended(event: events.StepEnded) -> str:
    said = f"{code(event.role)} ended, {stopped(event.outcome, event.report_error)}"
    if event.report:
        said += f", report {code(spaced(text_at(event.report, 'status')))}"
    if verdict := text_at(event.report, "verdict", "result"):
        said += f", verdict {code(verdict)}"
    return said
