"""The reader of an advice: a command's option is a field of a manifest for one reader, and of a form for another."""

from enum import Enum, StrEnum


class Option(Enum):
    """An option of a command that an advice may mention.

    Attributes:
        flag: its name on a command line.
        of_pod: the equivalent in a manifest.
        of_page: the equivalent on a page.
        unnamed: the placeholder for its value if none is given.
    """

    GPUS = ("--gpus", "nvidia.com/gpu: {}", "GPUs: {}", "N")
    GPU_MEM = ("--gpu-mem", "a whole GPU (nvidia.com/gpu: 1)", "GPU memory: {}", "SIZE")
    MIN_MEMORY = (
        "--min-memory",
        "a node affinity to GPUs of {} (nvidia.com/gpu.memory)",
        "GPUs with at least {}",
        "SIZE",
    )
    MIN_COMPUTE = ("--min-compute", "a node affinity to compute capability {}", "compute capability {}", "X.Y")
    GPU_MODEL = ("--gpu-model", "a node affinity to nvidia.com/gpu.product", "GPU model: {}", "MODEL")
    HOST_MEMORY = ("--host-memory", "a memory limit of {}", "host memory: {}", "SIZE")
    MIG = ("--mig", "the resource of MIG slices {}", "MIG profile: {}", "PROFILE")
    SPLIT = ("--split", "how it is split", "split: {}", "HOW")
    NODE = ("--node", "a nodeSelector for {}", "node: {}", "NAME")
    EXCLUDE = ("--exclude", "a node affinity to other nodes than {}", "excluded nodes: {}", "NAME")
    DEVICE = ("--device", "its device", "device: {}", "UUID")
    GANG = ("--gang", "corral.dev/gang-size: {}", "members: {}", "N")
    TIME = ("--time", "activeDeadlineSeconds: {}", "time limit: {}", "TIME")
    WORKDIR = ("--workdir", "workingDir: {}", "working directory: {}", "DIR")
    ENV = ("--env", "{} in its env", "the variable {}", "NAME=VALUE")
    SHM_SIZE = ("--shm-size", "an emptyDir of medium Memory at /dev/shm", "shared memory: {}", "SIZE")

    def __init__(self, flag: str, of_pod: str, of_page: str, unnamed: str) -> None:
        self.flag, self.of_pod, self.of_page, self.unnamed = flag, of_pod, of_page, unnamed


class Audience(StrEnum):
    """The readers of an advice: they follow it by commands, in the manifest of their pod, or on the dashboard."""

    COMMAND_LINE = "command line"
    POD = "pod"
    PAGE = "page"

    def option(self, option: Option, value: str = "") -> str:
        """The reader's equivalent of a command's option: "--gpus 2", "nvidia.com/gpu: 2", "GPUs: 2"."""
        if self is Audience.COMMAND_LINE:
            return f"{option.flag} {value}".strip()
        named = value or option.unnamed
        if self is Audience.PAGE:
            return option.of_page.format(named)
        return option.of_pod.format(_as_quantity(named) if option is Option.HOST_MEMORY else named)

    def called(self, option: Option) -> str:
        """The name of an option if its value does not matter."""
        return option.flag if self is Audience.COMMAND_LINE else self.option(option).partition(":")[0]

    def env(self, assignment: str) -> str:
        """The reader's way to set a variable: "--env NCCL_DEBUG=INFO"."""
        return self.option(Option.ENV, assignment)

    def look(self, command: str) -> str:
        """A reference to a command that shows more: "`corral devices`", with "in a shell" if the reader has none."""
        return f"`{command}`" if self is Audience.COMMAND_LINE else f"`{command}`, in a shell of this site,"


def _as_quantity(size: str) -> str:
    """The size as a Kubernetes quantity: 8G here is 8Gi there."""
    return f"{size}i" if size[:1].isdigit() and size[-1:] in ("K", "M", "G", "T") else size
