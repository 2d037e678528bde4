"""Elements of a site: what `surfaces.page.markup` makes, and links that lead to its own pages."""

from __future__ import annotations

from typing import ClassVar, Final
from urllib.parse import urlencode

from upthread.surfaces.page.markup import ATTRIBUTES, Html, Markup

STYLE: Final = ("page.css", "site.css")
SCRIPTS: Final = ("htmx.min.js", "site.js")

# Without evaluated code and without a style of its own, which the policy would refuse anyway.
_HTMX: Final = '{"allowEval":false,"includeIndicatorStyles":false,"historyEnabled":false}'


class SiteHtml(Html):
    """As of a page that is mailed, and what leads from one page of this server to another."""

    attributes: ClassVar[frozenset[str]] = ATTRIBUTES | frozenset(
        "action aria-current aria-live autocomplete data-copy defer for hx-get hx-swap hx-target "
        "hx-trigger method placeholder rel src type".split()
    )
    leads_to: ClassVar[tuple[str, ...]] = ("#", "/")


def url(path: str, **asked: str | int) -> str:
    """Return the address of a page of ours."""
    # Text that is no valid Unicode stays what it is: the record may have such names.
    query = urlencode(asked, errors="surrogatepass") if asked else ""
    return f"/{path}?{query}" if query else f"/{path}"


def head(html: Html, title: str) -> Markup:
    """Return a page's head: the policy itself is a header."""
    return html.element(
        "head",
        html.element("meta", charset="utf-8"),
        html.element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        html.element("meta", name="color-scheme", content="light dark"),
        html.element("meta", name="htmx-config", content=_HTMX),
        html.element("title", html.line(f"{title} · upthread")),
        [html.element("link", rel="stylesheet", href=url(f"static/{each}")) for each in STYLE],
        [html.element("script", src=url(f"static/{each}"), defer=True) for each in SCRIPTS],
    )


def frame(html: Html, title: str, *, words: str = "") -> Markup:
    """Return what every page begins with: where one is, and the search."""
    search = html.element(
        "form",
        html.element("label", "Search", for_="q", class_="unseen"),
        html.element(
            "input",
            id="q",
            type="search",
            name="q",
            value=words,
            placeholder="Search what was said",
            autocomplete="off",
        ),
        action=url("search"),
        method="get",
        role="search",
    )
    home = html.element("a", "upthread", href="/", class_="kicker")
    return html.element(
        "header",
        html.element("a", "Skip to the record", href="#record", class_="skip"),
        html.element("div", home, search, class_="bar"),
        html.element("h1", html.line(title)),
    )


def copied(html: Html, command: str) -> Markup:
    """Return a command with what copies it; without scripts it can be marked and copied."""
    button = html.element("button", "Copy", type="button", data_copy=command)
    return html.element(
        "p", html.element("code", html.line(command)), " ", button, class_="command"
    )
