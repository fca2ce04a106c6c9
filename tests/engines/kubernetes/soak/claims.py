"""Whether what the ledger says in the end is what happened in the cluster."""

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from itertools import pairwise

from corral.core.ledger.store import open_ledger
from corral.core.model.home import Home
from corral.core.model.jobs.job import Job
from corral.core.model.jobs.phase import Phase
from corral.core.ports.ledger import JobQuery
from corral.features.feature_list import slices
from tests.engines.kubernetes.soak.record import SeenPod
from tests.soak.claims import Claim


def of_cluster(home: Home, pods: Mapping[str, SeenPod]) -> Iterator[Claim]:
    """`pods` are all that the API server ever told of, by UID."""
    ledger = open_ledger(home.ledger_url, slices=slices())
    try:
        jobs = ledger.jobs(JobQuery())
        held = list(ledger.view().allocations)
    finally:
        ledger.close()
    yield _claim("no allocation is left in the ledger", [str(one) for one in held], "none")
    unended = [f"{job.id} {job.phase}" for job in jobs if not job.phase.terminal]
    yield _claim("every job has ended", unended, f"{len(jobs)} jobs: {_counted(jobs)}")
    ran = sum(pod.began_s is not None for pod in pods.values())
    yield _claim("no job ran twice", list(ran_twice(pods)), f"{ran} pods ran")
    yield _claim("the ledger agrees with the cluster", list(differences(jobs, pods)), f"{len(jobs)} jobs were compared")


def ran_twice(pods: Mapping[str, SeenPod]) -> Iterator[str]:
    """A start of a gang of which only a part has begun is taken back, and does not count; nothing of it runs beside the
    next.
    """
    ran: dict[str, dict[str, list[SeenPod]]] = defaultdict(lambda: defaultdict(list))
    for pod in pods.values():
        if pod.ours and pod.began_s is not None:
            ran[pod.job][pod.allocation].append(pod)
    for job, starts in ran.items():
        for allocation, members in starts.items():
            if len({pod.rank for pod in members}) < len(members):
                yield f"a member of {allocation} of job {job} ran twice"
        whole = sum(len(members) >= members[0].gang_size for members in starts.values())
        if whole > 1:
            yield f"job {job} ran {whole} times"
        for (before, earlier), (after, later) in pairwise(sorted(starts.items(), key=lambda one: _began_s(one[1]))):
            if any(pod.ended_s is None or pod.ended_s > _began_s(later) for pod in earlier):
                yield f"{after} of job {job} ran beside {before}"


def _began_s(members: list[SeenPod]) -> float:
    return min(pod.began_s for pod in members if pod.began_s is not None)


def differences(jobs: tuple[Job, ...], pods: Mapping[str, SeenPod]) -> Iterator[str]:
    """Where what the ledger says of a job is not what its pods say."""
    of_job: dict[str, list[SeenPod]] = defaultdict(list)
    # They come in the order of their making.
    last = {pod.job: pod.allocation for pod in pods.values() if pod.ours and not pod.tombstone}
    for pod in pods.values():
        # A start that came to nothing is made again, as another allocation.
        if pod.ours and not pod.tombstone and pod.allocation == last[pod.job]:
            of_job[pod.job].append(pod)
    seen: Counter[str] = Counter()
    for job in jobs:
        for ref in job.spec.pods:
            seen[ref.uid] += 1
            if ref.uid in pods:
                of_job[job.id].append(pods[ref.uid])
        yield from _difference(job, of_job[job.id])
    for uid, pod in pods.items():
        if not pod.ours and seen[uid] > 1:
            yield f"{pod.name} has {seen[uid]} jobs"
        if not pod.ours and pod.bound_by_us and not seen[uid]:
            yield f"{pod.name} was bound, and no job stands for it"


def _difference(job: Job, pods: list[SeenPod]) -> Iterator[str]:
    """A job has succeeded if, and only if, all of its pods have, and Corral had put them there."""
    succeeded = len(pods) == job.spec.request.gang_size and all(pod.exit_code == 0 and pod.bound_by_us for pod in pods)
    said = ", ".join(_told(pod) for pod in pods) or "none"
    if job.phase not in (_ends_of_success(pods) if succeeded else set(Phase) - {Phase.SUCCEEDED}):
        yield f"job {job.id} is {job.phase} ({job.reason}), its pods: {said}"
    if job.phase is Phase.FAILED and not any(pod.phase == "Failed" for pod in pods):
        yield f"job {job.id} is FAILED ({job.reason}), and no pod of it failed: {said}"
    if job.phase is Phase.LOST and not any(pod.lost_node or pod.deleting for pod in pods):
        yield f"job {job.id} is LOST ({job.reason}), and nothing has happened to its pods: {said}"
    if job.phase is Phase.CANCELLED and not job.spec.pods:
        yield f"job {job.id} is CANCELLED ({job.reason}), and nobody has cancelled it: {said}"


def _ends_of_success(pods: list[SeenPod]) -> set[Phase]:
    """How a job may have ended whose pods have all ended well.

    Who deletes a pod of others cancels its job, though it may still end well in the time that it has then. And one that
    is gone as soon as it has ended may be gone before anybody has looked.
    """
    ends = {Phase.SUCCEEDED}
    if any(pod.unseen or (pod.deleted_first and not pod.ours) for pod in pods):
        ends.add(Phase.CANCELLED)
    if any(pod.unseen and pod.lost_node for pod in pods):
        ends.add(Phase.LOST)
    return ends


def _told(pod: SeenPod) -> str:
    facts = {"deleted": pod.deleting, "its node vanished": pod.lost_node, "gone": pod.gone}
    return " ".join([pod.name, pod.phase, str(pod.exit_code), *(word for word, holds in facts.items() if holds)])


def _counted(jobs: tuple[Job, ...]) -> str:
    return ", ".join(f"{count} {phase}" for phase, count in sorted(Counter(str(job.phase) for job in jobs).items()))


def _claim(name: str, wrong: list[str], otherwise: str) -> Claim:
    return Claim(name, not wrong, "\n    ".join([f"{len(wrong)}:", *wrong[:12]]) if wrong else otherwise)
