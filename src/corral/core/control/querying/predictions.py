"""Predicts the run time of a job and its use of GPUs, and offers a smaller request where that would start now."""

from collections.abc import Callable, Sequence
from dataclasses import replace

from corral.core.model.answers.predicted_use import PredictedUse, PredictedValue
from corral.core.model.jobs.job import Job, JobSpec, Request
from corral.core.model.jobs.phase import Phase
from corral.core.model.runs.prediction import Alike, Prediction, groups_of
from corral.core.model.units import format_memory
from corral.core.model.view import View
from corral.core.ports.monitoring import PredictUse
from corral.core.scheduling.explaining.phrases import flags_of
from corral.core.scheduling.explaining.smaller_memory import fits_on, smaller_by_memory, starts_on
from corral.core.scheduling.forecast import MakePlanner

MOST_NODES, MOST_JOBS = 1, 64
"""The largest site on which an offer is sought at a submission, if no other job waits: it takes less than 1 ms there.

`corral why` and dry runs seek it on every site.
"""

StartsOn = Callable[[View, Job, Request, float, MakePlanner], str | None]
"""The node on which the job would start now with this request; None if it would not start."""


class Predictions:
    """Asks the past about jobs. Every answer is for one view."""

    def __init__(self, use: PredictUse, planner: MakePlanner) -> None:
        self._use = use
        self._planner = planner

    def of(self, view: View, spec: JobSpec) -> PredictedUse | None:
        """Return the prediction for a job from earlier ones; None if too few are known."""
        past, groups, use = view.durations.get(spec.user), groups_of(spec), self._use(spec)
        run_s = None if past is None else past.predict(groups)
        told = PredictedUse(_of_command(run_s), _of_command(use.memory_mib), _of_command(use.used_pct))
        return None if told == PredictedUse() else told

    def offered(self, view: View, job: Job, now: float, *, on: StartsOn = starts_on) -> PredictedUse | None:
        """The same, with the smaller request with which a waiting job would start now, if there is one."""
        told = self.of(view, job.spec)
        if told is None or told.memory_mib is None:
            return told
        smaller = smaller_by_memory(job.spec, told.memory_mib.most)
        node = None if smaller is None else on(view, job, smaller, now, self._planner)
        if smaller is None or node is None:
            return told
        return replace(told, starts_now_with=flags_of(smaller, job.spec.request), node=node)

    def notes(self, view: View, job: Job, now: float) -> Sequence[str]:
        """The offer for a job that was just submitted; () if there is none, or it costs too much to tell here."""
        if len(view.nodes) > MOST_NODES or len(view.jobs) > MOST_JOBS or self._use(job.spec).memory_mib is None:
            return ()
        if any(one.phase is Phase.PENDING and one.id != job.id for one in view.jobs.values()):
            return ()
        if job.phase is not Phase.PENDING or fits_on(view, job, job.spec.request, now, self._planner) is not None:
            return ()
        sentence = offer(self.offered(view, job, now, on=fits_on), job)
        return () if sentence is None else (sentence,)


def offer(told: PredictedUse | None, job: Job) -> str | None:
    """The offer in words; None if there is none."""
    if told is None or told.starts_now_with is None or told.memory_mib is None:
        return None
    request = job.spec.request
    asked_mib = request.memory_mib or request.min_memory_mib
    asked = "a whole GPU" if asked_mib is None else format_memory(asked_mib)
    return (
        f"It asks for {asked}; the last {told.memory_mib.jobs} jobs of this command used at most "
        f"{format_memory(round(told.memory_mib.most))}: {told.starts_now_with} would start now on {told.node}."
    )


def _of_command(found: Prediction | None) -> PredictedValue | None:
    """The prediction for an answer. What the user's other jobs did is no news of this one."""
    if found is None or found.alike is not Alike.COMMAND:
        return None
    return PredictedValue(found.jobs, round(found.median, 1), round(found.p90, 1), round(found.most, 1))
