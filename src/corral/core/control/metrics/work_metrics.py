"""Metrics of the current jobs, queues and nodes."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping

from corral.core.control.metrics.exposition import Row, family, labelled
from corral.core.model.devices.device import NodeStatus
from corral.core.model.jobs.phase import TERMINAL_PHASES, Phase
from corral.core.model.view import View
from corral.core.scheduling.queueing.admission import ineligible

LIVE_PHASES = tuple(phase for phase in Phase if phase not in TERMINAL_PHASES)


def job_metrics(view: View, now: float) -> Iterator[str]:
    """Yield the number of live jobs by phase and queue, the longest wait by queue, and the running jobs with their
    devices.
    """
    waiting, others, longest_s = _counted(view, now)
    queues = sorted({*view.queues, *waiting, *(queue for _, queue in others)})
    phases = others + Counter({(Phase.PENDING, queue): count for queue, count in waiting.items()})
    yield from family(
        "corral_jobs",
        "gauge",
        "Jobs that have not ended.",
        (
            Row(labelled(phase=phase.value, queue=queue), phases[phase, queue])
            for queue in queues
            for phase in LIVE_PHASES
        ),
    )
    yield from family(
        "corral_queue_longest_wait_seconds",
        "gauge",
        "Wait of the job that has waited longest; 0 if no job waits.",
        (Row(labelled(queue=queue), longest_s.get(queue, 0.0)) for queue in queues),
    )
    yield from family("corral_job_info", "gauge", "1 for each device of each job that runs.", _running(view))


def node_metrics(view: View, contacts: Iterable[str], obstacles: Mapping[str, str]) -> Iterator[str]:
    """Yield the state of nodes, and where a disk or the ledger keeps jobs from starting. `contacts` are names of
    nodes.
    """
    states = {name: view.status(name) for name in sorted({*view.nodes, *contacts, *view.silences})}
    counts = Counter(states.values())
    yield from family(
        "corral_nodes", "gauge", "Nodes.", (Row(labelled(state=state.value), counts[state]) for state in NodeStatus)
    )
    yield from family(
        "corral_node_state",
        "gauge",
        "1 for the present state of the node.",
        (Row(labelled(node=name, state=state.value), 1) for name, state in states.items()),
    )
    yield from family(
        "corral_starts_blocked",
        "gauge",
        "1 if a disk of a node, or of the server's ledger, keeps waiting jobs from starting.",
        (Row(labelled(disk="node" if node else "ledger", node=node), 1) for node in sorted(obstacles)),
    )


def _counted(view: View, now: float) -> tuple[Counter[str], Counter[tuple[Phase, str]], dict[str, float]]:
    """Return waiting jobs by queue, other jobs by phase and queue, and the longest wait of an eligible job by queue."""
    waiting: Counter[str] = Counter()
    others: Counter[tuple[Phase, str]] = Counter()
    longest_s: dict[str, float] = {}
    for job in view.jobs.values():
        queue = job.spec.queue
        if job.phase is not Phase.PENDING:
            others[job.phase, queue] += 1
            continue
        # There may be 100,000 waiting jobs, and hashing a phase takes as long as the rest of this loop.
        waiting[queue] += 1
        waits_s = now - max(job.submitted_at, job.eligible_at or 0.0, job.ended_at or 0.0)
        if waits_s > longest_s.get(queue, 0.0) and ineligible(job, now) is None:
            longest_s[queue] = waits_s
    return waiting, others, longest_s


def _running(view: View) -> Iterator[Row]:
    for allocation in view.allocations.values():
        job = view.jobs.get(allocation.job_id)
        if job is None or job.phase is not Phase.RUNNING:
            continue
        spec = job.spec
        for uuid in dict.fromkeys(allocation.placement.uuids) or ("",):
            labels = labelled(job=job.id, user=spec.user, project=spec.project, queue=spec.queue, UUID=uuid)
            yield Row(labels, 1)
