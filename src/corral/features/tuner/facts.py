"""Facts about tasks of the autotuner and their experiments. Each has the whole state of its subject."""

from dataclasses import dataclass

from corral.core.model.fact import Fact
from corral.features.tuner.model.experiment import Experiment
from corral.features.tuner.model.tuning_task import TuningTask


@dataclass(frozen=True, slots=True)
class TaskFact(Fact):
    """A change of a task; `task` is its new state. The subclass says which change."""

    task: TuningTask

    @property
    def subject(self) -> str:
        """The state of the task."""
        return f"tuning task {self.task.id}"


@dataclass(frozen=True, slots=True)
class TaskCreated(TaskFact):
    """A user created a task."""


@dataclass(frozen=True, slots=True)
class TaskEdited(TaskFact):
    """A user changed the specification of a task."""


@dataclass(frozen=True, slots=True)
class TaskStarted(TaskFact):
    """A user started a task, or let it continue."""


@dataclass(frozen=True, slots=True)
class TaskPlanned(TaskFact):
    """The largest number of experiments of a task is known."""


@dataclass(frozen=True, slots=True)
class TaskEnded(TaskFact):
    """A task ended by itself: completed or failed."""


@dataclass(frozen=True, slots=True)
class TaskCancelled(TaskFact):
    """A user cancelled a task."""


@dataclass(frozen=True, slots=True)
class TaskDeleted(Fact):
    """A task was deleted with its experiments; none of them was running."""

    task_id: str

    @property
    def subject(self) -> str:
        """The state of the task."""
        return f"tuning task {self.task_id}"

    @property
    def closes(self) -> bool:
        """True: the task is deleted."""
        return True


@dataclass(frozen=True, slots=True)
class ExperimentsCleared(Fact):
    """The experiments of a task were deleted; none of them was running."""

    task_id: str


@dataclass(frozen=True, slots=True)
class ExperimentFact(Fact):
    """A change of an experiment; `experiment` is its new state."""

    experiment: Experiment

    @property
    def subject(self) -> str:
        """The state of the experiment."""
        return f"experiment {self.experiment.id}"

    @property
    def closes(self) -> bool:
        """True once it is over: then only the table of experiments has it."""
        return self.experiment.status.over


@dataclass(frozen=True, slots=True)
class ExperimentCreated(ExperimentFact):
    """The search chose a combination of parameters."""


@dataclass(frozen=True, slots=True)
class ExperimentChanged(ExperimentFact):
    """An experiment reached its next step, or returned to its queue."""


@dataclass(frozen=True, slots=True)
class ExperimentEnded(ExperimentFact):
    """An experiment was measured, or failed."""
