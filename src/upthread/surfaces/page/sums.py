"""What a workstream's delegations took, as HTML: the sums, and what each was expected to read."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from upthread.runtime.record.savings import Delegation, savings_of
from upthread.surfaces.cli.terminal.phrases import counted
from upthread.surfaces.cli.verbs.savings import rows_of, sum_lines, ways_in_words
from upthread.surfaces.page.markup import Html, Markup
from upthread.surfaces.page.turns import anchor


def sums_pieces(html: Html, delegations: Sequence[Delegation]) -> Iterator[Markup]:
    """Yield the section; nothing where nothing was delegated."""
    if not delegations:
        return
    total = savings_of(delegations)
    facts = [
        piece
        for label, value in sum_lines(total)
        for piece in (html.element("dt", label), html.element("dd", html.line(value)))
    ]
    head, rows = rows_of(delegations)
    table = html.element(
        "table",
        html.element("caption", "What is not told no estimate stands for; ~ marks an estimate."),
        html.element("thead", html.element("tr", [_head(html, each) for each in head])),
        html.element(
            "tbody",
            [_row(html, one, cells) for one, cells in zip(delegations, rows, strict=True)],
        ),
    )
    summary = html.element("summary", counted(len(delegations), "delegation"), ", each")
    yield html.element(
        "section",
        html.element("h2", "What it took", id="took"),
        html.element("p", ways_in_words(total)),
        html.element("dl", facts, class_="sums"),
        html.element(
            "details",
            summary,
            html.element(
                "div",
                table,
                class_="wide",
                tabindex="0",
                role="region",
                aria_label="Each delegation",
            ),
        ),
        aria_labelledby="took",
    )


def _head(html: Html, name: str) -> Markup:
    return html.element("th", name.capitalize(), scope="col")


def _row(html: Html, one: Delegation, cells: Sequence[str]) -> Markup:
    address, *others = cells
    link = html.element("a", html.line(address), href=f"#{anchor(one.turn_id)}")
    return html.element(
        "tr",
        html.element("th", link, scope="row"),
        [html.element("td", html.line(cell)) for cell in others],
    )
