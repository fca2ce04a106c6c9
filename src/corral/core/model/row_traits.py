"""Properties of rows of answers that follow from their fields, without the classes that have the fields.

Commands that list rows read answers without those classes, which take long to load (decision 82).
"""

from __future__ import annotations

from corral.core.model.jobs.phase import TERMINAL_PHASES, Phase
from corral.core.model.units import format_bytes

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence


class JobTraits:
    """The properties of a row of a job."""

    __slots__ = ()

    if TYPE_CHECKING:
        phase: Phase

    @property
    def ended(self) -> bool:
        """Whether the job has ended finally and holds nothing."""
        return self.phase in TERMINAL_PHASES

    @property
    def succeeded(self) -> bool:
        """Whether the job ended with success."""
        return self.phase == Phase.SUCCEEDED


class ExplanationTraits:
    """The properties of an explanation why a job waits or failed."""

    __slots__ = ()

    if TYPE_CHECKING:
        waited: Sequence[object]
        obstacle: str | None
        position: int | None
        log_missing_bytes: int | None

    @property
    def considered(self) -> bool:
        """Whether `reason` says more than that it has just arrived."""
        return bool(self.waited or self.obstacle) or (self.position or 1) > 1

    @property
    def missing_output(self) -> str:
        """The note about a log that was cut, "" if it was not."""
        missing = self.log_missing_bytes
        return f"{format_bytes(missing)} of output are missing before its end, where it says so" if missing else ""


class DeviceTraits:
    """The properties of a row of a device."""

    __slots__ = ()

    if TYPE_CHECKING:
        means: str
        mig_profile: str | None

    @property
    def sliced(self) -> bool:
        """Whether the device is in MIG mode, and only its slices are allocated."""
        return self.means == "mig" and self.mig_profile is None


class ContainerTraits:
    """The text of a row of a container in the host's Docker."""

    __slots__ = ()

    if TYPE_CHECKING:
        name: str
        image: str

    def __str__(self) -> str:
        return f"container {self.name} ({self.image})"


class PodTraits:
    """The text of a row of a pod."""

    __slots__ = ()

    if TYPE_CHECKING:
        namespace: str
        name: str
        owner: str | None

    def __str__(self) -> str:
        return f"pod {self.namespace}/{self.name}" + (f" ({self.owner})" if self.owner else "")
