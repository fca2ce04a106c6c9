"""The library for programs that save their work: `corral.checkpoint`."""

import errno
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from corral import checkpoint
from corral.checkpoint import CheckpointManager, is_preempted, name_latest, on_checkpoint, remaining_s
from corral.core.preflight.whole_checkpoint import whole_checkpoint

STATES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=10,
)


@given(states=st.lists(STATES, min_size=1, max_size=3))
def test_the_last_state_that_was_saved_is_restored(tmp_path_factory: pytest.TempPathFactory, states: list[Any]) -> None:
    manager = CheckpointManager(tmp_path_factory.mktemp("dir"))
    for state in states:
        manager.save_checkpoint("17", state)
    assert manager.restore_checkpoint("17") == states[-1]


def test_a_state_is_json_in_a_file_with_the_name_of_the_job(tmp_path: Path) -> None:
    CheckpointManager(f"{tmp_path}/made").save_checkpoint(17, {"step": 3})
    assert json.loads((tmp_path / "made/17.ckpt").read_text()) == {"step": 3}


def test_a_job_that_has_saved_nothing_has_no_checkpoint(tmp_path: Path) -> None:
    assert CheckpointManager(tmp_path).restore_checkpoint("17") is None
    assert CheckpointManager(tmp_path / "missing").restore_checkpoint("17") is None


@pytest.mark.parametrize("job_id", ["", ".", "..", "a/b", "../17", "/etc/passwd", "17\0", "17\n", "x" * 201, "-rf"])
def test_an_id_that_is_no_name_of_a_file_is_refused(tmp_path: Path, job_id: str) -> None:
    manager = CheckpointManager(tmp_path)
    with pytest.raises(ValueError, match="cannot be the name of a checkpoint"):
        manager.save_checkpoint(job_id, {})
    with pytest.raises(ValueError, match="cannot be the name of a checkpoint"):
        manager.restore_checkpoint(job_id)
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("length", range(len('{"step": 2}')))
def test_of_a_checkpoint_that_was_cut_the_one_before_is_used(tmp_path: Path, length: int) -> None:
    manager = CheckpointManager(tmp_path)
    for step in (1, 2):
        manager.save_checkpoint("17", {"step": step})
    (tmp_path / "17.ckpt").write_text('{"step": 2}'[:length])
    assert manager.restore_checkpoint("17") == {"step": 1}


def test_a_checkpoint_that_was_cut_with_none_before_it_is_not_taken_for_none(tmp_path: Path) -> None:
    (tmp_path / "17.ckpt").write_bytes(b'{"step"\xff')
    with pytest.raises(ValueError, match=r"17\.ckpt is no whole checkpoint, and there is none before it"):
        CheckpointManager(tmp_path).restore_checkpoint("17")


def test_a_state_that_cannot_be_saved_leaves_the_last_checkpoint(tmp_path: Path) -> None:
    manager = CheckpointManager(tmp_path)
    manager.save_checkpoint("17", {"step": 1})
    with pytest.raises(TypeError):
        manager.save_checkpoint("17", {"step": object()})
    assert manager.restore_checkpoint("17") == {"step": 1}


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of 64 KiB."""
    place = tmp_path / "disk"
    place.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(place)]
    if subprocess.run(command, stderr=subprocess.DEVNULL).returncode:
        pytest.skip("no disk can be mounted here")
    yield place
    subprocess.run(["umount", str(place)], check=True)


def test_a_full_disk_leaves_the_last_checkpoint_and_nothing_half_written(small_disk: Path) -> None:
    manager = CheckpointManager(small_disk)
    manager.save_checkpoint("17", {"step": 1})
    with pytest.raises(OSError, match="No space left"):
        manager.save_checkpoint("17", {"step": 2, "filling": "x" * 100_000})
    assert manager.restore_checkpoint("17") == {"step": 1}
    assert sorted(os.listdir(small_disk)) == ["17.ckpt", "latest"]


def test_a_disk_that_has_become_read_only_refuses_to_save_and_still_restores(small_disk: Path) -> None:
    manager = CheckpointManager(small_disk)
    manager.save_checkpoint("17", {"step": 1})
    subprocess.run(["mount", "-o", "remount,ro", str(small_disk)], check=True)
    with pytest.raises(OSError, match="Read-only file system"):
        manager.save_checkpoint("17", {"step": 2})
    assert manager.restore_checkpoint("17") == {"step": 1}
    assert whole_checkpoint([str(small_disk)]) is not None


def test_a_file_system_without_links_still_keeps_the_one_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_links(*_: object) -> None:
        raise PermissionError(errno.EPERM, "Operation not permitted")

    monkeypatch.setattr(os, "link", no_links)
    manager = CheckpointManager(tmp_path)
    for step in (1, 2):
        manager.save_checkpoint("17", {"step": step})
    assert sorted(os.listdir(tmp_path)) == ["17.ckpt", "17.ckpt.before", "latest"]
    (tmp_path / "17.ckpt").write_text("")
    assert manager.restore_checkpoint("17") == {"step": 1}


KILLED = """
import sys
from corral.checkpoint import CheckpointManager
manager, step = CheckpointManager(sys.argv[1]), 0
print("up", flush=True)
while True:
    step += 1
    manager.save_checkpoint("17", {"step": step, "filling": [step] * 20_000})
"""


def test_a_program_that_is_killed_while_it_saves_leaves_a_whole_checkpoint(tmp_path: Path) -> None:
    for pause_s in (0.0, 0.013, 0.029):
        with subprocess.Popen([sys.executable, "-c", KILLED, tmp_path], stdout=subprocess.PIPE) as saver:
            assert saver.stdout is not None
            saver.stdout.readline()
            while not (tmp_path / "latest").exists():
                time.sleep(0.001)
            time.sleep(pause_s)
            saver.kill()
        found = CheckpointManager(tmp_path).restore_checkpoint("17")
        assert found is not None
        assert found["filling"] == [found["step"]] * 20_000


def test_what_was_saved_is_whole_for_corral_too(tmp_path: Path) -> None:
    CheckpointManager(tmp_path).save_checkpoint("17", {"step": 1})
    found = whole_checkpoint([str(tmp_path)])
    assert found is not None
    assert found.paths == (f"{tmp_path}/17.ckpt",)


def test_a_directory_of_another_program_is_named_in_one_step(tmp_path: Path) -> None:
    for step in ("step-1", "step-2"):
        (tmp_path / step).mkdir()
        name_latest(tmp_path / step)
        assert os.readlink(tmp_path / "latest") == step
    assert sorted(os.listdir(tmp_path)) == ["latest", "step-1", "step-2"]


def test_the_directory_of_a_job_is_that_of_its_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CORRAL_CHECKPOINT_DIR", raising=False)
    with pytest.raises(ValueError, match="--checkpoint-signal USR1@60s"):
        CheckpointManager()
    monkeypatch.setenv("CORRAL_CHECKPOINT_DIR", str(tmp_path))
    assert CheckpointManager().checkpoint_dir == str(tmp_path)


@pytest.fixture
def told() -> Iterator[None]:
    before = {number: signal.getsignal(number) for number in (signal.SIGUSR1, signal.SIGTERM)}
    yield
    checkpoint._told_at.clear()
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.mark.usefixtures("told")
def test_the_callback_is_called_at_each_signal_of_the_job(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[str] = []
    monkeypatch.setenv("CORRAL_CHECKPOINT_SIGNAL", "USR1")
    on_checkpoint(lambda: calls.append("saved"))
    for count in (1, 2):
        os.kill(os.getpid(), signal.SIGUSR1)
        assert calls == ["saved"] * count
    assert not is_preempted()


@pytest.mark.usefixtures("told")
def test_without_a_checkpoint_signal_no_signal_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    before = signal.getsignal(signal.SIGUSR1)
    monkeypatch.delenv("CORRAL_CHECKPOINT_SIGNAL", raising=False)
    on_checkpoint(lambda: None)
    assert signal.getsignal(signal.SIGUSR1) == before


@pytest.mark.usefixtures("told")
def test_a_signal_during_a_save_is_answered_after_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    manager, steps, fsync = CheckpointManager(tmp_path), iter((2, 3)), os.fsync
    monkeypatch.setenv("CORRAL_CHECKPOINT_SIGNAL", "USR1")
    on_checkpoint(lambda: manager.save_checkpoint("17", {"step": next(steps)}))

    def interrupted(fd: int) -> None:
        monkeypatch.setattr(os, "fsync", fsync)
        os.kill(os.getpid(), signal.SIGUSR1)
        fsync(fd)

    monkeypatch.setattr(os, "fsync", interrupted)
    manager.save_checkpoint("17", {"step": 1})
    assert manager.restore_checkpoint("17") == {"step": 2}
    assert json.loads((tmp_path / "17.ckpt.before").read_text()) == {"step": 1}


@pytest.mark.usefixtures("told")
def test_a_process_that_was_forked_saves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CORRAL_CHECKPOINT_SIGNAL", "USR1")
    on_checkpoint((tmp_path / "saved").touch)
    child = os.fork()
    if child == 0:
        os.kill(os.getpid(), signal.SIGUSR1)
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    assert not (tmp_path / "saved").exists()


def test_saves_of_several_threads_are_one_after_the_other(tmp_path: Path) -> None:
    manager = CheckpointManager(tmp_path)

    def save(number: int) -> None:
        for _ in range(9):
            manager.save_checkpoint("17", [number] * 500)

    threads = [threading.Thread(target=save, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    found = manager.restore_checkpoint("17")
    assert found
    assert found == [found[0]] * 500


def uptime_s() -> float:
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def stop_file(scratch: Path, text: str) -> None:
    (scratch / "config").mkdir(exist_ok=True)
    (scratch / "config/stop").write_text(text)


def test_a_job_without_an_end_has_no_seconds_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CORRAL_SCRATCH", str(tmp_path))
    assert (remaining_s(), is_preempted()) == (None, False)
    for torn in ("", "soon", "nan", "\udce9".encode(errors="surrogateescape").decode("latin-1")):
        stop_file(tmp_path, torn)
        assert (remaining_s(), is_preempted()) == (None, False)


def test_a_job_knows_the_end_that_its_node_has_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CORRAL_SCRATCH", str(tmp_path))
    monkeypatch.setenv("CORRAL_CHECKPOINT_GRACE_S", "60")
    stop_file(tmp_path, f"{uptime_s() + 3600} limit\n")
    assert 3500 < (remaining_s() or 0) <= 3600
    assert not is_preempted()
    stop_file(tmp_path, f"{uptime_s() + 50} limit\n")
    assert is_preempted()
    stop_file(tmp_path, f"{uptime_s() + 3600} preempted\n")
    assert is_preempted()
    stop_file(tmp_path, f"{uptime_s() - 5} preempted\n")
    assert remaining_s() == 0


@pytest.mark.usefixtures("told")
def test_a_signal_that_ends_programs_says_that_the_end_comes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CORRAL_CHECKPOINT_SIGNAL", "TERM")
    monkeypatch.setenv("CORRAL_CHECKPOINT_GRACE_S", "60")
    monkeypatch.delenv("CORRAL_SCRATCH", raising=False)
    on_checkpoint(lambda: None)
    assert (remaining_s(), is_preempted()) == (None, False)
    os.kill(os.getpid(), signal.SIGTERM)
    assert is_preempted()
    assert 50 < (remaining_s() or 0) <= 60


def test_the_library_needs_only_the_standard_library_and_little_of_it() -> None:
    code = "import sys, corral.checkpoint; print([name for name in sys.modules if name.startswith('corral.')])"
    found = subprocess.run([sys.executable, "-I", "-c", code], capture_output=True, text=True).stdout
    assert found == "['corral.checkpoint']\n"
