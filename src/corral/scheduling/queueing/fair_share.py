"""Fair share: how much of what was due to them each project, and each user in it, has had."""

from corral.model.allocation import Placement
from corral.model.job import Job
from corral.model.units import MILLI_PER_DEVICE
from corral.model.view import View
from corral.scheduling.queueing.order import HOUR_S, Rank

HORIZON_S = HOUR_S
"""What somebody holds counts as if it were held this much longer, so that the first to come does not get everything."""


class FairShare:
    """What everybody has had, decayed to `now`, what they hold counted up to HORIZON_S from now. Read when first asked.

    With one project, equal weights and nothing forgotten it orders users by what they have had: those below the
    average before those above.
    """

    def __init__(self, view: View, now: float) -> None:
        self._view = view
        self._now = now
        self._of_project: dict[str, float] | None = None
        self._of_user: dict[tuple[str, str], float] = {}
        self._weight_of_user = {
            (project.name, user): weight for project in view.projects.values() for user, weight in project.user_weights
        }

    def over_use(self, job: Job) -> Rank:
        """GPU-seconds that the job's project has had for its weight, and its user in it for theirs."""
        projects = self._read()
        known, member = self._view.projects.get(job.spec.project), (job.spec.project, job.spec.user)
        had = projects.get(job.spec.project, 0.0) / (1.0 if known is None else known.weight)
        return had, self._of_user.get(member, 0.0) / self._weight_of_user.get(member, 1.0)

    def started(self, job: Job, placement: Placement) -> None:
        """A job starts in this cycle: what it will hold counts at once."""
        if self._of_project is not None:
            milli = sum(grant.counted_milli for grant in placement.grants)
            self._add(self._of_project, job, milli / MILLI_PER_DEVICE * HORIZON_S)

    def _read(self) -> dict[str, float]:
        if self._of_project is None:
            self._of_project = {}
            for (project, user), usage in sorted(self._view.usage.items()):
                gpu_s = usage.decayed(self._now, self._view.usage_half_life_s).gpu_s
                self._of_project[project] = self._of_project.get(project, 0.0) + gpu_s
                self._of_user[project, user] = gpu_s
            for _, allocation in sorted(self._view.allocations.items()):
                job = self._view.jobs.get(allocation.job_id)
                if job is not None:
                    held_s = max(0.0, self._now - allocation.created_at) + HORIZON_S
                    self._add(self._of_project, job, allocation.gpus * held_s)
        return self._of_project

    def _add(self, projects: dict[str, float], job: Job, gpu_s: float) -> None:
        project, user = job.spec.project, job.spec.user
        projects[project] = projects.get(project, 0.0) + gpu_s
        self._of_user[project, user] = self._of_user.get((project, user), 0.0) + gpu_s
