"""Fair share: the use of each project, and of each user in it, in relation to its weight."""

from collections.abc import Mapping

from corral.core.model.jobs.job import Job
from corral.core.model.placing.allocation import Placement
from corral.core.model.units import MILLI_PER_DEVICE
from corral.core.model.view import View
from corral.core.scheduling.queueing.order import HOUR_S, Rank

HORIZON_S = HOUR_S
"""Every allocation counts as if it lasted this many seconds longer.

Otherwise the first user would get everything at once.
"""


class FairShare:
    """Use in GPU-seconds by project and user: past use decayed to `now`, allocations counted until HORIZON_S from now.

    With one project, equal weights and no decay, users below the average use come before users above it. Nothing is
    computed before the first `over_use`.
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
        """GPU-seconds per weight used by the job's project, and by its user within the project."""
        projects = self._read()
        project, user = job.spec.project, job.spec.user
        had = projects.get(project, 0.0) / self.weight_of_project(project)
        return had, self._of_user.get((project, user), 0.0) / self.weight_of_user(project, user)

    def of_projects(self) -> Mapping[str, float]:
        """GPU-seconds used by each project, counted as in `over_use` but not divided by weight."""
        return self._read()

    def of_users(self) -> Mapping[tuple[str, str], float]:
        """GPU-seconds used by each user of each project, counted as in `over_use` but not divided by weight."""
        self._read()
        return self._of_user

    def weight_of_user(self, project: str, user: str) -> float:
        """A user's weight within a project."""
        return self._weight_of_user.get((project, user), 1.0)

    def weight_of_project(self, project: str) -> float:
        """A project's weight; 1 if the settings do not contain the project."""
        known = self._view.projects.get(project)
        return 1.0 if known is None else known.weight

    def started(self, job: Job, placement: Placement) -> None:
        """Count a job that starts in this cycle."""
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
