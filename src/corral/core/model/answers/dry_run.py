"""The answer to a dry run: whether and when a submission would start."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from corral.core.model.answers.jobs import GrantRow
from corral.core.model.answers.predicted_use import PredictedUse
from corral.core.model.placing.certainty import Certainty


@dataclass(frozen=True, slots=True)
class DeviceChoice:
    """A device that a job would get, by UUID for programs and by index and name for people."""

    uuid: str
    index: int | None = None
    name: str = ""
    node: str | None = None


@dataclass(frozen=True, slots=True)
class NearestRequest:
    """A request near the one that was made, described for a person."""

    text: str = ""


@dataclass(frozen=True, slots=True)
class DryRun:
    """The result of a dry run: the job would start now on `devices`, or wait for `reason`.

    If it is not `possible`, the job can never start there, and would be refused.

    Attributes:
        jobs: the number of jobs; the other fields are of the first.
        predicted: what earlier jobs of its user and command say of it; None if nothing.
        command, params: the command of the first job of a sweep, and its parameters.
    """

    starts_now: bool
    possible: bool = True
    devices: tuple[DeviceChoice, ...] = ()
    grants: tuple[GrantRow, ...] = ()
    notes: tuple[str, ...] = ()
    reason: str = ""
    expected_start: float | None = None
    nearest: NearestRequest | None = None
    expected_start_is: Certainty | None = None
    jobs: int = 1
    command: tuple[str, ...] = ()
    params: Mapping[str, str] = field(default_factory=dict)
    predicted: PredictedUse | None = None
