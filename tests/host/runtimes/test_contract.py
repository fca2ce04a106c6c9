"""Processes, watches and simulated work keep the contract of runtimes."""

import os
import signal
import subprocess
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest

from corral.clock import SystemClock
from corral.core.model.home import Home
from corral.core.model.jobs.job import JobKind, JobSpec
from corral.core.model.runs.launch import Launch
from corral.host.runtimes.process.process_launches import ProcessLaunches
from corral.host.runtimes.process.runtime import ProcessRuntime
from corral.host.runtimes.reserved_and_adopted import WatchRuntime
from corral.host.runtimes.simulated import SimulatedRuntime
from corral.host.telemetry.processes import HostProcesses
from tests.host.runtimes.contract import MembersContract, Rig, RuntimeContract

HOST = HostProcesses()
WORK = """
echo begun >> $NAME.begun
echo "rank ${CORRAL_RANK:-0} writes"
until [ -e $NAME.code ]; do sleep 0.02; done
exit $(cat $NAME.code)
"""
"""Goes on until its code is there; the sleeps descend from it."""


class ProcessRig(Rig):
    def __init__(self, directory: Path) -> None:
        super().__init__()
        self._home = Home(directory)
        self._started()

    def _started(self) -> None:
        processes = ProcessLaunches(self._home.root, log_max_bytes=1 << 20, kill_grace_s=0.2, on_event=self.events.put)
        processes.start()
        self.runtime = ProcessRuntime(processes, self._home)

    def spec(self, number: int) -> JobSpec:
        return JobSpec("alice", ("sh", "-c", WORK), workdir=str(self._home.root))

    def launch_of(self, number: int = 1, *, rank: int = 0, members: int = 1) -> Launch:
        launch = super().launch_of(number, rank=rank, members=members)
        return replace(launch, env=(("CORRAL_RANK", str(rank)), ("NAME", launch.id), ("PATH", os.defpath)))

    def let_go(self, launch: Launch, code: int) -> None:
        draft = self._home.root / f"{launch.id}.draft"
        draft.write_text(str(code))
        draft.rename(self._home.root / f"{launch.id}.code")

    def begun(self, launch: Launch) -> int:
        path = self._home.root / f"{launch.id}.begun"
        return path.read_text().count("begun\n") if path.exists() else 0

    def restart(self, *, meanwhile: Callable[[], object] = lambda: None) -> None:
        self.runtime.close()
        meanwhile()
        self._started()

    def log(self, launch: Launch) -> str:
        return self._home.log_of(launch.job.id, launch.rank).read_text()

    def close(self) -> None:
        for launch_id in self.runtime.launches():
            self.runtime.stop(launch_id)
        self.until(lambda: not any(self.runtime.pids(launch_id) for launch_id in self.runtime.launches()))
        self.runtime.close()


class WatchRig(Rig):
    """Adopted processes. How they ended the kernel may not tell."""

    tells_codes = False
    has_logs = False

    def __init__(self) -> None:
        super().__init__()
        self._owners: dict[int, subprocess.Popen[bytes]] = {}
        self._started()

    def _started(self) -> None:
        self.runtime = WatchRuntime(HOST, SystemClock(), self.events.put, kill_grace_s=0.2)

    def spec(self, number: int) -> JobSpec:
        if number not in self._owners:
            work = "sleep 1000 & read code; kill $!; exit $code"
            self._owners[number] = subprocess.Popen(["sh", "-c", work], stdin=subprocess.PIPE, start_new_session=True)
        return JobSpec("alice", kind=JobKind.ADOPT, owner=HOST.identify(self._owners[number].pid))

    def let_go(self, launch: Launch, code: int) -> None:
        owner = self._owners[launch.job.sequence]
        assert owner.stdin is not None
        owner.stdin.write(b"%d\n" % code)
        owner.stdin.flush()
        owner.wait()

    def begun(self, launch: Launch) -> int:
        """It is never begun, but watched."""
        return int(launch.id in self.runtime.launches() and self.report(launch).started_at is not None)

    def restart(self, *, meanwhile: Callable[[], object] = lambda: None) -> None:
        self.runtime.close()
        meanwhile()
        self._started()

    def log(self, launch: Launch) -> str:
        raise NotImplementedError

    def close(self) -> None:
        self.runtime.close()
        for owner in self._owners.values():
            with suppress(ProcessLookupError):
                os.killpg(owner.pid, signal.SIGKILL)
            owner.communicate()


class SimulatedRig(Rig):
    has_processes = False
    has_logs = False

    def __init__(self) -> None:
        super().__init__()
        self.runtime: SimulatedRuntime = SimulatedRuntime(SystemClock())
        self.runtime.on_event = self.events.put

    def let_go(self, launch: Launch, code: int) -> None:
        self.runtime.finish(launch.id, code)

    def begun(self, launch: Launch) -> int:
        return self.runtime.ran.count(launch.job.id)

    def restart(self, *, meanwhile: Callable[[], object] = lambda: None) -> None:
        meanwhile()

    def log(self, launch: Launch) -> str:
        raise NotImplementedError

    def close(self) -> None:
        self.runtime.close()


def used(rig: Rig) -> Iterator[Rig]:
    try:
        yield rig
    finally:
        rig.close()


class TestProcesses(RuntimeContract, MembersContract):
    @pytest.fixture
    def rig(self, tmp_path: Path) -> Iterator[Rig]:
        yield from used(ProcessRig(tmp_path))


class TestWatches(RuntimeContract):
    @pytest.fixture
    def rig(self) -> Iterator[Rig]:
        yield from used(WatchRig())


class TestSimulatedWork(RuntimeContract, MembersContract):
    @pytest.fixture
    def rig(self) -> Iterator[Rig]:
        yield from used(SimulatedRig())
