"""The Docker runtime: implements `corral.core.ports.runtime.Runtime` over runners and their supervisors.

A launch is a launch of the process runtime with the id "container." and its own, whose program is a runner. So its
claim, log, limits and exit record are those of processes. The container is added: its name follows from the launch. An
ended launch has no running container. The container is removed when the launch is forgotten.
"""

import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from corral.core.model.devices.device import Device
from corral.core.model.devices.means import Means
from corral.core.model.errors import BackendFailed, NodeLacks, Refused
from corral.core.model.home import Home
from corral.core.model.jobs.checkpoint_signal import CheckpointSignal
from corral.core.model.jobs.container import Pull
from corral.core.model.jobs.job import ProcessIdentity
from corral.core.model.runs.launch import Launch, LaunchPhase, LaunchReport, Lineage
from corral.core.ports.runtime import Execution, InnerCommand, MainProcesses
from corral.host.runtimes.docker.after_end import Found, ended_report, own_exit_code
from corral.host.runtimes.docker.container_name import container_name
from corral.host.runtimes.docker.container_request import body_of
from corral.host.runtimes.docker.records import ContainerRecords, HostUser, OrderedDevice, RunnerOrders, RunnerState
from corral.host.runtimes.docker.site import DockerSite
from corral.host.runtimes.process.process_launches import ProcessLaunches
from corral.host.runtimes.process.procfs import LocalProcess, descendants
from corral.host.runtimes.process.records.launch_spec import LaunchError, LaunchSpec
from corral.host.runtimes.process.records.still_running import tag_of
from corral.host.runtimes.process.runtime import CONTAINER, ProcessRuntime

if TYPE_CHECKING:
    from corral.host.runtimes.docker.daemon_calls import Daemon

RUNNER_S = 5.0
"""A runner has this much longer than its container to end: Docker ends the container, and the runner then reads why."""

PIPES = "-"
"""Replaces the kind of a terminal if a command inside a container has pipes."""

_DOCKERS_OWN = ("DOCKER_HOST", "DOCKER_TLS_VERIFY", "DOCKER_CERT_PATH")


class DockerRuntime:
    """Runs jobs in containers of this host's Docker daemon, which is asked for nothing before the first of them.

    Attributes:
        tag: the part of container names that distinguishes this server from others.
    """

    def __init__(
        self, processes: ProcessLaunches, home: Home, site: DockerSite, *, kill_grace_s: float, log_max_bytes: int
    ) -> None:
        self._processes = processes
        self._runners = ProcessRuntime(processes, home)
        self._home = home
        self._site = site
        self._kill_grace_s = kill_grace_s
        self._log_max_bytes = log_max_bytes
        self.tag = tag_of(home.root)
        self._ended: dict[str, Found] = {}
        """Launches of which no container runs any more according to Docker, each with the container's last state in
        Docker.
        """
        self._mains: dict[str, ProcessIdentity] = {}

    def launch(self, launch: Launch) -> None:
        """Have a runner create the container of a launch.

        Raises Refused, BackendFailed, and NodeLacks if Docker does not answer.
        """
        who = _owner(launch)
        _refuse_daemons(launch)
        # The site's rules may have changed since the job was submitted.
        self._site.settle(launch.job.spec.container)
        records = self._records(launch.id)
        if self._runners.report(_runner(launch.id)).phase is LaunchPhase.UNKNOWN:
            with _docker("its container cannot be made (is Docker installed and running, and may the server use it?)"):
                pass
        try:
            records.write_orders(
                RunnerOrders(
                    name=container_name(self.tag, launch.id),
                    body=body_of(
                        launch,
                        self.tag,
                        who,
                        log_max_bytes=self._log_max_bytes,
                        max_processes=self._site.max_processes,
                    ),
                    host_paths=list(self._site.host_paths),
                    scratch=str(self._home.scratch_of(launch.job.id)),
                    devices=[_ordered(use.device) for use in launch.uses],
                    pull=_pull_policy(launch),
                    owner=who,
                    stop_s=self._kill_grace_s + _time_to_save_s(launch),
                    notify=(str(self._home.notify_socket), _runner(launch.id)),
                )
            )
            self._processes.launch(self._spec(launch, who))
        except (LaunchError, ValueError) as error:
            raise BackendFailed(str(error)) from error
        except OSError as error:
            raise BackendFailed(f"launch {launch.id} cannot be written down: {error.strerror}") from error

    def _spec(self, launch: Launch, who: HostUser) -> LaunchSpec:
        spec = launch.job.spec
        become = os.geteuid() == 0 and who.uid != 0
        return LaunchSpec(
            launch_id=_runner(launch.id),
            job_id=launch.job.id,
            argv=(sys.executable, "-I", "-m", "corral.host.runtimes.docker.runner", str(self._directory(launch.id))),
            env={name: os.environ[name] for name in (*_DOCKERS_OWN, "PATH") if name in os.environ},
            workdir="/",
            log_path=str(self._home.log_of(launch.job.id, launch.rank)),
            log_of=launch.log_mark,
            scratch_path=str(self._home.scratch_of(launch.job.id)),
            uid=who.uid if become else None,
            gid=who.gid if become else None,
            groups=tuple(who.groups) if become else None,
            acts_for_user=True,
            time_limit_s=spec.time_limit_s,
            kill_grace_s=self._kill_grace_s,
            spare_s=RUNNER_S,
            notes=launch.notes,
            append=spec.open_mode == "append" or (spec.open_mode is None and launch.job.attempts > 0),
            checkpoint_signal=_number(spec.checkpoint_signal),
            checkpoint_grace_s=spec.checkpoint_grace_s,
        )

    def stop(self, launch_id: str) -> None:
        """Send the container its stop signal and, after the grace, SIGKILL."""
        self._runners.stop(_runner(launch_id))

    def set_time_limit(self, launch_id: str, time_limit_s: float) -> None:
        self._runners.set_time_limit(_runner(launch_id), time_limit_s)

    def report(self, launch_id: str) -> LaunchReport:
        """Return the report from the records. A launch is over only once none of it runs in Docker either."""
        told = replace(self._runners.report(_runner(launch_id)), launch_id=launch_id)
        if told.phase is LaunchPhase.RUNNING:
            return self._of_running(told)
        if told.phase not in (LaunchPhase.EXITED, LaunchPhase.DEAD):
            return told
        state = self._state(launch_id)
        known = state.ended or launch_id in self._ended
        left = None if known else self._what_is_left(launch_id, state)
        if left is not None:
            return replace(told, phase=LaunchPhase.RUNNING, ended_at=None, exit_code=None, ending=None, reason=left)
        found = Found(began=True, exit_code=None) if state.ended else self._ended[launch_id]
        return ended_report(told, state, found)

    def _of_running(self, told: LaunchReport) -> LaunchReport:
        """Return the report of a running runner. Until its container has begun, the launch is only claimed.

        The same holds if the container will never begin and its runner is ending: the launch has not run.
        """
        state = self._state(told.launch_id)
        if state.main is None:
            return replace(told, phase=LaunchPhase.CLAIMED, started_at=None, reason=state.waits_for or told.reason)
        return replace(told, reason=state.waits_for) if state.waits_for else told

    def declare_lost(self, launch_id: str, *, ran: bool = False) -> bool:
        return self._runners.declare_lost(_runner(launch_id), ran=ran)

    def launches(self) -> tuple[str, ...]:
        """Return the ids of launches of containers on record."""
        return tuple(
            name.removeprefix(CONTAINER) for name in self._processes.list_launches() if name.startswith(CONTAINER)
        )

    def forget(self, launch_id: str) -> None:
        """Remove the container of a launch that is over, then its record. Raises BackendFailed, also without Docker."""
        phase = self._runners.report(_runner(launch_id)).phase
        if phase in (LaunchPhase.EXITED, LaunchPhase.DEAD):
            with _docker(f"the container of launch {launch_id} cannot be removed") as daemon:
                daemon.remove(container_name(self.tag, launch_id))
            _release(container_name(self.tag, launch_id))
        self._runners.forget(_runner(launch_id))
        self._ended.pop(launch_id, None)
        self._mains.pop(launch_id, None)

    def pids(self, launch_id: str) -> frozenset[int]:
        """Return the pids, on this host, of the processes in the container."""
        main = self._main(launch_id)
        found = frozenset[int]() if main is None else frozenset({main.pid, *descendants(main.pid)})
        # The first process is checked again: descendants of a later process with its pid do not belong to the
        # container.
        return frozenset() if self._main(launch_id) is None else found

    def main_processes(self, launch_id: str) -> MainProcesses:
        """Return the container's first process, and its runner, which has Docker signal that."""
        main = self._main(launch_id)
        if main is None:
            return MainProcesses()
        return MainProcesses(frozenset({main.pid}), self._runners.main_processes(_runner(launch_id)).pids)

    def lineage(self, launch_id: str) -> Lineage:
        """Return the container's first process. All processes of the container descend from it: the kernel gives it
        their orphans.
        """
        return Lineage(self._main(launch_id), adopts=True)

    def execute(self, launch_id: str, command: InnerCommand) -> Execution:
        """Run a command inside the container, beside its runner. Raises BackendFailed."""
        term = PIPES if command.terminal is None else command.term or "xterm"
        name = container_name(self.tag, launch_id)
        words = (sys.executable, "-I", "-m", "corral.host.runtimes.docker.inner_command", name, term, *command.words)
        return self._runners.execute(_runner(launch_id), replace(command, words=words))

    def close(self) -> None:
        """Do nothing: `ProcessLaunches` watches the runners."""

    # Questions to Docker

    def _what_is_left(self, launch_id: str, state: RunnerState) -> str | None:
        """Kill the container of a launch whose runner has ended. Return what still runs, in words, or None."""
        name = container_name(self.tag, launch_id)
        try:
            with _docker("its container may still run") as daemon:
                found = daemon.inspect(name)
                if found is not None and found["State"]["Running"]:
                    daemon.kill(name, "SIGKILL")
                    return "its container is being killed"
                if found is not None and found["State"]["Status"] == "created":
                    # The runner's last request may still be in progress. Without the container it starts nothing.
                    daemon.remove(name)
        except BackendFailed as error:
            return str(error)
        began = found is not None and found["State"]["Status"] != "created"
        code = own_exit_code(found["State"], state) if began and found is not None else None
        self._ended[launch_id] = Found(began, code)
        return None

    # Records

    def _state(self, launch_id: str) -> RunnerState:
        try:
            return self._records(launch_id).state()
        except OSError as error:
            raise BackendFailed(f"the record of launch {launch_id} cannot be read: {error.strerror}") from error

    def _main(self, launch_id: str) -> ProcessIdentity | None:
        """Return the container's first process, None if it does not live."""
        main = self._mains.get(launch_id)
        if main is None:
            main = self._state(launch_id).main
            if main is None:
                return None
            self._mains[launch_id] = main
        return main if LocalProcess(main.pid, main.start_ticks, main.boot_id).is_alive() else None

    def _directory(self, launch_id: str) -> Path:
        return self._home.launches / _runner(launch_id)

    def _records(self, launch_id: str) -> ContainerRecords:
        return ContainerRecords(self._directory(launch_id))


def _runner(launch_id: str) -> str:
    """Return the launch id of the runner of a launch's container."""
    return CONTAINER + launch_id


def _owner(launch: Launch) -> HostUser:
    """Return the user that runs the job. Only a server that runs as root acts for other users."""
    spec = launch.job.spec
    if os.geteuid() == 0 and spec.uid is not None and spec.gid is not None:
        return HostUser(spec.uid, spec.gid, list(spec.groups or ()))
    return HostUser(os.geteuid(), os.getegid(), os.getgroups())


def _ordered(device: Device) -> OrderedDevice:
    return OrderedDevice(device.vendor, device.uuid, list(device.files))


def _refuse_daemons(launch: Launch) -> None:
    if any(use.device.held_by(use.newcomer.grant.share_milli) is Means.MPS for use in launch.uses):
        raise Refused(
            "image: a GPU that is shared by MPS cannot be given to a container here, because the daemon is the host's; "
            "ask for a whole one with --gpus 1, or run the job without --image",
            field="image",
        )


def _release(name: str) -> None:
    """Unmount the volumes that a killed runner has left mounted for a container."""
    from corral.host.runtimes.docker.daemon_calls import process
    from corral.host.runtimes.docker.released_volumes import release_apart

    release_apart(name, process())


def _pull_policy(launch: Launch) -> str:
    container = launch.job.spec.container
    return str((None if container is None else container.pull) or Pull.MISSING)


def _time_to_save_s(launch: Launch) -> float:
    """Return the seconds that Docker gives a job to save its work after SIGTERM. Another signal comes by itself."""
    spec = launch.job.spec
    return spec.checkpoint_grace_s if _number(spec.checkpoint_signal) == signal.SIGTERM else 0.0


def _number(word: str | None) -> int:
    return 0 if word is None else signal.Signals[f"SIG{CheckpointSignal.parse(word).name}"].value


@contextmanager
def _docker(trouble: str) -> "Iterator[Daemon]":
    """A context with a connection to the daemon. Raises BackendFailed that begins with `trouble`; NodeLacks without an
    answer.
    """
    # Imported here, because these libraries are large, and many servers run no container.
    from corral.host.runtimes.docker.daemon_calls import (
        LOOK_TIMEOUT_S,
        Daemon,
        DaemonRefused,
        DaemonUnreachable,
        address,
    )

    try:
        daemon = Daemon(LOOK_TIMEOUT_S)
        try:
            yield daemon
        finally:
            daemon.close()
    except DaemonUnreachable as error:
        raise NodeLacks(f"{trouble}: the Docker daemon does not answer at {address()} ({error})") from None
    except DaemonRefused as error:
        raise BackendFailed(f"{trouble}: Docker says: {error}") from None
