"""The control daemon of a shared device is there when it is needed, and gone when it is not, however it behaves."""

import os
import stat
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from corral.core.model.errors import BackendFailed, Refused
from corral.vendors.nvidia import mps_daemon
from corral.vendors.nvidia.mps_daemon import MpsDaemon, MpsPaths, MpsState, multi_user_missing, program_missing

PATIENCE_S = 30.0
"""Far more than any answer takes on a busy machine, and less than the fake's life."""


@pytest.fixture
def paths(tmp_path: Path) -> MpsPaths:
    return MpsPaths.under(tmp_path / "h", "GPU-a")


@pytest.fixture
def daemon(mps_control: str, paths: MpsPaths) -> Iterator[MpsDaemon]:
    daemon = MpsDaemon("GPU-a", paths, control=mps_control, timeout_s=PATIENCE_S)
    yield daemon
    daemon.stop()


def environment(paths: MpsPaths) -> dict[str, str]:
    return os.environ | {"CUDA_MPS_PIPE_DIRECTORY": str(paths.pipe), "CUDA_MPS_LOG_DIRECTORY": str(paths.log)}


def say(mps_control: str, paths: MpsPaths, command: str) -> str:
    env = environment(paths)
    done = subprocess.run([mps_control], input=command, env=env, text=True, capture_output=True, timeout=PATIENCE_S)
    return done.stdout


def test_started_twice_it_runs_once(daemon: MpsDaemon) -> None:
    daemon.start()
    first = daemon.health()
    daemon.start()
    assert first.state is MpsState.RUNNING
    assert daemon.health() == first


def test_a_new_server_finds_the_daemon_of_the_old_one(daemon: MpsDaemon, mps_control: str, paths: MpsPaths) -> None:
    daemon.start()
    assert MpsDaemon("GPU-a", paths, control=mps_control).health() == daemon.health()


def test_stopped_it_is_down_and_stopping_again_is_harmless(daemon: MpsDaemon) -> None:
    daemon.start()
    daemon.stop()
    daemon.stop()
    assert daemon.health().state is MpsState.DOWN


def test_a_clients_fault_is_seen_and_starting_it_again_mends_it(
    daemon: MpsDaemon, mps_control: str, paths: MpsPaths
) -> None:
    daemon.start()
    before = daemon.health()
    say(mps_control, paths, "start_server -uid 1000")
    assert daemon.health() == before
    say(mps_control, paths, "client_fault")
    fault = daemon.health()
    assert fault.state is MpsState.FAULT
    assert "a client's fault ended MPS server" in fault.detail
    daemon.start()
    after = daemon.health()
    assert after.state is MpsState.RUNNING
    assert after.pid != before.pid


def test_a_daemon_that_vanished_is_down_and_starts_again(daemon: MpsDaemon, mps_control: str, paths: MpsPaths) -> None:
    daemon.start()
    say(mps_control, paths, "crash")
    assert daemon.health().state is MpsState.DOWN
    daemon.start()
    assert daemon.health().state is MpsState.RUNNING


def test_a_daemon_that_does_not_start_says_why(daemon: MpsDaemon, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MPS_FAKE", "no-start")
    with pytest.raises(BackendFailed, match=r"GPU-a did not start.*log ends: .*operation not permitted"):
        daemon.start()


def test_a_daemon_that_dies_at_once_says_why(daemon: MpsDaemon, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MPS_FAKE", "dies")
    with pytest.raises(BackendFailed, match=r"did not stay up.*no CUDA-capable device"):
        daemon.start()


def test_a_daemon_that_hangs_is_told_from_one_that_is_down_and_can_be_stopped(
    mps_control: str, paths: MpsPaths, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MPS_FAKE", "hangs")
    monkeypatch.setattr(mps_daemon, "_QUITS_WITHIN_S", 0.1)
    paths.pipe.mkdir(parents=True)
    paths.log.mkdir()
    # By hand: it starts in its own time, and only its answers are not waited for long.
    subprocess.run([mps_control, "-d"], env=environment(paths), check=True, timeout=PATIENCE_S)
    hanging = MpsDaemon("GPU-a", paths, control=mps_control, timeout_s=0.3)
    assert hanging.health().state is MpsState.HUNG
    hanging.stop()
    assert hanging.health().state is MpsState.DOWN


def test_a_daemon_that_hangs_from_its_start_has_not_started(
    mps_control: str, paths: MpsPaths, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MPS_FAKE", "hangs")
    monkeypatch.setattr(mps_daemon, "_QUITS_WITHIN_S", 0.1)
    hanging = MpsDaemon("GPU-a", paths, control=mps_control, timeout_s=0.5)
    with pytest.raises(BackendFailed, match=r"did not answer within 0\.5 s"):
        hanging.start()
    hanging.stop()


def test_a_daemon_that_ignores_quit_is_killed_with_its_servers(
    mps_control: str, paths: MpsPaths, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MPS_FAKE", "ignores-quit")
    monkeypatch.setattr(mps_daemon, "_QUITS_WITHIN_S", 0.1)
    stubborn = MpsDaemon("GPU-a", paths, control=mps_control, timeout_s=PATIENCE_S)
    stubborn.start()
    say(mps_control, paths, "start_server -uid 1000")
    server = int(say(mps_control, paths, "get_server_list"))
    stubborn.stop()
    assert stubborn.health().state is MpsState.DOWN
    deadline = time.monotonic() + PATIENCE_S
    while running(server) and time.monotonic() < deadline:
        time.sleep(0.01)
    assert not running(server)


def running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def test_another_process_that_got_the_pid_is_left_alone(daemon: MpsDaemon, paths: MpsPaths) -> None:
    paths.pipe.mkdir(parents=True)
    (paths.pipe / "nvidia-cuda-mps-control.pid").write_text(str(os.getpid()))
    daemon.stop()
    assert daemon.health().state is MpsState.DOWN


@pytest.mark.parametrize("has_rights_of_root", [False, True])
@pytest.mark.skipif(os.geteuid() != 0, reason="only root can act as another user")
def test_a_client_of_another_user_that_writes_its_pid_where_the_daemons_is_looked_for_is_left_alone(
    daemon: MpsDaemon, paths: MpsPaths, has_rights_of_root: bool
) -> None:
    paths.pipe.mkdir(parents=True)
    # As a program is that gives root's rights to whoever runs it.
    becomes = "import os, time; os.setresuid(1, 0, 0); print('up', flush=True); time.sleep(60)"
    as_root, plain = [sys.executable, "-I", "-S", "-c", becomes], ["sh", "-c", "echo up; exec sleep 60"]
    with subprocess.Popen(
        as_root if has_rights_of_root else plain,
        env=environment(paths),
        user=None if has_rights_of_root else 1,
        stdout=subprocess.PIPE,
    ) as client:
        assert client.stdout is not None
        client.stdout.readline()
        (paths.pipe / "nvidia-cuda-mps-control.pid").write_text(str(client.pid))
        assert daemon.pid() is None
        daemon.stop()
        assert running(client.pid)
        client.kill()


def test_a_process_that_the_daemon_did_not_start_is_not_killed_as_its_server(
    mps_control: str, paths: MpsPaths, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MPS_FAKE", "ignores-quit")
    monkeypatch.setattr(mps_daemon, "_QUITS_WITHIN_S", 0.1)
    stubborn = MpsDaemon("GPU-a", paths, control=mps_control, timeout_s=PATIENCE_S)
    stubborn.start()
    with subprocess.Popen(["sleep", "60"], env=environment(paths)) as client:
        monkeypatch.setattr(stubborn, "_servers", lambda: [client.pid])
        stubborn.stop()
        assert stubborn.pid() is None
        assert running(client.pid)
        client.kill()


def test_a_driver_without_multi_user_mode_says_so(
    mps_control: str, paths: MpsPaths, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MPS_FAKE", "no-multi-user")
    with pytest.raises(BackendFailed, match="Unknown option: -multiuser-server"):
        MpsDaemon("GPU-a", paths, control=mps_control, multi_user=True).start()


def test_a_program_that_has_the_option_serves_several_users_and_one_without_is_not_counted_on(
    mps_control: str, tmp_path: Path
) -> None:
    assert multi_user_missing(mps_control) is None
    old = tmp_path / "old-control"
    old.write_bytes(b"\x7fELF\x00-d\x00-f\x00")
    old.chmod(0o755)
    assert multi_user_missing(str(old)) == f"{old} has no option -multiuser-server; the one of a newer driver does"
    assert multi_user_missing("/nowhere/control") == program_missing("/nowhere/control")
    assert program_missing(mps_control) is None


def test_a_machine_without_the_program_says_so(paths: MpsPaths, tmp_path: Path) -> None:
    with pytest.raises(BackendFailed, match="not installed here"):
        MpsDaemon("GPU-a", paths, control=str(tmp_path / "missing")).start()


def test_a_home_too_deep_for_pipes_is_refused_by_how_much() -> None:
    with pytest.raises(Refused, match=r"whose path is \d+ bytes shorter"):
        MpsPaths.under(Path("/h" * 50), "GPU-a")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root serves other users")
def test_clients_of_every_user_reach_a_daemon_of_roots(paths: MpsPaths, mps_control: str) -> None:
    daemon = MpsDaemon("GPU-a", paths, control=mps_control)
    before = os.umask(0o077)
    try:
        daemon.start()
    finally:
        os.umask(before)
    try:
        modes = [stat.S_IMODE(path.stat().st_mode) for path in (paths.pipe.parent, paths.pipe, paths.log)]
        assert modes == [0o755, 0o1777, 0o1777]
        assert stat.S_IMODE((paths.pipe / "control").stat().st_mode) & 0o006 == 0o006
    finally:
        daemon.stop()
