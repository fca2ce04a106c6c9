"""The process runtime: implements `corral.core.ports.runtime.Runtime` with supervisors on this machine."""

import os
import signal
from collections.abc import Sequence
from pathlib import Path

from corral.core.model.errors import BackendFailed
from corral.core.model.home import Home
from corral.core.model.jobs.checkpoint_signal import CheckpointSignal
from corral.core.model.jobs.job import ProcessIdentity
from corral.core.model.jobs.phase import Phase
from corral.core.model.jobs.script_copy import kept_text
from corral.core.model.runs.launch import Launch, LaunchPhase, LaunchReport, Lineage
from corral.core.ports.runtime import Execution, InnerCommand, MainProcesses
from corral.host.runtimes.process import copied_script
from corral.host.runtimes.process.process_launches import LaunchState, ProcessLaunches
from corral.host.runtimes.process.records.launch_spec import LaunchError, LaunchSpec
from corral.host.runtimes.process.srun.programs import install, member_program, script_program

NO_JOB = "notification."
"""The prefix of launch ids that belong to no job."""

CONTAINER = "container."
"""The prefix, before the id of the job's own launch, of launches that look after a job's container."""

_ENDING_BY_REASON = {"timed_out": Phase.TIMED_OUT, "cancelled": Phase.CANCELLED}
_PHASE_BY_REASON = {"launch_failed": LaunchPhase.DECLARED_LOST, "supervisor_failed": LaunchPhase.DEAD}


class ProcessRuntime:
    """Runs jobs as processes of this host. As root it runs each as the user who submitted it."""

    def __init__(self, processes: ProcessLaunches, home: Home) -> None:
        self._processes = processes
        self._home = home
        self._programs: tuple[Path, ...] = ()
        self._root = os.geteuid() == 0

    def launch(self, launch: Launch) -> None:
        """Start the supervisor of a launch. Raises BackendFailed if none could be requested."""
        spec, told = launch.job.spec, _checkpoint_signal(launch)
        self._ensure_logs()
        self._ensure_programs()
        become = self._root and spec.uid not in (None, 0)
        try:
            self._processes.launch(
                LaunchSpec(
                    launch_id=launch.id,
                    job_id=launch.job.id,
                    argv=self._program(launch),
                    env=self._with_srun(launch.env),
                    workdir=spec.workdir,
                    log_path=str(self._home.log_of(launch.job.id, launch.rank)),
                    log_of=launch.log_mark,
                    scratch_path=str(self._home.scratch_of(launch.job.id)),
                    umask=spec.umask,
                    uid=spec.uid if become else None,
                    gid=spec.gid if become else None,
                    groups=spec.groups if become else None,
                    time_limit_s=spec.time_limit_s,
                    rlimits={f"RLIMIT_{name}": soft for name, soft in spec.rlimits},
                    notes=launch.notes,
                    output=launch.output,
                    error=launch.error,
                    input=launch.input,
                    append=spec.open_mode == "append" or (spec.open_mode is None and launch.job.attempts > 0),
                    checkpoint_signal=0 if told is None else signal.Signals[f"SIG{told.name}"].value,
                    checkpoint_target="" if told is None else told.target.value,
                    wrapped=_wraps_script(launch),
                    checkpoint_grace_s=spec.checkpoint_grace_s,
                    cpu_milli=launch.cpu_milli,
                    host_memory_mib=launch.host_memory_mib,
                    stdin=spec.stdin and launch.rank == 0,
                    terminal=_terminal(launch),
                    numa_nodes=() if launch.numa is None else launch.numa.nodes,
                    numa_cpus=() if launch.numa is None else launch.numa.cpus,
                    devices=tuple(use.device.uuid for use in launch.uses),
                )
            )
        except (LaunchError, ValueError) as error:
            raise BackendFailed(str(error)) from error

    def _program(self, launch: Launch) -> tuple[str, ...]:
        """Return a member's program: the job's command, or its part of a gang's script
        (`corral.host.runtimes.process.srun`).
        """
        command, text = launch.job.spec.command, kept_text(launch.job.spec.env)
        if launch.rank and launch.job.spec.script:
            return member_program()
        if text is not None:
            command = copied_script.program(command, text, str(self._home.script_of(launch.job.id)))
        return script_program(command) if _wraps_script(launch) else command

    def _ensure_logs(self) -> None:
        """Make the directory of logs again if it was removed while the server ran."""
        logs = self._home.logs
        try:
            if not logs.is_dir():
                logs.mkdir()
                logs.chmod(0o755 if self._root else 0o700)
        except OSError as error:
            raise BackendFailed(f"{logs} cannot be made: {error.strerror}") from error

    def _ensure_programs(self) -> None:
        """Install an `srun` for this server's interpreter, again if it was removed while the server ran."""
        try:
            if not (self._programs and all(program.exists() for program in self._programs)):
                self._programs = install(self._home.programs)
        except OSError as error:
            raise BackendFailed(f"the programs in {self._home.programs} cannot be made: {error.strerror}") from error

    def _with_srun(self, env: Sequence[tuple[str, str]]) -> dict[str, str]:
        """Return the environment with Corral's `srun` first on its PATH."""
        variables = dict(env)
        variables["PATH"] = f"{self._home.programs}{os.pathsep}{variables.get('PATH') or os.defpath}"
        return variables

    def stop(self, launch_id: str) -> None:
        """Stop the job: SIGTERM to all of its processes, then after the grace SIGKILL."""
        try:
            self._processes.stop(launch_id)
        except LaunchError as error:
            raise BackendFailed(str(error)) from error
        except OSError as error:
            raise BackendFailed(f"launch {launch_id} cannot be asked to stop: {error.strerror}") from error

    def set_time_limit(self, launch_id: str, time_limit_s: float) -> None:
        """Have the supervisor enforce another time limit. Raises BackendFailed if the limit cannot be stored."""
        try:
            self._processes.set_time_limit(launch_id, time_limit_s)
        except LaunchError as error:
            raise BackendFailed(str(error)) from error
        except OSError as error:
            raise BackendFailed(f"launch {launch_id} cannot be given a time limit: {error.strerror}") from error

    def report(self, launch_id: str) -> LaunchReport:
        """Return the report from the launch's records. Raises BackendFailed if they cannot be read."""
        try:
            return _report(launch_id, self._processes.status(launch_id))
        except OSError as error:
            raise BackendFailed(f"the records of launch {launch_id} cannot be read: {error.strerror}") from error

    def declare_lost(self, launch_id: str, *, ran: bool = False) -> bool:
        """Take the launch's claim. Return False if a supervisor had taken it before. Raises BackendFailed if the disk
        fails.
        """
        try:
            return self._processes.declare_lost(launch_id, message="", ran=ran)
        except OSError as error:
            raise BackendFailed(f"the claim of launch {launch_id} cannot be written: {error.strerror}") from error

    def launches(self) -> tuple[str, ...]:
        """Return the ids of all jobs' launches on record that are processes."""
        return tuple(name for name in self._processes.list_launches() if not name.startswith((NO_JOB, CONTAINER)))

    def forget(self, launch_id: str) -> None:
        """Remove the record of a launch that is over."""
        try:
            self._processes.forget(launch_id)
        except LaunchError as error:
            raise BackendFailed(str(error)) from error
        except OSError as error:
            raise BackendFailed(f"the records of launch {launch_id} cannot be removed: {error.strerror}") from error

    def pids(self, launch_id: str) -> frozenset[int]:
        """Return the pids of the job's processes; empty while the record cannot be read."""
        try:
            return frozenset(self._processes.pids(launch_id))
        except OSError:
            return frozenset()

    def main_processes(self, launch_id: str) -> MainProcesses:
        """Return the launched process and the script below it; none while the record cannot be read."""
        try:
            return MainProcesses(frozenset(self._processes.main_pids(launch_id)))
        except (OSError, ValueError, TypeError):
            return MainProcesses()

    def lineage(self, launch_id: str) -> Lineage:
        """Return the marks of a launch's processes: their cgroup, and their descent from the supervisor.

        The supervisor adopts every orphan of its job.
        """
        try:
            supervisor = self._processes.supervisor(launch_id)
        except OSError:
            supervisor = None
        root = None if supervisor is None else ProcessIdentity(*supervisor)
        return Lineage(root, adopts=True, cgroup=self._processes.cgroup_of(launch_id))

    def execute(self, launch_id: str, command: InnerCommand) -> Execution:
        """Run a command beside the program of a launch. Raises BackendFailed."""
        try:
            return self._processes.execute(launch_id, command)
        except (LaunchError, ValueError, TypeError) as error:
            raise BackendFailed(f"no command can be run in launch {launch_id} now: {error}") from error
        except OSError as error:
            raise BackendFailed(f"no command can be run in launch {launch_id} now: {error.strerror}") from error

    def close(self) -> None:
        """Stop watching. The jobs run on under their supervisors."""
        self._processes.close()


def _wraps_script(launch: Launch) -> bool:
    """Return whether the launch is the member that runs a gang's script, as a child of its main process."""
    return launch.members > 1 and launch.job.spec.script and launch.rank == 0


def _terminal(launch: Launch) -> tuple[int, int] | None:
    """Return rows and columns of the member's terminal; only the first member of a gang has one."""
    size = launch.job.spec.terminal
    return None if size is None or launch.rank else (size.rows, size.columns)


def _checkpoint_signal(launch: Launch) -> CheckpointSignal | None:
    """Return the signal that this member gets before its time limit, or None."""
    word = launch.job.spec.checkpoint_signal
    told = None if word is None else CheckpointSignal.parse(word)
    return told if told is not None and told.reaches(launch.rank) else None


def _report(launch_id: str, state: LaunchState) -> LaunchReport:
    record = state.exit
    if record is None:
        return LaunchReport(
            launch_id, state.phase, started_at=state.started_at, reason=_said(state.message), age_s=state.age_s
        )
    ending = _ENDING_BY_REASON.get(record.reason or "")
    if ending is None:
        ending = Phase.SUCCEEDED if record.exit_code == 0 and record.reason is None else Phase.FAILED
    return LaunchReport(
        launch_id,
        _PHASE_BY_REASON.get(record.reason or "", state.phase),
        started_at=state.started_at,
        ended_at=record.ended_at,
        exit_code=record.exit_code,
        signal=record.signal,
        ending=ending,
        reason=_said(record.message),
    )


def _said(message: str) -> str | None:
    """Return a message of a record so that it can be stored: bytes that are not UTF-8 as escapes. None if it is
    empty.
    """
    return message.encode(errors="backslashreplace").decode() or None
