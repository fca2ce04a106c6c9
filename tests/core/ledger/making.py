"""Values that the ledger's tests write."""

from concurrent.futures import Future
from pathlib import Path
from typing import Any

from corral.core.ledger.store import SqlLedger
from corral.core.model.fact import AllocationEnded, AllocationMade, Fact, JobChanged, JobSubmitted
from corral.core.model.jobs.job import Job, JobSpec
from corral.core.model.jobs.job_patch import JobPatch
from corral.core.model.jobs.phase import Phase
from corral.core.model.placing.allocation import Allocation, ChosenDevice, GpuInfo, Grant, Member, Placement
from corral.core.ports.ledger import Decided


def url_of(home: Path, query: str = "") -> str:
    return f"sqlite:///{home / 'ledger.db'}{query}"


def a_job(number: int, *, user: str = "alice", name: str = "", **fields: Any) -> Job:
    env = fields.pop("env", (("HOME", "/home/alice"), ("WORD", "two words")))
    told = {key: fields.pop(key) for key in ("notify", "notify_on") if key in fields}
    spec = JobSpec(user=user, name=name, command=("true",), env=env, **told)
    return Job(**{"id": str(number), "sequence": number, "spec": spec, "submitted_at": 1000.5 + number, **fields})


def submitted(job: Job) -> JobSubmitted:
    return JobSubmitted(job, at=job.submitted_at, by="alice")


def ended(job_id: str, phase: Phase = Phase.SUCCEEDED, at: float = 3000.0) -> JobChanged:
    return JobChanged(job_id, {"phase": phase, "exit_code": 0, "ended_at": at}, at=at, by="test")


def made(job_id: str, uuid: str = "GPU-0", attempt: int = 1) -> AllocationMade:
    placement = Placement((Member("node", (Grant(uuid, 500, 4096),), 2000, 1024),))
    info = GpuInfo(1, (0,), "pack", (ChosenDevice(0, "NVIDIA A100", None, 3, 0.75),))
    return AllocationMade(
        Allocation(f"{job_id}.{attempt}", job_id, "alice", placement, 2000.0, attempt, gpu_info=info),
        at=2000.0,
        by="test",
    )


def given_back(job_id: str, attempt: int = 1, at: float = 3000.0) -> AllocationEnded:
    return AllocationEnded(f"{job_id}.{attempt}", job_id, at=at, by="test")


def send(ledger: SqlLedger, *facts: Fact) -> "Future[None]":
    """Commit these facts without waiting."""
    return ledger.commit(lambda view: Decided(facts, None))


def write(ledger: SqlLedger, *facts: Fact) -> None:
    """Commit these facts and wait until they are on disk."""
    send(ledger, *facts).result()


def attempt(job: Job, number: int, start: float, end: float, phase: Phase) -> list[Fact]:
    """One attempt on half a GPU that ends in `phase`."""
    allocation = Allocation(
        f"{job.id}.{number}", job.id, job.spec.user, Placement((Member("box", (Grant("GPU-0", 500),)),)), start
    )
    began: JobPatch = {"phase": Phase.STARTING, "allocation_id": allocation.id}
    return [
        JobChanged(job.id, began, at=start, by="test"),
        AllocationMade(allocation, at=start, by="test"),
        JobChanged(job.id, {"phase": Phase.RUNNING, "started_at": start + 1}, at=start + 1, by="test"),
        JobChanged(job.id, {"phase": phase, "allocation_id": None, "ended_at": end}, at=end, by="test"),
        AllocationEnded(allocation.id, job.id, at=end, by="test"),
    ]
