"""The whole page, piece by piece: a head that forbids what a page could do, then the record.

It holds for a file that somebody else opens: nothing is loaded and nothing runs, which the page's
own Content-Security-Policy says to the browser as well. Only the one style sheet, whose digest it
names, is let in.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterator, Sequence
from functools import cache
from importlib.resources import files

from upthread.core.redaction.redactor import Redactor
from upthread.runtime.record.savings import Delegation
from upthread.runtime.record.timeline import Timeline
from upthread.surfaces.cli.terminal.phrases import counted
from upthread.surfaces.cli.terminal.times import moment
from upthread.surfaces.page.markup import Html, Markup, closing
from upthread.surfaces.page.runs import run_pieces
from upthread.surfaces.page.sums import sums_pieces
from upthread.surfaces.page.turns import anchor, branch_pieces, standing

NOT_WHOLE = (
    "Secrets are taken out. What a text has too many characters for is shown at its ends: "
    "the whole is in the audit as JSON."
)


@cache
def style() -> str:
    """Return the style sheet."""
    return files("upthread.surfaces.page").joinpath("style.css").read_text("utf-8")


def policy() -> str:
    """Return the Content-Security-Policy: nothing but the page's own style sheet."""
    digest = base64.b64encode(hashlib.sha256(style().encode()).digest()).decode()
    return f"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'"


def page(
    timeline: Timeline,
    redactor: Redactor,
    *,
    delegations: Sequence[Delegation] = (),
    made_at_ms: int,
) -> Iterator[str]:
    """Yield the page of a workstream. `delegations` are what its sums are made of."""
    html = Html(redactor)
    yield "<!doctype html>\n"
    yield html.opening("html", lang="en")
    yield _head(html, timeline)
    yield html.opening("body")
    yield html.element("a", "Skip to the record", href="#record", class_="skip")
    yield html.element("header", _header(html, timeline))
    yield html.element("nav", html.element("ul", _places(html, timeline)), aria_label="Places")
    yield html.opening("main", id="record", tabindex="-1")
    yield from sums_pieces(html, delegations)
    for run in timeline.runs:
        yield from _lines(run_pieces(html, run))
    for branch in timeline.branches():
        yield from _lines(branch_pieces(html, branch))
    yield closing("main")
    made = f"Written by upthread at {moment(made_at_ms)}. {NOT_WHOLE}"
    yield html.element("footer", html.element("p", made))
    yield closing("body")
    yield closing("html") + "\n"


def _lines(pieces: Iterator[Markup]) -> Iterator[str]:
    for piece in pieces:
        yield piece
        yield "\n"


def _head(html: Html, timeline: Timeline) -> Markup:
    # Not a child like others: within `style` nothing is escaped, and nothing there is anybody's.
    sheet = Markup(f"<style>{style()}</style>")
    return html.element(
        "head",
        html.element("meta", charset="utf-8"),
        html.element("meta", http_equiv="Content-Security-Policy", content=policy()),
        html.element("meta", name="referrer", content="no-referrer"),
        html.element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        html.element("meta", name="color-scheme", content="light dark"),
        html.element("title", html.line(f"{timeline.name} · upthread")),
        sheet,
    )


def _header(html: Html, timeline: Timeline) -> Iterator[Markup]:
    view = timeline.workstream
    yield html.element("p", "upthread", class_="kicker")
    name = html.element("span", html.line(view.workstream.base_name), class_="quiet")
    yield html.element("h1", html.line(timeline.name), " ", name)
    yield html.element("p", standing(html, view.standing))
    turns = sum(role.turns for role in view.roles)
    facts = (
        counted(len(view.roles), "role"),
        counted(turns, "turn"),
        counted(len(view.children), "sub-agent"),
        counted(len(timeline.runs), "run"),
    )
    yield html.element("p", " · ".join(facts), class_="facts")
    if timeline.faults:
        places = ", ".join(
            f"{each.key.address} from message {seq}" for each, seq in timeline.faults
        )
        yield html.element(
            "p",
            html.element("strong", "Not what was recorded: "),
            html.line(places),
            role="alert",
            class_="note bad",
        )
    else:
        yield html.element("p", "Every message verifies against its hash chain.", class_="facts")
    for doubt in view.in_doubt:
        yield html.element(
            "p",
            html.element("strong", "May have been done, or not: "),
            html.element("code", html.line(doubt.effect.title_in_words)),
            " ",
            html.element(
                "span",
                html.line(f"{doubt.conversation.key.address}, {doubt.effect_id}"),
                class_="quiet",
            ),
            class_="note doubt",
        )


def _places(html: Html, timeline: Timeline) -> Iterator[Markup]:
    for run in timeline.runs:
        link = html.element("a", f"Run {run.number}", href=f"#{anchor(run.run.run_id)}")
        yield html.element("li", link)
    for branch in timeline.branches():
        place = f"#{anchor(branch.conversation.conversation_id)}"
        state = branch.standing.state if branch.standing else "closed"
        generation = branch.conversation.generation
        again = f" · generation {generation}" if generation > 1 else ""
        link = html.element("a", html.line(branch.name), href=place)
        yield html.element("li", link, html.element("span", f" {state}{again}", class_="quiet"))
