"""The containers of a home that run are found at Docker, whatever its records say."""

from contextlib import closing
from pathlib import Path

from corral.host.runtimes.docker.container_name import container_name
from corral.host.runtimes.docker.daemon_calls import Daemon
from corral.host.runtimes.process.records.still_running import still_running, tag_of
from tests.docker.daemon import DockerDaemon
from tests.host.runtimes.docker.rig import DockerRig
from tests.host.runtimes.process.conftest import until


def test_a_container_that_runs_is_known_by_the_home_that_it_is_of(tmp_path: Path, docker_host: DockerDaemon) -> None:
    rig = DockerRig(tmp_path)
    try:
        launch = rig.launch_of()
        rig.runtime.launch(launch)
        until(lambda: rig.begun(launch), "the container runs")
        with closing(Daemon()) as daemon:
            assert daemon.running(rig.tag) == [container_name(rig.tag, launch.id)]
            assert daemon.running(tag_of(tmp_path / "another")) == []
        rig.let_go(launch, 0)
        rig.written(launch)
    finally:
        rig.close()
    assert still_running(tmp_path / "another") == {}
