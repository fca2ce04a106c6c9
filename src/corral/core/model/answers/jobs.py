"""The rows of listings of jobs."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated

from corral.core.model.devices.means import Enforcement
from corral.core.model.field import Field
from corral.core.model.jobs.job import JobKind
from corral.core.model.jobs.phase import Phase
from corral.core.model.placing.certainty import Certainty
from corral.core.model.placing.eviction import Eviction
from corral.core.model.row_traits import JobTraits

_LISTED_ALONE = Field(told=False)
"""These fields are in listings only: a command may be long, and no fact says why a job waits."""


@dataclass(frozen=True, slots=True)
class GrantRow:
    """A job's part of a device: thousandths of it and MiB; memory None is all that goes with the share."""

    uuid: str
    share_milli: int = 1000
    memory_mib: int | None = None


@dataclass(frozen=True, slots=True)
class JobRow(JobTraits):
    """One job as `ps` lists it.

    Attributes:
        devices: UUIDs, also after the end.
        exit_code: 128+N when `signal` N ended it; None if it never ran or was lost.
        reason: the reason of its end; for a job that has its devices but has not begun, the reason for that.
        wait: the reason of its waiting in one word, None if it does not wait.
        gpus: devices asked for, of all members of a gang.
        gpus_milli: thousandths of a GPU that it holds or held last, or asks for; None where it asks for memory, and had
            none yet.
        grants: its part of each device, also after its end; () while it waits.
        enforcement: how strictly these grants, its CPUs and its host memory are enforced; None if it has none of these.
        nodes: the nodes that it runs on, or ran on last, each once. For a job that has ended and had whole devices, a
            listing leaves out `grants`, `enforcement` and `nodes`.
        begin_at: the earliest start.
        expected_start_is: whether the expected start is promised; or that none was foreseen, None when none can be.
        eviction: the last time it was stopped for others, with what it lost; None if it never was.
        evictions, lost_s: how often it made room for others and was requeued, and the run time lost by that.
        site_faults: how often it was requeued because one of its GPUs fell sick.
        params: its values of a sweep's parameters.
    """

    id: str
    array_id: str | None = None
    array_index: int | None = None
    name: str = ""
    user: str = ""
    phase: Phase = Phase.PENDING
    exit_code: int | None = None
    signal: int | None = None
    reason: str | None = None
    devices: tuple[str, ...] = ()
    priority: int = 5
    submitted_at: float | None = None
    started_at: float | None = None
    ended_at: float | None = None
    attempts: int = 0
    kind: JobKind = JobKind.RUN
    held: bool = False
    queue: str = "default"
    project: str = "default"
    command: Annotated[tuple[str, ...], _LISTED_ALONE] = ()
    gpus: int | None = None
    gpus_milli: int | None = None
    grants: tuple[GrantRow, ...] = ()
    enforcement: Enforcement | None = None
    time_limit_s: float | None = None
    sequence: int | None = None
    wait: Annotated[str | None, _LISTED_ALONE] = None
    expected_start: Annotated[float | None, _LISTED_ALONE] = None
    begin_at: float | None = None
    expected_start_is: Annotated[Certainty | None, _LISTED_ALONE] = None
    eviction: Annotated[Eviction | None, _LISTED_ALONE] = None
    evictions: int = 0
    lost_s: float = 0.0
    site_faults: int = 0
    nodes: tuple[str, ...] = ()
    params: Annotated[Mapping[str, str], _LISTED_ALONE] = field(default_factory=dict)
