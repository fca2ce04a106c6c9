"""Simulates the jobs recorded in a server's journal under another policy, or with more GPUs.

The journal has no inventory. The simulated cluster has every device that was ever allocated, with the model from the
allocation. Conditions that cannot be checked (memory, compute capability, driver, labels) count as met.
"""

import os
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from corral.core.ledger.database import Database
from corral.core.ledger.reader import Reader
from corral.core.model.devices.device import Device, Node
from corral.core.model.errors import Refused
from corral.core.model.fact import (
    AllocationMade,
    DevicesExchanged,
    Fact,
    JobChanged,
    JobRequeued,
    JobSubmitted,
    JobUpdated,
)
from corral.core.model.jobs.job import Job
from corral.core.model.jobs.job_update import with_changes
from corral.core.model.jobs.phase import Phase
from corral.core.model.placing.plan import PARKED
from corral.core.scheduling.planner import Planner
from corral.core.scheduling.policy import backfill_named, policy_named
from corral.features.feature_list import slices
from corral.sim.engine import Engine, Progress, SimulatedWork, inventory, untold
from corral.sim.faults.faults import breakdowns
from corral.sim.reports.history import History

MEMORY_MIB = 1 << 24
"""The memory of a device without a record of it: more than any job requests."""

HOST = 1 << 40
"""The CPU (milli-CPU) and the memory (MiB) of a host: more than any job requests."""


@dataclass(frozen=True, slots=True)
class Faults:
    """Devices fail on average every `mtbf_s` seconds and are back after `repair_s`."""

    mtbf_s: float
    repair_s: float = 3600.0
    seed: int = 42


@dataclass(slots=True)
class Recorded:
    """One recorded job; `ran_s` is the run time of its last attempt, `wait_s` its time in the queue before.

    `queued_s` is that time by the journal, until the last attempt got its devices at `allocated_at`.
    """

    job: Job
    started_at: float | None = None
    ended_at: float | None = None
    allocated_at: float | None = None
    queued_s: float | None = None

    @property
    def wait_s(self) -> float:
        """The seconds from the time when only the queue kept the job from starting to its last start."""
        return max(0.0, (self.started_at or 0.0) - self.job.submitted_at)

    @property
    def ran_s(self) -> float:
        """The seconds from the job's last start to its end."""
        return max(1e-3, (self.ended_at or 0.0) - (self.started_at or 0.0))


def read_journal(url: str) -> tuple[Fact, ...]:
    """Return every fact of the ledger at `url`, in order; the server may be running.

    Raises Refused if there is no ledger, or this user may not read it.
    """
    slices()  # a journal has the facts of features, too
    database = Database(url)
    if _is_forbidden(database.path):
        raise Refused(
            f"you may not read {database.path}; a history holds everybody's jobs, so this is for those who may read "
            "the server's files: run it as the server's owner (an administrator, with sudo)"
        )
    if not database.path.is_file():
        raise Refused(f"there is no ledger at {database.path}; name the home of the server, or the ledger's URL")
    try:
        return tuple(entry.fact for entry in Reader(database).journal(None, 0, None))
    finally:
        database.close()


def _is_forbidden(path: Path) -> bool:
    """Return whether the file may exist, and this user may not open it."""
    try:
        path.stat()
    except PermissionError:
        return True
    except OSError:
        return False
    return not os.access(path, os.R_OK)


def simulate(
    facts: Sequence[Fact],
    *,
    policy: str,
    backfill: str = "easy",
    add_gpus: int = 0,
    faults: Faults | None = None,
    history: History | None = None,
    progress: Progress = untold,
) -> dict[str, Any]:
    """Simulate the recorded jobs under `policy`, on the recorded GPUs and `add_gpus` more. Report them beside the real
    course.
    """
    began = time.perf_counter()
    chosen = replace(policy_named(policy), backfill=backfill_named(backfill))
    jobs = recorded_jobs(facts)
    if not jobs:
        raise Refused("the journal has no job that has started; there is nothing to run again")
    nodes = recorded_nodes(facts, add_gpus)
    works = [SimulatedWork(as_submitted(one.job), one.ran_s) for one in jobs]
    planner = Planner(policy=chosen)
    planner.advance(inventory(nodes))
    if history is not None:
        history.name(nodes)
    start, end = jobs[0].job.submitted_at, max(one.ended_at or 0.0 for one in jobs)
    broken = (
        ()
        if faults is None
        else breakdowns(nodes, start=start, end=end, mtbf_s=faults.mtbf_s, repair_s=faults.repair_s, seed=faults.seed)
    )
    Engine(planner, tick_s=chosen.quantum_s, breakdowns=broken, history=history, progress=progress).run(works)
    return {
        "policy": policy,
        "backfill": backfill,
        "gpus": sum(len(node.devices) for node in nodes),
        "jobs": len(jobs),
        "recorded": _figures([(one.job, one.wait_s, one.ended_at) for one in jobs]),
        "simulated": _figures([(work.job, work.wait_s, work.ended_at) for work in works]),
        "breakdowns": len(broken),
        "wall_s": round(time.perf_counter() - began, 3),
    }


def simulate_each(
    facts: Sequence[Fact],
    *,
    policies: Sequence[str],
    backfill: str = "easy",
    add_gpus: int = 0,
    faults: Faults | None = None,
    histories: Mapping[str, History],
    progress: Callable[[str], Progress] = lambda policy: untold,
) -> dict[str, Any]:
    """Simulate the recorded jobs under each policy, as `simulate` does.

    With several policies the report has the figures of each under the policy's name, beside the real course.
    """
    reports = {
        policy: simulate(
            facts,
            policy=policy,
            backfill=backfill,
            add_gpus=add_gpus,
            faults=faults,
            history=histories.get(policy),
            progress=progress(policy),
        )
        for policy in policies
    }
    first = reports[policies[0]]
    if len(reports) == 1:
        return first
    same = {key: first[key] for key in ("backfill", "gpus", "jobs", "breakdowns", "recorded")}
    ran = {policy: report["simulated"] for policy, report in reports.items()}
    return {**same, **ran, "wall_s": round(sum(report["wall_s"] for report in reports.values()), 3)}


def recorded_jobs(facts: Iterable[Fact], now: float = 0.0) -> list[Recorded]:
    """Return the jobs that have started, in order of submission. A job that still runs ends with the journal, or at
    `now`.

    A job counts as submitted when only its queue kept it from starting, for example at its begin time. By the journal's
    record of its wait, the time in which it was held, waited for other jobs, or ran earlier attempts does not count.
    """
    jobs: dict[str, Recorded] = {}
    last = now
    for fact in facts:
        last = max(last, fact.at)
        match fact:
            case JobSubmitted(job=job):
                jobs[job.id] = Recorded(replace(job, submitted_at=max(job.submitted_at, job.spec.begin_at or 0.0)))
            case JobRequeued(job=job):
                jobs[job.id] = Recorded(replace(job, submitted_at=jobs[job.id].job.submitted_at))
            case JobUpdated(job_id=job_id, changes=updates) if job_id in jobs:
                one = jobs[job_id]
                one.job = replace(one.job, spec=with_changes(one.job.spec, updates))
            case JobChanged(job_id=job_id) if job_id in jobs:
                _follow(jobs[job_id], fact)
    for one in jobs.values():
        if one.started_at is not None and one.ended_at is None:
            one.ended_at = last
    ran = [one for one in jobs.values() if one.started_at is not None]
    for one in ran:
        if one.queued_s is not None and one.allocated_at is not None:
            came_at = max(one.job.submitted_at, one.allocated_at - one.queued_s)
            one.job = replace(one.job, submitted_at=came_at)
    return sorted(ran, key=lambda one: (one.job.submitted_at, one.job.sequence))


def _follow(one: Recorded, fact: JobChanged) -> None:
    changes = fact.changes
    if changes.get("phase") is Phase.STARTING:
        one.started_at, one.ended_at, one.allocated_at = fact.at, None, fact.at
        if waited := changes.get("waited"):
            one.queued_s = sum(seconds for reason, seconds in waited if reason not in PARKED)
    elif changes.get("phase") in (Phase.RUNNING, Phase.STARTING) and changes.get("started_at") is not None:
        one.started_at = changes["started_at"]
    if changes.get("ended_at") is not None:
        one.ended_at = changes["ended_at"]


def recorded_nodes(facts: Iterable[Fact], add_gpus: int = 0) -> list[Node]:
    """Return nodes with all devices that were ever allocated, and one with `add_gpus` more of the most common model."""
    models: dict[str, dict[str, tuple[int, str]]] = {}
    # Of an allocation whose devices were exchanged, the last ones are those that it had.
    made = {one.allocation.id: one.allocation for one in facts if isinstance(one, AllocationMade | DevicesExchanged)}
    for allocation in made.values():
        info = allocation.gpu_info
        details = iter(info.details if info is not None else ())
        for member in allocation.placement.members:
            known = models.setdefault(member.node, {})
            for grant in member.grants:
                detail = next(details, None)
                known.setdefault(grant.uuid, (len(known), "GPU") if detail is None else (detail.index, detail.name))
    if add_gpus:
        common = Counter(name for known in models.values() for _, name in known.values()).most_common(1)
        name = common[0][0] if common else "GPU"
        models["added"] = {f"added-{index}": (index, name) for index in range(add_gpus)}
    return [_node(name, known) for name, known in sorted(models.items())]


def _node(name: str, known: dict[str, tuple[int, str]]) -> Node:
    devices = tuple(
        Device(uuid, index, model, MEMORY_MIB)
        for uuid, (index, model) in sorted(known.items(), key=lambda item: (item[1][0], item[0]))
    )
    return Node(name, devices, HOST, HOST)


def as_submitted(job: Job) -> Job:
    """Return the job as it was submitted, without conditions that the journal cannot check."""
    wish = replace(
        job.spec.request,
        min_memory_mib=None,
        min_compute=None,
        min_driver=None,
        min_cuda=None,
        labels=(),
        accept_in_use=None,
    )
    spec = replace(job.spec, request=wish, after=())
    return Job(job.id, job.sequence, spec, job.submitted_at, array_id=job.array_id, array_limit=job.array_limit)


def _figures(jobs: Sequence[tuple[Job, float, float | None]]) -> dict[str, Any]:
    """Return the figures of the waits and the last end, from (job, wait, end) triples. They include the waits of each
    user.
    """
    waits = sorted(wait for _, wait, _ in jobs)
    by_user: dict[str, list[float]] = {}
    for job, wait, _ in jobs:
        by_user.setdefault(job.spec.user, []).append(wait)
    return {
        "mean_wait_s": round(sum(waits) / len(waits), 1),
        "median_wait_s": round(waits[len(waits) // 2], 1),
        "max_wait_s": round(waits[-1], 1),
        "ended_at": round(max(end or 0.0 for _, _, end in jobs), 1),
        "mean_wait_s_by_user": {user: round(sum(some) / len(some), 1) for user, some in sorted(by_user.items())},
    }
