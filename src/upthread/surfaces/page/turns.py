"""A role as HTML: its chain, its turns, what was said and done in them, and its sub-agents."""

import hashlib
from collections.abc import Callable, Iterator
from typing import NamedTuple, assert_never

from upthread.core import types
from upthread.core.codec import object_at, text_at
from upthread.core.commands import RecordAct
from upthread.core.decision.handshake import in_words
from upthread.core.decision.words import UNDECIDED, price_in_words
from upthread.core.states import Standing
from upthread.core.turns.effects import EffectState
from upthread.core.turns.recorder import ALARM, ALARMS
from upthread.runtime.record.timeline import Branch, Item, Said, ToolCall, TurnNode, decided
from upthread.surfaces.cli.terminal.phrases import counted, moment, spaced
from upthread.surfaces.page.edits import Edit, diff_of, edits_in
from upthread.surfaces.page.markup import Html, Markup

PREVIEW_CHARACTERS_MAX = 120
_ANCHOR_DIGITS = 12

PILLS = {
    "first": "first",
    "resume": "resumed",
    "resume_with_update": "resumed",
    "resume_with_replay": "rolled",
    "start_fresh_with_briefing": "fresh",
    "refuse": "refused",
    "forked": "first",
}
"""What a decision looks like; the words say it as well."""

SPEAKERS = {
    types.Speaker.USER: "Prompt",
    types.Speaker.ASSISTANT: "Agent",
    types.Speaker.TOOL: "Tool",
}
_SIGNS = {"added": "+", "removed": "-", "same": " ", "place": " "}
_STATUSES = {"open": "no result on record", "unknown": "outcome unknown"}


class Newest(NamedTuple):
    """How many of a conversation's last turns are shown, and what leads to those before one."""

    turns: int
    earlier: Callable[[Branch, int], Markup]


def anchor(identity: str) -> str:
    """Return the name of a place in the page, of an id that may be anybody's."""
    return "p" + hashlib.sha256(identity.encode("utf-8", "replace")).hexdigest()[:_ANCHOR_DIGITS]


def branch_pieces(html: Html, branch: Branch, *, newest: Newest | None = None) -> Iterator[Markup]:
    """Yield a conversation: its chain, its turns, and what was not let in.

    With `newest` only its last turns, and before them what leads to the earlier ones.
    """
    conversation = branch.conversation
    place = anchor(conversation.conversation_id)
    if branch.is_child:
        yield html('<details class="child" id="{}"{:open}>', place, branch.depth == 0)
        yield html(
            '<summary><span class="label">Sub-agent {}</span> '
            '<span class="quiet">{}</span></summary>',
            branch.name,
            conversation.instance_name,
        )
    else:
        yield html('<section class="role" aria-labelledby="{}-name" id="{}">', place, place)
        more = [f"generation {conversation.generation}"] if conversation.generation > 1 else []
        more += ["closed"] if branch.standing is None else []
        yield html(
            '<h2 id="{}-name">{} <span class="quiet">{}</span>{}</h2>',
            place,
            branch.name,
            conversation.instance_name,
            [html('<span class="quiet"> {}</span>', each) for each in more],
        )
    yield from _facts(html, branch)
    first = max(1, len(branch.turns) + 1 - newest.turns) if newest else 1
    if newest is not None and first > 1:
        yield newest.earlier(branch, first)
    calls: list[str] = []
    for turn in branch.turns[first - 1 :]:
        calls += (call.call_id for call in turn.calls)
        yield from turn_pieces(html, turn, branch)
    for item in branch.items():
        if not isinstance(item, Said):
            calls.append(item.call_id)
        yield from _item_pieces(html, item, branch)
    for child in branch.other_children(calls):
        # One that a turn called which is not shown here is shown there.
        if first == 1 or child.call_id is None:
            yield from branch_pieces(html, child)
    yield html("</details>" if branch.is_child else "</section>")


def _facts(html: Html, branch: Branch) -> Iterator[Markup]:
    conversation = branch.conversation
    if branch.standing is not None:
        yield standing(html, branch.standing)
    if branch.first_unverified_seq is not None:
        seq = branch.first_unverified_seq
        yield html('<p class="note bad">From message {} on it is not what was recorded.</p>', seq)
    if verdict := branch.verdict:
        evidence = [html("<li>{:text}</li>", each) for each in verdict.evidence]
        yield html(
            '<div class="verdict {}"><p>Verdict: <strong>{}</strong></p>{}</div>',
            "good" if verdict.is_current and verdict.outcome == "approved" else "doubt",
            verdict.in_words,
            html("<ul>{}</ul>", evidence) if evidence else None,
        )
    yield html(
        '<p class="quiet"><code>{}</code> · opened {}</p>',
        conversation.conversation_id,
        moment(conversation.opened_at_ms),
    )
    if branch.chain:
        links = [_link(html, link) for link in branch.chain]
        yield html('<ol class="chain" aria-label="Sessions">{}</ol>', links)
    for refusal in branch.refusals:
        found = decided(refusal)
        yield html(
            '<p class="note"><span class="pill refused">{}</span> {}: {}</p>',
            found.done,
            moment(refusal.decided_at_ms),
            found.because,
        )
    if branch.acts:
        yield html(
            '<details class="acts"><summary>Who did what: {}</summary><ul>{}</ul></details>',
            counted(len(branch.acts), "act"),
            [html("<li>{}</li>", act_piece(html, act)) for act in branch.acts],
        )


def act_piece(html: Html, act: RecordAct) -> Markup:
    """Return what a person did, and when."""
    what = f"{spaced(act.what)} {act.detail}".strip()
    return html("{}: <strong>{}</strong> {}", moment(act.recorded_at_ms), act.by_user, what)


def standing(html: Html, stands: Standing) -> Markup:
    """Return a paragraph: a state, why, and since when."""
    return html(
        '<p><span class="state {}">{}</span> {}{}<span class="quiet">{}{}</span></p>',
        stands.state,
        stands.state,
        stands.reason,
        f": {stands.detail}" if stands.detail else "",
        f", until {moment(stands.until_ms)}" if stands.until_ms is not None else "",
        f", since {moment(stands.since_ms)}" if stands.since_ms is not None else "",
    )


def _link(html: Html, link: types.Link) -> Markup:
    end = html("<strong>open</strong>")
    if link.ended_because:
        ended = f"ended {moment(link.ended_at_ms)}" if link.ended_at_ms is not None else "ended"
        end = html("{}: {}", ended, in_words(link.ended_because))
    return html(
        '<li class="{}"><code>{}</code> <span class="quiet">{}</span><br>opened {}: {}<br>{}</li>',
        "ended" if link.ended_because else "open",
        link.upstream_session_id,
        f"{link.agent} {link.agent_version}".strip(),
        moment(link.opened_at_ms),
        in_words(link.opened_because),
        end,
    )


# --- a turn ------------------------------------------------------------------------------------


def turn_pieces(html: Html, turn: TurnNode, branch: Branch) -> Iterator[Markup]:
    """Yield a turn: what was decided, said and done in it."""
    is_open = turn.outcome != "ok"
    yield html('<details class="turn" id="{}"{:open}>', anchor(turn.turn_id), is_open)
    yield _summary(html, turn)
    for found in turn.decisions:
        price = price_in_words(found.price)
        followed = "; ".join(_followed(turn)) if found is turn.decision else ""
        changes = [html("<li>{}</li>", each) for each in found.changes]
        yield html(
            '<div class="decided"><p><strong>{}</strong>: {}</p>{}{}{}</div>',
            found.done,
            found.because,
            html('<ul class="changes">{}</ul>', changes) if changes else None,
            html("<p>Expected: {}</p>", price) if price else None,
            html("<p>What followed: {}</p>", followed) if followed else None,
        )
    for item in turn.items:
        yield from _item_pieces(html, item, branch)
    for each in turn.quarantined:
        yield html(
            '<p class="note">Kept apart, since nobody knows whose it is: <strong>{}</strong></p>',
            each.reason,
        )
        yield html('<pre class="json">{:json}</pre>', each.raw)
    yield html("</details>")


def _summary(html: Html, turn: TurnNode) -> Markup:
    found = turn.decision
    preview = " ".join(turn.prompt[: 4 * PREVIEW_CHARACTERS_MAX].split())
    shown = preview[:PREVIEW_CHARACTERS_MAX] + (
        "…" if len(preview) > PREVIEW_CHARACTERS_MAX else ""
    )
    erased = any(isinstance(i, Said) and isinstance(i.part, types.ErasedPart) for i in turn.items)
    mood = {"ok": "good", "open": "doubt", "parked": "doubt"}.get(turn.outcome, "bad")
    more = [spent_in_words(turn)] if turn.spent is not None else []
    more += [counted(len(turn.calls), "call")] if turn.calls else []
    return html(
        '<summary><h3><span class="number">Turn {}</span> <span class="pill {}">{}</span> {}</h3>'
        '<span class="meta quiet"><time datetime="{}">{}</time> · <span class="status {}">{}</span>'
        "{}</span></summary>",
        turn.number,
        PILLS.get(found.decision, "first") if found else "refused",
        found.done if found else UNDECIDED,
        html('<span class="preview">{}</span>', shown)
        if shown or not erased
        else _gone(html, "erased"),
        moment(turn.opened_at_ms),
        moment(turn.opened_at_ms),
        mood,
        turn.stop.said if turn.stop else "it has no end",
        [html(" · {}", each) for each in more],
    )


def spent_in_words(turn: TurnNode) -> str:
    """`41k tokens`; marked as an estimate where the agent did not count."""
    if turn.spent is None or (turn.spent.is_estimate and not turn.spent.count):
        return "tokens not told"
    return f"{turn.spent.in_words} tokens"


def _followed(turn: TurnNode) -> Iterator[str]:
    """Yield what became of a decision, as it is on record."""
    attached, ended = turn.view.attached, turn.view.ended
    if attached is not None:
        yield f"{spaced(attached.how)} session {attached.upstream_session_id}"
    if turn.spent is not None:
        yield spent_in_words(turn)
    if ended is not None:
        if ended.tokens_used is not None:
            yield f"the session then held {ended.tokens_used} tokens"
        if ended.was_compacted:
            yield "the agent replaced what it held by a summary"
        if ended.adopted:
            yield "the reply was taken over from the agent's own history"
        if ended.calls_open:
            yield f"{counted(ended.calls_open, 'call')} had no end"
    stop = turn.stop
    if stop is not None and turn.outcome != "ok":
        yield stop.said + (f": {stop.detail}" if stop.detail else "")


# --- what was said -----------------------------------------------------------------------------


def _item_pieces(html: Html, item: Item, branch: Branch) -> Iterator[Markup]:
    """Yield what was said, or what was called with the sub-agents that it started."""
    if isinstance(item, Said):
        yield _said(html, item)
        return
    yield call_piece(html, item)
    for child in branch.children_of(item):
        yield from branch_pieces(html, child)


def _said(html: Html, said: Said) -> Markup:
    match said.part:
        case types.TextPart(text=text):
            told = html(
                '<div class="said {}"><h4>{} <span class="quiet">message {}</span></h4>'
                '<div class="text" dir="auto">{:text}</div></div>',
                said.speaker,
                SPEAKERS[said.speaker],
                said.seq,
                text,
            )
        case types.ContextPart(text=text):
            told = _words(html, "told", "What upthread told it first", text)
        case types.ReasoningPart(text=text):
            told = _words(html, "reasoning", "Reasoning", text)
        case types.FilePart(uri=uri, mime_type=kind):
            told = html('<p class="note">File <code>{}</code> {}</p>', uri, kind)
        case types.UnknownPart(kind=kind, raw=raw):
            told = _note(html, kind, raw)
        case types.ErasedPart(kind=kind):
            told = html('<p class="note">{}</p>', _gone(html, f"{spaced(kind)}: erased"))
        # A call is an item of its own.
        case types.ToolCallPart() | types.ToolResultPart():
            told = Markup()
        case _:
            assert_never(said.part)
    return told


def _words(html: Html, kind: str, what: str, text: str) -> Markup:
    return html(
        '<details class="{}"><summary><span class="label">{}</span>'
        '<span class="quiet"> {}</span></summary><pre dir="auto">{:text}</pre></details>',
        kind,
        what,
        counted(len(text), "character"),
        text,
    )


def _note(html: Html, kind: str, raw: types.JsonValue) -> Markup:
    if kind == ALARM:
        alarm = text_at(raw, "alarm")
        said = ALARMS.get(alarm) or alarm
        return html('<p class="note bad">Alarm of the depth counter: {}</p>', said)
    if kind == types.PERMISSION and object_at(raw):
        title, answer, by = (text_at(raw, n) for n in ("title", "answer", "answered_by"))
        given = _answered(html, answer, by)
        return html('<p class="note">Permission for <code>{}</code>: {}</p>', title, given)
    if kind == "compacted":
        said = "The agent replaced what its session held by a summary."
        return html('<p class="note">{}</p>', said)
    return _data(html, "note", spaced(kind), raw)


def _answered(html: Html, answer: str, by: str) -> Markup:
    return html("<strong>{}</strong>, answered by <code>{}</code>", spaced(answer), by)


def _data(html: Html, kind: str, label: str, raw: types.JsonValue) -> Markup:
    return html(
        '<details class="{}"><summary><span class="label">{}</span></summary>'
        '<pre class="json">{:json}</pre></details>',
        kind,
        label,
        raw,
    )


def _gone(html: Html, said: str) -> Markup:
    return html('<mark class="gone">{}</mark>', said)


# --- calls -------------------------------------------------------------------------------------


def call_piece(html: Html, call: ToolCall) -> Markup:
    """Return a call: what it was, how it ended, and within it all that is known of it."""
    is_erased = isinstance(call.asked, types.ErasedPart)
    return html(
        '<details class="call"><summary><span class="kind">{}</span> <span class="title">{}</span>'
        ' <span class="status {}">{}</span>{}</summary>{}</details>',
        spaced(call.tool_kind),
        call.title or (_gone(html, "erased") if is_erased else "?"),
        {"completed": "good", "failed": "bad"}.get(call.status, "doubt"),
        _STATUSES.get(call.status, spaced(call.status)),
        _effect(html, call),
        _call_body(html, call),
    )


def _effect(html: Html, call: ToolCall) -> Markup | None:
    effect = call.effect
    if effect is None or not effect.actions:
        return None
    known = effect.state in {EffectState.DONE, EffectState.FAILED}
    said = f"beyond this machine: {effect.state if known else 'may have been done, or not'}"
    if effect.settled is not None:
        said += f"; a person said: {effect.settled}"
    mood = " doubt" if effect.is_in_doubt else ""
    return html(' <span class="{}">{}</span>', f"status{mood}", said)


def _call_body(html: Html, call: ToolCall) -> Iterator[Markup]:
    yield html('<p class="quiet"><code>{}</code> · {}</p>', call.call_id, moment(call.at_ms))
    if call.answer:
        yield html("<p>Permission: {}</p>", _answered(html, call.answer, call.answered_by))
    asked = call.asked
    if isinstance(asked, types.ToolCallPart):
        edits = edits_in(asked.arguments)
        for edit in edits:
            yield _diff(html, edit)
        elsewhere = {edit.path for edit in edits}
        for place in asked.locations:
            if place not in elsewhere:
                yield html('<p class="quiet"><code>{}</code></p>', place)
        if asked.arguments is not None:
            yield _data(html, "raw", "Raw", asked.arguments)
    if isinstance(call.result, types.ErasedPart):
        yield html('<p class="note">{}</p>', _gone(html, "result: erased"))
    elif call.result is not None and call.result.text:
        yield html('<h5>Result</h5><pre dir="auto">{:text}</pre>', call.result.text)


def _diff(html: Html, edit: Edit) -> Markup:
    # Taken out before it is cut into lines: a key has many.
    clean = Edit(edit.path, *(html.redacted(text) for text in edit[1:]))
    lines = [
        html(
            '<span{:class}><span class="sign" aria-hidden="true">{:text}</span>{}{:text}\n</span>',
            None if line.kind == "same" else line.kind,
            _SIGNS[line.kind],
            html('<span class="unseen">{}: </span>', line.kind)
            if line.kind in {"added", "removed"}
            else None,
            line.text,
        )
        for line in diff_of(clean)
    ]
    return html(
        '<figure class="diff"><figcaption><code>{}</code></figcaption>'
        '<pre class="diff">{}</pre></figure>',
        edit.path or "a file",
        lines,
    )
