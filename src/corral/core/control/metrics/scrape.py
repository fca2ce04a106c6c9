"""Writes all metrics of a server as one text for Prometheus."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass

from corral.clock import Clock
from corral.core.control.metrics.device_metrics import device_metrics
from corral.core.control.metrics.exposition import Row, family, histograms, labelled, text_of
from corral.core.control.metrics.job_counts import JobCounts
from corral.core.control.metrics.request_counts import RequestCounts
from corral.core.control.metrics.work_metrics import job_metrics, node_metrics
from corral.core.model.jobs.phase import TERMINAL_PHASES, Phase
from corral.core.model.slice import LedgerSnapshot
from corral.core.model.view import View
from corral.core.ports.ledger import CommitFigures
from corral.core.ports.telemetry import NodeTelemetry
from corral.histogram import WAIT_SECONDS, Histogram

ENDS = tuple(phase for phase in Phase if phase in TERMINAL_PHASES)


@dataclass(frozen=True, slots=True, kw_only=True)
class Metrics:
    """The sources of the metrics. `text` writes them, on any thread.

    Attributes:
        stale_after_s: samples older than this are left out.
        hostname_label: the label that names the node of a device.
        cycles: seconds of planning cycles.
        obstacles: the reasons that keep jobs from starting, by node.
        watch_failures: the number of failed rounds of watches, by watch.
        cluster: the site's name for the cluster, None if it has none.
        started_at: the start of the server, Unix seconds.
        of_features: writes the metrics of features, from a snapshot and the present time.
    """

    snapshot: Callable[[], LedgerSnapshot]
    telemetry: NodeTelemetry
    clock: Clock
    stale_after_s: float
    hostname_label: str
    jobs: JobCounts
    requests: RequestCounts
    commits: CommitFigures
    cycles: Histogram
    obstacles: Callable[[], Mapping[str, str]]
    watch_failures: Mapping[str, int]
    version: str
    cluster: Callable[[], str | None]
    started_at: float
    of_features: Callable[[LedgerSnapshot, float], Iterable[str]] = lambda *_: ()

    def text(self) -> bytes:
        """Return all metrics in Prometheus's text format. Reads no disk and asks no node."""
        return text_of(self._lines())

    def _lines(self) -> Iterator[str]:
        snapshot, now = self.snapshot(), self.clock.now()
        view = snapshot.view
        samples = self.telemetry.latest()
        yield from device_metrics(view, samples, now - self.stale_after_s, self.hostname_label)
        yield from job_metrics(view, now)
        contacts = [contact.node for contact in self.telemetry.contacts()]
        yield from node_metrics(view, contacts, self.obstacles())
        yield from self._of_jobs(view)
        yield from self._of_the_server()
        yield from self._of_requests()
        yield from self.of_features(snapshot, now)

    def _of_jobs(self, view: View) -> Iterator[str]:
        # Counters start at 0, because Prometheus sees no increase in a counter that starts at 1. The dicts are copied
        # at once, because another thread may add a queue.
        waits = {queue: Histogram(WAIT_SECONDS) for queue in view.queues} | self.jobs.waits.copy()
        ends = {(phase.value, queue): 0 for queue in view.queues for phase in ENDS} | self.jobs.ends.copy()
        yield from histograms(
            "corral_queue_wait_seconds",
            "Waits in the queue, of jobs that have started since the server began.",
            (({"queue": queue}, histogram) for queue, histogram in waits.items()),
        )
        yield from family(
            "corral_jobs_ended_total",
            "counter",
            "Attempts of jobs that have ended since the server began.",
            (Row(labelled(phase=phase, queue=queue), count) for (phase, queue), count in ends.items()),
        )

    def _of_the_server(self) -> Iterator[str]:
        yield from histograms("corral_cycle_seconds", "Duration of a planning cycle.", [({}, self.cycles)])
        commits = self.commits
        yield from histograms(
            "corral_ledger_commit_seconds", "Duration of a transaction, the disk included.", [({}, commits.seconds)]
        )
        yield from histograms("corral_ledger_commit_facts", "Facts written in one transaction.", [({}, commits.facts)])
        yield from family(
            "corral_ledger_failures_total",
            "counter",
            "Transactions that the disk did not take.",
            [Row("", commits.failures)],
        )
        yield from family(
            "corral_watch_failures_total",
            "counter",
            "Rounds of watches that failed unexpectedly; the watch goes on, and the log says more.",
            (Row(labelled(watch=name), n) for name, n in sorted(self.watch_failures.items())),
        )
        yield from family(
            "corral_build_info", "gauge", "1, with the version.", [Row(labelled(version=self.version), 1)]
        )
        # The name is a label of its own series, like the version. Sites join it, or configure Prometheus to add it to
        # all.
        yield from family(
            "corral_cluster_info",
            "gauge",
            "1, with the name of the cluster.",
            [Row(labelled(cluster=name), 1)] if (name := self.cluster()) else [],
        )
        yield from family(
            "corral_start_time_seconds",
            "gauge",
            "When the server began, Unix seconds.",
            [Row("", self.clock.shown(self.started_at))],
        )

    def _of_requests(self) -> Iterator[str]:
        answers, seconds = list(self.requests.answers.items()), list(self.requests.seconds.items())
        yield from family(
            "corral_api_requests_total",
            "counter",
            "Requests that were answered.",
            (Row(labelled(route=route, method=method, status=status), n) for (route, method, status), n in answers),
        )
        yield from histograms(
            "corral_api_request_seconds",
            "Duration of a request, up to the head of its answer.",
            (({"route": route}, histogram) for route, histogram in seconds),
        )
