"""The common interface of all modes of deployment, and their errors."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

from corral.client import Client
from corral.core.model.jobs.job import Request
from corral.features.services.service_wanted import ServiceWanted
from corral.features.tuner.answers import ExperimentRow
from corral.features.tuner.engines.inference_engine import InferenceEngine
from corral.features.tuner.model.tuning_spec import TuningSpec
from corral.features.tuner.search.trial import FailedStep

LOOK_S = 0.25

Look = Callable[[], None]
"""Called periodically during a wait; raises to end the wait."""


class ExperimentFailed(Exception):
    """An experiment could not be measured; `step` is the failed step."""

    def __init__(self, step: FailedStep, message: str) -> None:
        super().__init__(message)
        self.step = step


class NothingDeploys(ExperimentFailed):
    """The deployment failed for a reason that holds for every combination, so the task need not try others."""

    def __init__(self, message: str) -> None:
        super().__init__(FailedStep.DEPLOY, message)


class GpusTakenAway(Exception):
    """The server was stopped for other jobs, and waits again."""


@dataclass(frozen=True, slots=True)
class Endpoint:
    """The address of a server without /v1, and the server's name for the model; None is the task's name."""

    url: str
    model: str | None = None


class WantedGpus(NamedTuple):
    """The GPUs of an experiment.

    Attributes:
        used: the number that the inference server uses.
        request: the conditions on them.
        exclusive: all GPUs of a node, of which the server uses `used`.
        kept: the model that the task keeps to; "" while it is open.
        not_over_nodes: why a gang over several nodes could not have them, where no node has so many; "" otherwise.
    """

    used: int
    request: Request
    exclusive: bool = False
    kept: str = ""
    not_over_nodes: str = ""


class Deployment(Protocol):
    """The inference server of one experiment, from its deployment to its end."""

    @property
    def noted(self) -> Mapping[str, str]:
        """The fields of an experiment by which the next tuner finds the deployment."""
        ...

    def await_gpus(self, timeout_s: float | None, look: Look) -> None:
        """Wait until it has its GPUs, at most `timeout_s` (None: for ever). Raises ExperimentFailed."""
        ...

    def await_ready(self, deadline: float, look: Look) -> Endpoint:
        """Wait until the server answers, at most until `deadline` (monotonic clock).

        Raises ExperimentFailed (at once if the server dies), and GpusTakenAway.
        """
        ...

    def must_serve(self) -> None:
        """Raise ExperimentFailed if the server has ended since it was ready, or GpusTakenAway."""
        ...

    def gpu_info(self, gpus: int) -> dict[str, Any] | None:
        """Return facts about the GPUs of the deployment (`gpus` is their number), None if unknown."""
        ...

    def gpu_figures(self, began_at: float, ended_at: float) -> Mapping[str, Any]:
        """Return the readings of its GPUs between these times (Unix seconds) as a level's figures; empty if unknown."""
        ...

    def last_lines(self) -> str:
        """Return the end of the server's output."""
        ...

    def end(self, why: str) -> None:
        """Stop the server, and wait until nothing of it is left. Does nothing if it has ended.

        `why` is the reason for those who see the server's job.
        """
        ...


@dataclass(frozen=True, slots=True)
class Deployed:
    """The task of a deployment, and the client for it. `timeout_s` is the time limit of an experiment."""

    client: Client
    task_id: str
    spec: TuningSpec
    engine: InferenceEngine
    timeout_s: float


class Mode(Protocol):
    """One mode of deployment."""

    @property
    def chooses_gpus(self) -> bool:
        """Whether the GPUs are chosen by the conditions of the task."""
        ...

    def check(self, spec: TuningSpec, engine: InferenceEngine) -> None:
        """Raise Refused for a task that this mode cannot deploy. Makes no requests."""
        ...

    def known(self, task: Deployed, row: ExperimentRow) -> Deployment | None:
        """Return an earlier tuner's deployment for an experiment, even if the tuner could not record it; None if
        there is none.
        """
        ...

    def deploy(self, task: Deployed, row: ExperimentRow, gpus: WantedGpus) -> Deployment:
        """Deploy a server with an experiment's parameters. Raises ExperimentFailed."""
        ...

    def why_not_over_nodes(
        self, spec: TuningSpec, engine: InferenceEngine, parameters: Mapping[str, Any], members: int
    ) -> str | None:
        """Return why the server cannot run on this number of nodes, None if no reason is known."""
        ...

    def serving_command(
        self, spec: TuningSpec, engine: InferenceEngine, parameters: Mapping[str, Any], gpus: WantedGpus
    ) -> str:
        """Return the shell command that serves the model with these parameters, without a tuner.

        It asks for all that an experiment has. Of its variables it has the names alone.
        """
        ...

    def service(
        self, spec: TuningSpec, engine: InferenceEngine, parameters: Mapping[str, Any], gpus: WantedGpus
    ) -> ServiceWanted | None:
        """Return the model service that serves so, without the marks of an experiment; None outside of a cluster."""
        ...
