"""A receiver of OpenTelemetry's protocol, as a collector is one: OTLP over HTTP on loopback."""

import gzip
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest


class Receiver:
    """What an OpenTelemetry collector is to its senders: OTLP over HTTP, in protocol buffers."""

    def __init__(self, port: int = 0) -> None:
        self.spans: list[Any] = []
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["content-length"]))
                if self.headers.get("content-encoding") == "gzip":
                    body = gzip.decompress(body)
                assert self.path == "/v1/traces"
                assert self.headers["content-type"] == "application/x-protobuf"
                request = ExportTraceServiceRequest.FromString(body)
                receiver.spans += spans_of(request)
                self.send_response(200)
                self.end_headers()

            def log_message(self, *_: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", port), Handler)
        self.endpoint = f"http://127.0.0.1:{self._server.server_address[1]}"
        self._thread = threading.Thread(target=self._server.serve_forever)
        self._thread.start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def names(self) -> list[str]:
        return [span.name for span in self.spans]


def spans_of(request: ExportTraceServiceRequest) -> list[Any]:
    scopes = [scope for resource in request.resource_spans for scope in resource.scope_spans]
    return [span for scope in scopes for span in scope.spans]


def told_of(span: Any) -> dict[str, Any]:
    """The attributes of a span."""
    return {
        each.key: getattr(each.value, each.value.WhichOneof("value")) for each in span.attributes
    }
