"""Containers keep the contract of runtimes, and what else they promise."""

import gc
import json
import os
import signal
from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from corral.core.model.devices.device import Device
from corral.core.model.errors import NodeLacks
from corral.core.model.jobs.container import Container, Pull, Volume, VolumeKind
from corral.core.model.jobs.phase import Phase
from corral.core.model.placing.allocation import Grant
from corral.core.model.placing.tenant import Tenant
from corral.core.model.runs.launch import Again, DeviceUse, LaunchPhase
from corral.host.runtimes.docker.container_name import container_name
from corral.host.runtimes.docker.daemon_calls import process
from corral.host.runtimes.docker.opened_volumes import Wanted, stage
from corral.host.runtimes.docker.records import ContainerRecords, Fault, HostUser, RunnerState
from corral.host.runtimes.process.runtime import CONTAINER
from tests.docker.daemon import DockerDaemon
from tests.docker.image import IMAGE
from tests.host.runtimes.contract import MembersContract, RuntimeContract
from tests.host.runtimes.docker.rig import MAX_PROCESSES, DockerRig

NOBODY: dict[str, Any] = {"uid": 65534, "gid": 65533, "groups": (65533,)}


@pytest.fixture
def rig(tmp_path: Path, docker_host: DockerDaemon) -> Iterator[DockerRig]:
    rig = DockerRig(tmp_path)
    try:
        yield rig
    finally:
        rig.close()


@pytest.fixture
def open_rig(open_directory: Path, docker_host: DockerDaemon) -> Iterator[DockerRig]:
    """One whose directories all users can reach."""
    rig = DockerRig(open_directory)
    try:
        yield rig
    finally:
        rig.close()


class TestContainers(RuntimeContract, MembersContract):
    """The contract."""


def test_docker_is_asked_for_the_gpus_and_the_container_has_no_variable_that_chooses_others(
    rig: DockerRig, docker_host: DockerDaemon
) -> None:
    docker_host.docker("build", "--tag", "test/all:1", str(rig.image_with("CUDA_VISIBLE_DEVICES=0")))
    use = DeviceUse(Device("GPU-1", 0, "A100", 81920), None, (), Tenant("1", "alice", Grant("GPU-1", 1000, 81920)))
    env = (("CUDA_VISIBLE_DEVICES", "GPU-1"), ("NVIDIA_VISIBLE_DEVICES", "all"), ("SEED", "5"))
    container = replace(rig.container, image="test/all:1")
    launch = replace(rig.launch_with("sh", "-c", "env; true", container=container), env=env, uses=(use,))
    written = rig.run(launch).splitlines()
    assert "NVIDIA_VISIBLE_DEVICES=GPU-1" in written
    assert "SEED=5" in written
    assert not [line for line in written if line.startswith("CUDA_VISIBLE_DEVICES")]
    (made,) = json.loads(docker_host.docker("inspect", container_name(rig.tag, launch.id)))
    assert made["HostConfig"]["DeviceRequests"][0]["DeviceIDs"] == ["GPU-1"]
    assert not [one for one in made["Config"]["Env"] if one.startswith("CUDA_VISIBLE_DEVICES=")]
    assert made["Config"]["Labels"]["corral.launch"] == launch.id


def test_a_container_is_there_until_its_launch_is_forgotten_and_then_it_is_not(
    rig: DockerRig, docker_host: DockerDaemon
) -> None:
    launch = rig.launch_with("true")
    rig.run(launch)
    name = container_name(rig.tag, launch.id)
    assert name in docker_host.containers()
    rig.runtime.forget(launch.id)
    assert name not in docker_host.containers()


def test_output_comes_once_and_in_order_although_dockerd_is_killed_meanwhile(
    rig: DockerRig, docker_host: DockerDaemon
) -> None:
    work = "i=0; until [ -e /work/enough ]; do i=$((i+1)); echo $i; echo e$i >&2; sleep 0.01; done"
    launch = rig.launch_with("sh", "-c", work)
    rig.runtime.launch(launch)
    rig.until(lambda: rig.written(launch).count("\n") > 40)
    docker_host.kill()
    (rig.work / "enough").touch()
    assert rig.end_of(launch).exit_code == 0
    lines = rig.log(launch).splitlines()
    count = len(lines) // 2
    assert count > 20
    assert [line for line in lines if line.isdecimal()] == [str(one) for one in range(1, count + 1)]
    assert [line for line in lines if line.startswith("e")] == [f"e{one}" for one in range(1, count + 1)]


def test_a_container_that_takes_no_notice_is_killed_when_its_grace_is_over(rig: DockerRig) -> None:
    launch = rig.launch_with("sh", "-c", "trap '' TERM; echo ready; while :; do sleep 0.1; done")
    rig.runtime.launch(launch)
    rig.until(lambda: "ready" in rig.written(launch))
    rig.runtime.stop(launch.id)
    report = rig.end_of(launch)
    assert (report.exit_code, report.ending) == (137, Phase.CANCELLED)


def test_a_time_limit_is_kept_while_no_server_runs(rig: DockerRig, docker_host: DockerDaemon) -> None:
    launch = rig.launch_of()
    rig.start_of(launch)
    age_s = rig.report(launch).age_s
    assert age_s is not None
    rig.runtime.set_time_limit(launch.id, age_s + 0.5)
    name = container_name(rig.tag, launch.id)
    rig.restart(meanwhile=lambda: rig.until(lambda: name not in docker_host.docker("ps", "--format", "{{.Names}}")))
    assert rig.end_of(launch).ending is Phase.TIMED_OUT
    # The site's grace: what its runner has beyond it is nothing to the job.
    assert "SIGTERM was sent, SIGKILL follows in 0.2s" in rig.log(launch)


def test_what_its_supervisor_leaves_when_it_is_killed_is_killed_before_the_launch_is_over(
    rig: DockerRig, docker_host: DockerDaemon
) -> None:
    launch = rig.launch_with("sh", "-c", "while :; do sleep 0.1; done")
    rig.start_of(launch)
    pids = rig.runtime.pids(launch.id)
    rig.kill_supervisor(launch)
    assert rig.end_of(launch).phase is LaunchPhase.DEAD
    rig.until(lambda: not any(Path(f"/proc/{pid}").exists() for pid in pids))


@pytest.mark.parametrize("by_daemon", [True, False])
def test_a_container_that_docker_ends_for_others_is_lost_and_its_job_has_neither_failed_nor_succeeded(
    rig: DockerRig, docker_host: DockerDaemon, *, by_daemon: bool
) -> None:
    launch = rig.launch_with("sh", "-c", "trap 'exit 0' TERM; echo ready; while :; do sleep 0.1; done")
    rig.runtime.launch(launch)
    rig.until(lambda: "ready" in rig.written(launch))
    with docker_host.without_live_restore() if by_daemon else nullcontext():
        if by_daemon:
            docker_host.kill(signal.SIGTERM)
        else:
            docker_host.docker("stop", container_name(rig.tag, launch.id))
        report = rig.end_of(launch)
    assert (report.phase, report.ending) == (LaunchPhase.EXITED, Phase.LOST)
    assert ("SIGTERM" if not by_daemon else "daemon") in (report.reason or "")


def test_a_host_that_loses_its_power_has_no_container_that_runs_and_no_word_of_how_it_ended(rig: DockerRig) -> None:
    launch = rig.launch_with("sh", "-c", "while :; do sleep 0.1; done")
    rig.start_of(launch)
    pids = rig.runtime.pids(launch.id)
    rig.power_off()
    rig.until(lambda: not any(Path(f"/proc/{pid}").exists() for pid in pids))
    assert rig.end_of(launch).phase is LaunchPhase.DEAD


def test_a_container_that_was_told_to_end_when_its_supervisor_was_killed_has_not_succeeded(rig: DockerRig) -> None:
    launch = rig.launch_with("sh", "-c", "trap 'exit 0' TERM; echo ready; while :; do sleep 0.1; done")
    rig.runtime.launch(launch)
    rig.until(lambda: "ready" in rig.written(launch))
    rig.kill_supervisor_alone(launch)
    assert rig.end_of(launch).phase is LaunchPhase.DEAD


@pytest.mark.parametrize(("code", "phase"), [(0, LaunchPhase.DEAD), (3, LaunchPhase.EXITED)])
def test_of_a_container_that_ends_when_its_runner_was_killed_a_failure_is_believed_and_a_success_is_not(
    rig: DockerRig, docker_host: DockerDaemon, code: int, phase: LaunchPhase
) -> None:
    launch = rig.launch_of()
    rig.start_of(launch)
    name = container_name(rig.tag, launch.id)
    rig.kill_supervisor(launch)
    rig.let_go(launch, code)
    rig.until(lambda: name not in docker_host.docker("ps", "--format", "{{.Names}}"))
    report = rig.end_of(launch)
    assert report.phase is phase
    assert (report.exit_code, report.ending) == ((code, Phase.FAILED) if code else (None, None))


def test_a_job_that_needs_more_memory_than_it_was_granted_is_told_so(rig: DockerRig) -> None:
    launch = replace(rig.launch_with("dd", "if=/dev/zero", "of=/dev/null", "bs=64M", "count=1"), host_memory_mib=16)
    rig.runtime.launch(launch)
    report = rig.end_of(launch)
    assert report.ending is Phase.FAILED
    assert "may have 16 MiB (--host-memory)" in (report.reason or "")


def test_a_container_has_no_more_processes_than_the_site_lets_it(rig: DockerRig) -> None:
    more = f"i=0; while [ $i -le {MAX_PROCESSES} ]; do i=$((i+1)); sleep 60 & done"
    launch = rig.launch_with("sh", "-c", more)
    assert "fork" in rig.run(launch).lower()


@pytest.mark.parametrize(
    ("command", "change", "code", "words"),
    [
        (("no-such-program",), {}, 127, f"command not found in the image {IMAGE}: no-such-program"),
        (("/bin/nothere",), {}, 127, f"no such file in the image {IMAGE}: /bin/nothere"),
        (("/tmp",), {}, 126, "is it a file and executable (chmod +x)?"),
        (("true",), {"image": "test/missing:1", "pull": Pull.NEVER}, 125, "is not on this host"),
    ],
)
def test_what_cannot_be_run_fails_with_the_reason(
    rig: DockerRig, command: tuple[str, ...], change: dict[str, Any], code: int, words: str
) -> None:
    launch = rig.launch_with(*command, container=replace(rig.container, **change))
    rig.runtime.launch(launch)
    report = rig.end_of(launch)
    assert (report.exit_code, report.ending, report.again) == (code, Phase.FAILED, Again.NEVER)
    assert words in (report.reason or "")
    assert words in rig.log(launch)


def test_a_link_leads_to_nothing_that_the_site_does_not_show(rig: DockerRig) -> None:
    (rig.work / "link").symlink_to("/etc")
    seen = Volume(VolumeKind.HOST_PATH, str(rig.work / "link"), "/etc-of-host")
    launch = rig.launch_with("cat", "/etc-of-host/passwd", container=Container(IMAGE, (seen,)))
    rig.runtime.launch(launch)
    assert "leads to /etc, which is not shown to jobs here" in (rig.end_of(launch).reason or "")


# Docker's library leaves a socket open that could not be connected.
@pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning")
def test_without_a_daemon_nothing_is_launched_and_the_reason_says_where_it_was_looked_for(
    rig: DockerRig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DOCKER_HOST", "unix:///nowhere/docker.sock")
    launch = rig.launch_with("true")
    with pytest.raises(NodeLacks, match=r"does not answer at unix:///nowhere/docker\.sock"):
        rig.runtime.launch(launch)
    assert rig.report(launch).phase is LaunchPhase.UNKNOWN
    gc.collect()


@pytest.mark.parametrize(("mode", "ending"), [(0o755, Phase.SUCCEEDED), (0o700, Phase.FAILED)])
def test_a_volume_is_shown_unless_a_directory_above_it_is_closed_to_the_user(
    open_rig: DockerRig, mode: int, ending: Phase
) -> None:
    above = open_rig.work / "above"
    (above / "data").mkdir(parents=True)
    (above / "data" / "file").write_text("what is in it")
    above.chmod(mode)
    seen = Volume(VolumeKind.HOST_PATH, str(above / "data"), "/in")
    launch = open_rig.launch_with("cat", "/in/file", container=Container(IMAGE, (seen,)), **NOBODY)
    open_rig.runtime.launch(launch)
    report = open_rig.end_of(launch)
    assert report.ending is ending
    assert ("what is in it" in open_rig.log(launch)) == (ending is Phase.SUCCEEDED)
    assert ("is no directory here that you can reach" in (report.reason or "")) == (ending is Phase.FAILED)


def test_what_a_killed_runner_has_left_staged_is_released_with_its_launch(open_rig: DockerRig) -> None:
    launch = open_rig.launch_with("true", container=open_rig.container, **NOBODY)
    open_rig.runtime.launch(launch)
    open_rig.end_of(launch)

    def staged() -> bool:
        return name in Path(f"/proc/{process()}/mountinfo").read_text()

    name = container_name(open_rig.tag, launch.id)
    assert not staged()
    who = HostUser(os.geteuid(), os.getegid(), [])
    stage(name, [Wanted(str(open_rig.work))], who, [str(open_rig.work)], process())
    assert staged()
    open_rig.runtime.forget(launch.id)
    assert not staged()
    assert open_rig.work.is_dir()


def test_while_the_runner_of_a_container_that_never_began_ends_nothing_of_it_has_run(rig: DockerRig) -> None:
    launch = rig.launch_of()
    rig.start_of(launch)
    said = RunnerState(ended=True, reason="image i:1 cannot be pulled", exit_code=125, fault=Fault.PASSING)
    ContainerRecords(rig.home.launches / f"{CONTAINER}{launch.id}").write_state(said)
    assert rig.report(launch).phase is LaunchPhase.CLAIMED


def test_a_container_runs_as_its_user_who_gains_no_power_in_it(rig: DockerRig) -> None:
    launch = rig.launch_with("sh", "-c", "id -u; id -g; cat /proc/self/status", container=Container(IMAGE), **NOBODY)
    written = rig.run(launch).splitlines()
    assert written[:2] == ["65534", "65533"]
    assert "NoNewPrivs:\t1" in written
    assert f"CapBnd:\t{0:016x}" in written


def test_it_may_write_to_its_scratch_directory(rig: DockerRig) -> None:
    launch = rig.launch_with("sh", "-c", "echo kept > $CORRAL_SCRATCH/out", container=Container(IMAGE), **NOBODY)
    scratch = rig.home.scratch_of(launch.job.id)
    rig.run(replace(launch, env=(("CORRAL_SCRATCH", str(scratch)),)))
    assert (scratch / "out").read_text() == "kept\n"
