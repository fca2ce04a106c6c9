"""The data exchanged between a search and the tuner that tries its candidates."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from corral.features.tuner.search.space import Parameters


@dataclass(frozen=True, slots=True)
class LoadLevel:
    """A traffic scenario with `concurrency` requests at a time, for `minutes`."""

    scenario: str
    concurrency: int
    minutes: float


@dataclass(frozen=True, slots=True)
class LevelReading:
    """The measurements at one load level, by the names of an experiment's metrics (`mean_ttft`, in seconds)."""

    level: LoadLevel
    metrics: Mapping[str, float]


class FailedStep(StrEnum):
    """The step at which a candidate failed.

    NOT_RUNNABLE: the GPUs that the task can get do not hold it, so no server was awaited. STOPPED: its task was ended,
    and nothing is known about the candidate.
    """

    NOT_RUNNABLE = "not_runnable"
    DEPLOY = "deploy"
    MEMORY = "memory"
    CONNECTION = "connection"
    OTHER = "other"
    STOPPED = "stopped"


@dataclass(frozen=True, slots=True)
class TrialFailure:
    """A candidate could not be measured. `timeout_ratio` is the part of its time that had passed by then, 0 to 1."""

    step: FailedStep
    timeout_ratio: float = 0.0


@dataclass(frozen=True, slots=True)
class Trial:
    """A candidate that was returned, and its results so far.

    Attributes:
        number: counts the candidates of a task from 1.
        readings: in order of measurement, including a short probe.
        ended: nothing more will be measured. A trial that ended before all levels were measured was stopped early.
        failure: why it could not be measured, None if it could.
        repeats: the number of the trial that it measures again, None if it is no repeat.
        gpu_model: the model of its GPUs, None if it is not known.
    """

    number: int
    parameters: Parameters
    readings: tuple[LevelReading, ...] = ()
    ended: bool = False
    failure: TrialFailure | None = None
    repeats: int | None = None
    gpu_model: str | None = None

    @property
    def counts(self) -> bool:
        """Whether it was tried; a candidate that was stopped with its task is tried again when the task continues."""
        return self.failure is None or self.failure.step is not FailedStep.STOPPED

    @property
    def not_runnable(self) -> bool:
        """Whether the GPUs that the task can get do not hold it."""
        return self.failure is not None and self.failure.step is FailedStep.NOT_RUNNABLE


@dataclass(frozen=True, slots=True)
class Candidate:
    """A combination to try: deploy it, then measure the levels of `Search.next_level`. `repeats` is as in `Trial`."""

    number: int
    parameters: Parameters
    repeats: int | None = None


@dataclass(frozen=True, slots=True)
class Later:
    """Nothing can be tried before one of the running candidates has ended."""

    why: str


@dataclass(frozen=True, slots=True)
class Finished:
    """Nothing more is worth trying."""

    why: str
