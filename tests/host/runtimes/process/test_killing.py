import contextlib
import os
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from corral.core.model.runs.launch import LaunchPhase
from corral.host.runtimes.process import procfs
from corral.host.runtimes.process.ending import killing
from tests.host.runtimes.process.conftest import (
    EVENT_S,
    PATH,
    Machine,
    alive,
    no_descriptors,
    root_only,
    stopped,
    until,
)
from tests.seccomp import forbid

DAEMONISE_TWICE = textwrap.dedent("""
    import os, signal, sys, time
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            os.closerange(0, 100)
            os.execve("/bin/sleep", ["sleep", "60"], {})
        os._exit(0)
    os.wait()
    print("up", flush=True)
    time.sleep(60)
""")

# Bounded: at most 300 processes, each gone after 20 s whatever happens.
FORK_BOMB = textwrap.dedent("""
    import os, signal, time
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    signal.alarm(20)
    room, tokens = os.pipe()
    os.write(tokens, b"x" * 300)
    os.set_blocking(room, False)
    print("up", flush=True)
    while True:
        try:
            os.read(room, 1)
        except BlockingIOError:
            time.sleep(60)
        if os.fork() == 0:
            os.setsid()
            signal.alarm(20)
""")


def test_a_job_that_ignores_sigterm_is_killed_after_the_grace(machine_of_each_kind: Machine) -> None:
    machine = machine_of_each_kind
    name = machine.launch("sh", "-c", "trap '' TERM; echo up; while :; do sleep 0.05; done")
    machine.wait_for_log(name, "up")
    asked = time.monotonic()
    machine.runtime.stop(name)
    state = machine.wait(name)
    assert state.exit is not None
    assert (state.exit.exit_code, state.exit.signal, state.exit.reason) == (137, signal.SIGKILL, "cancelled")
    assert time.monotonic() - asked >= 0.2


def test_a_job_that_obeys_sigterm_may_clean_up_and_say_how_it_ended(machine_of_each_kind: Machine) -> None:
    machine = machine_of_each_kind
    machine.runtime._kill_grace_s = EVENT_S
    name = machine.launch("sh", "-c", "trap 'echo saved; exit 6' TERM; echo up; while :; do sleep 0.02; done")
    machine.wait_for_log(name, "up")
    machine.runtime.stop(name)
    state = machine.wait(name)
    assert state.exit is not None
    assert (state.exit.exit_code, state.exit.reason) == (6, "cancelled")
    assert machine.log(name).endswith(b"saved\n")


def test_a_stopped_process_is_woken_to_hear_sigterm(machine_of_each_kind: Machine) -> None:
    machine = machine_of_each_kind
    machine.runtime._kill_grace_s = EVENT_S
    name = machine.launch("sh", "-c", "trap 'exit 6' TERM; kill -STOP $$; sleep 60")
    until(lambda: any(map(stopped, machine.marked(name))), "the job being stopped")
    machine.runtime.stop(name)
    state = machine.wait(name)
    assert state.exit is not None
    assert state.exit.exit_code == 6


@pytest.mark.parametrize(("script", "size"), [(DAEMONISE_TWICE, 2), (FORK_BOMB, 50)], ids=["daemon", "fork bomb"])
def test_nothing_of_a_job_survives_its_cancel(machine_of_each_kind: Machine, script: str, size: int) -> None:
    machine = machine_of_each_kind
    name = machine.launch(sys.executable, "-S", "-c", script)
    machine.wait_for_log(name, "up")
    until(lambda: len(machine.runtime.pids(name)) >= size, "the processes of the job")
    pids = machine.runtime.pids(name)
    machine.runtime.stop(name)
    machine.wait(name)
    assert not any(alive(pid) for pid in pids)
    assert machine.runtime.pids(name) == []


@pytest.mark.parametrize("descriptors", [True, False])
def test_a_number_that_is_not_listed_again_is_signalled_no_more(descriptors: bool) -> None:
    mine, strangers = (subprocess.Popen(["sleep", "60"]) for _ in range(2))
    try:
        with contextlib.nullcontext() if descriptors else no_descriptors():
            killing.signal_listed([strangers.pid, mine.pid], lambda: [mine.pid], signal.SIGKILL)
        assert mine.wait(EVENT_S) == -signal.SIGKILL
        assert strangers.poll() is None
    finally:
        for process in (mine, strangers):
            process.kill()
            process.wait()


def test_what_got_the_number_of_a_process_that_was_held_is_not_signalled(monkeypatch: pytest.MonkeyPatch) -> None:
    held, later = (subprocess.Popen(["sleep", "60"]) for _ in range(2))
    handle = os.pidfd_open(held.pid)
    held.kill()
    held.wait()
    # As if the number that was listed had been reused since: it is `later`'s, and what is held is gone.
    monkeypatch.setattr(os, "pidfd_open", lambda pid: os.dup(handle))
    try:
        killing.signal_listed([later.pid], lambda: [later.pid], signal.SIGKILL)
        assert later.poll() is None
    finally:
        os.close(handle)
        later.kill()
        later.wait()


@pytest.mark.parametrize("forbidden", ["kill", "pidfd_open"])
def test_the_supervisor_signals_by_descriptors_and_by_numbers_where_the_kernel_has_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, forbidden: str
) -> None:
    filtered = partial(subprocess.Popen, preexec_fn=partial(forbid, forbidden))
    monkeypatch.setattr(subprocess, "Popen", filtered)
    machine = Machine(tmp_path, use_cgroup=False)
    try:
        name = machine.launch("sh", "-c", "trap '' TERM; sleep 60 & echo up; wait; sleep 60")
        machine.wait_for_log(name, "up")
        machine.runtime.stop(name)
        exit_ = machine.wait(name).exit
        assert exit_ is not None
        assert (exit_.exit_code, exit_.reason) == (137, "cancelled")
    finally:
        machine.shut()


def test_what_the_main_process_leaves_behind_is_killed(machine_of_each_kind: Machine) -> None:
    machine = machine_of_each_kind
    name = machine.launch("sh", "-c", "trap '' TERM; (setsid sleep 60 &) ; sleep 60 & echo $!; exit 3")
    state = machine.wait(name)
    assert state.exit is not None
    assert (state.exit.exit_code, state.exit.reason) == (3, None)
    assert not alive(int(machine.log(name)))
    assert machine.runtime.pids(name) == []


def test_what_shows_no_mark_any_more_and_is_not_dead_yet_counts_as_left(monkeypatch: pytest.MonkeyPatch) -> None:
    child = os.posix_spawn("/bin/sleep", ["sleep", "60"], {})
    found = [[child], [], []]
    monkeypatch.setattr(killing, "marked", lambda mark, uid: found.pop(0))
    monkeypatch.setattr(killing, "carries_mark", lambda pid, mark: True)
    monkeypatch.setattr(killing, "_signal_exactly", lambda process, signum: None)
    dying: dict[procfs.LocalProcess, None] = {}
    left = killing.Left("MARK=1", None, os.getuid())
    try:
        assert killing.kill_orphans(left, dying)
        assert killing.kill_orphans(left, dying)
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitid(os.P_PID, child, os.WEXITED | os.WNOWAIT)
    assert not killing.kill_orphans(left, dying)
    os.waitpid(child, 0)


def bearer(machine: Machine, name: str, **more: Any) -> "subprocess.Popen[bytes]":
    """A process that Corral did not start and that says it is of this launch."""
    variable, _, value = machine.runtime._verifier.mark(name).partition("=")
    process = subprocess.Popen(["sleep", "60"], env={**PATH, variable: value}, **more)
    until(lambda: procfs.carries_mark(process.pid, f"{variable}={value}".encode()), "the mark")
    return process


def lose_supervisor(machine: Machine, name: str) -> None:
    os.kill(machine.supervisor(name), signal.SIGKILL)
    assert machine.wait(name).phase is LaunchPhase.DEAD


@root_only()
def test_who_says_of_himself_that_he_is_anothers_orphan_is_not_killed_for_it(machine: Machine) -> None:
    name = machine.launch("sh", "-c", "echo up; sleep 60")
    machine.wait_for_log(name, "up")
    with bearer(machine, name, user=1) as stranger:
        lose_supervisor(machine, name)
        assert alive(stranger.pid)
        assert machine.runtime.pids(name) == []
        stranger.kill()


@root_only()
def test_the_environment_of_other_users_is_not_even_read(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[int] = []
    carries = procfs.carries_mark

    def noted(pid: int, mark: bytes) -> bool:
        read.append(pid)
        return carries(pid, mark)

    with bearer(machine, "a9", user=1) as stranger, bearer(machine, "a9") as own:
        monkeypatch.setattr(procfs, "carries_mark", noted)
        assert procfs.marked(machine.runtime._verifier.mark("a9").encode(), 0) == [own.pid]
        assert stranger.pid not in read
        for process in (stranger, own):
            process.kill()


def test_a_job_that_says_it_is_anothers_orphan_is_not_killed_for_it(machine: Machine) -> None:
    name = machine.launch("sh", "-c", "echo up; sleep 60")
    machine.wait_for_log(name, "up")
    mark = machine.runtime._verifier.mark(name)
    other = machine.launch("sh", "-c", f"{mark} sleep 60 & echo $!; wait")
    wearer = int(until_written(machine, other))
    until(lambda: procfs.carries_mark(wearer, mark.encode()), "the mark of the other")
    lose_supervisor(machine, name)
    assert alive(wearer)
    assert machine.runtime.status(other).phase is LaunchPhase.RUNNING


def test_an_orphan_that_left_its_parent_and_kept_its_mark_is_killed(machine: Machine) -> None:
    name = machine.launch("sh", "-c", "(setsid sleep 60 & echo $!); echo up; sleep 60")
    machine.wait_for_log(name, "up")
    orphan = int(machine.log(name).split()[0])
    lose_supervisor(machine, name)
    assert not alive(orphan)


def test_a_server_that_was_started_by_a_job_does_not_end_itself_or_its_jobs_with_it(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    name, other = machine.launch("sh", "-c", "echo up; sleep 60"), machine.launch("sh", "-c", "echo up; sleep 60")
    for one in (name, other):
        machine.wait_for_log(one, "up")
    carries = procfs.carries_mark
    monkeypatch.setattr(procfs, "carries_mark", lambda pid, mark: pid == os.getpid() or carries(pid, mark))
    lose_supervisor(machine, name)
    assert machine.runtime.status(other).phase is LaunchPhase.RUNNING
    assert alive(machine.zygote())


def until_written(machine: Machine, name: str) -> bytes:
    until(lambda: machine.log(name).endswith(b"\n"), f"a line in the log of {name}")
    return machine.log(name)


def test_orphans_of_a_long_running_job_are_reaped(machine: Machine) -> None:
    name = machine.launch("sh", "-c", "for i in 1 2 3 4 5 6 7 8; do (true &) ; done; echo up; sleep 60")
    machine.wait_for_log(name, "up")
    # The shell and its sleep.
    until(lambda: len(machine.runtime.pids(name)) == 2, "two processes")


def test_the_mark_of_one_launch_is_not_found_in_another() -> None:
    child = os.posix_spawn("/bin/sleep", ["sleep", "60"], {"A": "1", "MARK": "home/12"})
    try:
        until(lambda: procfs.carries_mark(child, b"MARK=home/12"), "the mark")
        assert child in procfs.marked(b"MARK=home/12")
        assert not procfs.carries_mark(child, b"MARK=home/1")
        assert not procfs.carries_mark(child, b"ARK=home/12")
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)


def test_a_thousand_children_of_one_process_are_all_found_and_killed(machine_of_each_kind: Machine) -> None:
    machine = machine_of_each_kind
    name = machine.launch("sh", "-c", "trap '' TERM; for i in $(seq 1000); do sleep 60 & done; echo up; wait")
    machine.wait_for_log(name, "up")
    pids = machine.runtime.pids(name)
    assert len(pids) == 1001
    machine.runtime.stop(name)
    machine.wait(name)
    assert not any(alive(pid) for pid in pids)


@pytest.mark.parametrize("kernel_lists_children", [True, False])
def test_descendants_are_found_with_and_without_the_kernels_list(
    monkeypatch: pytest.MonkeyPatch, kernel_lists_children: bool
) -> None:
    monkeypatch.setattr(procfs, "_kernel_lists_children", lambda: kernel_lists_children)
    child = os.posix_spawn("/bin/sh", ["sh", "-c", "sleep 60 & sleep 60 & wait"], {"PATH": "/bin"}, setsid=True)
    try:
        until(lambda: len(procfs.descendants(child)) == 2, "two descendants")
        assert child in procfs.descendants(os.getpid())
    finally:
        os.killpg(child, signal.SIGKILL)
        os.waitpid(child, 0)


def without(gone: str) -> Callable[[str], bytes]:
    """As files are read, were it not for this one."""
    read_file = procfs.read_file

    def read(path: str) -> bytes:
        if path == gone:
            raise FileNotFoundError(path)
        return read_file(path)

    return read


def test_the_children_of_every_thread_are_found_also_when_another_thread_ends_meanwhile(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    script = (
        "import os, threading, time; threading.Thread(target=lambda: os.system('sleep 60')).start(); time.sleep(60)"
    )
    child = os.posix_spawn(sys.executable, ["python", "-S", "-c", script], {"PATH": "/bin"}, setsid=True)
    try:
        until(lambda: procfs.descendants(child), "the sleep of the other thread")
        # Not the main thread's turn alone: it is asked first, and may have ended.
        monkeypatch.setattr(procfs, "read_file", without(f"/proc/{child}/task/{child}/children"))
        assert procfs.descendants(child)
    finally:
        os.killpg(child, signal.SIGKILL)
        os.waitpid(child, 0)
