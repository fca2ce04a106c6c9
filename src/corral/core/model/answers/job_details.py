"""Answers with all details of one job, and with the reason why it waits or failed."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from corral.core.model.answers.gpu_monitoring import NOT_TOLD, GpuMonitoring
from corral.core.model.answers.jobs import JobRow
from corral.core.model.answers.predicted_use import PredictedUse
from corral.core.model.devices.means import Enforcement
from corral.core.model.jobs.phase import Phase
from corral.core.model.placing.certainty import Certainty
from corral.core.model.placing.eviction import Eviction
from corral.core.model.row_traits import ExplanationTraits
from corral.core.model.runs.attempt import AttemptEnd


@dataclass(frozen=True, slots=True)
class WaitPart:
    """Seconds of a job's wait that had one reason."""

    reason: str
    seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class GrantedDevice:
    """A job's part of one device, now or before its end.

    Attributes:
        index, name, mig_profile: None if the device is not known any more.
        rank: of the member that has it.
        share_milli: thousandths of it; `memory_mib` None is all that goes with the share.
    """

    uuid: str
    index: int | None = None
    node: str = ""
    rank: int = 0
    share_milli: int = 1000
    memory_mib: int | None = None
    name: str | None = None
    mig_profile: str | None = None


@dataclass(frozen=True, slots=True)
class MemberRow:
    """One member of a job that has devices, or had them last; a job that is no gang has one.

    Attributes:
        devices: UUIDs.
        phase: of the member: STARTING, RUNNING, STOPPING or how it ended; None where that was not recorded.
        exit_code: 128+N when `signal` N ended it; None if it never ran or was lost.
        log: the path of its log on its node, None where that is not known.
        output, error: files on its node that take its standard output and error in place of the log.
        numa_nodes, numa_cpus: what a running member is bound to, the CPUs as the kernel writes them ("0-31"); () and ""
            where it is not, or has ended.
    """

    rank: int = 0
    node: str = ""
    devices: tuple[str, ...] = ()
    phase: Phase | None = None
    exit_code: int | None = None
    signal: int | None = None
    log: str | None = None
    output: str | None = None
    error: str | None = None
    numa_nodes: tuple[int, ...] = ()
    numa_cpus: str = ""


@dataclass(frozen=True, slots=True)
class AttemptRow:
    """One attempt to run a job.

    Attributes:
        attempt: numbers the attempts of which something ran, from 1; an attempt that could not be launched has the
            number of the next.
        node: the node of rank 0; `nodes` are those of all members, each once.
        allocated_at: when it got its devices; `started_at` is when it began to run, None if nothing ran.
        ended_as: succeeded, failed, cancelled, timed_out, lost, preempted, fault, requeued, not_launched; None while it
            runs.
        reason: how and why it ended, for a person; None while it runs.
        log: the path of the log of rank 0 on its node, None where that is not known; attempts on a node share it.
    """

    attempt: int
    node: str = ""
    started_at: float | None = None
    ended_at: float | None = None
    reason: str | None = None
    log: str | None = None
    ended_as: AttemptEnd | None = None
    exit_code: int | None = None
    signal: int | None = None
    allocated_at: float | None = None
    nodes: tuple[str, ...] = ()
    devices: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class JobUse:
    """The GPU time of all attempts of a job so far, counted as in `ReportRow`.

    `gpu_hours` is the sum of used, idle and unmetered hours. `energy_kwh` is None if no power was read. `cost` is in
    `currency`, None if none of its hours has a price.
    """

    gpu_hours: float
    used_hours: float
    idle_hours: float
    unmetered_hours: float
    wasted_hours: float
    energy_kwh: float | None = None
    cost: float | None = None
    currency: str | None = None


@dataclass(frozen=True, slots=True)
class ExecutedCommand:
    """A command that a user ran inside a job (`corral exec`).

    Attributes:
        command: its words, as for a shell, the first thousand characters; "" for a shell.
        rank: of the member in which it ran.
    """

    at: float
    by: str
    command: str
    rank: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class JobDetail(JobRow):
    """A job with everything that is known of it.

    Attributes:
        spec: the submission, without the environment.
        request: the request in `spec`; `needs` is the same in words.
        gpu_info: the record of the devices it got last.
        waits_for: jobs that it waits for, as its spec's `after` says.
        waited: how its wait was spent, before its last start or so far.
        grant, members: its devices and members, also after its end; () while it waits.
        history: its attempts, oldest first, the newest 100 of them.
        gpu_monitoring: the measurements of its GPUs in its last attempt; left out if there are none.
        use: its GPU time, None if it never had a GPU.
        commands: that were run inside it, oldest first, the newest 100 of them.
        saved_at: while it runs, when its last whole checkpoint was named; None if none is known.
        packing: of a packable job that has not ended, with how many others it shares a GPU, and why; else None.
    """

    spec: Mapping[str, Any] = field(default_factory=dict)
    request: Mapping[str, Any] = field(default_factory=dict)
    needs: str = ""
    gpu_info: Mapping[str, Any] | None = None
    waits_for: tuple[str, ...] = ()
    waited: tuple[WaitPart, ...] = ()
    grant: tuple[GrantedDevice, ...] = ()
    members: tuple[MemberRow, ...] = ()
    history: tuple[AttemptRow, ...] = ()
    gpu_monitoring: GpuMonitoring | None = field(default=None, metadata=NOT_TOLD)
    use: JobUse | None = None
    commands: tuple[ExecutedCommand, ...] = ()
    saved_at: float | None = None
    packing: str | None = None


@dataclass(frozen=True, slots=True)
class Explanation(ExplanationTraits):
    """Why a job waits and when it will start; after its end, how the wait was spent.

    Attributes:
        position: place among the waiting jobs, from 1; None when it does not wait.
        expected_start: None if it cannot be known; `reason` then says why. For a job that is being stopped to make
            room, it is when the job continues.
        expected_start_is: whether that is promised, None when no start can be expected.
        starts_now_with: flags with which it would start at once, if there are any.
        holds: its parts of devices and of the host, and how strictly they are enforced.
        enforcement: the same for programs; None when it holds neither.
        eviction: the last time it was stopped for others, with what it lost; None if it never was.
        evictions, lost_s: how often it made room for others and went back to its queue, and the run time lost by that.
        makes_room: ids of the jobs that are being stopped for it.
        obstacle: the reason why no job at all can start now (a full disk); None if there is none, or the job does
        not wait. diagnosis: why it failed and what to do, read from the end of its log; None if it did not fail, if
        the reason is not known, or if the caller may not read the log.
        log_missing_bytes: the bytes of output that are missing in its log, which is limited (for a gang, in the logs of
            its first eight members); None if nothing is missing, or if that is not known.
        predicted: of a job that waits, what earlier jobs of its user and command say of it; None if nothing.
    """

    id: str
    phase: Phase = Phase.PENDING
    reason: str = ""
    position: int | None = None
    expected_start: float | None = None
    starts_now_with: str | None = None
    holds: str | None = None
    enforcement: Enforcement | None = None
    waited: tuple[WaitPart, ...] = ()
    expected_start_is: Certainty | None = None
    eviction: Eviction | None = None
    evictions: int = 0
    lost_s: float = 0.0
    makes_room: tuple[str, ...] = ()
    obstacle: str | None = None
    diagnosis: str | None = None
    log_missing_bytes: int | None = None
    predicted: PredictedUse | None = None
