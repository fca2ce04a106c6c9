"""What is diagnosed: how a job ended and what it had. And the answer: what happened, and what to do about it."""

from dataclasses import dataclass

from corral.model.audience import Audience
from corral.model.printable import printable
from corral.model.units import MILLI_PER_DEVICE
from corral.model.version import Version, dotted


@dataclass(frozen=True, slots=True)
class Failure:
    """How a job ended, and what it had. What is not known is None, and no sentence speaks of it.

    Attributes:
        exit_code: 128+N when signal N ended it; None where nothing was run.
        reason: what its runtime says of the end.
        workdir: where it ran.
        devices: GPUs that it had on one node.
        share_milli, memory_mib: what it was granted of each; memory None is not limited.
        host_memory_mib: what it was granted of the host's memory; 0 is all there is.
        model, compute, device_memory_mib: of its first GPU.
        largest_device_mib: memory of the largest GPU that the site has.
        cuda: version that the node's driver supports.
        audience: who reads what is said of it.
        in_container: it ran in a container, of an image that has what it runs.
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
        """Whether it had a part of each GPU only."""
        return self.share_milli < MILLI_PER_DEVICE or self.memory_mib is not None

    @property
    def had_the_largest(self) -> bool:
        """Whether no GPU of the site has more memory than it was granted."""
        had = self.memory_mib if self.shared else self.device_memory_mib
        return had is not None and self.largest_device_mib is not None and had >= self.largest_device_mib

    @property
    def gpu(self) -> str:
        """What to call its GPU in a sentence."""
        if self.model is None:
            return "the GPU"
        return self.model if self.compute is None else f"{self.model} ({dotted(self.compute)})"


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """What happened, and what to do about it. A `consequence` mostly follows from the failure of another process.

    `word` is what happened in few words, for lists of jobs; "" where it takes a sentence.
    """

    what: str
    fix: str
    consequence: bool = False
    word: str = ""

    @property
    def line(self) -> str:
        """Both, as they are shown to a person: printable, whatever a log or a directory's name says."""
        return printable(f"{self.what}; {self.fix}")
