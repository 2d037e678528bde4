"""The pages: all workstreams, one of them as it moves, earlier turns of it, and what was found."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, islice
from typing import Final, NamedTuple

from upthread.core.types import Message, Speaker, TextPart, ToolCallPart
from upthread.runtime.record.audit import Audit
from upthread.runtime.record.savings import delegations_of
from upthread.runtime.record.timeline import Branch, Timeline
from upthread.runtime.record.workstream_views import RoleView, WorkstreamView
from upthread.surfaces.cli.search.hits import Hit
from upthread.surfaces.cli.terminal.phrases import counted
from upthread.surfaces.cli.terminal.times import moment
from upthread.surfaces.page.document import NOT_WHOLE
from upthread.surfaces.page.markup import Markup, closing
from upthread.surfaces.page.runs import run_pieces
from upthread.surfaces.page.sums import sums_pieces
from upthread.surfaces.page.turns import Newest, branch_pieces, standing, turn_pieces
from upthread.surfaces.web.markup import SiteHtml, copied, frame, head, url

TURNS_SHOWN: Final = 20
"""How many turns of a conversation are shown at a time, the newest first."""

WORKSTREAMS_SHOWN: Final = 50
HITS_SHOWN: Final = 50
TAIL_MESSAGES: Final = 6
LIVE: Final = "every 2s"


class Role(NamedTuple):
    """A role with the command that opens its session, empty without one, and what it said last.

    `tail` is empty unless it works just now.
    """

    view: RoleView
    command: str
    tail: Sequence[Message]


def whole(html: SiteHtml, title: str, body: Iterable[Markup], *, words: str = "") -> Iterator[str]:
    """Yield a page around what is in it."""
    yield "<!doctype html>\n"
    yield html.opening("html", lang="en")
    yield head(html, title)
    yield html.opening("body")
    yield frame(html, title, words=words)
    yield html.opening("main", id="record", tabindex="-1")
    for piece in body:
        yield piece
        yield "\n"
    yield closing("main")
    yield html.element("footer", html.element("p", f"Nothing can be changed here. {NOT_WHOLE}"))
    yield closing("body")
    yield closing("html") + "\n"


# --- all workstreams ------------------------------------------------------------------------------


def workstreams(
    html: SiteHtml, views: Sequence[WorkstreamView], *, first: int, total: int
) -> Iterator[Markup]:
    """Yield the list, those opened last first. `first` is the number of the first one, from 0."""
    yield html.element(
        "div",
        workstreams_table(html, views),
        id="list",
        hx_get=url("list", first=first),
        hx_trigger=LIVE,
        hx_swap="innerHTML",
    )
    left = total - first - len(views)
    links = [
        html.element("a", "Newer", href=url("", first=max(0, first - WORKSTREAMS_SHOWN)))
        if first
        else None,
        html.element("a", f"{left} older", href=url("", first=first + WORKSTREAMS_SHOWN))
        if left > 0
        else None,
    ]
    if any(links):
        yield html.element("nav", *links, class_="pages", aria_label="More workstreams")


def workstreams_table(html: SiteHtml, views: Sequence[WorkstreamView]) -> Markup:
    """Return the list alone, which is asked for again while it is looked at."""
    if not views:
        return html.element(
            "p", "Nothing is recorded here yet. Begin with ", html.element("code", _BEGIN), "."
        )
    columns = ("Workstream", "State", "Why", "Roles", "Turns", "Open")
    heads = [html.element("th", each, scope="col") for each in columns]
    rows = [html.element("tr", _row(html, view)) for view in views]
    return html.element(
        "table",
        html.element("caption", counted(len(views), "workstream"), class_="unseen"),
        html.element("thead", html.element("tr", heads)),
        html.element("tbody", rows),
        class_="list",
    )


_BEGIN: Final = 'upthread tell WORKSTREAM/ROLE "…"'


def _row(html: SiteHtml, view: WorkstreamView) -> Iterator[Markup]:
    name = view.workstream.workstream
    link = html.element("a", html.line(name), href=url("workstream", name=name), class_="go")
    base = html.element("span", html.line(view.workstream.base_name), class_="quiet")
    roles = ", ".join(role.conversation.key.role for role in view.roles)
    asked = len(view.open_questions) + len(view.in_doubt)
    yield html.element("th", link, " ", base, scope="row")
    yield html.element("td", html.element("span", view.state, class_=f"state {view.state}"))
    yield html.element("td", html.line(view.standing.reason))
    yield html.element("td", html.line(roles))
    yield html.element("td", str(turns_in(view)))
    yield html.element("td", str(asked) if asked else "")


# --- one workstream -------------------------------------------------------------------------------


def workstream(html: SiteHtml, audit: Audit, roles: Sequence[Role]) -> Iterator[Markup]:
    """Yield a workstream: how it stands just now, then its runs, its roles, their last turns."""
    timeline = Timeline(audit)
    shown = turns_in(audit.workstream)
    yield html.element(
        "div",
        live(html, audit.workstream, roles, shown=shown),
        id="live",
        hx_get=url("live", name=timeline.name, turns=shown),
        hx_trigger=LIVE,
        hx_swap="innerHTML",
        aria_live="polite",
    )
    if timeline.faults:
        where = ", ".join(f"{each.key.address} from message {seq}" for each, seq in timeline.faults)
        alarm = html.element("strong", "Not what was recorded: ")
        yield html.element("p", alarm, html.line(where), role="alert", class_="note bad")
    for run in timeline.runs:
        yield from run_pieces(html, run)

    def earlier(branch: Branch, first: int) -> Markup:
        return _earlier(html, timeline.name, branch, first)

    for branch in timeline.branches():
        yield from branch_pieces(html, branch, newest=Newest(TURNS_SHOWN, earlier))
    yield from sums_pieces(html, tuple(delegations_of(timeline)))


def turns_in(view: WorkstreamView) -> int:
    """Return how many turns its roles have taken."""
    return sum(role.turns for role in view.roles)


def live(
    html: SiteHtml, view: WorkstreamView, roles: Sequence[Role], *, shown: int
) -> list[Markup]:
    """Return how a workstream stands just now, which is asked for again while it is looked at.

    `shown` is how many turns stand below it.
    """
    pieces = [html.element("p", standing(html, view.standing))]
    new = turns_in(view) - shown
    if new > 0:
        again = url("workstream", name=view.workstream.workstream)
        link = html.element("a", f"{counted(new, 'turn')} more by now: show", href=again)
        pieces.append(html.element("p", link, class_="note"))
    for role, command, tail in roles:
        if not command and not tail:
            continue  # how it stands is said beside its turns
        address = role.conversation.key.address
        body = [
            html.element("h2", html.line(address), class_="label"),
            html.element("p", standing(html, role.standing)),
            copied(html, command) if command else None,
            *(_said(html, each) for each in tail),
        ]
        pieces.append(html.element("div", body, class_="now"))
    return pieces


def _said(html: SiteHtml, message: Message) -> Markup | None:
    """Return one message of a turn that goes on, as it stands in this moment."""
    texts = [part.text for part in message.parts if isinstance(part, TextPart)]
    calls = [
        part.title or part.tool_kind for part in message.parts if isinstance(part, ToolCallPart)
    ]
    if not texts and not calls:
        return None
    who = "you" if message.speaker is Speaker.USER else str(message.speaker)
    return html.element(
        "div",
        html.element("span", f"{who} · {moment(message.recorded_at_ms)}", class_="quiet"),
        [html.element("pre", html.text(each), dir="auto") for each in texts],
        [html.element("p", html.element("code", html.line(each)), class_="call") for each in calls],
        class_="said",
    )


def _earlier(html: SiteHtml, name: str, branch: Branch, first: int) -> Markup:
    conversation_id = branch.conversation.conversation_id
    link = html.element(
        "a",
        f"{counted(first - 1, 'earlier turn')}: show the last {min(TURNS_SHOWN, first - 1)} ",
        href=url("turns", name=name, conversation=conversation_id, before=first),
        hx_get=url("turns", name=name, conversation=conversation_id, before=first, part=1),
        hx_target="closest p",
        hx_swap="outerHTML",
    )
    return html.element("p", link, class_="earlier")


def turns(
    html: SiteHtml, audit: Audit, conversation_id: str, before: int, *, is_part: bool
) -> Iterator[Markup] | None:
    """Return the turns before one, and what leads further back; None without the conversation.

    A part goes into a page that says whose they are; else that stands before them.
    """
    timeline = Timeline(audit)
    found = next(
        (b for b in _all(timeline) if b.conversation.conversation_id == conversation_id), None
    )
    if found is None:
        return None
    pieces = _turns(html, timeline.name, found, before)
    return pieces if is_part else chain((html.element("h2", html.line(found.name)),), pieces)


def _turns(html: SiteHtml, name: str, branch: Branch, before: int) -> Iterator[Markup]:
    first = max(1, before - TURNS_SHOWN)
    if first > 1:
        yield _earlier(html, name, branch, first)
    for turn in branch.turns(first=first, last=before - 1):
        yield from turn_pieces(html, turn, branch)


def _all(timeline: Timeline) -> Iterator[Branch]:
    waiting = list(timeline.branches())
    while waiting:
        branch = waiting.pop()
        yield branch
        waiting += branch.children()


# --- what was found -------------------------------------------------------------------------------


def found(html: SiteHtml, words: str, hits: Iterator[Hit]) -> Iterator[Markup]:
    """Yield the hits, those of what was used last first."""
    shown = list(islice(hits, HITS_SHOWN + 1))
    if not shown:
        yield html.element("p", html.line(f"Nothing that was said here has “{words}” in it."))
    items: list[Markup] = []
    for hit in shown[:HITS_SHOWN]:
        workstream_name = hit.address.rpartition("/")[0]
        link = html.element(
            "a", html.line(hit.address), href=url("workstream", name=workstream_name), class_="go"
        )
        when = html.element("span", f" {hit.speaker}, {moment(hit.at_ms)}", class_="quiet")
        items.append(html.element("li", link, when, html.element("p", html.line(hit.text))))
    if items:
        yield html.element("ol", items, class_="hits")
    if len(shown) > HITS_SHOWN:
        yield html.element("p", f"These are the newest {HITS_SHOWN}. More words find fewer.")
