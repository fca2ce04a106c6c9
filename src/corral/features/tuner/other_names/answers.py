"""Tasks and experiments as clients of another autotuner know them: its names, ids as numbers, times in UTC."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from corral.features.tuner.model.experiment import ExperimentStatus
from corral.features.tuner.model.tuning_spec import DeploymentMode
from corral.features.tuner.model.tuning_task import TaskStatus

GPU_WAIT_TIMEOUT_S = 300.0
"""How long an experiment waits for its GPUs if its task says nothing. These clients expect it to fail after that."""


@dataclass(frozen=True, slots=True)
class AutotunerTaskRow:
    """A task as it is listed. Times are such as "2026-11-22T22:31:00.000Z"."""

    id: int
    task_name: str
    description: str
    status: TaskStatus
    base_runtime: str
    deployment_mode: DeploymentMode
    total_experiments: int
    successful_experiments: int
    best_experiment_id: int | None
    created_at: str
    started_at: str | None
    completed_at: str | None
    elapsed_time: float | None
    error_message: str | None


@dataclass(frozen=True, slots=True)
class AutotunerTask:
    """A task with its specification, without the variables of its servers."""

    id: int
    task_name: str
    description: str
    status: TaskStatus
    model: Mapping[str, Any]
    base_runtime: str
    runtime_image_tag: str | None
    deployment_mode: DeploymentMode
    parameters: Mapping[str, Any]
    parallel_config: Mapping[str, Any]
    quant_config: Mapping[str, Any]
    optimization: Mapping[str, Any]
    benchmark: Mapping[str, Any]
    slo: Mapping[str, Any] | None
    storage: Mapping[str, Any] | None
    clusterbasemodel_config: Mapping[str, Any] | None
    clusterservingruntime_config: Mapping[str, Any] | None
    max_parallel: int
    gpu_wait_timeout_s: float | None
    queue: str
    project: str
    total_experiments: int
    successful_experiments: int
    best_experiment_id: int | None
    created_at: str
    started_at: str | None
    completed_at: str | None
    elapsed_time: float | None
    error_message: str | None


@dataclass(frozen=True, slots=True)
class AutotunerExperiment:
    """An experiment with its metrics. Times are such as "2026-11-22T22:31:00.000Z".

    Attributes:
        experiment_id: its number within the task.
    """

    id: int
    task_id: int
    experiment_id: int
    parameters: Mapping[str, Any]
    status: ExperimentStatus
    error_message: str | None
    metrics: Mapping[str, Any] | None
    objective_score: float | None
    gpu_info: Mapping[str, Any] | None
    service_name: str | None
    service_url: str | None
    created_at: str
    started_at: str | None
    completed_at: str | None
    elapsed_time: float | None


@dataclass(frozen=True, slots=True)
class AutotunerPreset:
    """A combination that a task may name in `parallel_config.presets` or `quant_config.presets`, as `category` says."""

    id: int
    name: str
    description: str
    category: str
    runtime: str | None
    is_system: bool
    parameters: Mapping[str, Any]
    metadata: Mapping[str, Any] | None


@dataclass(frozen=True, slots=True)
class AutotunerCatalog:
    """The names that tasks may use: presets, and the known flags of each inference server."""

    presets: tuple[AutotunerPreset, ...]
    flags: Mapping[str, tuple[str, ...]]


@dataclass(frozen=True, slots=True)
class RuntimeCounts:
    """How many flags are known of each inference server, and of both."""

    sglang_count: int
    vllm_count: int
    common_count: int


@dataclass(frozen=True, slots=True)
class RuntimeParameters:
    """The flags that are known of an inference server. It may have others, which are passed on."""

    runtime: str
    count: int
    parameters: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class RuntimeCompatibility:
    """Which flags both inference servers have, and which only one."""

    common: tuple[str, ...]
    sglang_only: tuple[str, ...]
    vllm_only: tuple[str, ...]
    stats: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class AutotunerGpu:
    """A GPU; what could not be read is None.

    Attributes:
        allocatable: 1 where a job may have it now, else 0.
        score: free memory and idle time as one number; 1.0 is wholly idle.
    """

    index: int | None
    node_name: str | None
    uuid: str
    name: str
    memory_total_mb: int | None
    memory_used_mb: int | None
    memory_free_mb: int | None
    memory_usage_percent: float | None
    utilization_percent: int | None
    temperature_c: int | None
    power_draw_w: float | None
    score: float | None
    capacity: int
    allocatable: int
    has_metrics: bool


@dataclass(frozen=True, slots=True)
class AutotunerGpus:
    """All GPUs. `available` says whether any could be read."""

    available: bool
    gpus: tuple[AutotunerGpu, ...]
    timestamp: str


@dataclass(frozen=True, slots=True)
class AutotunerCluster:
    """All GPUs of all nodes."""

    available: bool
    mode: str
    nodes: tuple[AutotunerGpu, ...]
    total_gpus: int
    total_allocatable_gpus: int
    timestamp: str


@dataclass(frozen=True, slots=True)
class AutotunerHealth:
    """The server answers; there is no Redis."""

    status: str
    database: str
    redis: str


@dataclass(frozen=True, slots=True)
class AutotunerSystem:
    """A description of this server."""

    app_name: str
    version: str
    deployment_mode: DeploymentMode
    available_runtimes: tuple[str, ...]
    timezone: str
