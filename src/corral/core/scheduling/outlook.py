"""The prospects of the jobs of one view: places in line, starts and quotas, each computed on first use."""

from functools import cached_property

from corral.core.model.jobs.job import Job
from corral.core.model.view import View
from corral.core.scheduling.forecast import ExpectedStart, Foresight, MakePlanner, foresee
from corral.core.scheduling.planner import Planner


class Outlook:
    """A view at one time (Unix seconds), with values computed from it on first use. Not thread-safe, like planners."""

    def __init__(self, view: View, now: float, planner: MakePlanner = Planner) -> None:
        self.view = view
        self.now = now
        self._make_planner = planner

    @cached_property
    def planner(self) -> Planner:
        """A planner over the view. Ask it, but do not advance it."""
        return self._make_planner(self.view)

    @cached_property
    def foresight(self) -> Foresight:
        """The expected starts of all waiting jobs."""
        return foresee(self.view, self.now, planner=self._make_planner)

    def start_of(self, job: Job) -> ExpectedStart:
        """The expected start of a waiting job, or the job that its start depends on."""
        return self.foresight.in_full(job.id, held=job.held)
