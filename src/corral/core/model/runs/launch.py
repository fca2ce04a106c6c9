"""A launch is one attempt to run a member of a job on one node, and what is known of it."""

import re
from dataclasses import dataclass, replace
from enum import StrEnum

from corral.core.model.devices.device import Device
from corral.core.model.devices.numa import NumaBinding
from corral.core.model.errors import CorralError, DevicesTaken, NodeLacks, Refused
from corral.core.model.jobs.job import Job, ProcessIdentity
from corral.core.model.jobs.phase import Phase
from corral.core.model.jobs.script_copy import VARIABLE, kept_text
from corral.core.model.placing.tenant import Tenant

_LAUNCH_ID = re.compile(r"\d{1,20}(_\d{1,20})?\.\d{1,20}(-\d{1,20})?", re.ASCII)
"""The id of a job, possibly of an array; the number of the allocation; the rank, unless it is 0."""


_NUMBER = re.compile(r"(?<![0-9])[0-9]{1,13}(?![0-9])")
HIGHEST_NUMBER = 10**12
"""No ledger comes that far."""


class LaunchPhase(StrEnum):
    """What is known of a launch on its node. PREPARING: its devices are being made ready, nothing runs yet."""

    UNKNOWN = "unknown"
    PREPARING = "preparing"
    CLAIMED = "claimed"
    RUNNING = "running"
    EXITED = "exited"
    DEAD = "dead"
    DECLARED_LOST = "declared lost"

    @property
    def over(self) -> bool:
        """Whether the launch has ended, or will never run."""
        return self in (LaunchPhase.EXITED, LaunchPhase.DEAD, LaunchPhase.DECLARED_LOST)


class Again(StrEnum):
    """Whether what failed is tried again.

    AS_ASKED is as often as the job's retries say, or a few times if nothing of it ran. NEVER: it would fail in the same
    way. ALWAYS: nothing of it ran, and its node will have what it lacks.
    """

    AS_ASKED = "as asked"
    NEVER = "never"
    ALWAYS = "always"


@dataclass(frozen=True, slots=True)
class LaunchReport:
    """The state of one launch. Times by the supervisor's clock.

    `ending` is the phase the supervisor says the work ended in: SUCCEEDED, FAILED, CANCELLED or TIMED_OUT; or LOST
    where what it ran in was ended under it. Where it failed, `again` says whether it is tried again.
    DECLARED_LOST never ran and is safe to try again; `reason` then says what failed, None when nothing did. Of what is
    CLAIMED it says what keeps it from beginning, if that is known. `age_s` is how long what sees to its time limit has
    done so, by a clock that nobody sets; None where nothing outside of this server does.
    """

    launch_id: str
    phase: LaunchPhase
    started_at: float | None = None
    ended_at: float | None = None
    exit_code: int | None = None
    signal: int | None = None
    ending: Phase | None = None
    reason: str | None = None
    age_s: float | None = None
    again: Again = Again.AS_ASKED


def failed_launch(launch_id: str, error: CorralError) -> LaunchReport:
    """The report of a launch that failed so, and of which nothing will ever run."""
    if isinstance(error, DevicesTaken):
        return LaunchReport(launch_id, LaunchPhase.DECLARED_LOST)
    again = Again.NEVER if isinstance(error, Refused) else Again.AS_ASKED
    if isinstance(error, NodeLacks):
        again = Again.ALWAYS
    return LaunchReport(launch_id, LaunchPhase.DECLARED_LOST, reason=str(error), again=again)


@dataclass(frozen=True, slots=True)
class DeviceUse:
    """One device of a launch, with all that decides how it is made ready.

    Attributes:
        device: as the node hands it out; a slice is a device, too.
        whole: the device that a slice is cut from, None for a physical device.
        tenants: who is on it already, in the order they came.
        newcomer: the job of this launch.
    """

    device: Device
    whole: Device | None
    tenants: tuple[Tenant, ...]
    newcomer: Tenant


@dataclass(frozen=True, slots=True)
class Launch:
    """One member of a job, to be run once on one node; all that its node agent needs to know.

    Attributes:
        env: complete but for what only the node knows: its paths, and what the means of sharing adds.
        notes: lines for the head of the member's log.
        output, error, input: files for the member's standard streams, as `core.model.jobs.output.OutputFiles` has them.
        cpu_milli, host_memory_mib: the member's part of the host, 0 being all; it is held to it where possible.
        rank: of the member in its gang, from 0; `members` is how many the gang has.
        node: the node's name.
        runtime: what runs it there: "process", "container", "binding" of a pod that others made, or "watch" for what
            Corral did not start.
        uses: the member's devices, in order.
        numa: the NUMA nodes and CPUs that its processes are bound to, None for none.
    """

    allocation_id: str
    job: Job
    env: tuple[tuple[str, str], ...]
    notes: tuple[str, ...] = ()
    cpu_milli: int = 0
    host_memory_mib: int = 0
    rank: int = 0
    members: int = 1
    node: str = ""
    runtime: str = "process"
    uses: tuple[DeviceUse, ...] = ()
    output: str | None = None
    error: str | None = None
    numa: NumaBinding | None = None
    input: str | None = None

    @property
    def id(self) -> str:
        """The launch's id, by which its node knows it."""
        return launch_id(self.allocation_id, self.rank)


def with_time_limit(launch: Launch, time_limit_s: float | None) -> Launch:
    """The launch of a job with this time limit."""
    return replace(launch, job=replace(launch.job, spec=replace(launch.job.spec, time_limit_s=time_limit_s)))


def without_script(launch: Launch) -> Launch:
    """The launch without the copy of its job's script, which only starting it takes: of many they may be long."""
    env = launch.job.spec.env
    if kept_text(env) is None:
        return launch
    kept = tuple(variable for variable in env if variable[0] != VARIABLE)
    return replace(launch, job=replace(launch.job, spec=replace(launch.job.spec, env=kept)))


def launch_id(allocation_id: str, rank: int) -> str:
    """What a member's launch is called on its node: 4.1 of rank 0, and of the others 4.1-1, 4.1-2."""
    return f"{allocation_id}-{rank}" if rank else allocation_id


def checked_launch_id(text: str) -> str:
    """A launch id that came from elsewhere. Raises Refused for what is none, such as a path."""
    if _LAUNCH_ID.fullmatch(text) is None:
        raise Refused(f"{text!r:.60} is not the id of a launch", field="launch_id")
    return text


def member_of(launch: str) -> tuple[str, int]:
    """The allocation and the rank of a launch id, the inverse of `launch_id`."""
    job_id, dot, rest = launch.rpartition(".")
    number, _, rank = rest.partition("-")
    return f"{job_id}{dot}{number}", int(rank or 0)


def job_number(name: str) -> int:
    """The number of the job that a launch, a log or a message is of, the first in its name; 0 for none.

    Where the server is not root's, its jobs can write such names: one that no ledger could have given is none.
    """
    found = _NUMBER.search(name)
    number = 0 if found is None else int(found[0])
    return number if number < HIGHEST_NUMBER else 0


def log_mark(job: Job) -> str:
    """Of which job a log is. An id may be given again once an older ledger was restored, so that it is not enough."""
    return f"{job.id} {job.spec.uid} {job.submitted_at!r}"


def job_of(launch: str) -> str:
    """The id of the job that a launch is of."""
    return launch.rpartition(".")[0]


@dataclass(frozen=True, slots=True)
class Lineage:
    """How the processes of a launch are recognised on their host; nothing in it is written by them.

    Attributes:
        root: the process that they descend from.
        adopts: they do so as long as it lives, because it takes in those whose parents have ended (a subreaper).
        cgroup: the one they were started in, as /proc/PID/cgroup names it; None where there is none.
    """

    root: ProcessIdentity | None = None
    adopts: bool = False
    cgroup: str | None = None


@dataclass(frozen=True, slots=True)
class Origin:
    """By what the processes of a job are known. `uid` is whose its processes are that descend from none of Corral's.

    Such a process is the job's if it is that user's and its environment says so; None where none is believed.
    """

    job_id: str
    lineage: Lineage
    uid: int | None = None
