"""Jobs, queues and nodes as they are now."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping

from corral.control.metrics.exposition import Row, family, labelled
from corral.model.device import NodeStatus
from corral.model.job import TERMINAL_PHASES, Phase
from corral.model.view import View
from corral.scheduling.queueing.admission import ineligible

LIVE_PHASES = tuple(phase for phase in Phase if phase not in TERMINAL_PHASES)


def job_metrics(view: View, now: float) -> Iterator[str]:
    """The jobs that have not ended, by phase and queue; those that run, with their devices; the longest waits."""
    phases = Counter((job.phase, job.spec.queue) for job in view.jobs.values())
    queues = sorted({*view.queues, *(queue for _, queue in phases)})
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
        "How long the job has waited that has waited longest; 0 where none waits.",
        (Row(labelled(queue=queue), seconds) for queue, seconds in _longest_waits(view, queues, now).items()),
    )
    yield from family("corral_job_info", "gauge", "1 for each device of each job that runs.", _running(view))


def node_metrics(view: View, contacts: Iterable[str], obstacles: Mapping[str, str]) -> Iterator[str]:
    """The nodes by state, and where a disk or the ledger keeps jobs from starting. `contacts` are names of nodes."""
    states = {name: view.status(name) for name in sorted({*view.nodes, *contacts, *view.silences})}
    counts = Counter(states.values())
    yield from family(
        "corral_nodes", "gauge", "Nodes.", (Row(labelled(state=state.value), counts[state]) for state in NodeStatus)
    )
    yield from family(
        "corral_node_state",
        "gauge",
        "1 for the state that the node is in.",
        (Row(labelled(node=name, state=state.value), 1) for name, state in states.items()),
    )
    yield from family(
        "corral_starts_blocked",
        "gauge",
        "1 where a disk of a node, or of the server's ledger, keeps waiting jobs from starting.",
        (Row(labelled(disk="node" if node else "ledger", node=node), 1) for node in sorted(obstacles)),
    )


def _longest_waits(view: View, queues: Iterable[str], now: float) -> dict[str, float]:
    since = dict.fromkeys(queues, now)
    for job in view.jobs.values():
        if job.phase is Phase.PENDING and ineligible(job, now) is None:
            began = max(job.submitted_at, job.eligible_at or 0.0, job.ended_at or 0.0)
            since[job.spec.queue] = min(since[job.spec.queue], began)
    return {queue: now - at for queue, at in since.items()}


def _running(view: View) -> Iterator[Row]:
    for allocation in view.allocations.values():
        job = view.jobs.get(allocation.job_id)
        if job is None or job.phase is not Phase.RUNNING:
            continue
        spec = job.spec
        for uuid in dict.fromkeys(allocation.placement.uuids) or ("",):
            labels = labelled(job=job.id, user=spec.user, project=spec.project, queue=spec.queue, UUID=uuid)
            yield Row(labels, 1)
