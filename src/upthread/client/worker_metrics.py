"""What a worker shows to those who watch over it: numbers on loopback, as Prometheus reads them.

What is counted is this worker's own, from its start on. What is measured is the whole database's,
looked up for each reading. No project, workstream or role is a label: a name is somebody's word,
and each new one would be a series for ever.
"""

from collections.abc import Generator, Iterable
from contextlib import closing, contextmanager

from prometheus_client import CollectorRegistry, Counter, start_http_server
from prometheus_client.core import GaugeMetricFamily, InfoMetricFamily, Metric
from prometheus_client.registry import Collector

import upthread
from upthread.errors import StoreError, UsageError
from upthread.store.postgres.workers import WorkerTable

HOST = "127.0.0.1"
"""Loopback alone: who watches from another machine has an agent on this one, or a tunnel."""


class Metrics(Collector):
    """The numbers of one worker of the database at `address`."""

    def __init__(self, address: str) -> None:
        self._address = address
        self.registry = CollectorRegistry()
        self._events = Counter(
            "upthread_worker_events",
            "What this worker has done: events of runs, and of its own life.",
            ["event"],
            registry=self.registry,
        )
        self.registry.register(self)

    def count(self, what: str) -> None:
        """Count one thing this worker has done, a word of ours."""
        self._events.labels(what).inc()

    def collect(self) -> Iterable[Metric]:
        """Return what is measured. A database that does not answer is a measurement, too."""
        yield InfoMetricFamily("upthread", "This worker.", {"version": upthread.__version__})
        up = "upthread_database_up", "Whether the database answers."
        try:
            # A connection of its own for each reading, which does not wait for a worker's calls.
            with closing(WorkerTable(self._address)) as table:
                known, backlog = table.workers(), table.backlog()
        except StoreError:
            yield GaugeMetricFamily(*up, value=0)
            return
        yield GaugeMetricFamily(*up, value=1)
        workers = GaugeMetricFamily(
            "upthread_workers", "Workers that registered.", labels=["state"]
        )
        silent = [each.is_silent for each in known]
        workers.add_metric(["living"], silent.count(False))
        workers.add_metric(["silent"], silent.count(True))
        yield workers
        yield GaugeMetricFamily(
            "upthread_transitions_at_work",
            "Transitions a worker has now.",
            value=sum(each.jobs for each in known),
        )
        yield GaugeMetricFamily(
            "upthread_transitions_waiting",
            "Transitions that are due and that no worker has.",
            value=backlog.waiting,
        )
        yield GaugeMetricFamily(
            "upthread_transitions_waiting_seconds",
            "How long the oldest of them has been due, 0 without any.",
            value=backlog.oldest_ms / 1000,
        )


@contextmanager
def served(metrics: Metrics, port: int) -> Generator[str]:
    """Serve them on a port of loopback, 0 for any free one, and give the address they are at.

    Raises UsageError for a port that cannot be had.
    """
    try:
        server, thread = start_http_server(port, HOST, metrics.registry)
    except OSError as error:
        raise UsageError(
            f"metrics cannot be served on port {port}: {error.strerror}",
            hint="name another port, or 0 for any free one",
        ) from error
    try:
        yield f"http://{HOST}:{server.server_port}/metrics"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
