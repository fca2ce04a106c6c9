"""The specification of an autotuner's task: the file that `corral tune` reads, with the same names."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Annotated, Any

from corral.core.model.field import Field
from corral.features.services.selection import USUAL, NodeSelection

MAX_TASK_NAME = 63

GPU_OPTIONS = ("gpu_model", "node", "device", "min_memory", "label", "prefer", "exclusive")
"""The options of jobs that are keys of a task."""


class DeploymentMode(StrEnum):
    """How the inference server of an experiment runs."""

    PROCESS = "process"
    DOCKER = "docker"
    OME = "ome"
    KSERVE = "kserve"


@dataclass(frozen=True, slots=True)
class ServedModel:
    """The model to serve: a directory, or its name at the hub. `namespace` is the model's namespace in OME."""

    id_or_path: str
    namespace: str = "autotuner"


@dataclass(frozen=True, slots=True)
class BenchmarkSpec:
    """The traffic to measure under.

    Attributes:
        model_name: the name of the model in requests; "" is the name that it is served under.
        task: the kind of service: "text-to-text", "text-to-embeddings" and others that genai-bench knows.
        model_tokenizer: where genai-bench finds the tokenizer: a directory, or a name at the hub; "": the model's own.
        traffic_scenarios: as genai-bench writes them: "D(100,100)", "N(480,240)/(300,150)", "U(50,100)/(200,250)".
        num_concurrency: levels of load, each measured by itself. For embeddings and rerank: texts in a request.
        max_time_per_iteration: the most minutes for a level of a scenario; genai-bench takes whole minutes.
        max_requests_per_iteration: the most requests for a level of a scenario.
        additional_params: additional fields of each request.
        dataset_url: prompts in place of those of genai-bench: a file, or a name at the hub.
        generator: the load generator to use: "genai-bench" or "corral"; "" is the best available one.
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
        """The measurements: each scenario at each level of load, once, in the order of the lists."""
        scenarios, loads = dict.fromkeys(self.traffic_scenarios), dict.fromkeys(self.num_concurrency)
        return tuple((scenario, load) for scenario in scenarios for load in loads)


@dataclass(frozen=True, slots=True)
class DockerOptions:
    """The container of an inference server.

    Attributes:
        image: replaces the engine's own image.
        network: a Docker network that the site allows; None is Docker's default.
        shm_size: the size of /dev/shm, through which the engine's processes communicate; such as "16G".
    """

    image: str | None = None
    network: str | None = None
    shm_size: str = "16G"


@dataclass(frozen=True, slots=True)
class TuningSpec:
    """A task as in its file.

    Attributes:
        base_runtime: the inference server: "vllm", "sglang".
        runtime_image_tag: the tag of its container image, in place of the image's own tag.
        docker: further options of its containers.
        parameters: the values to try of each parameter: a list, or a range such as {"type": "integer", "low": 1,
            "high": 64}.
        parallel_config, quant_config: the values to try, under the names that autotuners use.
        optimization, slo: the search, its objective, and its conditions.
        gpu_selection: how the nodes of model services on Kubernetes are chosen.
        storage, clusterbasemodel_config, clusterservingruntime_config: for model services on Kubernetes.
        max_parallel: the most experiments at a time, if there are GPUs.
        gpu_wait_timeout_s: an experiment that waits longer for its GPUs fails; None waits without a limit.
        queue, project: the queue and project of the experiments' jobs.
        env: variables of the inference server.
        gpu_model, node, device, min_memory, label, prefer, exclusive: the GPUs of the experiments, as the options of a
            job with these names: ["A100", "H100"], ["gpu-[01-03]"], UUIDs, "40G", {"zone": "a"}. With `exclusive` each
            experiment has a whole node. With several models in `gpu_model` any of them will do, and a
            combination is tried on one; otherwise all experiments have the model that the first one got.
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
    gpu_selection: NodeSelection = USUAL
    storage: Mapping[str, Any] | None = None
    clusterbasemodel_config: Mapping[str, Any] | None = None
    clusterservingruntime_config: Mapping[str, Any] | None = None
    max_parallel: int = 1
    gpu_wait_timeout_s: float | None = None
    queue: str = "default"
    project: str = "default"
    env: Mapping[str, str] = field(default_factory=dict)
    gpu_model: tuple[str, ...] = ()
    node: tuple[str, ...] = ()
    device: tuple[str, ...] = ()
    min_memory: str | None = None
    label: Mapping[str, str] = field(default_factory=dict)
    prefer: Mapping[str, str] = field(default_factory=dict)
    exclusive: bool = False
