"""Who reads an advice: what is an option of a command to one is a field of a manifest, or of a form, to another."""

from enum import Enum, StrEnum


class Option(Enum):
    """An option of a command that an advice may name.

    Attributes:
        flag: what it is on a command line.
        of_pod: what stands for it in a manifest.
        of_page: what stands for it on a page.
        unnamed: what stands for its value where none is meant.
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
    """Who is to follow an advice: by commands, by the manifest of a pod of theirs, or on the dashboard."""

    COMMAND_LINE = "command line"
    POD = "pod"
    PAGE = "page"

    def option(self, option: Option, value: str = "") -> str:
        """What they change where an option of a command would be given: "--gpus 2", "nvidia.com/gpu: 2", "GPUs: 2"."""
        if self is Audience.COMMAND_LINE:
            return f"{option.flag} {value}".strip()
        named = value or option.unnamed
        if self is Audience.PAGE:
            return option.of_page.format(named)
        return option.of_pod.format(_as_quantity(named) if option is Option.HOST_MEMORY else named)

    def called(self, option: Option) -> str:
        """What an option is called where its value does not matter."""
        return option.flag if self is Audience.COMMAND_LINE else self.option(option).partition(":")[0]

    def env(self, assignment: str) -> str:
        """How a variable is set: "--env NCCL_DEBUG=INFO"."""
        return self.option(Option.ENV, assignment)

    def look(self, command: str) -> str:
        """A command that tells more: "`corral devices`", "`corral devices`, in a shell,"."""
        return f"`{command}`" if self is Audience.COMMAND_LINE else f"`{command}`, in a shell of this site,"


def _as_quantity(size: str) -> str:
    """What is 8G here Kubernetes calls 8Gi."""
    return f"{size}i" if size[:1].isdigit() and size[-1:] in ("K", "M", "G", "T") else size
