"""A role, its chain and its turns as HTML, and the sub-agents within them."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

from upthread.core.decision.handshake import in_words
from upthread.core.decision.words import UNDECIDED, price_in_words
from upthread.core.states import Standing
from upthread.core.types import ErasedPart, Link
from upthread.runtime.record.timeline import Branch, Decided, Said, TurnNode, decided
from upthread.surfaces.cli.terminal.phrases import counted, spaced
from upthread.surfaces.cli.terminal.times import moment
from upthread.surfaces.page.calls import item_pieces
from upthread.surfaces.page.markup import Html, Markup, closing

PREVIEW_CHARACTERS_MAX: Final = 120
_ANCHOR_DIGITS: Final = 12

PILLS: Final = {
    "first": "first",
    "resume": "resumed",
    "resume_with_update": "resumed",
    "resume_with_replay": "rolled",
    "start_fresh_with_briefing": "fresh",
    "refuse": "refused",
    "forked": "first",
}
"""What a decision looks like; the words say it as well."""


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
        title = html.element("span", "Sub-agent ", html.line(branch.name), class_="label")
        name = html.element("span", html.line(conversation.instance_name), class_="quiet")
        yield html.opening("details", class_="child", id=place, open=branch.depth == 0)
        yield html.element("summary", title, " ", name)
    else:
        yield html.opening("section", class_="role", aria_labelledby=f"{place}-name", id=place)
        yield _heading(html, branch, place)
    yield from _facts(html, branch)
    first = max(1, branch.turns_count + 1 - newest.turns) if newest else 1
    if newest is not None and first > 1:
        yield newest.earlier(branch, first)
    calls: list[str] = []
    for turn in branch.turns(first=first):
        calls += (call.call_id for call in turn.calls)
        yield from turn_pieces(html, turn, branch)
    for item in branch.items():
        if not isinstance(item, Said):
            calls.append(item.call_id)
        yield from item_pieces(html, item, branch, lambda child: branch_pieces(html, child))
    for child in branch.other_children(calls):
        # One that a turn called which is not shown here is shown there.
        if first == 1 or child.call_id is None:
            yield from branch_pieces(html, child)
    yield closing("details" if branch.is_child else "section")


def _heading(html: Html, branch: Branch, place: str) -> Markup:
    generation = branch.conversation.generation
    closed = branch.standing is None
    return html.element(
        "h2",
        html.line(branch.name),
        " ",
        html.element("span", html.line(branch.conversation.instance_name), class_="quiet"),
        html.element("span", f" generation {generation}", class_="quiet")
        if generation > 1
        else None,
        html.element("span", " closed", class_="quiet") if closed else None,
        id=f"{place}-name",
    )


def _facts(html: Html, branch: Branch) -> Iterator[Markup]:
    conversation = branch.conversation
    if branch.standing is not None:
        yield html.element("p", standing(html, branch.standing))
    if branch.first_unverified_seq is not None:
        seq = branch.first_unverified_seq
        yield html.element(
            "p", f"From message {seq} on it is not what was recorded.", class_="note bad"
        )
    if branch.verdict is not None:
        yield _verdict(html, branch)
    yield html.element(
        "p",
        html.element("code", html.line(conversation.conversation_id)),
        f" · opened {moment(conversation.opened_at_ms)}",
        class_="quiet",
    )
    if branch.chain:
        yield html.element(
            "ol",
            [_link(html, link) for link in branch.chain],
            class_="chain",
            aria_label="Sessions",
        )
    for refusal in branch.refusals:
        found = decided(refusal)
        when = moment(refusal.decided_at_ms)
        yield html.element(
            "p",
            html.element("span", found.done, class_="pill refused"),
            f" {when}: ",
            html.line(found.because),
            class_="note",
        )
    if branch.acts:
        acts = [
            html.element(
                "li",
                f"{moment(act.recorded_at_ms)}: ",
                html.element("strong", html.line(act.by_user)),
                " ",
                html.line(f"{spaced(act.what)} {act.detail}".strip()),
            )
            for act in branch.acts
        ]
        summary = html.element("summary", f"Who did what: {counted(len(acts), 'act')}")
        yield html.element("details", summary, html.element("ul", acts), class_="acts")


def standing(html: Html, stands: Standing) -> list[str | Markup]:
    """Return a state, why, and since when."""
    since = f", since {moment(stands.since_ms)}" if stands.since_ms is not None else ""
    until = f", until {moment(stands.until_ms)}" if stands.until_ms is not None else ""
    return [
        html.element("span", stands.state, class_=f"state {stands.state}"),
        " ",
        html.line(stands.reason),
        html.line(f": {stands.detail}") if stands.detail else "",
        html.element("span", f"{until}{since}", class_="quiet"),
    ]


def _verdict(html: Html, branch: Branch) -> Markup:
    verdict = branch.verdict
    assert verdict is not None
    mood = "good" if verdict.is_current and verdict.outcome == "approved" else "doubt"
    evidence = [html.element("li", html.text(each)) for each in verdict.evidence]
    return html.element(
        "div",
        html.element("p", "Verdict: ", html.element("strong", html.line(verdict.in_words))),
        html.element("ul", evidence) if evidence else None,
        class_=f"verdict {mood}",
    )


def _link(html: Html, link: Link) -> Markup:
    agent = f"{link.agent} {link.agent_version}".strip()
    ended = (
        [
            html.element("br"),
            f"ended {moment(link.ended_at_ms)}: " if link.ended_at_ms is not None else "ended: ",
            html.line(in_words(link.ended_because)),
        ]
        if link.ended_because
        else [html.element("br"), html.element("strong", "open")]
    )
    return html.element(
        "li",
        html.element("code", html.line(link.upstream_session_id)),
        " ",
        html.element("span", html.line(agent), class_="quiet"),
        html.element("br"),
        f"opened {moment(link.opened_at_ms)}: ",
        html.line(in_words(link.opened_because)),
        ended,
        class_="ended" if link.ended_because else "open",
    )


# --- a turn ------------------------------------------------------------------------------------


def turn_pieces(html: Html, turn: TurnNode, branch: Branch) -> Iterator[Markup]:
    """Yield a turn: what was decided, said and done in it."""
    ended_well = turn.outcome == "ok"
    yield html.opening("details", class_="turn", id=anchor(turn.turn_id), open=not ended_well)
    yield _summary(html, turn)
    for found in turn.decisions:
        yield _decision(html, turn, found)
    for item in turn.items:
        yield from item_pieces(html, item, branch, lambda child: branch_pieces(html, child))
    for each in turn.quarantined:
        why = html.element("strong", html.line(each.reason))
        yield html.element("p", "Kept apart, since nobody knows whose it is: ", why, class_="note")
        yield html.element("pre", html.json(each.raw), class_="json")
    yield closing("details")


def _summary(html: Html, turn: TurnNode) -> Markup:
    found = turn.decision
    pill = PILLS.get(found.decision, "first") if found else "refused"
    done = found.done if found else UNDECIDED
    preview = " ".join(turn.prompt[: 4 * PREVIEW_CHARACTERS_MAX].split())
    shown = preview[:PREVIEW_CHARACTERS_MAX] + (
        "…" if len(preview) > PREVIEW_CHARACTERS_MAX else ""
    )
    erased = any(isinstance(i, Said) and isinstance(i.part, ErasedPart) for i in turn.items)
    return html.element(
        "summary",
        html.element(
            "h3",
            html.element("span", f"Turn {turn.number}", class_="number"),
            " ",
            html.element("span", html.line(done), class_=f"pill {pill}"),
            " ",
            html.element("span", html.line(shown), class_="preview")
            if shown or not erased
            else html.element("mark", "erased", class_="gone"),
        ),
        html.element("span", _meta(html, turn), class_="meta quiet"),
    )


def _meta(html: Html, turn: TurnNode) -> Iterator[str | Markup]:
    yield html.element("time", moment(turn.opened_at_ms), datetime=moment(turn.opened_at_ms))
    stop = turn.stop
    mood = {"ok": "good", "open": "doubt", "parked": "doubt"}.get(turn.outcome, "bad")
    said = stop.said if stop else "it has no end"
    yield " · "
    yield html.element("span", html.line(said), class_=f"status {mood}")
    if turn.spent is not None:
        yield f" · {spent_in_words(turn)}"
    if turn.calls:
        yield f" · {counted(len(turn.calls), 'call')}"


def spent_in_words(turn: TurnNode) -> str:
    """`41k tokens`; marked as an estimate where the agent did not count."""
    if turn.spent is None or (turn.spent.is_estimate and not turn.spent.count):
        return "tokens not told"
    return f"{turn.spent.in_words} tokens"


def _decision(html: Html, turn: TurnNode, found: Decided) -> Markup:
    price = price_in_words(found.price)
    followed = list(_followed(turn)) if found is turn.decision else []
    return html.element(
        "div",
        html.element(
            "p", html.element("strong", html.line(found.done)), ": ", html.line(found.because)
        ),
        html.element(
            "ul", [html.element("li", html.line(each)) for each in found.changes], class_="changes"
        )
        if found.changes
        else None,
        html.element("p", "Expected: ", html.line(price)) if price else None,
        html.element("p", "What followed: ", html.line("; ".join(followed))) if followed else None,
        class_="decided",
    )


def _followed(turn: TurnNode) -> Iterator[str]:
    """Yield what became of a decision, as it is on record."""
    attached, ended = turn.view.attached, turn.view.ended
    if attached is not None:
        yield f"{spaced(attached.how)} session {attached.upstream_session_id}"
    if turn.spent is not None:
        yield spent_in_words(turn)
    if ended is not None and ended.tokens_used is not None:
        yield f"the session then held {ended.tokens_used} tokens"
    if ended is not None and ended.was_compacted:
        yield "the agent replaced what it held by a summary"
    if ended is not None and ended.adopted:
        yield "the reply was taken over from the agent's own history"
    if ended is not None and ended.calls_open:
        yield f"{counted(ended.calls_open, 'call')} had no end"
    stop = turn.stop
    if stop is not None and turn.outcome != "ok":
        yield stop.said + (f": {stop.detail}" if stop.detail else "")
