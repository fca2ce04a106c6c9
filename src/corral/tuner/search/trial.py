"""What passes between a search and the tuner that tries its candidates."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from corral.tuner.search.space import Parameters


@dataclass(frozen=True, slots=True)
class LoadLevel:
    """A traffic scenario at a number of requests at a time, for so many minutes."""

    scenario: str
    concurrency: int
    minutes: float


@dataclass(frozen=True, slots=True)
class LevelReading:
    """What was measured at one load level, by the names of the metrics of an experiment (`mean_ttft`, in seconds)."""

    level: LoadLevel
    metrics: Mapping[str, float]


class FailedStep(StrEnum):
    """What a candidate failed at."""

    DEPLOY = "deploy"
    MEMORY = "memory"
    CONNECTION = "connection"
    OTHER = "other"


@dataclass(frozen=True, slots=True)
class TrialFailure:
    """A candidate could not be measured. `timeout_ratio` is the part of its time that had gone by then, 0 to 1."""

    step: FailedStep
    timeout_ratio: float = 0.0


@dataclass(frozen=True, slots=True)
class Trial:
    """A candidate that was handed out, and what is known of it by now.

    Attributes:
        number: counts the candidates of a task from 1.
        readings: in the order in which they were measured; a short probe is one of them.
        ended: nothing more will be measured. One that ended before all levels were measured was stopped early.
        failure: why it could not be measured; None if it could.
    """

    number: int
    parameters: Parameters
    readings: tuple[LevelReading, ...] = ()
    ended: bool = False
    failure: TrialFailure | None = None


@dataclass(frozen=True, slots=True)
class Candidate:
    """Try this one: deploy it, then measure what `Search.next_level` says."""

    number: int
    parameters: Parameters


@dataclass(frozen=True, slots=True)
class Later:
    """Nothing to try before one of the running candidates has ended."""

    why: str


@dataclass(frozen=True, slots=True)
class Finished:
    """Nothing more is worth trying."""

    why: str
