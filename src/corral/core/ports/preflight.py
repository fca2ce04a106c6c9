"""The inputs and results of a check: a job's workload, the place where it would run, and the findings."""

from dataclasses import dataclass
from enum import StrEnum

from corral.core.model.devices.device import FIRST_VENDOR, VirtualLayer
from corral.core.model.devices.means import Means
from corral.core.model.units import MILLI_PER_DEVICE
from corral.core.model.version import Version


class Effect(StrEnum):
    """BLOCK refuses the job unless its user overrides it; WARN is written to the job's log."""

    BLOCK = "block"
    WARN = "warn"


@dataclass(frozen=True, slots=True)
class Finding:
    """One problem: its description, its cause, and a fix that can be copied. `rule` is the name of the rule that found
    it.
    """

    effect: Effect
    rule: str
    what: str
    why: str
    fix: str


@dataclass(frozen=True, slots=True)
class Workload:
    """The known facts about a job's program. None means unknown: rules that need the fact find nothing.

    Attributes:
        runtime: CUDA version of the runtime that the program brings.
        framework: "vllm", "sglang", "torchrun", "paddle", or another.
        dtype: the type of weights and arithmetic, as `precision.canonical` names it.
        quantization: method of the weights ("awq", "gptq", "fp8", ...).
        world_size: devices that the program will use on one node.
        tensor_parallel, heads: the number of devices that each layer is split over, and of its attention heads.
        need_mib: memory per device without which it does not start.
        want_mib: memory per device for the context and batch it asks for.
        fitting_context: the longest context, in tokens, that would fit instead.
        memory_fraction: the fraction of the device's memory that the program takes for itself.
        driver_condition: the condition of its container's image on the driver, in the words of the vendor.
        allocator: value of Paddle's FLAGS_allocator_strategy.
    """

    runtime: Version | None = None
    framework: str | None = None
    dtype: str | None = None
    quantization: str | None = None
    world_size: int | None = None
    tensor_parallel: int | None = None
    heads: int | None = None
    need_mib: int | None = None
    want_mib: int | None = None
    fitting_context: int | None = None
    memory_fraction: float | None = None
    allocator: str | None = None
    driver_condition: str | None = None


@dataclass(frozen=True, slots=True)
class Place:
    """The place where a job would run. None means unknown.

    Attributes:
        vendor: the maker of the device, as `corral.vendors` names it.
        cuda: the version that the driver supports; derived from `driver` if only that is known.
        devices: the number of devices granted on one node.
        share_milli, memory_mib: the grant on each device; None is unlimited memory.
        device_memory_mib: the whole memory of each device.
    """

    model: str = "the device"
    driver: str | None = None
    cuda: Version | None = None
    compute: Version | None = None
    virtual: VirtualLayer | None = None
    means: Means = Means.EXCLUSIVE
    mig: bool | None = None
    devices: int = 1
    share_milli: int = MILLI_PER_DEVICE
    memory_mib: int | None = None
    device_memory_mib: int | None = None
    vendor: str = FIRST_VENDOR

    @property
    def shared(self) -> bool:
        """Whether other jobs may be on the device too."""
        return self.share_milli < MILLI_PER_DEVICE
