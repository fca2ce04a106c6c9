import contextlib
import os
import queue
import resource
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from corral.core.model.runs.launch import LaunchPhase
from corral.host.runtimes.process import process_launches, procfs, watcher
from corral.host.runtimes.process.output.log_marks import written_since
from corral.host.runtimes.process.process_launches import ProcessLaunches
from corral.host.runtimes.process.records.evidence import supervisors
from corral.host.runtimes.process.records.launch_records import LaunchRecords
from corral.host.runtimes.process.records.launch_spec import LaunchError
from corral.host.runtimes.process.supervisor_orders import NEWS
from tests.host.runtimes.process.conftest import EVENT_S, PATH, Machine, alive, stopped, until

TOLD = (
    "trap 'echo shell told' USR1; sh -c 'echo up; exec sleep 600' & wait; "
    "if kill -0 $! 2>&-; then echo child lives; kill $!; else echo child died; fi"
)
"""A shell that says whether it was signalled, and whether its child has survived that."""


def test_the_exit_code_is_recorded(machine: Machine) -> None:
    for code in (0, 3, 255):
        state = machine.run("sh", "-c", f"exit {code}")
        assert state.exit is not None
        assert (state.phase, state.exit.exit_code, state.exit.signal) == (LaunchPhase.EXITED, code, None)
        assert state.exit.reason is None


def test_a_job_that_dies_of_a_signal_exits_with_128_plus_its_number(machine: Machine) -> None:
    state = machine.run("sh", "-c", "kill -SEGV $$")
    assert state.exit is not None
    assert (state.exit.exit_code, state.exit.signal) == (128 + signal.SIGSEGV, signal.SIGSEGV)


def test_start_and_end_are_told_by_the_supervisors_clock(machine: Machine, tmp_path: Path) -> None:
    before, asked = time.time(), time.monotonic()
    name = machine.launch(*held_by(tmp_path / "go"))
    until(lambda: machine.runtime.status(name).started_at, "the start")
    after, seen = time.time(), time.monotonic()
    time.sleep(0.1)
    at_least_s = time.monotonic() - seen
    (tmp_path / "go").touch()
    state = machine.wait(name)
    assert state.exit is not None
    assert state.started_at is not None
    assert before <= state.started_at <= after
    # Two clocks: to a millisecond.
    assert at_least_s - 0.001 <= state.exit.ended_at - state.started_at <= time.monotonic() - asked + 0.001


def test_a_supervisor_counts_time_as_its_server_does_whatever_the_wall_clock_says(tmp_path: Path) -> None:
    machine = Machine(tmp_path)
    day_ahead = time.time() - time.clock_gettime(time.CLOCK_BOOTTIME) + 86_400
    machine.runtime._boot_at = day_ahead
    try:
        state = machine.run("true")
    finally:
        machine.shut()
    assert state.exit is not None
    assert state.started_at is not None
    assert 86_000 < state.started_at - time.time() < 86_400
    assert 0 <= state.exit.ended_at - state.started_at < EVENT_S


def test_a_job_gets_the_environment_of_its_spec_and_the_mark_and_nothing_else(machine: Machine) -> None:
    env = {**PATH, "ODD": "ä\udcff\n=", "EMPTY": ""}
    name = machine.launch("env", "-0", env=env)
    machine.wait(name)
    entries = dict(entry.split(b"=", 1) for entry in machine.log(name).split(b"\0") if entry)
    mark, _, value = machine.runtime._verifier.mark(name).partition("=")
    assert entries == {os.fsencode(k): os.fsencode(v) for k, v in {**env, mark: value}.items()}


def test_a_job_has_a_session_directory_umask_and_standard_input_of_its_own(machine: Machine, tmp_path: Path) -> None:
    script = "echo $(cut -d' ' -f6 /proc/self/stat) $$; pwd; umask; readlink /proc/self/fd/0"
    name = machine.launch("sh", "-c", script, workdir=str(tmp_path), umask=0o27)
    machine.wait(name)
    session, workdir, umask, stdin = machine.log(name).decode().splitlines()
    assert session.split()[0] == session.split()[1]
    assert (workdir, umask, stdin) == (str(tmp_path), "0027", "/dev/null")


def test_a_job_inherits_no_descriptor_and_no_signal_setting(machine: Machine) -> None:
    name = machine.launch("sh", "-c", "grep -E 'Sig(Blk|Ign)' /proc/self/status; exec ls /proc/self/fd")
    machine.wait(name)
    _, blocked, _, ignored, *descriptors = machine.log(name).decode().split()
    # The fourth is the directory that ls reads.
    assert descriptors == ["0", "1", "2", "3"]
    # Signals 32 and up belong to the C library and to whoever started these tests.
    assert [int(mask, 16) & 0x7FFFFFFF for mask in (blocked, ignored)] == [0, 0]


def test_a_job_has_a_scratch_directory(machine: Machine) -> None:
    name = machine.launch("true")
    machine.wait(name)
    assert (machine.home / "scratch" / name).stat().st_mode & 0o777 == 0o700


def test_launching_twice_runs_the_job_once(machine: Machine, tmp_path: Path) -> None:
    spec = machine.spec("sh", "-c", f"echo ran >> {tmp_path}/ran; sleep 0.1")
    for _ in range(5):
        machine.runtime.launch(spec)
    machine.wait(spec.launch_id)
    machine.runtime.launch(spec)
    # Whatever was asked for before it has been forked before it.
    machine.run("true")
    assert (tmp_path / "ran").read_text() == "ran\n"


def test_a_launch_declared_lost_never_runs(machine: Machine, tmp_path: Path) -> None:
    spec = machine.spec("touch", str(tmp_path / "ran"))
    assert machine.runtime.declare_lost(spec.launch_id, message="no answer")
    machine.runtime.launch(spec)
    machine.runtime._watcher.request(spec.launch_id)
    machine.run("true")
    until(lambda: not machine.runtime._watcher._supervisors, "the end of the one that came second to the claim")
    state = machine.runtime.status(spec.launch_id)
    assert (state.phase, state.message) == (LaunchPhase.DECLARED_LOST, "no answer")
    assert not (tmp_path / "ran").exists()
    assert machine.runtime.declare_lost(spec.launch_id)


def test_a_launch_that_runs_cannot_be_declared_lost(machine: Machine) -> None:
    name = machine.launch("sh", "-c", "echo up; sleep 60")
    machine.wait_for_log(name, "up")
    assert not machine.runtime.declare_lost(name)
    assert machine.runtime.status(name).phase == LaunchPhase.RUNNING


def held_by(sign: Path, then: str = "exit 0") -> tuple[str, ...]:
    """A job that goes on until there is this file, and then does that."""
    return ("sh", "-c", f"until [ -e {sign} ]; do sleep 0.02; done; {then}")


def removing(paths: str) -> str:
    """A shell command. Again and again, because the supervisor may be writing that it has started."""
    return f"while ls {paths} >/dev/null 2>&1; do rm -rf {paths}; done"


REMOVALS = {
    "the record": removing("launches/mine"),
    "the claim alone": "rm launches/mine/claim",
    "all": removing("launches claims"),
}


@pytest.mark.parametrize("removal", REMOVALS.values(), ids=REMOVALS.keys())
def test_a_job_that_removed_its_record_counts_as_run_and_is_ended_before_it_is_given_up(
    machine_of_each_kind: Machine, removal: str
) -> None:
    machine = machine_of_each_kind
    script = f"{removal}; echo up; sleep 60 & wait"
    name = machine.launch("sh", "-c", script, launch_id="mine", workdir=str(machine.home))
    machine.wait_for_log(name, "up")
    supervisor = machine.supervisor_of(name)
    machine.runtime.close()
    machine.start_backend()
    assert machine.runtime.status(name).phase == LaunchPhase.UNKNOWN
    assert not machine.runtime.declare_lost(name)
    state = machine.wait(name)
    assert state.phase == LaunchPhase.DEAD
    assert "removed" in state.message
    assert machine.marked(name) == []
    until(lambda: not alive(supervisor), "the end of the supervisor")
    assert machine.runtime.status(name).phase == LaunchPhase.DEAD


def test_a_job_that_removed_its_record_and_ended_counts_as_run(machine: Machine) -> None:
    name = machine.launch(
        "sh", "-c", f"{removing('launches/mine')}; echo up", launch_id="mine", workdir=str(machine.home)
    )
    machine.wait_for_log(name, "up")
    until(lambda: machine.marked(name) == [], "the end of the job")
    assert not machine.runtime.declare_lost(name)
    assert machine.wait(name).phase == LaunchPhase.DEAD


def test_a_supervisor_whose_record_was_removed_ends_what_carries_no_mark_too(tmp_path: Path) -> None:
    machine = Machine(tmp_path, use_cgroup=False)
    try:
        hidden = "env -i setsid sh -c 'echo $$ > hidden; exec sleep 60' &"
        script = f"{removing('launches/mine')}; {hidden} while ! [ -s hidden ]; do sleep 0.01; done; echo up; sleep 60"
        name = machine.launch("sh", "-c", script, launch_id="mine", workdir=str(tmp_path))
        machine.wait_for_log(name, "up")
        assert not machine.runtime.declare_lost(name, ran=True)
        assert machine.wait(name).phase == LaunchPhase.DEAD
        hidden_pid = int((tmp_path / "hidden").read_text())
        until(lambda: not alive(hidden_pid), "the end of the process without a mark")
    finally:
        machine.shut()


def test_jobs_are_launched_also_when_one_has_removed_all_records(machine: Machine) -> None:
    remover = machine.launch("sh", "-c", f"{removing('launches')}; echo done", workdir=str(machine.home))
    machine.wait_for_log(remover, "done")
    until(lambda: not machine.marked(remover), "the end of what removes")
    assert machine.run("true").phase == LaunchPhase.EXITED
    assert machine.runtime.declare_lost("never-launched")


def test_a_job_that_stopped_its_supervisor_is_ended_all_the_same(machine: Machine) -> None:
    name = machine.launch("sh", "-c", "while kill -STOP $PPID; do sleep 0.1; done", time_limit_s=60)
    until(lambda: machine.marked(name), "the job")
    until(lambda: stopped(machine.supervisor(name)), "the supervisor being stopped")
    machine.runtime.stop(name)
    state = machine.wait(name)
    assert state.exit is not None
    assert state.exit.reason == "cancelled"


def test_a_supervisor_that_ends_nothing_when_told_is_killed_with_its_job(
    machine_of_each_kind: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine = machine_of_each_kind
    monkeypatch.setattr(process_launches, "OVERDUE_S", 0.2)
    monkeypatch.setattr(watcher, "_signal", lambda *_: True)
    name = machine.launch("sh", "-c", "env -i setsid sleep 61 & echo up; sleep 60")
    machine.wait_for_log(name, "up")
    supervisor = machine.supervisor(name)
    members = procfs.descendants(supervisor)

    def is_over() -> bool:
        machine.runtime.stop(name)
        return machine.runtime.status(name).phase == LaunchPhase.DEAD

    until(is_over, "the end of the job")
    assert len(members) >= 2
    assert not any(map(alive, [supervisor, *members]))


def test_how_long_a_supervisor_has_lived_is_told_by_the_clock_of_the_boot(machine: Machine) -> None:
    before = time.monotonic()
    name = machine.launch("sleep", "60")
    machine.heard(name, LaunchPhase.RUNNING)
    age_s = machine.runtime.status(name).age_s
    assert age_s is not None
    # To a tick of the kernel's clock.
    assert -0.02 <= age_s <= time.monotonic() - before + 0.02


def test_the_end_of_a_job_whose_record_was_removed_is_news(machine: Machine) -> None:
    name = machine.launch(
        "sh", "-c", f"{removing('launches/mine')}; sleep 0.2", launch_id="mine", workdir=str(machine.home)
    )
    until(lambda: machine.events.get(timeout=EVENT_S) == name and not machine.marked(name), "news of the end")


def test_of_supervisor_and_server_exactly_one_gets_each_claim(machine: Machine, tmp_path: Path) -> None:
    specs = [machine.spec("sh", "-c", f"echo ran >> {tmp_path}/ran-{i}") for i in range(60)]
    lost: list[bool] = [False] * len(specs)

    def race(index: int) -> None:
        # Spread over the milliseconds that a launch takes, so that either side wins some.
        time.sleep(index % 12 * 0.0015)
        lost[index] = machine.runtime.declare_lost(specs[index].launch_id)

    racers = [threading.Thread(target=race, args=(index,)) for index in range(len(specs))]
    for index, racer in enumerate(racers):
        if index % 2:
            racer.start()
            machine.runtime.launch(specs[index])
        else:
            machine.runtime.launch(specs[index])
            racer.start()
    for racer in racers:
        racer.join()
    for index, spec in enumerate(specs):
        phase = machine.wait(spec.launch_id).phase
        ran = tmp_path / f"ran-{index}"
        assert (phase == LaunchPhase.DECLARED_LOST) is lost[index]
        assert (ran.read_text() if ran.exists() else "") == ("" if lost[index] else "ran\n")


def test_a_job_that_is_stopped_before_its_supervisor_exists_never_runs(machine: Machine, tmp_path: Path) -> None:
    os.kill(machine.zygote(), signal.SIGSTOP)
    name = machine.launch("touch", str(tmp_path / "ran"))
    machine.runtime.stop(name, reason="preempted")
    os.kill(machine.zygote(), signal.SIGCONT)
    state = machine.wait(name)
    assert state.exit is not None
    assert (state.exit.exit_code, state.exit.reason, state.exit.started_at) == (None, "preempted", None)
    assert not (tmp_path / "ran").exists()


def test_stopping_what_is_not_there_does_nothing(machine: Machine) -> None:
    machine.runtime.stop("a99")
    name = machine.launch("true")
    machine.wait(name)
    machine.runtime.stop(name)
    state = machine.runtime.status(name)
    assert state.exit is not None
    assert state.exit.reason is None


def test_the_time_limit_holds_while_no_server_runs(machine: Machine) -> None:
    # The job stops its supervisor, lest the limit is reached while a server still runs.
    script = "trap '' TERM; while [ ! -e go ]; do kill -STOP $PPID; sleep 0.05; done; while :; do sleep 0.05; done"
    name = machine.launch("sh", "-c", script, time_limit_s=0.3, workdir=str(machine.home))
    until(lambda: machine.marked(name), "the job")
    supervisor = machine.supervisor(name)
    until(lambda: stopped(supervisor), "the supervisor being stopped")
    machine.runtime.close()
    (machine.home / "go").touch()

    def is_over() -> bool:
        # Again, for the job may have stopped it once more.
        with contextlib.suppress(ProcessLookupError):
            os.kill(supervisor, signal.SIGCONT)
        return (machine.home / "launches" / name / "exit").exists()

    until(is_over, "the end")
    machine.start_backend()
    state = machine.wait(name)
    assert state.exit is not None
    assert (state.exit.reason, state.exit.signal) == ("timed_out", signal.SIGKILL)


def test_a_job_is_told_so_long_before_its_time_limit_if_that_is_longer(machine: Machine) -> None:
    script = "trap 'echo saved' USR1; while :; do sleep 0.05; done"
    told = machine.launch(
        "sh", "-c", script, time_limit_s=3.0, checkpoint_signal=int(signal.SIGUSR1), checkpoint_grace_s=1.5
    )
    untold = machine.launch(
        "sleep", "60", time_limit_s=0.3, checkpoint_signal=int(signal.SIGUSR1), checkpoint_grace_s=0.3
    )
    for name in (told, untold):
        state = machine.wait(name)
        assert state.exit is not None
        assert (state.exit.reason, state.exit.signal) == ("timed_out", signal.SIGTERM)
        assert state.exit.started_at is not None
        assert state.exit.ended_at - state.exit.started_at >= (3.0 if name == told else 0.3)
    assert b"saved\n" in machine.log(told)
    assert b"SIGUSR1 was sent: the job is stopped at its time limit, in" in machine.log(told)
    assert b"SIGUSR1" not in machine.log(untold)


@pytest.mark.parametrize(("target", "told"), [("B", b"up\nshell told\nchild lives\n"), ("S", b"up\nchild died\n")])
def test_the_notice_goes_to_the_main_process_alone_or_to_all_others(machine: Machine, target: str, told: bytes) -> None:
    name = machine.launch(
        *("sh", "-c", TOLD),
        time_limit_s=60.0,
        checkpoint_signal=int(signal.SIGUSR1),
        checkpoint_grace_s=59.5,
        checkpoint_target=target,
    )
    state = machine.wait(name)
    assert state.exit is not None
    assert state.exit.reason is None
    assert b"".join(line for line in machine.log(name).splitlines(keepends=True) if b"SIGUSR1" not in line) == told


def test_a_job_whose_time_is_up_by_a_new_limit_is_ended_and_no_longer_one_saves_it_then(machine: Machine) -> None:
    name = machine.launch("sh", "-c", "trap 'echo told' TERM; echo up; while :; do sleep 0.02; done", time_limit_s=3600)
    machine.wait_for_log(name, "up")
    machine.runtime.set_time_limit(name, 0.001)
    machine.wait_for_log(name, "told")
    machine.runtime.set_time_limit(name, 1800.0)
    state = machine.wait(name)
    assert state.exit is not None
    assert (state.exit.reason, state.exit.signal) == ("timed_out", signal.SIGKILL)


def test_a_longer_time_limit_counts_as_well(machine: Machine) -> None:
    name = machine.launch("sh", "-c", "echo up; until [ -e go ]; do sleep 0.02; done; exit 4", time_limit_s=2.0)
    machine.wait_for_log(name, "up")
    machine.runtime.set_time_limit(name, 3600.0)
    started_at = machine.runtime.status(name).started_at
    assert started_at is not None
    until(lambda: time.time() > started_at + 2.2, "the end of the first limit")
    assert machine.runtime.status(name).phase is LaunchPhase.RUNNING
    machine.runtime.stop(name)
    machine.wait(name)


def test_a_time_limit_that_was_given_before_the_supervisor_came_counts(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    launches: list[str] = []
    monkeypatch.setattr(watcher.Watcher, "request", lambda _, launch_id: launches.append(launch_id))
    name = machine.launch("sleep", "60", time_limit_s=3600.0)
    monkeypatch.undo()
    machine.runtime.set_time_limit(name, 0.05)
    machine.runtime._watcher.request(*launches)
    state = machine.wait(name)
    assert state.exit is not None
    assert state.exit.reason == "timed_out"


def test_a_time_limit_that_was_written_by_a_server_that_died_then_is_told_by_the_next(machine: Machine) -> None:
    name = machine.launch("sleep", "60", time_limit_s=3600.0)
    machine.heard(name, LaunchPhase.RUNNING)
    LaunchRecords(str(machine.home / "launches" / name)).set_time_limit(0.05)
    machine.runtime.close()
    machine.start_backend()
    machine.runtime.set_time_limit(name, 0.05)
    state = machine.wait(name)
    assert state.exit is not None
    assert state.exit.reason == "timed_out"


@pytest.mark.parametrize(("limit_s", "saves"), [(0.001, False), (5.0, True)])
def test_a_job_is_told_to_save_its_work_if_there_is_time_left_for_it(
    machine: Machine, limit_s: float, saves: bool
) -> None:
    script = "trap 'echo saved; exit 0' USR1; echo up; while :; do sleep 0.02; done"
    name = machine.launch(
        "sh", "-c", script, time_limit_s=3600.0, checkpoint_signal=int(signal.SIGUSR1), checkpoint_grace_s=4.999
    )
    machine.wait_for_log(name, "up")
    machine.runtime.set_time_limit(name, limit_s)
    state = machine.wait(name)
    assert state.exit is not None
    assert (b"saved\n" in machine.log(name)) is saves
    assert (state.exit.reason is None) is saves


@pytest.mark.parametrize("record", [b"", b"{}", b'{"time_limit_s": "x"}', b'{"time_limit_s": -1}', b"[" * 70_000])
def test_a_time_limit_that_makes_no_sense_is_none(machine: Machine, record: bytes) -> None:
    name = machine.launch("sleep", "60", time_limit_s=3600.0)
    machine.heard(name, LaunchPhase.RUNNING)
    (machine.home / "launches" / name / "limit").write_bytes(record)
    os.kill(machine.supervisor(name), NEWS)
    os.kill(machine.supervisor(name), signal.SIGTERM)
    state = machine.wait(name)
    assert state.exit is not None
    assert state.exit.reason == "cancelled"


def test_a_new_server_adopts_what_runs_and_learns_how_the_rest_ended(machine: Machine) -> None:
    signs = machine.home / "signs"
    waits = "while [ ! -e {}/{} ]; do sleep 0.02; done; exit {}"
    ended = machine.launch("sh", "-c", waits.format(signs, "first", 7))
    running = machine.launch("sh", "-c", "echo up; " + waits.format(signs, "second", 8))
    machine.wait_for_log(running, "up")
    machine.runtime.close()
    signs.mkdir()
    (signs / "first").touch()
    until((machine.home / "launches" / ended / "exit").exists, "the end of the first")
    machine.start_backend()
    assert machine.runtime.list_launches() == sorted([ended, running])
    state = machine.wait(ended)
    assert state.exit is not None
    assert state.exit.exit_code == 7
    assert machine.runtime.status(running).phase == LaunchPhase.RUNNING
    (signs / "second").touch()
    machine.heard(running, LaunchPhase.EXITED)
    state = machine.runtime.status(running)
    assert state.exit is not None
    assert state.exit.exit_code == 8


def test_a_supervisor_that_an_earlier_server_asked_for_is_heard_to_its_end(machine: Machine, tmp_path: Path) -> None:
    machine.run("true")
    zygote = machine.zygote()
    os.kill(zygote, signal.SIGSTOP)
    name = machine.launch(*held_by(tmp_path / "go"))
    heard: queue.Queue[str] = queue.Queue()
    later = ProcessLaunches(machine.home, log_max_bytes=9, kill_grace_s=1, on_event=heard.put)
    later.start()
    try:
        os.kill(zygote, signal.SIGCONT)
        assert heard.get(timeout=EVENT_S) == name
        assert later.status(name).phase == LaunchPhase.RUNNING
        (tmp_path / "go").touch()
        over = LaunchPhase.EXITED
        until(lambda: heard.get(timeout=EVENT_S) == name and later.status(name).phase == over, "word of the end")
    finally:
        later.close()


def test_all_that_one_look_finds_is_told_together(machine: Machine, tmp_path: Path) -> None:
    names = [machine.launch(*held_by(tmp_path / "go")) for _ in range(5)]
    until(lambda: all(machine.runtime.status(one).phase is LaunchPhase.RUNNING for one in names), "all starts")
    supervisors = [machine.supervisor(name) for name in names]
    watcher_, held, may_go_on = machine.runtime._watcher, threading.Event(), threading.Event()
    ends: list[str] = []
    known_when_told: dict[str, int] = {}
    look = watcher_._on_supervisor

    def note(name: str, ended: bool) -> bool:
        if ended:
            ends.append(name)
        return look(name, ended)

    def tell(name: str) -> None:
        held.set()
        may_go_on.wait(EVENT_S)
        known_when_told[name] = len(ends)
        machine.events.put(name)

    watcher_._on_supervisor, watcher_._on_news = note, tell
    watcher_._events.append((names[0], False))
    os.eventfd_write(watcher_._wake, 1)
    assert held.wait(EVENT_S)
    (tmp_path / "go").touch()
    until(lambda: not any(alive(supervisor) for supervisor in supervisors), "the end of all supervisors")
    may_go_on.set()
    until(lambda: known_when_told == dict.fromkeys(names, 5), "word of all ends, with all of them known")


def test_how_a_launch_exited_stays_as_it_was_first_told_until_it_is_forgotten(machine: Machine) -> None:
    name = machine.launch("sh", "-c", "exit 5")
    state = machine.wait(name)
    (machine.home / "launches" / name / "exit").write_text('{"exit_code": 0}')
    assert machine.runtime.status(name) == state
    machine.runtime.forget(name)
    assert machine.runtime.status(name).phase is LaunchPhase.UNKNOWN


def test_a_job_outlives_a_server_that_is_killed(machine: Machine, tmp_path: Path) -> None:
    machine.runtime.close()
    spec = machine.spec(*held_by(tmp_path / "go", "exit 9"))
    script = f"""
import sys, time
from pathlib import Path
from corral.host.runtimes.process.process_launches import ProcessLaunches
from corral.host.runtimes.process.records.launch_spec import LaunchSpec
runtime = ProcessLaunches(
    Path(sys.argv[1]), log_max_bytes=9, kill_grace_s=1,
    on_event=lambda name: print(runtime.status(name).phase, flush=True),
)
runtime.start()
runtime.launch({spec!r})
time.sleep(60)
"""
    command = [sys.executable, "-c", script, str(machine.home)]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert server.stdout is not None
    with server:
        assert server.stdout.readline() == "running\n"
        zygotes = Path(f"/proc/{server.pid}/task/{server.pid}/children").read_text().split()
        server.kill()
    until(lambda: not any(alive(int(pid)) for pid in zygotes), "the end of the zygote")
    assert alive(machine.supervisor(spec.launch_id))
    machine.start_backend()
    (tmp_path / "go").touch()
    state = machine.wait(spec.launch_id)
    assert state.exit is not None
    assert state.exit.exit_code == 9


def test_whatever_a_server_was_doing_when_it_was_killed_no_job_runs_twice(machine: Machine, tmp_path: Path) -> None:
    machine.runtime.close()
    ran = tmp_path / "ran"
    ran.mkdir()
    script = f"""
import sys
from pathlib import Path
from corral.host.runtimes.process.process_launches import ProcessLaunches
from corral.host.runtimes.process.records.launch_spec import LaunchSpec
home = Path(sys.argv[1])
runtime = ProcessLaunches(home, log_max_bytes=9, kill_grace_s=1, on_event=lambda name: None)
runtime.start()
print("up", flush=True)
for n in range(300):
    name = f"{{sys.argv[2]}}-{{n}}"
    argv = ("sh", "-c", f"echo ran >> {ran}/{{name}}")
    runtime.launch(LaunchSpec(name, name, argv, {{}}, "/", str(home / "logs" / name), str(home / "scratch" / name)))
    print(n, flush=True)
"""
    for turn, count in enumerate((5, 40, 80)):
        command = [sys.executable, "-c", script, str(machine.home), f"t{turn}"]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
            assert server.stdout is not None
            assert server.stdout.readline() == "up\n"
            for n in range(count):
                assert server.stdout.readline() == f"{n}\n"
            server.kill()
        machine.start_backend()
        names = machine.runtime.list_launches()
        lost = {name for name in names if machine.runtime.declare_lost(name)}
        for name in names:
            assert (machine.wait(name).phase == LaunchPhase.DECLARED_LOST) is (name in lost)
        assert {path.name for path in ran.iterdir()} == set(names) - lost
        assert all(path.read_text() == "ran\n" for path in ran.iterdir())
        machine.runtime.close()
    machine.start_backend()


def test_supervisors_that_no_descriptor_was_left_for_are_still_heard_of(machine: Machine, tmp_path: Path) -> None:
    machine.run("true")
    watcher = machine.runtime._watcher
    until(lambda: not watcher._supervisors, "the end of the first supervisor")
    os.kill(machine.zygote(), signal.SIGSTOP)
    go = tmp_path / "go"
    names = [machine.launch("sh", "-c", f"until [ -e {go} ]; do sleep 0.05; done") for _ in range(3)]
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    # Below the limit there are only the standard three, which nobody closes.
    resource.setrlimit(resource.RLIMIT_NOFILE, (3, hard))
    try:
        os.kill(machine.zygote(), signal.SIGCONT)
        until(lambda: set(names) <= set(watcher._unwatched), "three supervisors without a descriptor")
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert not watcher._supervisors
    go.touch()
    ended: list[str] = []
    while len(ended) < len(names):
        name = machine.events.get(timeout=EVENT_S)
        if name in names and name not in ended and machine.runtime.status(name).phase == LaunchPhase.EXITED:
            ended.append(name)


def test_running_jobs_do_not_notice_the_death_of_the_zygote_and_new_ones_get_another(
    machine: Machine, tmp_path: Path
) -> None:
    running = machine.launch(*held_by(tmp_path / "go", "exit 4"))
    until(lambda: machine.runtime.status(running).phase == LaunchPhase.RUNNING, "the start")
    machine.kill_zygote()
    state = machine.run("sh", "-c", "exit 5")
    assert state.exit is not None
    assert state.exit.exit_code == 5
    (tmp_path / "go").touch()
    state = machine.wait(running)
    assert state.exit is not None
    assert state.exit.exit_code == 4


def test_launches_on_their_way_when_the_zygote_dies_run_exactly_once(machine: Machine, tmp_path: Path) -> None:
    os.kill(machine.zygote(), signal.SIGSTOP)
    names = [machine.launch("sh", "-c", f"echo ran >> {tmp_path}/ran-{i}") for i in range(100)]
    os.kill(machine.zygote(), signal.SIGKILL)
    for index, name in enumerate(names):
        assert machine.wait(name).phase == LaunchPhase.EXITED
        assert (tmp_path / f"ran-{index}").read_text() == "ran\n"


def test_a_killed_zygote_in_the_middle_of_launches_loses_and_doubles_none(machine: Machine, tmp_path: Path) -> None:
    names = []
    for index in range(60):
        names.append(machine.launch("sh", "-c", f"echo ran >> {tmp_path}/ran-{index}"))
        if index in (10, 40):
            machine.kill_zygote()
    for index, name in enumerate(names):
        assert machine.wait(name).phase == LaunchPhase.EXITED
        assert (tmp_path / f"ran-{index}").read_text() == "ran\n"


def test_a_stopped_zygote_is_replaced_and_every_launch_runs_exactly_once(
    machine: Machine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine.run("true")
    monkeypatch.setattr(watcher, "ANSWER_S", 3.0)
    stopped_one = machine.zygote()
    os.kill(stopped_one, signal.SIGSTOP)
    names = [machine.launch("sh", "-c", f"echo ran >> {tmp_path}/ran-{i}") for i in range(100)]
    for name in names:
        assert machine.wait(name).phase == LaunchPhase.EXITED
    assert [(tmp_path / f"ran-{i}").read_text() for i in range(100)] == ["ran\n"] * 100
    assert not alive(stopped_one)


def test_a_zygote_that_is_stopped_holds_up_no_closing(machine: Machine) -> None:
    machine.run("true")
    zygote = machine.zygote()
    os.kill(zygote, signal.SIGSTOP)
    machine.runtime.close()
    assert not alive(zygote)


def test_a_job_whose_zygote_died_before_it_answered_is_heard_to_its_end(
    machine: Machine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine.run("true")
    watcher, first = machine.runtime._watcher, machine.zygote()
    monkeypatch.setattr(watcher._zygote, "receive", lambda: None)
    name = machine.launch(*held_by(tmp_path / "go"))
    until(lambda: machine.zygote() != first and not watcher._in_flight, "the answer of another zygote")
    until(lambda: machine.runtime.status(name).phase == LaunchPhase.RUNNING, "the start")
    launches = str(machine.home.resolve() / "launches")
    until(lambda: len(supervisors(launches).get(name, [])) == 1, "the end of the one that came second to the claim")
    with contextlib.suppress(queue.Empty):
        while True:
            machine.events.get(timeout=1.0)
    (tmp_path / "go").touch()
    machine.heard(name, LaunchPhase.EXITED)


def test_a_killed_supervisor_is_told_and_leaves_nothing_running(machine_of_each_kind: Machine) -> None:
    machine = machine_of_each_kind
    daemon = "(setsid sh -c 'sleep 60 & exec sleep 60' >/dev/null 2>&1 &)"
    name = machine.launch("sh", "-c", f"{daemon}; trap '' TERM; echo up; sleep 60")
    machine.wait_for_log(name, "up")
    until(lambda: len(machine.runtime.pids(name)) == 4, "four processes")
    pids = machine.runtime.pids(name)
    os.kill(machine.supervisor(name), signal.SIGKILL)
    machine.heard(name, LaunchPhase.DEAD)
    assert machine.runtime.status(name).exit is None
    assert not any(alive(pid) for pid in pids)
    assert machine.runtime.pids(name) == []


def test_a_server_that_comes_back_clears_up_after_a_supervisor_killed_meanwhile(machine_of_each_kind: Machine) -> None:
    machine = machine_of_each_kind
    name = machine.launch("sh", "-c", "echo up; sleep 60")
    machine.wait_for_log(name, "up")
    pids = machine.runtime.pids(name)
    machine.runtime.close()
    os.kill(machine.supervisor(name), signal.SIGKILL)
    machine.start_backend()
    assert machine.wait(name).phase == LaunchPhase.DEAD
    assert not any(alive(pid) for pid in pids)


def test_a_daemon_without_environment_is_found_by_the_cgroup_that_an_earlier_server_gave_it(machine: Machine) -> None:
    if machine.runtime.means_of_killing != "cgroup":
        pytest.skip("no cgroup v2 hierarchy here that this process may write")
    name = machine.launch("sh", "-c", "(setsid env -i sleep 60 >/dev/null 2>&1 &) ; echo up; sleep 60")
    machine.wait_for_log(name, "up")
    until(lambda: len(machine.runtime.pids(name)) == 3, "three processes")
    pids = machine.runtime.pids(name)
    machine.runtime.close()
    os.kill(machine.supervisor(name), signal.SIGKILL)
    machine.start_backend(use_cgroup=False)
    assert machine.wait(name).phase == LaunchPhase.DEAD
    assert not any(alive(pid) for pid in pids)


def test_a_start_is_told_even_when_its_notice_was_lost(machine: Machine) -> None:
    (machine.home / "notify.sock").unlink()
    name = machine.launch("sleep", "60")
    assert machine.events.get(timeout=EVENT_S) == name
    assert machine.runtime.status(name).phase == LaunchPhase.RUNNING


def test_a_launch_whose_spec_cannot_be_read_is_declared_lost(machine: Machine) -> None:
    name = "broken"
    (machine.home / "launches" / name).mkdir()
    (machine.home / "launches" / name / "spec.jsonl").write_text("{")
    machine.runtime._watcher.request(name)
    state = machine.wait(name)
    assert state.phase == LaunchPhase.DECLARED_LOST
    assert "before it claimed" in state.message


def test_only_a_launch_that_is_over_can_be_forgotten(machine: Machine) -> None:
    name = machine.launch("sleep", "60")
    until(lambda: machine.runtime.status(name).phase == LaunchPhase.RUNNING, "the start")
    with pytest.raises(LaunchError, match="still runs"):
        machine.runtime.forget(name)
    machine.runtime.stop(name)
    machine.wait(name)
    machine.runtime.forget(name)
    machine.runtime.forget(name)
    assert machine.runtime.list_launches() == []
    assert machine.runtime.status(name).phase == LaunchPhase.UNKNOWN


def test_a_home_too_deep_for_a_socket_is_a_clear_error(tmp_path: Path) -> None:
    home = tmp_path / ("x" * 100)
    runtime = ProcessLaunches(home, log_max_bytes=1, kill_grace_s=1, on_event=lambda name: None)
    with pytest.raises(LaunchError, match="shorter CORRAL_HOME"):
        runtime.start()


def test_a_closed_backend_refuses_launches(machine: Machine) -> None:
    machine.runtime.close()
    with pytest.raises(LaunchError, match="closed"):
        machine.launch("true")
    machine.start_backend()


def test_a_supervisor_notes_when_its_log_was_written_also_while_nothing_more_is(machine: Machine) -> None:
    began = time.time()
    name = machine.launch("sh", "-c", "echo early; sleep 60")
    log = str(machine.home / "logs" / f"{name}.log")
    until(lambda: written_since(log, time.time()) == len("early\n"), "the first output was noted")
    assert written_since(log, began) == 0
    machine.runtime.stop(name)
    machine.wait(name)
