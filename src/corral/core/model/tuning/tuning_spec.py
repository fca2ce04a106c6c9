"""What an autotuner's task asks for: the file that `corral tune` reads, with its names."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Annotated, Any

from corral.core.model.field import Field

MAX_TASK_NAME = 63


class DeploymentMode(StrEnum):
    """How the inference server of an experiment is run."""

    PROCESS = "process"
    DOCKER = "docker"
    OME = "ome"
    KSERVE = "kserve"


@dataclass(frozen=True, slots=True)
class ServedModel:
    """The model to serve: a directory, or its name at the hub. `namespace` is where OME has it."""

    id_or_path: str
    namespace: str = "autotuner"


@dataclass(frozen=True, slots=True)
class BenchmarkSpec:
    """The traffic to measure under.

    Attributes:
        model_name: what requests call the model; "" is the name that it is served under.
        task: what is served: "text-to-text", "text-to-embeddings" and others that genai-bench knows.
        model_tokenizer: where genai-bench finds the tokenizer: a directory, or a name at the hub; "": the model's own.
        traffic_scenarios: as genai-bench writes them: "D(100,100)", "N(480,240)/(300,150)", "U(50,100)/(200,250)".
        num_concurrency: levels of load, each measured by itself; of embeddings and rerank, texts in a request.
        max_time_per_iteration: minutes that a level of a scenario lasts at most; genai-bench takes whole ones.
        max_requests_per_iteration: requests that a level of a scenario has at most.
        additional_params: fields that each request has besides.
        dataset_url: prompts in place of those that genai-bench has: a file, or a name at the hub.
        generator: the load generator that must measure: "genai-bench" or "corral"; "" is the best that can.
    """

    task: str = "text-to-text"
    model_name: str = ""
    model_tokenizer: str = ""
    traffic_scenarios: tuple[str, ...] = ("D(100,100)",)
    num_concurrency: tuple[int, ...] = (1, 4)
    max_time_per_iteration: float = 10.0
    max_requests_per_iteration: int = 100
    additional_params: Mapping[str, Any] = field(default_factory=dict)
    dataset_url: str | None = None
    dataset_deduplicate: bool = False
    generator: str = ""

    @property
    def levels(self) -> tuple[tuple[str, int], ...]:
        """What is measured: each scenario at each level of load, once, in the order of the lists."""
        scenarios, loads = dict.fromkeys(self.traffic_scenarios), dict.fromkeys(self.num_concurrency)
        return tuple((scenario, load) for scenario in scenarios for load in loads)


@dataclass(frozen=True, slots=True)
class DockerOptions:
    """The container of an inference server.

    Attributes:
        image: in place of the engine's own.
        network: one of Docker's that the site allows; None is Docker's default.
        shm_size: of /dev/shm, through which the engine's processes talk; such as "16G".
    """

    image: str | None = None
    network: str | None = None
    shm_size: str = "16G"


@dataclass(frozen=True, slots=True)
class TuningSpec:
    """A task as its file has it.

    Attributes:
        base_runtime: the inference server: "vllm", "sglang".
        runtime_image_tag: the tag of its image, in containers, in place of what that has.
        docker: what else of the containers is not as usual.
        parameters: values to try by parameter: a list, or such as {"type": "integer", "low": 1, "high": 64}.
        parallel_config, quant_config: values to try by the names that autotuners have for these.
        optimization, slo: how to search, for what, and what must hold; `corral.tuner.search` reads them.
        storage, clusterbasemodel_config, clusterservingruntime_config: of model services on Kubernetes.
        max_parallel: experiments at a time, where GPUs allow.
        gpu_wait_timeout_s: an experiment that waits longer for its GPUs has failed; None waits for its turn.
        queue, project: in which the experiments wait as jobs.
        env: variables of the inference server.
    """

    task_name: Annotated[str, Field(shortest=1, longest=MAX_TASK_NAME)]
    model: ServedModel
    base_runtime: str
    parameters: Mapping[str, Any] = field(default_factory=dict)
    description: str = ""
    deployment_mode: DeploymentMode = DeploymentMode.PROCESS
    runtime_image_tag: str | None = None
    docker: DockerOptions = field(default_factory=DockerOptions)
    parallel_config: Mapping[str, Any] = field(default_factory=dict)
    quant_config: Mapping[str, Any] = field(default_factory=dict)
    optimization: Mapping[str, Any] = field(default_factory=dict)
    benchmark: BenchmarkSpec = field(default_factory=BenchmarkSpec)
    slo: Mapping[str, Any] | None = None
    storage: Mapping[str, Any] | None = None
    clusterbasemodel_config: Mapping[str, Any] | None = None
    clusterservingruntime_config: Mapping[str, Any] | None = None
    max_parallel: int = 1
    gpu_wait_timeout_s: float | None = None
    queue: str = "default"
    project: str = "default"
    env: Mapping[str, str] = field(default_factory=dict)
