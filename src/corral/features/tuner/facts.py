"""Facts about tasks of the autotuner and their experiments. Each carries all of what it is about."""

from dataclasses import dataclass

from corral.core.model.fact import Fact
from corral.core.model.tuning.experiment import Experiment
from corral.core.model.tuning.tuning_task import TuningTask


@dataclass(frozen=True, slots=True)
class TaskFact(Fact):
    """Something happened to a task; `task` is it since then. What happened, its subclasses say."""

    task: TuningTask

    @property
    def subject(self) -> str:
        """How the task stands."""
        return f"tuning task {self.task.id}"


@dataclass(frozen=True, slots=True)
class TaskCreated(TaskFact):
    """Somebody wrote down a task."""


@dataclass(frozen=True, slots=True)
class TaskEdited(TaskFact):
    """Somebody has a task ask for something else."""


@dataclass(frozen=True, slots=True)
class TaskStarted(TaskFact):
    """Somebody has a task begin, or go on."""


@dataclass(frozen=True, slots=True)
class TaskPlanned(TaskFact):
    """It is known how many experiments a task makes at most."""


@dataclass(frozen=True, slots=True)
class TaskEnded(TaskFact):
    """A task came to its end by itself: completed or failed."""


@dataclass(frozen=True, slots=True)
class TaskCancelled(TaskFact):
    """Somebody does not want a task to go on."""


@dataclass(frozen=True, slots=True)
class TaskDeleted(Fact):
    """A task is gone, and its experiments with it; none of them ran any more."""

    task_id: str

    @property
    def subject(self) -> str:
        """How the task stands."""
        return f"tuning task {self.task_id}"

    @property
    def closes(self) -> bool:
        """It is gone."""
        return True


@dataclass(frozen=True, slots=True)
class ExperimentsCleared(Fact):
    """The experiments of a task are gone; none of them ran any more."""

    task_id: str


@dataclass(frozen=True, slots=True)
class ExperimentFact(Fact):
    """Something happened to an experiment; `experiment` is it since then."""

    experiment: Experiment

    @property
    def subject(self) -> str:
        """How the experiment stands."""
        return f"experiment {self.experiment.id}"

    @property
    def closes(self) -> bool:
        """Once it is over, the table of experiments alone has it."""
        return self.experiment.status.over


@dataclass(frozen=True, slots=True)
class ExperimentCreated(ExperimentFact):
    """The search chose a combination of parameters."""


@dataclass(frozen=True, slots=True)
class ExperimentChanged(ExperimentFact):
    """An experiment came a step further, or back to its queue."""


@dataclass(frozen=True, slots=True)
class ExperimentEnded(ExperimentFact):
    """An experiment was measured, or failed."""
