"""What every mode of deployment gives to an experiment, and how it says that something went wrong."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from corral.client import Client
from corral.core.model.answers.history import JobGpuHistory
from corral.core.model.answers.tuning import ExperimentRow
from corral.core.model.tuning.tuning_spec import TuningSpec
from corral.tuner.inference_engine import InferenceEngine
from corral.tuner.search.trial import FailedStep

LOOK_S = 0.25

Look = Callable[[], None]
"""Called now and then by what waits; raises where the wait is to end."""


class ExperimentFailed(Exception):
    """An experiment could not be measured; `step` is what failed."""

    def __init__(self, step: FailedStep, message: str) -> None:
        super().__init__(message)
        self.step = step


class NothingDeploys(ExperimentFailed):
    """It could not be deployed for a reason that holds for every combination, so the task need not try another."""

    def __init__(self, message: str) -> None:
        super().__init__(FailedStep.DEPLOY, message)


class GpusTakenAway(Exception):
    """The server was stopped for others, and waits again."""


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Where a server answers: its address without /v1, and what it calls its model; None is as the task has it."""

    url: str
    model: str | None = None


class Deployment(Protocol):
    """The inference server of one experiment, from its deployment to its end."""

    @property
    def noted(self) -> Mapping[str, str]:
        """The fields of an experiment by which the next tuner finds it."""
        ...

    def await_gpus(self, timeout_s: float | None, look: Look) -> None:
        """Wait until it has its GPUs, at most so long (None: for ever). Raises ExperimentFailed."""
        ...

    def await_ready(self, deadline: float, look: Look) -> Endpoint:
        """Wait until the server answers, at most until `deadline` (monotonic clock).

        Raises ExperimentFailed, at once where the server dies, and GpusTakenAway.
        """
        ...

    def must_serve(self) -> None:
        """Raises ExperimentFailed where it has ended since it was ready, and GpusTakenAway."""
        ...

    def gpu_info(self, gpus: int) -> dict[str, Any] | None:
        """Which GPUs it has, of a world of so many; None where that is not known."""
        ...

    def gpu_history(self, since: int, until: int) -> Sequence[JobGpuHistory]:
        """What its GPUs were like in these seconds (Unix time); nothing where that is not read."""
        ...

    def last_lines(self) -> str:
        """The end of what the server wrote."""
        ...

    def end(self) -> None:
        """Stop it, and wait until nothing of it is left; nothing where it has ended."""
        ...


@dataclass(frozen=True, slots=True)
class Deployed:
    """The task that is deployed for, and the client that does it. `timeout_s` is what an experiment may take."""

    client: Client
    task_id: str
    spec: TuningSpec
    engine: InferenceEngine
    timeout_s: float


class Mode(Protocol):
    """One mode of deployment."""

    def check(self, spec: TuningSpec, engine: InferenceEngine) -> None:
        """Raises Refused for a task that cannot be deployed so. Asks nobody."""
        ...

    def known(self, task: Deployed, row: ExperimentRow) -> Deployment | None:
        """What an earlier tuner has deployed for an experiment, also where it could not note that any more."""
        ...

    def deploy(self, task: Deployed, row: ExperimentRow, gpus: int) -> Deployment:
        """Deploy a server with an experiment's parameters. Raises ExperimentFailed."""
        ...

    def serving_command(
        self, spec: TuningSpec, engine: InferenceEngine, parameters: Mapping[str, Any], gpus: int
    ) -> str:
        """The shell command that serves the model so, without a tuner."""
        ...
