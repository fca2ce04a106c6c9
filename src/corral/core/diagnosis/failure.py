"""The input of a diagnosis: the end of a job and its resources. And its output: the cause, and the remedy."""

from dataclasses import dataclass

from corral.core.model.audience import Audience
from corral.core.model.printable import printable
from corral.core.model.units import MILLI_PER_DEVICE
from corral.core.model.version import Version, dotted


@dataclass(frozen=True, slots=True)
class Failure:
    """The end of a job and its resources. Unknown values are None, and no sentence mentions them.

    Attributes:
        exit_code: 128+N if signal N ended it; None if nothing was run.
        reason: the runtime's reason for the end.
        workdir: its working directory.
        devices: the number of its GPUs on one node.
        share_milli, memory_mib: its share and memory of each GPU; None is unlimited memory.
        host_memory_mib: its limit of the host's memory; 0 is no limit.
        model, compute, device_memory_mib: model, compute capability and memory of its first GPU.
        largest_device_mib: memory of the site's largest GPU.
        cuda: version that the node's driver supports.
        audience: the reader of the diagnosis.
        in_container: whether it ran in a container, whose image has its programs.
    """

    exit_code: int | None
    signal: int | None = None
    reason: str | None = None
    workdir: str | None = None
    devices: int = 0
    share_milli: int = MILLI_PER_DEVICE
    memory_mib: int | None = None
    host_memory_mib: int = 0
    model: str | None = None
    compute: Version | None = None
    device_memory_mib: int | None = None
    largest_device_mib: int | None = None
    cuda: Version | None = None
    audience: Audience = Audience.COMMAND_LINE
    in_container: bool = False

    @property
    def shared(self) -> bool:
        """Whether the job had only a part of each of its GPUs."""
        return self.share_milli < MILLI_PER_DEVICE or self.memory_mib is not None

    @property
    def had_the_largest(self) -> bool:
        """Whether no GPU of the site has more memory than the job was granted."""
        had = self.memory_mib if self.shared else self.device_memory_mib
        return had is not None and self.largest_device_mib is not None and had >= self.largest_device_mib

    @property
    def gpu(self) -> str:
        """The name of the job's GPU in a sentence."""
        if self.model is None:
            return "the GPU"
        return self.model if self.compute is None else f"{self.model} ({dotted(self.compute)})"


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """The cause, and the remedy. A `consequence` mostly follows from the failure of another process.

    `word` is the cause in few words, for lists of jobs; "" if it takes a sentence.
    """

    what: str
    fix: str
    consequence: bool = False
    word: str = ""

    @property
    def line(self) -> str:
        """The cause and the advice as one printable line, even if a log or a directory's name has control
        characters.
        """
        return printable(f"{self.what}; {self.fix}")
