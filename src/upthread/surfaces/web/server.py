"""The server: routes on loopback behind a guard, that answer GET and HEAD and change nothing."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from importlib.resources import files
from pathlib import Path
from typing import TypeAlias

import anyio
from msgspec import Struct, field
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from upthread.agent_stores.reader import Words
from upthread.client.project import Project
from upthread.core.states import State
from upthread.core.types import Message
from upthread.errors import NotFoundError, UpthreadError, UsageError
from upthread.runtime.record.timeline import Timeline
from upthread.runtime.record.workstream_views import RoleView, WorkstreamView
from upthread.surfaces import loopback
from upthread.surfaces.cli.terminal.state_lines import opening_command
from upthread.surfaces.cli.verbs.search import own_hits
from upthread.surfaces.loopback import LOOPBACK, BrowserGuard, listening_socket
from upthread.surfaces.web import pages
from upthread.surfaces.web.pages import SiteHtml

POLICY = (
    "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
HEADERS = {
    "content-security-policy": POLICY,
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "no-store",
}
_STATUS: Mapping[type[UpthreadError], int] = {NotFoundError: 404, UsageError: 400}
RECENT_S = 0.5
RECENT_TIMES_MAX = 64
"""How long an answer holds: in seconds, and in times of what it took for each time it was asked
for, up to so many. Who looks alone gets what is new; a crowd does not keep the record's writers.
"""

STATIC = {
    "page.css": ("upthread.surfaces.page", "style.css", "text/css"),
    "site.css": ("upthread.surfaces.web", "site.css", "text/css"),
    "htmx.min.js": ("upthread.surfaces.web", "htmx.min.js", "text/javascript"),
    "site.js": ("upthread.surfaces.web", "site.js", "text/javascript"),
}


Answer: TypeAlias = Callable[[Request], Awaitable[Response]]


async def serve(
    project: Project, *, port: int, token: str, listening: Callable[[str], None]
) -> None:
    """Serve until interrupted. `listening` is told the address to open, token and all."""
    with listening_socket(port) as listener:
        bound = int(listener.getsockname()[1])
        guard = BrowserGuard(Site(project).application(), token=token, port=bound)
        listening(f"http://{LOOPBACK}:{bound}/?token={token}")
        await loopback.serve(guard, listener, lifespan="off")


class Recent(Struct):
    """Answers of the last moment: whoever asks the same meanwhile gets the same.

    However many windows look, the record is read for each page no more often than this.
    """

    given: dict[str, _Given] = {}

    async def answer(self, asked: str, make: Callable[[], Awaitable[Response]]) -> Response:
        """Return what was answered a moment ago, else make it. An error is nobody else's."""
        now_s = anyio.current_time()
        for old in [each for each, given in self.given.items() if given.is_over(now_s)]:
            del self.given[old]
        given = self.given.get(asked)
        if given is not None:
            given.asked += 1
            await given.done.wait()
            if given.response is not None:
                return given.response
        given = _Given()
        self.given[asked] = given
        try:
            given.response = await make()
        finally:
            given.ended_s = anyio.current_time()
            given.took_s = given.ended_s - now_s
            given.done.set()
        return given.response


class _Given(Struct):
    """An answer, None while it is made or where it could not be; for how long others get it."""

    asked: int = 1
    ended_s: float = 0.0
    took_s: float = 0.0
    done: anyio.Event = field(default_factory=anyio.Event)
    response: Response | None = None

    def is_over(self, now_s: float) -> bool:
        holds_s = max(RECENT_S, self.took_s * min(self.asked, RECENT_TIMES_MAX))
        return self.done.is_set() and now_s > self.ended_s + holds_s


class Site:
    """The pages of one project's record."""

    def __init__(self, project: Project) -> None:
        self._project = project
        self._html = SiteHtml(project.redactor)
        self._recent = Recent()

    def application(self) -> Starlette:
        """Return the routes. Starlette adds HEAD to GET, and answers 405 to all else."""
        named = {
            "/": self._home,
            "/list": self._list,
            "/workstream": self._workstream,
            "/live": self._live,
            "/turns": self._turns,
            "/search": self._search,
            "/static/{name}": self._static,
        }
        return Starlette(
            routes=[
                Route(path, self._told(answer), methods=["GET"]) for path, answer in named.items()
            ],
            exception_handlers={HTTPException: self._not_served},
        )

    async def _not_served(self, _: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        return self._failed(error.detail, error.status_code)

    def _failed(self, words: str, status: int) -> Response:
        body = self._html('<p class="note bad">{}</p>', words)
        return _page(pages.whole(self._html, "Not shown", [body]), status=status)

    async def _home(self, request: Request) -> Response:
        first = _number(request, "first")
        views, total = await self._listed(first)
        body = pages.workstreams(self._html, views, first=first, total=total)
        name = Path(self._project.settings.working_directory).name
        return _page(pages.whole(self._html, name or "Workstreams", body))

    async def _list(self, request: Request) -> Response:
        views, _ = await self._listed(_number(request, "first"))
        return _page([pages.workstreams_table(self._html, views)])

    async def _listed(self, first: int) -> tuple[tuple[WorkstreamView, ...], int]:
        project = self._project
        names = [*reversed(await project.names())]
        shown = names[first : first + pages.WORKSTREAMS_SHOWN]
        views = [await project.show(name) for name in shown]
        return tuple(views), len(names)

    async def _workstream(self, request: Request) -> Response:
        name = request.query_params.get("name", "")
        _, roles = await self._stands(name)

        def made(timeline: Timeline) -> str:
            return "".join(
                pages.whole(self._html, name, pages.workstream(self._html, timeline, roles))
            )

        return _page([await self._project.with_audit(name, made)])

    async def _live(self, request: Request) -> Response:
        view, roles = await self._stands(request.query_params.get("name", ""))
        return _page(pages.live(self._html, view, roles, shown=_number(request, "turns")))

    async def _stands(self, name: str) -> tuple[WorkstreamView, list[pages.Role]]:
        view = await self._project.show(name)
        return view, [await self._role(each) for each in view.roles]

    async def _role(self, view: RoleView) -> pages.Role:
        opened = await self._project.own_interface(view.link)
        tail: tuple[Message, ...] = ()
        if view.standing.state is State.RUNNING:
            owner, store = view.conversation.conversation_id, self._project.store
            tail = await self._project.read(
                lambda: store.messages(owner, newest=pages.TAIL_MESSAGES)
            )
        return pages.Role(view, opening_command(opened), tail)

    async def _turns(self, request: Request) -> Response:
        asked = request.query_params
        name, conversation_id = asked.get("name", ""), asked.get("conversation", "")
        before = _number(request, "before")

        def made(timeline: Timeline) -> str:
            is_part = "part" in asked
            found = pages.turns(self._html, timeline, conversation_id, before, is_part=is_part)
            if found is None:
                raise NotFoundError(f"{name!r} has no such conversation", hint="open it again")
            return "".join(found if is_part else pages.whole(self._html, name, found))

        return _page([await self._project.with_audit(name, made)])

    async def _search(self, request: Request) -> Response:
        asked = request.query_params.get("q", "")
        if not asked.split():
            return _page(pages.whole(self._html, "Search", ()))

        def made() -> str:
            hits = own_hits(self._project, Words(asked.split()), set())
            body = pages.found(self._html, asked, hits)
            return "".join(pages.whole(self._html, "Search", body, words=asked))

        return _page([await self._project.read(made)])

    async def _static(self, request: Request) -> Response:
        known = STATIC.get(request.path_params["name"])
        if known is None:
            raise NotFoundError("there is no such file", hint="go back to the list: /")
        package, name, kind = known
        body = files(package).joinpath(name).read_bytes()
        headers = {**HEADERS, "cache-control": "private, max-age=3600"}
        return Response(body, media_type=kind, headers=headers)

    def _told(self, answer: Answer) -> Answer:
        """Answer errors of ours in words, as everywhere."""

        async def told(request: Request) -> Response:
            try:
                return await self._recent.answer(str(request.url), lambda: answer(request))
            except UpthreadError as error:
                return self._failed(str(error), _STATUS.get(type(error), 500))

        return told


def _number(request: Request, name: str) -> int:
    given = request.query_params.get(name, "0")
    if not given.isascii() or not given.isdigit() or len(given) > 12:
        raise UsageError(f"{name} is a number", hint="go back to the list: /")
    return int(given)


def _page(pieces: Iterable[str], *, status: int = 200) -> Response:
    # What is not valid Unicode is shown as its escape, as in a file.
    body = "".join(pieces).encode("utf-8", "backslashreplace")
    return Response(body, media_type="text/html", headers=HEADERS, status_code=status)
