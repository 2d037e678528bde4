"""A workstream's page: of a record whose foreign texts are given, and read as a browser does."""

from html.parser import HTMLParser
from pathlib import Path

import anyio
from tests.support.every_case import environment_of
from tests.support.hostile_record import Values, write_record

from upthread.client.project import Project
from upthread.client.project_opener import open_project
from upthread.surfaces.formats import Asked
from upthread.surfaces.formats.html import pieces

MADE_AT_MS = 1_795_200_000_000


class Saying(Values):
    """The same text wherever a stranger's can stand."""

    def __init__(self, text: str, *, name: str = "spec") -> None:
        self.line = text
        self.text = text
        # What a message says is checked for what no history may have.
        self.said_line = text
        self.name = name


def page_of(place: Path, values: Values) -> str:
    """The page of a record that holds these texts."""
    (place / "project").mkdir(parents=True)
    environment = environment_of(place)

    async def made() -> str:
        await write_record(place / "project", environment, values)
        async with open_project(place / "project", environment=environment) as project:
            return await rendered(project, values.name)

    return anyio.run(made)


async def rendered(project: Project, workstream: str) -> str:
    timeline = await project.audit(workstream)
    return "".join(pieces(timeline, Asked(project.redactor, MADE_AT_MS, False)))


class Seen(HTMLParser):
    """What a browser makes of a page: its elements, their attributes, and the text in them."""

    def __init__(self, html: str) -> None:
        super().__init__(convert_charrefs=True)
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.texts: list[str] = []
        self.feed(html)
        self.close()

    @property
    def text(self) -> str:
        return "".join(self.texts)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += attrs

    def handle_endtag(self, tag: str) -> None:
        self.tags.append(f"/{tag}")

    def handle_data(self, data: str) -> None:
        self.texts.append(data)

    def handle_comment(self, data: str) -> None:
        self.tags.append("comment")

    def unknown_decl(self, data: str) -> None:
        self.tags.append("declaration")

    def handle_pi(self, data: str) -> None:
        self.tags.append("instruction")


ATTACKS = {
    "script": "<script>document.title='pwned'</script>",
    "closing": "</pre></details></section></main><h1>Forged</h1>",
    "style": "</style><style>body{display:none}</style>",
    "handler": "<img src=http://127.0.0.1:9/x onerror=\"document.title='pwned'\">",
    "attribute": "\" onmouseover=\"document.title='pwned'\" x='",
    "link": "<a href=\"javascript:document.title='pwned'\">javascript:alert(1)</a>",
    "entities": "&lt;b&gt; &amp;amp; &#60;script&#62; &#x202e; &nbsp;",
    "comment": "<!-- --><![CDATA[ <b> ]]><!doctype html><?php ?>",
    "bidi": "\u202eevil\u202c \u2066x\u2069 \u200b\U000e0041",
    "ansi": "\x1b[2J\x1b]8;;http://evil.example\x07link\x1b]8;;\x07\x9b31m",
    "nul": "a\0b\x01\x7f",
    "meta": "<meta http-equiv=refresh content='0;url=http://127.0.0.1:9/'><base href=http://x/>",
    "template": "{{7*7}} ${7*7} <svg><foreignObject><iframe srcdoc='<script>1</script>'>",
}
"""Texts that would do something in a page that let them."""
