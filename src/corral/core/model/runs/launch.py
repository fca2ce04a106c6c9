"""Launches and their reports. A launch is one attempt to run a member of a job on one node."""

import re
from dataclasses import dataclass, field, replace
from enum import StrEnum

from corral.core.model.devices.device import Device
from corral.core.model.devices.numa import NumaBinding
from corral.core.model.errors import CorralError, DevicesTaken, NodeLacks, Refused
from corral.core.model.jobs.job import Job, ProcessIdentity
from corral.core.model.jobs.phase import Phase
from corral.core.model.jobs.script_copy import VARIABLE, kept_text
from corral.core.model.placing.tenant import Tenant

_LAUNCH_ID = re.compile(r"\d{1,20}(_\d{1,20})?\.\d{1,20}(-\d{1,20})?", re.ASCII)
"""The id of a job or of an array's element; the number of the allocation; the rank, unless it is 0."""


_NUMBER = re.compile(r"(?<![0-9])[0-9]{1,13}(?![0-9])")
HIGHEST_NUMBER = 10**12
"""A limit that no ledger reaches."""


class LaunchPhase(StrEnum):
    """The state of a launch on its node. PREPARING: its devices are being prepared, and nothing runs yet."""

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
    """Whether a failed launch is tried again.

    AS_ASKED: as often as the job's retries say, or a few times if nothing of it ran. NEVER: it would fail in the same
    way. ALWAYS: nothing of it ran, and the node will get what it lacks.
    """

    AS_ASKED = "as asked"
    NEVER = "never"
    ALWAYS = "always"


@dataclass(frozen=True, slots=True)
class LaunchReport:
    """The state of one launch. Times are by the supervisor's clock.

    `ending` is the phase in which the work ended, by the supervisor: SUCCEEDED, FAILED, CANCELLED or TIMED_OUT. It is
    LOST if the environment of the work was ended from outside. If the work failed, `again` says whether it is tried
    again.
    A launch that is DECLARED_LOST never ran and can safely be tried again. Then `reason` says what failed, None if
    nothing did. For a CLAIMED launch, `reason` says what keeps it from beginning, if known. `age_s` is how long the
    process that enforces the time limit has done so, by a monotonic clock; None if nothing outside this server does.
    `saved_at` is when the last whole checkpoint of its job was named, None if none is known.
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
    saved_at: float | None = None


def failed_launch(launch_id: str, error: CorralError) -> LaunchReport:
    """The report of a launch that failed with this error, and of which nothing will ever run."""
    if isinstance(error, DevicesTaken):
        return LaunchReport(launch_id, LaunchPhase.DECLARED_LOST)
    again = Again.NEVER if isinstance(error, Refused) else Again.AS_ASKED
    if isinstance(error, NodeLacks):
        again = Again.ALWAYS
    return LaunchReport(launch_id, LaunchPhase.DECLARED_LOST, reason=str(error), again=again)


@dataclass(frozen=True, slots=True)
class DeviceUse:
    """One device of a launch, with all that its preparation depends on.

    Attributes:
        device: the device as the node allocates it; a slice counts as a device.
        whole: the device that a slice is cut from, None for a physical device.
        tenants: the jobs already on it, in the order of their arrival.
        newcomer: the job of this launch.
    """

    device: Device
    whole: Device | None
    tenants: tuple[Tenant, ...]
    newcomer: Tenant


@dataclass(frozen=True, slots=True)
class Launch:
    """One member of a job, to be run once on one node, with all that its node agent needs to know.

    Attributes:
        env: complete, except for values that only the node knows: its paths, and variables of the means of sharing.
        notes: lines for the head of the member's log.
        output, error, input: files for the member's standard streams, as in `core.model.jobs.output.OutputFiles`.
        cpu_milli, host_memory_mib: the member's part of the host, 0 means all; enforced if possible.
        rank: of the member in its gang, from 0; `members` is the size of the gang.
        node: the node's name.
        runtime: how it runs there: "process", "container", "binding" of a pod that others made, or "watch" for a
            process that Corral did not start.
        uses: the member's devices, in order.
        numa: the NUMA nodes and CPUs that its processes are bound to, None for none.
        checkpoint_dirs: the directories of the job's checkpoints, as in `core.model.jobs.checkpoints`.
        mark: the mark of its log (`log_mark`), if its agent has given the job other numbers of its user; else "".
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
    checkpoint_dirs: tuple[str, ...] = ()
    mark: str = field(default="", metadata={"left_out": True})

    @property
    def log_mark(self) -> str:
        """The mark that identifies its log's job."""
        return self.mark or log_mark(self.job)

    @property
    def id(self) -> str:
        """The launch's id on its node."""
        return launch_id(self.allocation_id, self.rank)


def with_time_limit(launch: Launch, time_limit_s: float | None) -> Launch:
    """The launch with another time limit of its job."""
    return replace(launch, job=replace(launch.job, spec=replace(launch.job.spec, time_limit_s=time_limit_s)))


def without_script(launch: Launch) -> Launch:
    """The launch without the copy of its job's script, which may be long; only the start of the job needs it."""
    env = launch.job.spec.env
    if kept_text(env) is None:
        return launch
    kept = tuple(variable for variable in env if variable[0] != VARIABLE)
    return replace(launch, job=replace(launch.job, spec=replace(launch.job.spec, env=kept)))


def launch_id(allocation_id: str, rank: int) -> str:
    """The id of a member's launch on its node: 4.1 for rank 0, and 4.1-1, 4.1-2 for the others."""
    return f"{allocation_id}-{rank}" if rank else allocation_id


def checked_launch_id(text: str) -> str:
    """Return a launch id from outside. Raises Refused if it is none, such as a path."""
    if _LAUNCH_ID.fullmatch(text) is None:
        raise Refused(f"{text!r:.60} is not the id of a launch", field="launch_id")
    return text


def member_of(launch: str) -> tuple[str, int]:
    """The allocation and the rank of a launch id: the inverse of `launch_id`."""
    job_id, dot, rest = launch.rpartition(".")
    number, _, rank = rest.partition("-")
    return f"{job_id}{dot}{number}", int(rank or 0)


def job_number(name: str) -> int:
    """The number of the job in the name of a launch, a log or a message: the first number in it; 0 if there is none.

    If the server does not run as root, its jobs can write such names. So a number that no ledger could have given is
    ignored.
    """
    found = _NUMBER.search(name)
    number = 0 if found is None else int(found[0])
    return number if number < HIGHEST_NUMBER else 0


def log_mark(job: Job) -> str:
    """The mark that identifies a log's job. After the restore of an older ledger, an id may be given again."""
    return f"{job.id} {job.spec.uid} {job.submitted_at!r}"


def job_of(launch: str) -> str:
    """The id of the job of a launch."""
    return launch.rpartition(".")[0]


@dataclass(frozen=True, slots=True)
class Lineage:
    """The marks by which the processes of a launch are recognised on their host. The processes cannot write these marks
    themselves.

    Attributes:
        root: the process that they descend from.
        adopts: `root` adopts processes whose parents have ended (a subreaper), so all descend from it while it lives.
        cgroup: the cgroup that they were started in, as in /proc/PID/cgroup; None if there is none.
    """

    root: ProcessIdentity | None = None
    adopts: bool = False
    cgroup: str | None = None


@dataclass(frozen=True, slots=True)
class Origin:
    """The marks by which the processes of a job are recognised.

    `uid` is a user. A process that does not descend from Corral's is the job's if it belongs to this user and its
    environment names the job. With None no such process counts.
    """

    job_id: str
    lineage: Lineage
    uid: int | None = None
