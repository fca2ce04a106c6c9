"""Jobs in containers: the installed command, a real dockerd, GPUs of a stub driver, and a hook in place of NVIDIA's."""

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.docker.daemon import DockerDaemon
from tests.docker.image import IMAGE
from tests.e2e.box import PATIENCE_S, SETTINGS, Box, serving, until_there
from tests.e2e.terminal import corral
from tests.e2e.test_forward import SERVER, answer, forwarding
from tests.vendors.nvidia.nvml_stub import NvmlStub, nvml_library, stub_uuid

__all__ = ["nvml_library"]


@pytest.fixture(scope="module")
def seen(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The directory that the site shows its jobs."""
    return tmp_path_factory.mktemp("seen")


@pytest.fixture(scope="module")
def driver(nvml_library: Path, tmp_path_factory: pytest.TempPathFactory) -> NvmlStub:
    """What the server reads its GPUs by."""
    stub = NvmlStub(nvml_library, tmp_path_factory.mktemp("driver") / "control")
    stub.say("devices 2")
    return stub


@pytest.fixture(scope="module")
def _shared_box(dockerd: DockerDaemon, driver: NvmlStub, seen: Path) -> Iterator[Box]:
    with pytest.MonkeyPatch.context() as patch:
        for name, value in {**driver.env, "DOCKER_HOST": dockerd.address}.items():
            patch.setenv(name, value)
        with serving("", f"{SETTINGS}docker: {{host_paths: [{seen}, /usr]}}\n") as box:
            yield box


@pytest.fixture
def box(_shared_box: Box) -> Iterator[Box]:
    """A server with two GPUs, both free."""
    yield _shared_box
    _shared_box.clear()


def test_run_shows_what_a_container_writes_ends_as_it_ends_and_gives_it_the_gpus_that_were_granted(box: Box) -> None:
    done = box.run("run", "--image", IMAGE, "--gpus", "2", "--", "sh", "-c", "env; echo oops >&2; exit 7")
    assert done.returncode == 7
    written = done.stdout.splitlines() + done.stderr.splitlines()
    assert "oops" in written
    assert f"NVIDIA_VISIBLE_DEVICES={stub_uuid(0)},{stub_uuid(1)}" in written
    assert "CORRAL_GPUS=2" in written
    assert not [line for line in written if line.startswith("CUDA_VISIBLE_DEVICES")]


def test_a_job_without_gpus_sees_none(box: Box) -> None:
    done = box.run("run", "--image", IMAGE, "--gpus", "0", "--", "env")
    assert "NVIDIA_VISIBLE_DEVICES=void" in done.stdout.splitlines()


def test_a_container_is_taken_over_by_the_next_server_and_nothing_of_its_log_is_lost(
    box: Box, dockerd: DockerDaemon, seen: Path
) -> None:
    others = set(dockerd.containers())
    work = f"echo before; {until_there(Path('/work/gate'))}; echo after"
    job = box.submit("--image", IMAGE, "--volume", f"{seen}:/work", "--", "sh", "-c", work)
    box.until_phase(job, "RUNNING")
    box.until(lambda: "before" in box.ok("logs", job))
    box.down()
    box.up()
    assert box.job(job)["phase"] == "RUNNING"
    (seen / "gate").touch()
    assert box.ended(job)["phase"] == "SUCCEEDED"
    assert [line for line in box.ok("logs", job).splitlines() if line in ("before", "after")] == ["before", "after"]
    box.until(lambda: set(dockerd.containers()) <= others)


def test_while_docker_is_down_ps_and_why_say_that_nobody_knows_how_a_container_is(
    box: Box, dockerd: DockerDaemon
) -> None:
    job = box.submit("--image", IMAGE, "--", "sh", "-c", "while :; do sleep 0.1; done")
    box.until_phase(job, "RUNNING")
    unseen = "the Docker daemon does not answer"
    assert unseen not in box.ok("ps")
    with dockerd.down():
        box.until(lambda: unseen in " ".join(box.ok("ps").split()))
        assert unseen in " ".join(box.ok("why", job).split())
        assert box.job(job)["phase"] == "RUNNING"
    box.until(lambda: unseen not in " ".join(box.ok("ps").split()))
    box.ok("cancel", job)
    assert box.ended(job)["phase"] == "CANCELLED"


def test_a_container_that_is_cancelled_is_gone(box: Box, dockerd: DockerDaemon) -> None:
    others = set(dockerd.containers())
    job = box.submit("--image", IMAGE, "--", "sh", "-c", "trap 'exit 0' TERM; while :; do sleep 0.1; done")
    box.until_phase(job, "RUNNING")
    box.ok("cancel", job)
    assert box.ended(job)["phase"] == "CANCELLED"
    box.until(lambda: set(dockerd.containers()) <= others)


def test_a_container_of_others_on_a_gpu_is_named_with_its_image_wherever_the_gpu_is_told_of(
    box: Box, dockerd: DockerDaemon, driver: NvmlStub
) -> None:
    dockerd.docker("run", "--detach", "--name", "theirs", IMAGE, "sleep", "600")
    try:
        pid = dockerd.docker("inspect", "--format", "{{.State.Pid}}", "theirs").strip()
        driver.say("devices 2", f"gpu 0 process {pid} 500")
        theirs = {"name": "theirs", "image": IMAGE}
        box.until(lambda: [one["container"] for one in box.json("status", "--json")[0]["processes"]] == [theirs])
        assert f"in container theirs ({IMAGE})" in " ".join(box.ok("status").split())
        job = box.submit("--image", IMAGE, "--gpus", "2", "--", "env")
        box.until(lambda: f"in use by container theirs ({IMAGE})" in " ".join(box.ok("why", job).split()))
    finally:
        driver.say("devices 2")
        dockerd.docker("rm", "--force", "theirs")
    assert box.ended(job)["phase"] == "SUCCEEDED"


def test_what_the_site_does_not_allow_is_refused_at_once(box: Box) -> None:
    for words, said in (
        (("--volume", "/etc:/etc-of-host"), "does not show /etc of its hosts"),
        (("--network", "host"), "docker.networks"),
        (("--user", "root"), "docker.any_user"),
        (("--gang", "2", "--gpus", "1"), "do not reach each other on Docker's network bridge"),
        (("--service-account", "a"), "--engine kubernetes"),
    ):
        done = box.run("submit", "--image", IMAGE, *words, "--", "true")
        assert done.returncode != 0
        assert said in " ".join(done.stderr.split())


def test_exec_runs_a_command_inside_the_container_as_its_user_with_its_environment(box: Box) -> None:
    job = box.submit("--image", IMAGE, "--env", "MINE=set", "--", "sleep", "1000")
    box.until_phase(job, "RUNNING")
    done = box.run("exec", job, "--", "sh", "-c", "echo $MINE $CORRAL_JOB_ID; id -u; echo oops >&2; exit 7")
    lines = done.stdout.splitlines()
    assert (done.returncode, lines[0], done.stderr) == (7, f"set {job}", "oops\n")
    assert lines[1:2] == box.ok("exec", job, "--", "id", "-u").splitlines()
    missing = box.run("exec", job, "--", "nosuch")
    assert missing.returncode == 127
    assert "nosuch" in missing.stdout + missing.stderr
    with box.start("exec", job, "--", "cat", stdin=subprocess.PIPE) as command:
        told = command.communicate("through\n" * 20000, timeout=PATIENCE_S)[0]
    assert told == "through\n" * 20000
    # Each way waits for the other here where one of them were served alone.
    more = "while read -r line; do echo $line $line $line $line $line $line $line $line; done"
    with box.start("exec", job, "--", "sh", "-c", more, stdin=subprocess.PIPE) as command:
        told = command.communicate(f"{'x' * 1000}\n" * 1000, timeout=PATIENCE_S)[0]
    assert len(told) == 1000 * 8 * 1001
    assert box.ok("logs", job) == ""


def test_a_command_inside_a_container_ends_with_its_client_and_with_its_job(box: Box) -> None:
    job = box.submit("--image", IMAGE, "--", "sleep", "1000")
    box.until_phase(job, "RUNNING")
    for end in ("client", "jo"):
        with box.start("exec", job, "--", "sh", "-c", "echo here; sleep 777") as command:
            assert command.stdout is not None
            assert command.stdout.readline() == "here\n"
            if end == "client":
                command.kill()
                box.until(lambda: "777" not in box.ok("exec", job, "--", "sh", "-c", "cat /proc/[0-9]*/cmdline"))
            else:
                box.ok("cancel", job)
                assert command.wait(PATIENCE_S) != 0


@pytest.mark.skipif(not Path("/usr/bin/python3").exists(), reason="there is no Python to show to a container")
def test_a_port_of_a_container_comes_here_from_its_own_network(box: Box) -> None:
    bare = box.submit("--image", IMAGE, "--", "sleep", "1000")
    libraries = ":".join(f"/host/{path.relative_to('/usr')}" for path in Path("/usr/lib").glob("*-linux-gnu"))
    show = ("--volume", "/usr:/host", "--env", "PATH=/host/bin:/bin", "--env", f"LD_LIBRARY_PATH={libraries}")
    job = box.submit("--image", IMAGE, *show, "--", "python3", "-c", SERVER, "8888")
    box.until_phase(job, "RUNNING")
    box.until_phase(bare, "RUNNING")
    with forwarding(box, job, "8888") as (_, connect):
        assert answer(connect(), b"from the container") == b"from the container"
    without = box.run("forward", bare, "8888")
    assert (without.returncode, "there is no python3" in without.stderr) == (125, True), without.stderr


def test_a_shell_inside_a_container_has_our_terminal(box: Box) -> None:
    job = box.submit("--image", IMAGE, "--", "sleep", "1000")
    box.until_phase(job, "RUNNING")
    with corral(box, "exec", job, TERM="vt100") as screen:
        screen.after(b"# ")
        screen.press(b"echo $TERM; sleep 1000\r")
        screen.after(b"vt100\r\n")
        screen.press(b"\x03")
        # What is typed before the terminal has taken the signal is thrown away with it.
        screen.after(b"# ")
        screen.press(b"echo code=$?\r")
        screen.after(b"code=130")
        screen.press(b"exit 5\r")
        assert screen.to_the_end() == 5


COUNTS = "n=0; trap 'n=$((n+1)); echo told $n' USR1; echo up; while :; do sleep 0.1; done"


def test_a_container_is_told_to_save_by_docker_while_it_runs_and_before_its_time_limit(box: Box) -> None:
    saver = ("--image", IMAGE, "--checkpoint-signal", "USR1@3s")
    often = box.submit(*saver, "--checkpoint-every", "1s", "--", "sh", "-c", COUNTS)
    box.until(lambda: "told 2" in box.ok("logs", often))
    assert box.job(often)["phase"] == "RUNNING"
    limited = box.submit(*saver, "--time", "6s", "--", "sh", "-c", COUNTS)
    assert box.ended(limited)["phase"] == "TIMED_OUT"
    assert "told 1" in box.ok("logs", limited)
    assert "told 2" not in box.ok("logs", limited)


def test_a_container_goes_on_from_what_it_has_saved_in_a_volume_of_the_same_path(box: Box, seen: Path) -> None:
    saved = seen / "saved"
    save = 'cd "$CORRAL_CHECKPOINT_DIR" && echo state > latest && exit 3'
    saved.mkdir()
    command = f'echo "restore ${{CORRAL_RESTORE-none}}"; [ -n "$CORRAL_RESTORE" ] && exec cat "$CORRAL_RESTORE"; {save}'
    options = ("--image", IMAGE, "--volume", f"{seen}:{seen}", "--checkpoint-dir", str(saved), "--retries", "1")
    job = box.submit(*options, "--", "sh", "-c", command)
    assert box.ended(job)["phase"] == "SUCCEEDED", box.ok("logs", job)
    lines = box.ok("logs", job).splitlines()
    assert [line for line in lines if line in ("restore none", f"restore {saved}/latest", "state")] == [
        *("restore none", f"restore {saved}/latest", "state")
    ]
