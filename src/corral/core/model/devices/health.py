"""The health of a device: signs that something is wrong with it, and the states that follow from them."""

from dataclasses import dataclass
from enum import StrEnum


class Health(StrEnum):
    """The health of a device.

    HEALTHY: it takes any work. SUSPECT: no new work with several devices starts on it. QUARANTINED: nothing starts on
    it until its fault is gone. PROBATION: its fault is gone, and nothing starts on it until it has passed a test and
    has been watched.
    """

    HEALTHY = "healthy"
    SUSPECT = "suspect"
    QUARANTINED = "quarantined"
    PROBATION = "probation"


class SignKind(StrEnum):
    """The sources of signs."""

    XID = "xid"
    ECC_UNCORRECTABLE = "ecc_uncorrectable"
    REMAP_PENDING = "remap_pending"
    REMAP_FAILED = "remap_failed"
    LOST = "lost"
    TEMPERATURE = "temperature"
    THROTTLE = "throttle"
    PCIE = "pcie"
    NVLINK = "nvlink"
    POWER_BRAKE = "power_brake"
    UNREADABLE = "unreadable"
    PROBATION_FAILED = "probation_failed"
    JOB_FAILURES = "job_failures"


class Verdict(StrEnum):
    """The consequence of a sign. TOLD has none: people are told. BLAMES_JOB concerns a job and not the device."""

    QUARANTINE = "quarantine"
    SUSPECT = "suspect"
    BLAMES_JOB = "blames_job"
    TOLD = "told"


@dataclass(frozen=True, slots=True)
class HealthSign:
    """One sign about one device.

    Attributes:
        kind: its source.
        verdict: its consequence.
        detail: a sentence for a person, with figures and limits, without its full stop.
        at: when it was seen, Unix seconds.
        code: the number of the driver's error; None if the kind has no numbers.
        ends_job: the error has ended, or must end, the job that caused or met it.
        pid: the process that the driver names, as the host counts; None if it names none.
        job_id: the job that it is about, as the node knows it: of that process, or the only job on the device; None if
            no job alone can be blamed.
        lasts: the sign is a state of the device that is read again and again, and is gone when it is no longer read.
            Otherwise it is an event, which happened once.
    """

    kind: SignKind
    verdict: Verdict
    detail: str
    at: float
    code: int | None = None
    ends_job: bool = False
    pid: int | None = None
    job_id: str | None = None
    lasts: bool = False


@dataclass(frozen=True, slots=True)
class DeviceHealth:
    """The health of a device, decided from its signs or by an administrator.

    Attributes:
        state: its health.
        reason: why, a sentence without its full stop; "" for a device that was always healthy.
        since: since when, Unix seconds.
        kinds: the kinds of the signs behind it, each once, sorted.
        until: the end of the watch over a suspect device or one on probation, Unix seconds; None if no watch runs.
        relapses: how often it fell sick; each makes the next watch longer.
        tested: on probation, it has passed its test.
        trusted: the kinds of lasting signs that an administrator accepted; they count again once they were gone.
        noted: the time of the newest sign that was considered, Unix seconds; older ones count no more.
        boot: the boot of its node in which it fell sick; None if unknown. Another boot has reset it.
    """

    state: Health
    reason: str
    since: float
    kinds: tuple[SignKind, ...] = ()
    until: float | None = None
    relapses: int = 0
    tested: bool = False
    trusted: tuple[SignKind, ...] = ()
    noted: float = 0.0
    boot: str | None = None

    @property
    def is_forgotten(self) -> bool:
        """Whether nothing has to be remembered of it."""
        return self.state is Health.HEALTHY and not self.relapses and not self.trusted and not self.noted


WELL = DeviceHealth(Health.HEALTHY, "", 0.0)
"""The health of a device of which nothing is recorded."""
