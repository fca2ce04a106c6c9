"""Which process supervises which launch, by what cannot be written into a record."""

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from corral.core.model.runs.launch import LaunchPhase
from corral.host.runtimes.process.procfs import LocalProcess, read_file
from corral.host.runtimes.process.records import evidence
from tests.host.runtimes.process.conftest import Machine, alive, root_only, until

PRETEND = """
import os, sys
open("/proc/self/comm", "w").write("corral-job")
real, effective, directory = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
held = os.open(directory, os.O_PATH)
if real or effective:
    os.setresuid(real, effective, effective)
print("up", flush=True)
sys.stdin.read()
"""
"""Calls itself a supervisor, and holds a directory open."""


@contextmanager
def pretender(directory: Path, *, real: int = 0, effective: int = 0) -> Iterator[int]:
    """The pid of such a process, of these users; it opens the directory before it becomes them."""
    command = [sys.executable, "-I", "-S", "-c", PRETEND, str(real), str(effective), str(directory)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        try:
            yield process.pid
        finally:
            process.kill()


def running(machine: Machine, **more: Any) -> str:
    name = machine.launch("sh", "-c", "echo up; sleep 60", **more)
    machine.wait_for_log(name, "up")
    return name


def known(machine: Machine, name: str) -> list[int]:
    return [process.pid for process in evidence.supervisors(str(machine.home / "launches")).get(name, [])]


@contextmanager
def a_process() -> Iterator[tuple[subprocess.Popen[bytes], LocalProcess]]:
    """One that ends when its input does."""
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE) as process:
        yield process, LocalProcess.of(process.pid)


def test_a_process_that_is_no_supervisor_is_another() -> None:
    with a_process() as (_, other):
        assert evidence.is_another(other, "/launches", "1")


def test_a_supervisor_that_ends_while_it_is_looked_at_is_not_another(monkeypatch: pytest.MonkeyPatch) -> None:
    with a_process() as (process, supervisor):

        def just_too_late(path: str) -> bytes:
            process.communicate()
            return read_file(path)

        monkeypatch.setattr("corral.host.runtimes.process.records.evidence.read_file", just_too_late)
        assert not evidence.is_another(supervisor, "/launches", "1")


def test_a_process_that_has_ended_is_not_another() -> None:
    with a_process() as (_, ended):
        pass
    assert not evidence.is_another(ended, "/launches", "1")


@pytest.mark.parametrize("removed", [False, True])
def test_a_supervisor_is_known_by_its_directory_also_when_that_was_removed(machine: Machine, removed: bool) -> None:
    name = running(machine)
    supervisor = machine.supervisor(name)
    if removed:
        shutil.rmtree(machine.home / "launches" / name)
    assert known(machine, name) == [supervisor]
    os.kill(supervisor, signal.SIGTERM)


@root_only()
@pytest.mark.parametrize("effective", [12345, 0], ids=["a user's", "a user's with rights of root's"])
def test_a_process_of_a_user_is_no_supervisor_whatever_it_calls_itself_and_holds(
    machine: Machine, effective: int
) -> None:
    name = running(machine)
    with pretender(machine.home / "launches" / name, real=12345, effective=effective) as pid:
        assert known(machine, name) == [machine.supervisor(name)]
        assert evidence.is_another(LocalProcess.of(pid), str(machine.home / "launches"), name)


def test_a_directory_that_only_shows_the_same_path_makes_no_supervisor(machine: Machine, tmp_path: Path) -> None:
    """As one does in a mount namespace of a user's own."""
    name = running(machine)
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    with pretender(elsewhere) as pid:
        links = {fd: os.readlink(f"/proc/{pid}/fd/{fd}") for fd in os.listdir(f"/proc/{pid}/fd")}
        assert str(elsewhere) in links.values()
        (held,) = (fd for fd, path in links.items() if path == str(elsewhere))
        path = f"{machine.home}/launches/{name}"
        assert not evidence._is_at(os.stat(f"/proc/{pid}/fd/{held}"), path)
        assert evidence._is_at(os.stat(path), path)


def test_what_a_job_has_started_is_not_taken_for_the_supervisor_of_another(machine: Machine) -> None:
    name = running(machine)
    script = PRETEND.replace("sys.stdin.read()", "import time; time.sleep(60)")
    other = machine.launch(
        *(sys.executable, "-I", "-S", "-c", script, "0", "0", f"{machine.home}/launches/{name}"), uid=None
    )
    machine.wait_for_log(other, "up")
    assert known(machine, name) == [machine.supervisor(name)]


@root_only()
def test_a_false_supervisor_keeps_no_job_of_anothers_running_whose_supervisor_died(machine: Machine) -> None:
    name = running(machine, uid=1, gid=1, groups=())
    with pretender(machine.home / "launches" / name, real=12345, effective=12345) as pid:
        machine.runtime.close()
        os.kill(machine.supervisor(name), signal.SIGKILL)
        machine.start_backend()
        assert machine.wait(name).phase is LaunchPhase.DEAD
        assert alive(pid)


@root_only()
def test_a_job_of_a_users_neither_ends_its_supervisor_nor_writes_how_it_ended(machine: Machine) -> None:
    launches = machine.home / "launches"
    machine.home.chmod(0o755)
    attack = (
        "kill -9 $PPID && echo killed; kill -STOP $PPID && echo stopped;"
        f" for at in {launches}/* /proc/$PPID/fd/* /proc/$PPID/cwd; do"
        ' echo {} > "$at/exit" && echo written; done 2>/dev/null; echo up; sleep 60'
    )
    name = machine.launch("sh", "-c", attack, uid=12345, gid=12345, groups=())
    machine.wait_for_log(name, "up")
    assert machine.log(name).splitlines()[-1:] == [b"up"]
    assert not {b"killed", b"stopped", b"written"} & set(machine.log(name).splitlines())
    assert machine.runtime.status(name).phase is LaunchPhase.RUNNING


@root_only()
def test_of_a_launch_whose_record_is_gone_no_users_process_counts_for_its_mark(machine: Machine) -> None:
    name = running(machine, uid=1, gid=1, groups=())
    variable, _, value = machine.runtime._verifier.mark(name).partition("=")
    with subprocess.Popen(["sleep", "60"], env={variable: value}, user=12345) as stranger:
        until(lambda: os.readlink(f"/proc/{stranger.pid}/exe").endswith("sleep"), "the program")
        (machine.home / "launches" / name / "spec.jsonl").unlink()
        os.kill(machine.supervisor(name), signal.SIGKILL)
        until(lambda: machine.runtime.status(name).phase is LaunchPhase.DEAD, "the end")
        assert alive(stranger.pid)
        stranger.kill()
