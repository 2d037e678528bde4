"""The pages: all workstreams, one of them as it moves, earlier turns of it, and what was found."""

from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from itertools import chain, islice
from typing import ClassVar, NamedTuple
from urllib.parse import urlencode

from upthread.core.types import Message, Speaker, TextPart, ToolCallPart
from upthread.runtime.record.timeline import Branch, Timeline
from upthread.runtime.record.workstream_views import RoleView, WorkstreamView
from upthread.surfaces.cli.shapes import turns_in
from upthread.surfaces.cli.terminal.phrases import counted, moment
from upthread.surfaces.cli.verbs.search import Hit
from upthread.surfaces.formats.html import NOT_WHOLE, faults_piece, run_piece, sums_pieces
from upthread.surfaces.page.markup import ATTRIBUTES, Html, Markup
from upthread.surfaces.page.turns import Newest, branch_pieces, standing, turn_pieces

TURNS_SHOWN = 20
"""How many turns of a conversation are shown at a time, the newest first."""

WORKSTREAMS_SHOWN = 50
HITS_SHOWN = 50
TAIL_MESSAGES = 6

# Without evaluated code and without a style of its own, which the policy would refuse anyway.
_HTMX = '{"allowEval":false,"includeIndicatorStyles":false,"historyEnabled":false}'
_BEGIN = 'upthread tell WORKSTREAM/ROLE "…"'


class SiteHtml(Html):
    """As of a page that is mailed, and what leads from one page of this server to another."""

    attributes: ClassVar[frozenset[str]] = ATTRIBUTES | frozenset(
        "action aria-current aria-live autocomplete data-copy defer for hx-get hx-swap hx-target "
        "hx-trigger method placeholder rel src type".split()
    )
    leads_to: ClassVar[tuple[str, ...]] = ("#", "/")


class Role(NamedTuple):
    """A role with the command that opens its session, empty without one, and what it said last.

    `tail` is empty unless it works just now.
    """

    view: RoleView
    command: str
    tail: Sequence[Message]


def url(path: str, **asked: str | int) -> str:
    """Return the address of a page of ours."""
    # Text that is no valid Unicode stays what it is: the record may have such names.
    query = urlencode(asked, errors="surrogatepass") if asked else ""
    return f"/{path}?{query}" if query else f"/{path}"


def whole(html: SiteHtml, title: str, body: Iterable[Markup], *, words: str = "") -> Iterator[str]:
    """Yield a page around what is in it: where one is, and the search. The policy is a header."""
    yield html(
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        '<meta name="color-scheme" content="light dark"><meta name="htmx-config" content="{}">'
        '<title>{}</title><link rel="stylesheet" href="/static/page.css">'
        '<link rel="stylesheet" href="/static/site.css">'
        '<script src="/static/htmx.min.js" defer></script>'
        '<script src="/static/site.js" defer></script></head>'
        '<body><header><a href="#record" class="skip">Skip to the record</a><div class="bar">'
        '<a href="/" class="kicker">upthread</a><form action="/search" method="get" role="search">'
        '<label for="q" class="unseen">Search</label><input id="q" type="search" name="q" '
        'value="{}" placeholder="Search what was said" autocomplete="off"></form></div>'
        '<h1>{}</h1></header><main id="record" tabindex="-1">',
        _HTMX,
        f"{title} · upthread",
        words,
        title,
    )
    for piece in body:
        yield piece + "\n"
    foot = f"Nothing can be changed here. {NOT_WHOLE}"
    yield html("</main><footer><p>{:text}</p></footer></body></html>\n", foot)


# --- all workstreams ------------------------------------------------------------------------------


def workstreams(
    html: SiteHtml, views: Sequence[WorkstreamView], *, first: int, total: int
) -> Iterator[Markup]:
    """Yield the list, those opened last first. `first` is the number of the first one, from 0."""
    yield html(
        '<div id="list" hx-get="{}" hx-trigger="every 2s" hx-swap="innerHTML">{}</div>',
        url("list", first=first),
        workstreams_table(html, views),
    )
    left = total - first - len(views)
    newer = url("", first=max(0, first - WORKSTREAMS_SHOWN))
    older = url("", first=first + WORKSTREAMS_SHOWN)
    links = [html('<a href="{}">Newer</a>', newer)] if first else []
    links += [html('<a href="{}">{} older</a>', older, left)] if left > 0 else []
    if links:
        yield html('<nav class="pages" aria-label="More workstreams">{}</nav>', links)


def workstreams_table(html: SiteHtml, views: Sequence[WorkstreamView]) -> Markup:
    """Return the list alone, which is asked for again while it is looked at."""
    if not views:
        return html("<p>Nothing is recorded here yet. Begin with <code>{}</code>.</p>", _BEGIN)
    columns = ("Workstream", "State", "Why", "Roles", "Turns", "Open")
    return html(
        '<table class="list"><caption class="unseen">{}</caption><thead><tr>{}</tr></thead>'
        "<tbody>{}</tbody></table>",
        counted(len(views), "workstream"),
        [html('<th scope="col">{}</th>', each) for each in columns],
        [_row(html, view) for view in views],
    )


def _row(html: SiteHtml, view: WorkstreamView) -> Markup:
    name = view.workstream.workstream
    return html(
        '<tr><th scope="row"><a href="{}" class="go">{}</a> <span class="quiet">{}</span></th>'
        '<td><span class="state {}">{}</span></td><td>{}</td><td>{}</td><td>{}</td>'
        "<td>{}</td></tr>",
        url("workstream", name=name),
        name,
        view.workstream.base_name,
        view.state,
        view.state,
        view.standing.reason,
        ", ".join(role.conversation.key.role for role in view.roles),
        turns_in(view),
        len(view.open_questions) + len(view.in_doubt) or None,
    )


# --- one workstream -------------------------------------------------------------------------------


def workstream(html: SiteHtml, timeline: Timeline, roles: Sequence[Role]) -> Iterator[Markup]:
    """Yield a workstream: how it stands just now, then its runs, its roles, their last turns."""
    shown = turns_in(timeline.workstream)
    yield html(
        '<div id="live" hx-get="{}" hx-trigger="every 2s" hx-swap="innerHTML" aria-live="polite">'
        "{}</div>",
        url("live", name=timeline.name, turns=shown),
        live(html, timeline.workstream, roles, shown=shown),
    )
    if faults := faults_piece(html, timeline):
        yield faults
    for run in timeline.runs:
        yield run_piece(html, run)

    earlier = partial(_earlier, html, timeline.name)
    for branch in timeline.branches:
        yield from branch_pieces(html, branch, newest=Newest(TURNS_SHOWN, earlier))
    yield from sums_pieces(html, timeline)


def live(
    html: SiteHtml, view: WorkstreamView, roles: Sequence[Role], *, shown: int
) -> Iterator[Markup]:
    """Yield how a workstream stands just now, which is asked for again while it is looked at.

    `shown` is how many turns stand below it.
    """
    yield standing(html, view.standing)
    new = turns_in(view) - shown
    if new > 0:
        again = url("workstream", name=view.workstream.workstream)
        more = counted(new, "turn")
        yield html('<p class="note"><a href="{}">{} more by now: show</a></p>', again, more)
    for role, command, tail in roles:
        if not command and not tail:
            continue  # how it stands is said beside its turns
        yield html(
            '<div class="now"><h2 class="label">{}</h2>{}{}{}</div>',
            role.conversation.address,
            standing(html, role.standing),
            # Without scripts it can be marked and copied.
            html(
                '<p class="command"><code>{}</code> '
                '<button type="button" data-copy="{}">Copy</button></p>',
                command,
                command,
            )
            if command
            else None,
            [_said(html, each) for each in tail],
        )


def _said(html: SiteHtml, message: Message) -> Markup | None:
    """Return one message of a turn that goes on, as it stands in this moment."""
    texts = [part.text for part in message.parts if isinstance(part, TextPart)]
    calls = [
        part.title or part.tool_kind for part in message.parts if isinstance(part, ToolCallPart)
    ]
    if not texts and not calls:
        return None
    return html(
        '<div class="said"><span class="quiet">{} · {}</span>{}{}</div>',
        "you" if message.speaker is Speaker.USER else str(message.speaker),
        moment(message.recorded_at_ms),
        [html('<pre dir="auto">{:text}</pre>', each) for each in texts],
        [html('<p class="call"><code>{}</code></p>', each) for each in calls],
    )


def _earlier(html: SiteHtml, name: str, branch: Branch, first: int) -> Markup:
    conversation_id = branch.conversation.conversation_id
    return html(
        '<p class="earlier"><a href="{}" hx-get="{}" hx-target="closest p" hx-swap="outerHTML">'
        "{}: show the last {} </a></p>",
        url("turns", name=name, conversation=conversation_id, before=first),
        url("turns", name=name, conversation=conversation_id, before=first, part=1),
        counted(first - 1, "earlier turn"),
        min(TURNS_SHOWN, first - 1),
    )


def turns(
    html: SiteHtml, timeline: Timeline, conversation_id: str, before: int, *, is_part: bool
) -> Iterator[Markup] | None:
    """Return the turns before one, and what leads further back; None without the conversation.

    A part goes into a page that says whose they are; else that stands before them.
    """
    found = timeline.branch(conversation_id)
    if found is None:
        return None
    pieces = _turns(html, timeline.name, found, before)
    return pieces if is_part else chain((html("<h2>{}</h2>", found.name),), pieces)


def _turns(html: SiteHtml, name: str, branch: Branch, before: int) -> Iterator[Markup]:
    first = max(1, before - TURNS_SHOWN)
    if first > 1:
        yield _earlier(html, name, branch, first)
    for turn in branch.turns[first - 1 : before - 1]:
        yield from turn_pieces(html, turn, branch)


# --- what was found -------------------------------------------------------------------------------


def found(html: SiteHtml, words: str, hits: Iterator[Hit]) -> Iterator[Markup]:
    """Yield the hits, those of what was used last first."""
    shown = list(islice(hits, HITS_SHOWN + 1))
    if not shown:
        yield html("<p>{}</p>", f"Nothing that was said here has “{words}” in it.")
        return
    items = [
        html(
            '<li><a href="{}" class="go">{}</a><span class="quiet"> {}, {}</span><p>{}</p></li>',
            url("workstream", name=hit.address.rpartition("/")[0]),
            hit.address,
            hit.speaker,
            moment(hit.at_ms),
            hit.text,
        )
        for hit in shown[:HITS_SHOWN]
    ]
    yield html('<ol class="hits">{}</ol>', items)
    if len(shown) > HITS_SHOWN:
        yield html("<p>These are the newest {}. More words find fewer.</p>", HITS_SHOWN)
