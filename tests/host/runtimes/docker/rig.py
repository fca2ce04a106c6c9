"""The Docker runtime as the contract of runtimes asks for it."""

import os
import signal
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from corral.core.model.home import Home
from corral.core.model.jobs.container import Container, Volume, VolumeKind
from corral.core.model.jobs.job import JobSpec
from corral.core.model.runs.launch import Launch, LaunchPhase
from corral.core.ports.runtime import Runtime
from corral.host.node.launches.power_off import kill_all
from corral.host.runtimes.docker.container_runtime import DockerRuntime
from corral.host.runtimes.docker.records import ContainerRecords
from corral.host.runtimes.docker.site import DockerSite
from corral.host.runtimes.process.process_launches import ProcessLaunches
from corral.host.runtimes.process.runtime import CONTAINER, ProcessRuntime
from corral.host.telemetry.processes import HostProcesses
from tests.docker.image import IMAGE
from tests.host.runtimes.contract import Rig

WORK = """
trap 'exit 143' TERM
echo begun >> /work/$NAME.begun
echo "rank ${CORRAL_RANK:-0} writes"
until [ -e /work/$NAME.code ]; do sleep 0.02; done
exit $(cat /work/$NAME.code)
"""
"""Goes on until its code is there; the sleeps descend from it."""


MAX_PROCESSES = 30
"""In a container of the rig's site."""


class DockerRig(Rig):
    """`work` is a directory that the containers see, too."""

    def __init__(self, directory: Path) -> None:
        super().__init__()
        self.home = Home(directory / "home")
        self.home.root.mkdir()
        self.work = directory / "work"
        self.work.mkdir()
        self._started()

    def _started(self) -> None:
        self._processes = ProcessLaunches(
            self.home.root,
            log_max_bytes=1 << 20,
            kill_grace_s=0.2,
            on_event=lambda launch_id: self.events.put(launch_id.removeprefix(CONTAINER)),
        )
        self._processes.start()
        site = DockerSite((str(self.work),), max_processes=MAX_PROCESSES)
        self.runtime: DockerRuntime = DockerRuntime(
            self._processes, self.home, site, kill_grace_s=0.2, log_max_bytes=1 << 20
        )

    def spec(self, number: int) -> JobSpec:
        return JobSpec("alice", ("sh", "-c", WORK), workdir="/", container=self.container)

    @property
    def container(self) -> Container:
        """One that sees the directory."""
        return Container(IMAGE, (Volume(VolumeKind.HOST_PATH, str(self.work), "/work"),))

    @property
    def tag(self) -> str:
        """By which the server's containers are known."""
        return self.runtime.tag

    def launch_with(self, *command: str, **of_spec: Any) -> Launch:
        """A launch of another command, in the same container unless the job's specification says otherwise."""
        launch = self.launch_of()
        spec = replace(launch.job.spec, **{"command": command, **of_spec})
        return replace(launch, job=replace(launch.job, spec=spec))

    def start_of(self, launch: Launch) -> None:
        """Launch it, and wait until its container runs."""
        self.runtime.launch(launch)
        self.until(lambda: self.report(launch).phase is LaunchPhase.RUNNING)

    def kill_supervisor(self, launch: Launch) -> None:
        """Kill who looks after the container, and the runner, which may end by itself as soon as it is alone."""
        for pid in (self._supervisor(launch), *self._processes.pids(CONTAINER + launch.id)):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def kill_supervisor_alone(self, launch: Launch) -> None:
        """Kill who looks after the container, as the runner is told to end it."""
        runners = self._processes.main_pids(CONTAINER + launch.id)
        os.kill(self._supervisor(launch), signal.SIGSTOP)
        for pid in runners:
            os.kill(pid, signal.SIGTERM)
        self.until(lambda: ContainerRecords(self.home.launches / (CONTAINER + launch.id)).state().ended)
        os.kill(self._supervisor(launch), signal.SIGKILL)

    def power_off(self) -> None:
        """Kill all that runs, as a mock host does that is gone."""
        processes: Runtime = ProcessRuntime(self._processes, self.home)
        kill_all({"process": processes, "container": self.runtime}, HostProcesses().alive)

    def _supervisor(self, launch: Launch) -> int:
        supervisor = self._processes.supervisor(CONTAINER + launch.id)
        assert supervisor is not None
        return supervisor.pid

    def image_with(self, variable: str) -> Path:
        """What `docker build` makes an image of that has this variable."""
        directory = self.work / "image"
        directory.mkdir()
        (directory / "Dockerfile").write_text(f"FROM {IMAGE}\nENV {variable}\n")
        return directory

    def launch_of(self, number: int = 1, *, rank: int = 0, members: int = 1) -> Launch:
        launch = super().launch_of(number, rank=rank, members=members)
        return replace(launch, env=(("CORRAL_RANK", str(rank)), ("NAME", launch.id), ("PATH", "/bin")))

    def let_go(self, launch: Launch, code: int) -> None:
        draft = self.work / f"{launch.id}.draft"
        draft.write_text(str(code))
        draft.rename(self.work / f"{launch.id}.code")

    def begun(self, launch: Launch) -> int:
        path = self.work / f"{launch.id}.begun"
        return path.read_text().count("begun\n") if path.exists() else 0

    def restart(self, *, meanwhile: Callable[[], object] = lambda: None) -> None:
        self._close()
        meanwhile()
        self._started()

    def _close(self) -> None:
        self.runtime.close()
        self._processes.close()

    def log(self, launch: Launch) -> str:
        return self.home.log_of(launch.job.id, launch.rank).read_text()

    def written(self, launch: Launch) -> str:
        """What the log has until now."""
        path = self.home.log_of(launch.job.id, launch.rank)
        return path.read_text() if path.exists() else ""

    def run(self, launch: Launch) -> str:
        """What a launch that ends by itself has written."""
        self.runtime.launch(launch)
        self.end_of(launch)
        return self.log(launch)

    def close(self) -> None:
        for launch_id in self.runtime.launches():
            self.runtime.stop(launch_id)
        self.until(lambda: not any(self.runtime.pids(launch_id) for launch_id in self.runtime.launches()))
        self._close()
