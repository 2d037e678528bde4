"""`upthread export`: sends what turns did to an OpenTelemetry collector, as spans."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, NoReturn, cast

import anyio
import click
from msgspec import Struct, structs

from upthread.client.project import Project
from upthread.core.types import JsonValue
from upthread.errors import UpthreadError
from upthread.runtime.record.timeline import Timeline
from upthread.runtime.record.workstream_views import WorkstreamView
from upthread.surfaces.cli import options
from upthread.surfaces.cli.call import Call, extra
from upthread.surfaces.cli.terminal.output import Output, plain
from upthread.surfaces.cli.terminal.phrases import counted
from upthread.surfaces.formats.otel import Span, ended_spans

if TYPE_CHECKING:
    from upthread.surfaces.collector import Collector

LOOK_S = 1.0
LOOK_TIMES = 10
"""The pause between two reads: LOOK_S, or LOOK_TIMES the duration of the last read if longer."""


@options.verb
@options.workstream_or_all
@click.option(
    "--endpoint", metavar="URL", help="The collector; by default, as the OTEL_… variables say."
)
@click.option(
    "-f", "--follow", "follows", is_flag=True, help="Send what ends from now on, as it ends."
)
@options.flag("--content", "with_content", "Include what was said.")
def main(
    call: Call, *, workstream: str | None, endpoint: str | None, follows: bool, with_content: bool
) -> None:
    """Send ended turns to an OpenTelemetry collector, as spans; with --follow live."""
    with extra("the export", "otel"):
        from upthread.surfaces.collector import Collector
    # The exporter would log a line for each of its own attempts.
    logging.getLogger("opentelemetry").setLevel(logging.CRITICAL)
    collector = Collector(endpoint)

    async def use(project: Project) -> None:
        exported = Exported(project, collector, workstream, with_content)
        if follows:
            await exported.pass_over()
            where = f"what ends from now on goes to {collector.endpoint}"
            call.output.note(f"{where}; Ctrl-C ends it")
            await _follow(call.output, exported)
        _say(call.output, await exported.send(), collector.endpoint)

    try:
        call.with_project(use)
    finally:
        collector.close()


def _say(output: Output, spans: int, endpoint: str) -> None:
    output.json({"spans": spans, "endpoint": endpoint})
    output.line(f"{counted(spans, 'span')} sent to {endpoint}")


async def _follow(output: Output, exported: Exported) -> NoReturn:
    """Send again and again. Rejected spans are kept, reported once, and sent later."""
    failed = ""
    while True:
        began_s = anyio.current_time()
        try:
            spans = await exported.send()
        except UpthreadError as error:
            if str(error) != failed:
                output.note(f"{error}; it is tried again", "yellow")
            failed = str(error)
        else:
            failed = failed if not spans else ""
            if spans:
                _say(output, spans, exported.collector.endpoint)
        took_s = anyio.current_time() - began_s
        await anyio.sleep(max(LOOK_S, LOOK_TIMES * took_s))


class Exported(Struct):
    """The spans that were sent, of all workstreams or one. Unchanged workstreams are not read."""

    project: Project
    collector: Collector
    workstream: str | None
    with_content: bool
    seen: dict[str, WorkstreamView] = {}
    sent: set[str] = set()

    async def pass_over(self) -> None:
        """Take all that has ended as sent."""
        for name in await self._names():
            view, spans = await self._new(name)
            self._take(view, spans)

    async def send(self) -> int:
        """Send what has ended and was not sent; returns how many spans. Raises UpthreadError."""
        count = 0
        for name in await self._names():
            view, spans = await self._new(name)
            if spans:
                await self.project.read(partial(self.collector.send, spans))
            # Only now, so that rejected spans are sent again.
            self._take(view, spans)
            count += len(spans)
        return count

    def _take(self, view: WorkstreamView, spans: Sequence[Span]) -> None:
        self.seen[view.workstream.workstream] = view
        self.sent.update(each.span_id for each in spans)

    async def _names(self) -> Sequence[str]:
        if self.workstream is not None:
            return (self.workstream,)
        return await self.project.names()

    async def _new(self, name: str) -> tuple[WorkstreamView, Sequence[Span]]:
        view = await self.project.show(name)
        if self.seen.get(view.workstream.workstream) == view:
            return view, ()

        def read(timeline: Timeline) -> Sequence[Span]:
            spans = ended_spans(timeline, self.sent, with_content=self.with_content)
            return [self._redacted(each) for each in spans]

        return view, await self.project.with_audit(name, read)

    def _redacted(self, span: Span) -> Span:
        # Also of a record that is kept in full: it leaves this machine.
        told = cast("JsonValue", plain(dict(span.told)))
        clean = cast("dict[str, str]", self.project.redactor.redact_json(told))
        fault = None if span.fault is None else self.project.redactor.redact(span.fault)
        return structs.replace(span, told=clean, fault=fault)
