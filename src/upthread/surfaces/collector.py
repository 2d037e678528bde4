"""A collector: spans sent over OTLP by OpenTelemetry's own exporter, which the extra `otel` brings.

Where to, with which headers and certificates is said as for every other program: by its
`OTEL_EXPORTER_OTLP_…` variables. Written for opentelemetry-exporter-otlp-proto-http 1.45.
"""

import os
from collections.abc import Sequence
from urllib.parse import urlsplit

from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SpanExportResult
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import SpanContext, SpanKind, TraceFlags
from opentelemetry.trace.status import Status, StatusCode

import upthread
from upthread.errors import UpthreadError, UsageError
from upthread.surfaces.formats.otel import MS_NS, RESOURCE, Span

SPANS_AT_ONCE = 512
"""As many as OpenTelemetry's own batches have: a collector refuses a request that is too large."""

DEFAULT = "http://localhost:4318"
VARIABLES = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
_RESOURCE = Resource(dict(RESOURCE))
_SCOPE = InstrumentationScope("upthread", upthread.__version__)


class Collector:
    """Where spans are sent. `endpoint` is None for what the environment says, else `DEFAULT`.

    Raises UsageError for what is no http address.
    """

    def __init__(self, endpoint: str | None = None) -> None:
        said = (os.environ.get(name) for name in VARIABLES)
        self.endpoint = endpoint or next((each for each in said if each), DEFAULT)
        split = urlsplit(self.endpoint)
        if split.scheme not in {"http", "https"} or not split.hostname:
            raise UsageError(
                f"{self.endpoint!r} is no address of a collector", hint=f"such as {DEFAULT}"
            )
        # What the environment says it reads by its own rules.
        whole = (
            f"{endpoint.rstrip('/')}/v1/traces"
            if endpoint and split.path in {"", "/"}
            else endpoint
        )
        self._exporter = OTLPSpanExporter(endpoint=whole)

    def send(self, spans: Sequence[Span]) -> None:
        """Send spans, a batch after the other. Raises UpthreadError where one is not taken."""
        for first in range(0, len(spans), SPANS_AT_ONCE):
            batch = [_readable(each) for each in spans[first : first + SPANS_AT_ONCE]]
            if self._exporter.export(batch) is not SpanExportResult.SUCCESS:
                raise UpthreadError(
                    f"the collector at {self.endpoint} did not take {len(batch)} spans",
                    hint="is it running? OTEL_EXPORTER_OTLP_ENDPOINT or --endpoint say where it is",
                )

    def close(self) -> None:
        """Close the connections."""
        self._exporter.shutdown()  # type: ignore[no-untyped-call]  # theirs


def _readable(span: Span) -> ReadableSpan:
    own = _context(span.trace, span.span_id)
    status = Status() if span.fault is None else Status(StatusCode.ERROR, span.fault)
    return ReadableSpan(
        name=span.name,
        context=own,
        parent=_context(span.trace, span.parent) if span.parent else None,
        resource=_RESOURCE,
        attributes=dict(span.told),
        kind=SpanKind.INTERNAL,
        status=status,
        start_time=span.started_at_ms * MS_NS,
        end_time=span.ended_at_ms * MS_NS,
        instrumentation_scope=_SCOPE,
    )


def _context(trace: str, span_id: str) -> SpanContext:
    return SpanContext(
        trace_id=int(trace, 16),
        span_id=int(span_id, 16),
        is_remote=False,
        trace_flags=TraceFlags(TraceFlags.SAMPLED),
    )
