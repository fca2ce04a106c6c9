"""Steps of a job as its tests take them: on a box of four GPUs."""

from corral.core.lifecycle import starting
from corral.core.lifecycle.retry_backoff import Backoff
from corral.core.model.fact import Fact, JobChanged
from corral.core.model.jobs.phase import Phase
from corral.core.model.placing.allocation import Grant, Member, Placement
from corral.core.model.placing.eviction import EvictionRule
from corral.core.model.placing.plan import Evict
from corral.core.model.runs.launch import LaunchPhase, LaunchReport
from corral.core.model.view import View

BACKOFF = Backoff()
URGENT = Evict("1", "2", "taken back", EvictionRule.QUEUE_RECLAIM, "b")
WHOLE = 1000


def place(*indices: int) -> Placement:
    return Placement((Member("box", tuple(Grant(f"GPU-{i}", WHOLE) for i in indices)),))


def started(view: View, job_id: str, *indices: int) -> View:
    return view.advance(starting.start(view.jobs[job_id], place(*indices), by="test", at=200.0))


def exited(job_id: str, code: int = 0, ending: Phase | None = None) -> LaunchReport:
    how = ending or (Phase.SUCCEEDED if code == 0 else Phase.FAILED)
    return LaunchReport(f"{job_id}.1", LaunchPhase.EXITED, 201.0, 202.0, exit_code=code, ending=how)


def phases(facts: list[Fact], job_id: str) -> list[Phase]:
    return [
        f.changes["phase"] for f in facts if isinstance(f, JobChanged) and f.job_id == job_id and "phase" in f.changes
    ]
