"""What was said and done in a turn, as HTML: texts, notes, calls with their diffs, sub-agents."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Final, assert_never

from upthread.core import types
from upthread.core.turns.effects import EffectState
from upthread.core.turns.sub_agents import ALARM, ALARMS
from upthread.runtime.record.timeline import Branch, Item, Said, ToolCall
from upthread.surfaces.cli.terminal.phrases import counted, spaced
from upthread.surfaces.cli.terminal.times import moment
from upthread.surfaces.page.edits import Edit, diff_of, edits_in
from upthread.surfaces.page.markup import Html, Markup

SPEAKERS: Final = {
    types.Speaker.USER: "Prompt",
    types.Speaker.ASSISTANT: "Agent",
    types.Speaker.TOOL: "Tool",
}
_SIGNS: Final = {"added": "+", "removed": "-", "same": " ", "place": " "}
_DIFF_CLASSES: Final = {"added": "added", "removed": "removed", "same": "", "place": "place"}
_STATUSES: Final = {"open": "no result on record", "unknown": "outcome unknown"}

OfChild = Callable[[Branch], Iterator[Markup]]
"""Writes a sub-agent where it stands."""


def item_pieces(html: Html, item: Item, branch: Branch, of_child: OfChild) -> Iterator[Markup]:
    """Yield what was said, or what was called with the sub-agents that it started."""
    if isinstance(item, Said):
        yield _said(html, item)
        return
    yield call_piece(html, item)
    for child in branch.children_of(item):
        yield from of_child(child)


# --- what was said -----------------------------------------------------------------------------


def _said(html: Html, said: Said) -> Markup:
    match said.part:
        case types.TextPart(text=text):
            told = _text(html, said, text)
        case types.ContextPart(text=text):
            told = _words(html, "told", "What upthread told it first", text)
        case types.ReasoningPart(text=text):
            told = _words(html, "reasoning", "Reasoning", text)
        case types.FilePart(uri=uri, mime_type=kind):
            where = html.element("code", html.line(uri))
            told = html.element("p", "File ", where, " ", html.line(kind), class_="note")
        case types.UnknownPart(kind=kind, raw=raw):
            told = _note(html, kind, raw)
        case types.ErasedPart(kind=kind):
            told = html.element("p", _gone(html, f"{spaced(kind)}: erased"), class_="note")
        # A call is an item of its own.
        case types.ToolCallPart() | types.ToolResultPart():
            told = Markup()
        case _:
            assert_never(said.part)
    return told


def _words(html: Html, kind: str, what: str, text: str) -> Markup:
    size = html.element("span", f" {counted(len(text), 'character')}", class_="quiet")
    label = html.element("span", what, class_="label")
    return _folded(html, kind, [label, size], [_pre(html, text)])


def _text(html: Html, said: Said, text: str) -> Markup:
    who = SPEAKERS[said.speaker]
    label = html.element("h4", who, " ", _number(html, said.seq))
    body = html.element("div", html.text(text), class_="text", dir="auto")
    return html.element("div", label, body, class_=f"said {said.speaker}")


def _number(html: Html, seq: int) -> Markup:
    return html.element("span", f"message {seq}", class_="quiet")


def _note(html: Html, kind: str, raw: types.JsonValue) -> Markup:
    told: Mapping[str, types.JsonValue] = raw if isinstance(raw, Mapping) else {}
    if kind == ALARM:
        alarm = str(told.get("alarm", ""))
        said = ALARMS.get(alarm) or alarm
        return html.element("p", "Alarm of the depth counter: ", html.line(said), class_="note bad")
    if kind == types.PERMISSION and told:
        title = html.element("code", html.line(str(told.get("title", ""))))
        answered = _answered(html, str(told.get("answer", "")), str(told.get("answered_by", "")))
        return html.element("p", "Permission for ", title, ": ", answered, class_="note")
    if kind == "compacted":
        said = "The agent replaced what its session held by a summary."
        return html.element("p", said, class_="note")
    label = html.element("span", html.line(spaced(kind)), class_="label")
    return _folded(html, "note", [label], [html.element("pre", html.json(raw), class_="json")])


def _answered(html: Html, answer: str, by: str) -> list[str | Markup]:
    given = html.element("strong", html.line(spaced(answer)))
    return [given, ", answered by ", html.element("code", html.line(by))]


# --- calls -------------------------------------------------------------------------------------


def call_piece(html: Html, call: ToolCall) -> Markup:
    """Return a call: what it was, how it ended, and within it all that is known of it."""
    erased = isinstance(call.asked, types.ErasedPart)
    title = html.line(call.title) if call.title else _gone(html, "erased") if erased else "?"
    summary = [
        html.element("span", html.line(spaced(call.tool_kind)), class_="kind"),
        " ",
        html.element("span", title or html.line(call.call_id), class_="title"),
        " ",
        _status(html, call),
        *_effect(html, call),
    ]
    return _folded(html, "call", summary, list(_call_body(html, call)))


def _status(html: Html, call: ToolCall) -> Markup:
    said = _STATUSES.get(call.status, spaced(call.status))
    mood = {"completed": "good", "failed": "bad"}.get(call.status, "doubt")
    return html.element("span", html.line(said), class_=f"status {mood}")


def _effect(html: Html, call: ToolCall) -> Iterator[str | Markup]:
    effect = call.effect
    if effect is None or not effect.actions:
        return
    known = effect.state in {EffectState.DONE, EffectState.FAILED}
    said = f"beyond this machine: {effect.state if known else 'may have been done, or not'}"
    if effect.settled is not None:
        said += f"; a person said: {effect.settled}"
    yield " "
    yield html.element("span", said, class_="status doubt" if effect.is_in_doubt else "status")


def _call_body(html: Html, call: ToolCall) -> Iterator[Markup]:
    when = moment(call.at_ms)
    yield html.element(
        "p", html.element("code", html.line(call.call_id)), f" · {when}", class_="quiet"
    )
    if call.answer:
        answered = _answered(html, call.answer, call.answered_by)
        yield html.element("p", "Permission: ", answered)
    asked = call.asked
    if isinstance(asked, types.ToolCallPart):
        edits = edits_in(asked.arguments)
        for edit in edits:
            yield _diff(html, edit)
        elsewhere = {edit.path for edit in edits}
        for place in asked.locations:
            if place not in elsewhere:
                yield html.element("p", html.element("code", html.line(place)), class_="quiet")
        if asked.arguments is not None:
            raw = html.element("span", "Raw", class_="label")
            data = html.element("pre", html.json(asked.arguments), class_="json")
            yield _folded(html, "raw", [raw], [data])
    if isinstance(call.result, types.ErasedPart):
        yield html.element("p", _gone(html, "result: erased"), class_="note")
    elif call.result is not None and call.result.text:
        yield html.element("h5", "Result")
        yield _pre(html, call.result.text)


def _diff(html: Html, edit: Edit) -> Markup:
    # Taken out before it is cut into lines: a key has many.
    clean = Edit(edit.path, *(html.redacted(text) for text in edit[1:]))
    lines = [
        html.element(
            "span",
            html.element("span", _SIGNS[line.kind], class_="sign", aria_hidden="true"),
            html.element("span", f"{line.kind}: ", class_="unseen")
            if line.kind in {"added", "removed"}
            else None,
            html.text(line.text),
            "\n",
            class_=_DIFF_CLASSES[line.kind] or None,
        )
        for line in diff_of(clean)
    ]
    path = html.element("figcaption", html.element("code", html.line(edit.path or "a file")))
    return html.element("figure", path, html.element("pre", lines, class_="diff"), class_="diff")


# --- what all of them are made of --------------------------------------------------------------


def _folded(html: Html, kind: str, summary: list[str | Markup], body: list[Markup]) -> Markup:
    return html.element("details", html.element("summary", summary), body, class_=kind)


def _pre(html: Html, text: str) -> Markup:
    return html.element("pre", html.text(text), dir="auto")


def _gone(html: Html, said: str) -> Markup:
    return html.element("mark", html.line(said), class_="gone")
