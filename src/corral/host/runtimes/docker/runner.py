"""The program of one launch: `python -m corral.host.runtimes.docker.runner DIRECTORY`, under the launch's supervisor.

It makes the container, starts it, copies the container's output to its own, and ends with the container's exit code. So
a supervisor serves a container as it serves a process: log and log limit, time limit, exit record, even while no server
runs. The runner runs as the server's user and takes nothing of the job into its own environment.
Launches of earlier versions name this module (decision 97).
"""

import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NoReturn

from corral.core.model.jobs.job import ProcessIdentity
from corral.host.runtimes.docker.container_request import cdi_devices, mount, with_devices
from corral.host.runtimes.docker.daemon_calls import Daemon, DaemonRefused, DaemonUnreachable, patiently, process
from corral.host.runtimes.docker.explained_errors import FAILED, explained
from corral.host.runtimes.docker.opened_volumes import NotShown, release, stage, wanted_of
from corral.host.runtimes.docker.output import OutputCopy
from corral.host.runtimes.docker.pulling import ImageMissing, get_image
from corral.host.runtimes.docker.records import ContainerRecords, Fault, RunnerOrders, RunnerState
from corral.host.runtimes.process.procfs import boot_id, start_ticks

BEGIN_S = 120.0
"""If the daemon does not answer for this long before the container has begun, the launch fails and is tried again."""

_RELAYED = {
    *(signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2),
    *(signal.SIGCONT, signal.SIGWINCH, signal.SIGALRM),
}
_ENDING = {signal.SIGINT, signal.SIGQUIT, signal.SIGTERM, signal.SIGKILL}
_NOTICE_S = 0.05
_LOOK_S = 0.1
_OUT_OF_MEMORY_TOLD_S = 0.5


class NotBegun(Exception):
    """The container never began: the runner's exit code, the reason, the fault, and whether it surely never began."""

    def __init__(self, code: int, reason: str, fault: Fault = Fault.JOB, *, surely: bool = True) -> None:
        super().__init__(reason)
        self.code = code
        self.fault = fault
        self.surely = surely


class Runner:
    """One container, from its creation to its end."""

    def __init__(self, orders: RunnerOrders, records: ContainerRecords) -> None:
        self._orders = orders
        self._records = records
        self._copy = OutputCopy()
        self._beginning = threading.Lock()
        self._telling = threading.Lock()
        self._ended = False
        self._may_run = False
        self._to_stop = False
        self._said = ""
        self._main: ProcessIdentity | None = None
        self._was_out_of_sight = False
        self._relayed: set[int] = set()
        self._by_others: str | None = None

    def run(self) -> int:
        """Return the exit code of the container, or the code for a container that never began."""
        try:
            container = self._begin()
        except NotBegun as error:
            print(f"corral: {error}", file=sys.stderr, flush=True)
            state = RunnerState(ended=error.surely, reason=str(error), exit_code=error.code, fault=error.fault)
            self._tell_state(state)
            return error.code
        state = self._end_of(self._follow(container))
        self._tell_state(state)
        assert state.exit_code is not None
        return state.exit_code

    def pass_on(self, signum: int) -> None:
        """Send a signal to the container. SIGTERM asks Docker to stop it: SIGKILL follows after the grace period."""
        self._relayed.add(signum)
        with self._beginning:
            if signum == signal.SIGTERM and not self._may_run:
                os._exit(128 + signum)
            if signum == signal.SIGTERM and not self._to_stop:
                self._to_stop = True
                # This is recorded before the container gets the signal. From then on no exit code counts as an end by
                # itself.
                self._tell_state(RunnerState(main=self._main, stopped=True))
        try:
            daemon = Daemon()
            if signum == signal.SIGTERM:
                daemon.stop(self._orders.name, self._orders.stop_s)
            else:
                daemon.kill(self._orders.name, signal.Signals(signum).name)
        except (DaemonUnreachable, DaemonRefused) as error:
            # The supervisor kills this process when the grace is over, and the server looks after the container.
            print(f"corral: {signal.Signals(signum).name} did not reach the container: {error}", file=sys.stderr)

    # Beginning

    def _begin(self) -> str:
        """Return the id of the container once it has begun. Raises NotBegun."""
        try:
            return self._begun()
        finally:
            # A container that has begun has its own mounts, so the staged ones can be removed.
            release(self._orders.name, process())

    def _begun(self) -> str:
        try:
            self._daemon = patiently(Daemon, for_s=BEGIN_S)
            container = patiently(self._made, for_s=BEGIN_S)
            patiently(lambda: self._start(container), for_s=BEGIN_S)
        except ImageMissing as error:
            raise NotBegun(FAILED, str(error), Fault.PASSING if error.passes else Fault.LASTING) from None
        except DaemonRefused as error:
            body = self._orders.body
            refusal = explained(str(error), body["Image"], body["Entrypoint"][0])
            raise NotBegun(refusal.code, refusal.reason, refusal.fault) from None
        except DaemonUnreachable as error:
            words = f"the Docker daemon does not answer: {error}"
            raise NotBegun(FAILED, words, Fault.NODE, surely=False) from None
        if self._to_stop:
            # The order to stop came during the start, when there was no container to stop yet.
            self.pass_on(signal.SIGTERM)
        return container

    def _made(self) -> str:
        """Return the id of the launch's container. It may exist already if an earlier request got no answer."""
        found = self._daemon.inspect(self._orders.name)
        if found is not None:
            return str(found["Id"])
        get_image(self._daemon, self._orders, self._wait_for)
        self._tell_state(RunnerState(waits_for="its container is being made"))
        return self._daemon.create(self._orders.name, self._body())

    def _body(self) -> dict[str, Any]:
        devices = self._orders.devices
        known = cdi_devices(self._daemon.info()) if devices else ()
        asked = self._orders.body["HostConfig"]
        scratch = mount(self._orders.scratch, self._orders.scratch)
        mounts = [scratch, *self._staged(asked["Mounts"])]
        host = {**asked, "Mounts": mounts, **with_devices(devices, known)}
        return {**self._orders.body, "HostConfig": host}

    def _staged(self, mounts: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
        """Return the mounts with staged paths to directories that the user can reach now: a user's link may lead
        anywhere.
        """
        orders = self._orders
        workdir = orders.body.get("WorkingDir") or (self._daemon.workdir_of(orders.body["Image"]) if mounts else "/")
        volumes = wanted_of(mounts, [orders.scratch], workdir)
        try:
            sources = stage(orders.name, volumes, orders.owner, orders.host_paths, process())
        except NotShown as refusal:
            raise NotBegun(FAILED, str(refusal)) from None
        return [{**one, "Source": source} for one, source in zip(mounts, sources, strict=True)]

    def _start(self, container: str) -> None:
        found = self._daemon.inspect(container)
        if found is None:
            raise NotBegun(FAILED, "its container was removed before it began, and not by Corral")
        # A container that has begun is not started again, whatever the answer to its start was.
        if found["State"]["Status"] == "created":
            with self._beginning:
                self._may_run = True
            self._daemon.start(container)
            found = self._daemon.inspect(container) or found
        pid = int(found["State"].get("Pid") or 0)
        ticks = start_ticks(pid) if pid else None
        self._main = None if ticks is None else ProcessIdentity(pid, ticks, boot_id())
        self._tell_state(RunnerState(main=self._main, stopped=self._to_stop))

    def _wait_for(self, words: str) -> None:
        if words != self._said:
            self._said = words
            print(f"corral: {words}", file=sys.stderr, flush=True)
            self._tell_state(RunnerState(waits_for=words))

    # Going on

    def _follow(self, container: str) -> dict[str, Any]:
        """Copy the container's output until it has ended. Return Docker's last state of the container."""
        while True:
            try:
                self._write(container, follow=True)
            except DaemonUnreachable as error:
                # The daemon is being restarted: the next calls show the result.
                self._lose_sight(str(error))
                time.sleep(_LOOK_S)
            except DaemonRefused:
                # The container is gone, or its log is unreadable for now.
                time.sleep(_LOOK_S)
            state = self._state(container)
            if state["Status"] in ("exited", "dead", "gone"):
                break
            # The daemon could not read on in its log files, so it is not asked again without a pause.
            time.sleep(_LOOK_S)
        if state["Status"] != "gone" and not self._to_stop:
            # This is asked at once: the daemon may be about to restart, and then forgets the signals.
            self._by_others = self._ended_by_others(container)
        if state["Status"] != "gone":
            # The followed stream may have broken off before the end of the output.
            patiently(lambda: self._write(container, follow=False))
        if self._was_killed_by_others(state):
            # Docker learns that memory ran out separately from the end, and later.
            time.sleep(_OUT_OF_MEMORY_TOLD_S)
            state = self._state(container)
        return state

    def _was_killed_by_others(self, state: dict[str, Any]) -> bool:
        return state["Status"] != "gone" and state["ExitCode"] == 128 + signal.SIGKILL and not self._to_stop

    def _state(self, container: str) -> dict[str, Any]:
        try:
            found = patiently(lambda: self._looked_at(container))
        except DaemonRefused as error:
            found = {"State": {"Status": "unknown", "Error": str(error)}}
            time.sleep(_LOOK_S)
        return {"Status": "gone", "ExitCode": FAILED} if found is None else dict(found["State"])

    def _looked_at(self, container: str) -> dict[str, Any] | None:
        try:
            found = self._daemon.inspect(container)
        except DaemonUnreachable as error:
            self._lose_sight(str(error))
            raise
        if found is not None and found["State"]["Running"] and self._was_out_of_sight:
            # The daemon is back, and its container still runs.
            self._was_out_of_sight = False
            self._tell_state(RunnerState(main=self._main, stopped=self._to_stop))
        return found

    def _lose_sight(self, why: str) -> None:
        """Record once that the daemon does not answer. The state of the container is unknown meanwhile."""
        if not self._was_out_of_sight:
            self._was_out_of_sight = True
            words = f"the Docker daemon does not answer ({why}), so the state of the container is unknown"
            self._tell_state(RunnerState(waits_for=words, main=self._main, stopped=self._to_stop))

    def _write(self, container: str, *, follow: bool) -> None:
        for is_error, data in self._copy.new(self._daemon.output(container, self._copy.since, follow=follow)):
            _write_all(2 if is_error else 1, data)

    def _end_of(self, state: dict[str, Any]) -> RunnerState:
        """Return the final state. A container that something else ended did not finish by itself, whatever its exit
        code is.
        """
        code = int(state["ExitCode"])
        if self._by_others is not None:
            words, code = self._by_others, code or FAILED
            return RunnerState(ended=True, main=self._main, reason=words, exit_code=code, fault=Fault.NODE)
        reason = self._why(state, code)
        return RunnerState(ended=True, main=self._main, reason=reason, exit_code=code, stopped=self._to_stop)

    def _ended_by_others(self, container: str) -> str | None:
        """Return a sentence, without its full stop, on what else ended the container; None if nothing did."""
        sent: frozenset[int] = frozenset()
        try:
            sent = (self._daemon.signals_sent(container) & _ENDING) - self._relayed
            # A cut-off list looks like a short list. If the daemon is going away, this call fails.
            self._daemon.inspect(container)
        except DaemonUnreachable:
            self._was_out_of_sight = True
        except DaemonRefused as error:
            print(f"corral: Docker does not say who ended the container: {error}", file=sys.stderr, flush=True)
        if sent:
            names = ", ".join(signal.Signals(number).name for number in sorted(sent))
            return f"something other than Corral had Docker end its container ({names}), as when the daemon is stopped"
        if self._was_out_of_sight and self._daemon_ends_containers():
            return "the Docker daemon was started anew and ended its containers, as it has no live-restore"
        return None

    def _daemon_ends_containers(self) -> bool:
        """Return whether containers end when the daemon goes away."""
        try:
            return not patiently(self._daemon.info).get("LiveRestoreEnabled")
        except DaemonRefused:
            return True

    def _why(self, state: dict[str, Any], code: int) -> str:
        if state["Status"] == "gone":
            return "its container was removed while it ran, and not by Corral"
        if code == 128 + signal.SIGTERM and not self._to_stop and not state.get("Error"):
            return "something other than Corral and Docker told it to end (SIGTERM)"
        memory_mib = int(self._orders.body["HostConfig"].get("Memory") or 0) >> 20
        limit = f": the job may have {memory_mib} MiB (--host-memory)" if memory_mib else ""
        if state.get("OOMKilled") and code:
            return f"the kernel killed a process of it for memory (OOMKilled){limit}"
        if limit and code == 128 + signal.SIGKILL and not self._to_stop and not state.get("Error"):
            # Docker learns the kernel's reason separately from the end, and possibly later.
            return f"it was killed, perhaps for memory{limit}"
        return str(state.get("Error") or "")

    def _tell_state(self, state: RunnerState) -> None:
        # If the disk is full, the server learns this state later, but it still gets the exit code.
        with self._telling:
            if self._ended:
                return
            self._ended = state.ended
            try:
                self._records.write_state(state)
            except OSError as error:
                words = f"corral: cannot record the state of the container: {error.strerror}"
                print(words, file=sys.stderr, flush=True)
        _notify(*self._orders.notify)


def _notify(address: str, launch_id: str) -> None:
    if not address:
        return
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
        sender.settimeout(_NOTICE_S)
        try:
            sender.sendto(launch_id.encode(), address)
        except OSError:
            return


def _write_all(fd: int, data: bytes) -> None:
    while data:
        data = data[os.write(fd, data) :]


def _relay(runner: Runner) -> NoReturn:
    """Pass on incoming signals, each on a thread of its own: a stop takes as long as the container takes."""
    while True:
        signum = signal.sigwait(_RELAYED)
        threading.Thread(target=runner.pass_on, args=(signum,), daemon=True).start()


def main() -> int:
    """Run the container that the directory of a launch describes."""
    signal.pthread_sigmask(signal.SIG_BLOCK, _RELAYED)
    records = ContainerRecords(Path(sys.argv[1]))
    runner = Runner(records.orders(), records)
    threading.Thread(target=_relay, args=(runner,), daemon=True).start()
    return runner.run()


if __name__ == "__main__":
    sys.exit(main())
