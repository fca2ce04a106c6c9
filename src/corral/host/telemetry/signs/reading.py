"""A reading of a device as the rules see it, and the memory of the readings before."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple

from corral.core.model.devices.device import Device, DeviceSample
from corral.core.model.devices.health import HealthSign, SignKind, Verdict
from corral.core.model.devices.vitals import DriverError
from corral.vendors.vendor import HealthSigns


class Quiet(Enum):
    """The absence of a symptom: the device is fine in this respect, or its reading is missing."""

    FINE = "fine"
    UNKNOWN = "unknown"


class Symptom(NamedTuple):
    """A fault that one rule sees in a reading."""

    kind: SignKind
    verdict: Verdict
    detail: str
    code: int | None = None


class SymptomSeen(NamedTuple):
    """A symptom of one rule over time: since when it is seen, when it was seen last, and its sign once it has one."""

    since: float
    at: float
    sign: HealthSign | None


class Window(NamedTuple):
    """A counter at the begin of a window, and its growth a minute over the window before; None before the first."""

    at: float
    value: int
    a_minute: float | None


@dataclass(frozen=True, slots=True)
class SignMemory:
    """The state of a device by its earlier readings.

    Attributes:
        symptoms, windows: by the names of rules and counters.
        errors: the signs of the errors that the sample before had.
        xid: the number of the last error.
        unheard: errors of which only the number is known.
        contained: whether the uncorrectable memory errors so far reached no other work; None if nothing says so.
    """

    symptoms: Mapping[str, SymptomSeen]
    windows: Mapping[str, Window]
    errors: tuple[HealthSign, ...] = ()
    xid: int | None = None
    unheard: tuple[DriverError, ...] = ()
    contained: bool | None = None


NOTHING_BEFORE = SignMemory({}, {})


@dataclass(frozen=True, slots=True)
class Reading:
    """A sample with all that the rules need besides.

    Attributes:
        signs: the signs of the device's vendor.
        max_temperature_c: the site's limit.
        symptoms: of the reading before, by rule.
        windows: the counters as of this reading.
        contained: whether the uncorrectable memory errors reached no other work.
    """

    device: Device
    sample: DeviceSample
    signs: HealthSigns
    max_temperature_c: int
    symptoms: Mapping[str, SymptomSeen]
    windows: Mapping[str, Window]
    contained: bool | None

    def told(self, rule: str) -> Verdict | None:
        """Return the verdict of the sign that the rule has already: then the limit for its end applies."""
        seen = self.symptoms.get(rule)
        return None if seen is None or seen.sign is None else seen.sign.verdict

    def growth(self, counter: str) -> float | None:
        """Return the last known growth of a counter in a minute, None if it is not known."""
        window = self.windows.get(counter)
        return None if window is None else window.a_minute

    def reset(self) -> str:
        """Return the command that resets the device."""
        return self.signs.reset(self.device.uuid)
