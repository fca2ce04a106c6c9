"""The best experiment of each task so far."""

from threading import Lock
from typing import NamedTuple

from corral.features.tuner.experiment_table import ExperimentTable
from corral.features.tuner.model.tuning_task import TuningTask
from corral.features.tuner.search.standing import standings

_KEPT = 4_096


class BestExperiment(NamedTuple):
    """The first experiment of the best combination, and the mean score of all of its experiments."""

    id: str
    score: float


class TaskBests:
    """Finds the best experiment of a task, and remembers it until another one succeeds. Thread-safe."""

    def __init__(self, experiments: ExperimentTable) -> None:
        self._experiments = experiments
        self._lock = Lock()
        self._known: dict[str, tuple[tuple[object, ...], BestExperiment | None]] = {}

    def of(self, task: TuningTask, succeeded: int) -> BestExperiment | None:
        """Return the best of this many successful experiments.

        None if none has a score, or if they ran on several models of GPU, whose figures do not compare.
        """
        if not succeeded:
            return None
        state = (task.started_at, succeeded)
        with self._lock:
            known = self._known.get(task.id)
        if known is not None and known[0] == state:
            return known[1]
        found = self._find(task.id)
        with self._lock:
            self._known.pop(task.id, None)
            self._known[task.id] = (state, found)
            while len(self._known) > _KEPT:
                del self._known[next(iter(self._known))]
        return found

    def _find(self, task_id: str) -> BestExperiment | None:
        measured = self._experiments.scored(task_id)
        found = standings(measured.values())
        if len(found) != 1:
            return None
        best = found[0].places[0]
        ids = {one.number: key for key, one in measured.items()}
        return BestExperiment(ids[best.numbers[0]], best.score)
