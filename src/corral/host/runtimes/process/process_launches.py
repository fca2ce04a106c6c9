"""Jobs as processes of this machine, as the server sees them: launch, stop, status, recovery after a crash."""

import contextlib
import logging
import os
import socket
import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from pathlib import Path

from corral.core.model.devices.means import HostMeans
from corral.core.model.runs.launch import LaunchPhase
from corral.core.ports.runtime import InnerCommand
from corral.host.runtimes.process import native_supervisor
from corral.host.runtimes.process.cgroups.device_fence import Numbers
from corral.host.runtimes.process.cgroups.job_cgroups import JobCgroups
from corral.host.runtimes.process.ending.killing import kill_with_supervisor, main_pids
from corral.host.runtimes.process.ending.leftovers import LeftoverKiller
from corral.host.runtimes.process.ending.removal import remove_tree
from corral.host.runtimes.process.process_execution import ProcessExecution, connect_keeper
from corral.host.runtimes.process.procfs import LocalProcess, descendants_of
from corral.host.runtimes.process.records import claimed_list
from corral.host.runtimes.process.records.claim import Claim
from corral.host.runtimes.process.records.evidence import supervisors
from corral.host.runtimes.process.records.launch_records import CLAIMED_LIST, Exit, LaunchRecords
from corral.host.runtimes.process.records.launch_spec import LAUNCH_ID, LaunchError, LaunchSpec, lowered_limits
from corral.host.runtimes.process.records.still_running import tag_of
from corral.host.runtimes.process.records.verification import LaunchVerifier
from corral.host.runtimes.process.watcher import Watcher

log = logging.getLogger(__name__)

OVERDUE_S = 10.0
"""A job that has not ended this long after its grace is killed together with its supervisor."""
_TICKS_PER_S = os.sysconf("SC_CLK_TCK")
_KILLED = "its supervisor was killed or the machine went down"
_RECORD_GONE = "the record of its launch was removed, and with it how it ended"


@dataclass(frozen=True, slots=True)
class LaunchState:
    """The present state of a launch.

    UNKNOWN: it was not claimed, so nothing was run. CLAIMED: a supervisor has it, the program is not yet known to run.
    RUNNING: it runs as `pid`, or the rest of it is being killed. EXITED: `exit` has its end. DEAD: the supervisor was
    killed or the machine went down; nothing of the job is left, its end is unknown. DECLARED_LOST: it never ran and
    never will; `message` says why. `age_s` is the age of a living supervisor by the clock of the boot.
    """

    phase: LaunchPhase
    pid: int | None = None
    started_at: float | None = None
    exit: Exit | None = None
    message: str = ""
    age_s: float | None = None


def _first_time_limit_s(records: LaunchRecords) -> float | None:
    """Return the time limit that the launch had at its start; None if it had none, or its record is invalid."""
    try:
        return records.read_orders().time_limit_s
    except (OSError, ValueError, TypeError):
        return None


def _age_s(process: LocalProcess | None) -> float | None:
    if process is None or not process.is_alive():
        return None
    return time.clock_gettime(time.CLOCK_BOOTTIME) - process.start_ticks / _TICKS_PER_S


def _exited(record: Exit) -> LaunchState:
    return LaunchState(LaunchPhase.EXITED, started_at=record.started_at, exit=record, message=record.message)


class ProcessLaunches:
    """Launches jobs under supervisors that outlive it. Every method may be called from any thread.

    `on_event(launch_id)` is called when `status` of this launch may have changed. It runs on the watcher's thread and
    must only pass the event on. It may come more than once, or for a launch that is already forgotten. `boot_at` is the
    start of this boot in the server's time, so that supervisors count alike; without it they use the wall clock.
    `closed_to` returns the device numbers that a launch with these devices must not open.
    """

    def __init__(
        self,
        home: Path,
        *,
        log_max_bytes: int,
        kill_grace_s: float,
        on_event: Callable[[str], None],
        use_cgroup: bool = True,
        root: str = "",
        boot_at: float | None = None,
        closed_to: Callable[[Collection[str]], Sequence[Numbers]] = lambda _: (),
    ) -> None:
        self._home = home.resolve()
        self._launches = self._home / "launches"
        self._log_max_bytes = log_max_bytes
        self._kill_grace_s = kill_grace_s
        self._use_cgroup = use_cgroup
        self._boot_at = boot_at
        self._closed_to = closed_to
        tag = tag_of(self._home)
        self._cgroups = JobCgroups(f"corral-{tag}", root)
        self._watcher = Watcher(
            self._home, on_supervisor=self._is_news, on_failed=self._on_launch_failed, on_news=on_event
        )
        self._verifier = LaunchVerifier(self._home, tag, self._cgroups, self._watcher.watches)
        self._leftovers = LeftoverKiller(self._verifier, self._cgroups, self._watcher.end_supervisor, on_event)
        self._unclaimed: dict[str, str] = {}
        self._asked_to_stop: dict[str, float] = {}
        self._ended: dict[str, LaunchState] = {}

    # Life

    def start(self) -> None:
        """Prepare for launches, and watch again the launches of an earlier server. Raises LaunchError."""
        if (missing := native_supervisor.missing_supervisor()) is not None:
            raise LaunchError("; ".join(missing))
        try:
            for name, mode in (("logs", 0o755), ("scratch", 0o755), ("launches", 0o700)):
                (self._home / name).mkdir(mode=mode, parents=True, exist_ok=True)
            claimed_list.shorten(str(self._home / CLAIMED_LIST))
        except OSError as error:
            raise LaunchError(f"cannot keep jobs under {self._home}: {error}") from error
        if self._use_cgroup:
            self._cgroups.start(self.list_launches())
        for name in os.listdir(self._launches):
            if not LAUNCH_ID.fullmatch(name):
                with contextlib.suppress(OSError):
                    remove_tree(f"{self._launches}/{name}")
        self._watcher.start()
        living = supervisors(str(self._launches))
        for launch_id in self.list_launches():
            try:
                self._adopt(launch_id, living.get(launch_id, []))
            except OSError as error:
                # The launch is checked again later, and does not keep the others from being taken over.
                log.warning("the records of launch %s cannot be read yet: %s", launch_id, error)

    def _adopt(self, launch_id: str, living: list[LocalProcess]) -> None:
        claim = self._verifier.claim(launch_id)
        if claim is None or claim.holder is None:
            return
        if claim.holder not in living and living:
            self._watcher.watch(launch_id, living[0])
        elif living or self._verifier.records(launch_id).read_exit() is None:
            self._watcher.watch(launch_id, claim.holder)

    def close(self) -> None:
        """Stop watching. The jobs run on."""
        self._leftovers.close()
        self._watcher.close()
        self._cgroups.close()

    @property
    def means_of_killing(self) -> str:
        """The way in which the processes of a job are found at its end: "cgroup" or "subreaper"."""
        return "cgroup" if self._cgroups.base else "subreaper"

    @property
    def host_means(self) -> HostMeans:
        """The levels at which jobs' limits on CPUs and host memory are enforced, and whether jobs are fenced; ask after
        `start`.
        """
        return self._cgroups.host_means

    # Doing

    def launch(self, launch: LaunchSpec) -> None:
        """Request a supervisor for a launch. Events report its progress. A repeated call runs the job only once.

        Raises LaunchError if the launch cannot be written to disk or no supervisor can be requested; then nothing was
        run.
        """
        launch_id = launch.launch_id
        records = self._verifier.records(launch_id)
        rlimits, lines = lowered_limits(launch.rlimits)
        closed = () if launch.acts_for_user else self._closed_to(launch.devices)
        try:
            limits = self._cgroups.prepare(launch_id, launch.cpu_milli, launch.host_memory_mib, closed)
        except OSError as error:
            raise LaunchError(f"the limits of job {launch.job_id} cannot be set: {error}") from error
        orders = launch.orders(
            kill_grace_s=self._kill_grace_s,
            log_max_bytes=self._log_max_bytes,
            notes=lines,
            cgroup=self._cgroups.path(launch_id),
            limits=limits,
            closed=self._cgroups.closed_by_program(closed),
            notify_path=self._watcher.notify_path,
            boot_at=self._boot_at,
        )
        command = launch.command(dict([self._verifier.mark(launch_id).split("=")]), rlimits)
        try:
            fresh = records.make_directory()
            if not fresh and records.claim.is_taken():
                return
            records.write_spec(orders, command, unseen=fresh)
        except OSError as error:
            raise LaunchError(f"cannot write down the launch of job {launch.job_id}: {error}") from error
        self._watcher.request(launch_id)

    def stop(self, launch_id: str, *, reason: str = "cancelled") -> None:
        """End the job: SIGTERM to all of its processes, after the grace SIGKILL. The exit record will have `reason`.

        A launch that is not claimed yet will end, with that reason, before it runs anything. Repeat the call while it
        has not ended: an overdue supervisor is killed together with its job. Raises LaunchError if the request cannot
        be written down.
        """
        asked_at = self._asked_to_stop.setdefault(launch_id, time.monotonic())
        if time.monotonic() - asked_at > self._kill_grace_s + OVERDUE_S:
            self._force(launch_id)
            return
        failure: OSError | None = None
        try:
            self._verifier.records(launch_id).request_stop(reason)
        except FileNotFoundError:
            return
        except OSError as error:
            failure = error
        if self._watcher.end_supervisor(launch_id):
            # The supervisor gets the signal anyway, whatever a job did to its record.
            return
        claim = self._verifier.claim(launch_id)
        try:
            if claim is None and failure is not None:
                raise failure
            if claim and claim.holder:
                self._watcher.end_process(claim.holder)
        except OSError as error:
            raise LaunchError(f"cannot ask launch {launch_id} to stop: {error}") from error

    def set_time_limit(self, launch_id: str, time_limit_s: float) -> None:
        """Have the supervisor end the job after this run time, at once if it has passed.

        Repeat the call until it does not raise. Does nothing for a launch without a record, and for a launch that had
        this limit from the beginning. Raises LaunchError or OSError if the limit cannot be stored.
        """
        records = self._verifier.records(launch_id)
        now_s = records.new_time_limit_s()
        if now_s is None and _first_time_limit_s(records) == time_limit_s:
            return
        if now_s != time_limit_s:
            try:
                records.set_time_limit(time_limit_s)
            except FileNotFoundError:
                return
        # The signal is repeated, because the writer of the limit may have died before it signalled.
        self._tell(launch_id)

    def _tell(self, launch_id: str) -> None:
        """Signal the launch's supervisor to look for changes: another time limit, or a command to run beside the
        program.
        """
        if not self._watcher.tell_supervisor(launch_id):
            claim = self._verifier.claim(launch_id)
            if claim is not None and claim.holder is not None:
                self._watcher.tell_process(claim.holder)

    def execute(self, launch_id: str, command: InnerCommand) -> ProcessExecution:
        """Run a command beside the program of a launch that runs. Raises LaunchError, OSError, ValueError."""
        records = self._verifier.records(launch_id)
        own = records.read_command()
        owner = None if own.uid is None or own.gid is None else (own.uid, own.gid)

        def begin(message: bytes, fds: Sequence[int]) -> socket.socket:
            try:
                return connect_keeper(records.directory, lambda: self._tell(launch_id), message, fds)
            except TimeoutError:
                raise LaunchError(
                    "its supervisor does not take commands: it is of an earlier version of Corral, or stopped"
                ) from None

        return ProcessExecution(command, begin, owner)

    def fence(self, process: LocalProcess, devices: Collection[str]) -> bool:
        """Keep a process that is of no launch, and all that it will start, from all GPUs but these.

        Return whether only root can undo it. Raises OSError, of which ProcessLookupError says that it has ended.
        """
        return self._cgroups.fence_below(process, self._closed_to(devices))

    def _force(self, launch_id: str) -> None:
        """Kill a supervisor that does not end its job, and then the job. The remaining processes are killed later."""
        claim, alive = self._verifier.supervised_claim(launch_id)
        if claim is None or claim.holder is None or not alive:
            return
        log.warning("launch %s has not ended when it should have: its supervisor is killed", launch_id)
        self._verifier.kill_supervisors(launch_id)
        kill_with_supervisor(claim.holder)

    def declare_lost(self, launch_id: str, *, message: str = "declared lost by the server", ran: bool = False) -> bool:
        """Make sure that this launch never runs. False if a supervisor has claimed it. Raises OSError.

        Also False if a supervisor had claimed it and the record was removed, as shown by the caller's `ran`, the list
        of claims or a living process. The rest of the job is then killed, and the launch is DEAD.
        """
        records = self._verifier.records(launch_id)
        records.make_directory()
        with self._leftovers.held_off(launch_id):
            if not records.claim.take(Claim(time.time(), None, message=_RECORD_GONE, ran=True)):
                found = self._verifier.claim(launch_id)
                return found is not None and found.declared_lost
            # This is checked after the claim was taken: a supervisor that had claimed the launch before is on the list.
            if ran or self._verifier.has_run(launch_id):
                return False
            lost = Claim(time.time(), None, declared_lost=True, message=message)
            records.claim.amend(lost)
            self._verifier.trust(launch_id, lost)
            return True

    def forget(self, launch_id: str) -> None:
        """Remove the record of a launch that has ended. Raises LaunchError while it has not, or when the disk fails."""
        if self.status(launch_id).phase in (LaunchPhase.CLAIMED, LaunchPhase.RUNNING):
            raise LaunchError(f"launch {launch_id} still runs and cannot be forgotten; stop it first")
        records = self._verifier.records(launch_id)
        # The directory is renamed first: a supervisor that is still starting must find all of it or nothing.
        trash = f"{self._launches}/.{launch_id}"
        try:
            if os.path.lexists(trash):
                remove_tree(trash)
            os.rename(records.directory, trash)
            remove_tree(trash)
        except FileNotFoundError:
            return
        except OSError as error:
            raise LaunchError(f"cannot remove the record of launch {launch_id}: {error}") from error
        # The cgroups of a launch that was never claimed, or whose supervisor was killed just before, still exist.
        self._cgroups.remove(launch_id)
        self._verifier.forget(launch_id)
        self._leftovers.forget(launch_id)
        self._asked_to_stop.pop(launch_id, None)
        self._unclaimed.pop(launch_id, None)
        self._ended.pop(launch_id, None)

    # Looking

    def list_launches(self) -> list[str]:
        """Return the ids of all launches that were not forgotten, sorted."""
        return self._verifier.list_launches()

    def status(self, launch_id: str) -> LaunchState:
        """Return the present state of the launch. The state of an exited launch is final and not read again."""
        ended = self._ended.get(launch_id)
        if ended is not None:
            return ended
        claim, alive = self._verifier.supervised_claim(launch_id)
        if claim is None and launch_id in self._unclaimed:
            return self._unclaimed_state(launch_id, self._unclaimed[launch_id])
        if claim is None:
            return LaunchState(LaunchPhase.UNKNOWN)
        if claim.declared_lost:
            return LaunchState(LaunchPhase.DECLARED_LOST, message=claim.message)
        records = self._verifier.records(launch_id)
        # The order matters: while its supervisor lives, the launch has not ended, whatever the record says.
        exit_ = None if alive or claim.ran else records.read_exit()
        if exit_:
            return self._ended.setdefault(launch_id, _exited(exit_))
        started = records.claim.read_started()
        pid, started_at = (started.process.pid, started.started_at) if started else (None, None)
        if not alive and not self._leftovers.kill(launch_id):
            message = claim.message if claim.ran else records.exit_fault() or _KILLED
            return LaunchState(LaunchPhase.DEAD, pid, started_at, message=message)
        phase = LaunchPhase.RUNNING if started else LaunchPhase.CLAIMED
        if not alive:
            return LaunchState(phase, pid, started_at, message="its supervisor died; its processes are being killed")
        return LaunchState(phase, pid, started_at, age_s=_age_s(claim.holder))

    def _unclaimed_state(self, launch_id: str, message: str) -> LaunchState:
        """Return the state of a launch whose supervisor ended before it claimed it. A full disk may have prevented the
        record.
        """
        try:
            if self.declare_lost(launch_id, message=message):
                return LaunchState(LaunchPhase.DECLARED_LOST, message=message)
        except OSError as error:
            return LaunchState(LaunchPhase.UNKNOWN, message=f"{message}, and that cannot be recorded: {error.strerror}")
        del self._unclaimed[launch_id]
        return self.status(launch_id)

    def pids(self, launch_id: str) -> list[int]:
        """Return the pids of the job's processes without its supervisor."""
        claim = self._verifier.claim(launch_id)
        if claim is None or claim.holder is None:
            return []
        if claim.holder.is_alive():
            return descendants_of(claim.holder)
        return self._verifier.orphan_pids(launch_id)

    def main_pids(self, launch_id: str) -> list[int]:
        """Return the launched program, and the script that it only wraps, if it does. Empty once the program has ended.

        Raises OSError, and ValueError or TypeError for an invalid record.
        """
        records = self._verifier.records(launch_id)
        started = records.claim.read_started()
        if started is None or not started.process.is_alive():
            return []
        return main_pids(started.process.pid, wrapped=records.read_orders().wrapped)

    def supervisor(self, launch_id: str) -> LocalProcess | None:
        """Return the process that claimed the launch in this boot, alive or not. It is read from disk until it is
        known.
        """
        return self._verifier.supervisor(launch_id)

    def cgroup_of(self, launch_id: str) -> str | None:
        """Return the job's cgroup as /proc/PID/cgroup names it, None if jobs have none."""
        return self._cgroups.shown(launch_id)

    # Events of the watcher

    def _is_news(self, launch_id: str, ended: bool) -> bool:
        """Return whether `status` may have changed; if it has not yet, an event will follow."""
        return not (ended and self._ended_without_a_word(launch_id))

    def _ended_without_a_word(self, launch_id: str) -> bool:
        """Handle a supervisor that left no exit record. Return True if another event will follow."""
        if self.status(launch_id).phase is LaunchPhase.EXITED:
            return False
        records = self._verifier.records(launch_id)
        if records.read_exit() is not None:
            return False
        claim = self._verifier.claim(launch_id)
        if claim is None:
            if not os.path.isdir(records.directory):
                return False
            self._on_launch_failed(launch_id, "its supervisor ended before it claimed the launch")
            return False
        if claim.holder is not None and claim.holder.is_alive():
            # The supervisor that ended had lost the claim to another one, which a zygote may have forked just before it
            # died.
            self._watcher.watch(launch_id, claim.holder)
            return False
        return claim.holder is not None and self._leftovers.kill(launch_id)

    def _on_launch_failed(self, launch_id: str, message: str) -> bool:
        try:
            self.declare_lost(launch_id, message=f"{message}; see {self._home / 'supervisor.log'}")
        except OSError as error:
            log.error("cannot record that launch %s failed: %s", launch_id, error)
            self._unclaimed[launch_id] = message
        return True
