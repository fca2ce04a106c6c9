"""Who is behind a process: real processes with real marks."""

import os
import pwd
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from corral.clock import ManualClock, SystemClock
from corral.core.model.devices.device import SERVICE, ContainerOfOthers, DeviceProcess, DeviceSample
from corral.core.model.jobs.job import ProcessIdentity
from corral.core.model.runs.launch import Lineage, Origin
from corral.host.telemetry import attribution, process_memory, processes
from corral.host.telemetry.attribution import Attribution, container_in
from corral.host.telemetry.processes import HostProcesses

HOME = "/tmp/home"
MARK = {"CORRAL_JOB_ID": "17", "CORRAL_HOME": HOME}


@contextmanager
def running(env: dict[str, str] | None = None) -> Iterator["subprocess.Popen[bytes]"]:
    environment = {"PATH": os.environ["PATH"], **(env or {})}
    with subprocess.Popen(["sleep", "60"], env=environment) as process:
        # Until it has executed, the child shows the environment of its parent.
        while b"sleep" not in Path(f"/proc/{process.pid}/cmdline").read_bytes():
            time.sleep(0.001)
        yield process
        process.kill()


def joined(join: Attribution, *on_device: DeviceProcess) -> tuple[DeviceProcess, ...]:
    (sample,) = join.attribute([DeviceSample("a", 0.0, processes=on_device)])
    assert sample.processes is not None
    return sample.processes


def test_a_process_is_joined_to_its_user_command_and_start() -> None:
    with running() as child:
        (process,) = joined(Attribution(SystemClock()), DeviceProcess(child.pid, 100))
    assert process.user == pwd.getpwuid(os.getuid()).pw_name
    assert process.command == "sleep 60"
    assert process.memory_mib == 100
    assert process.started_at is not None
    assert abs(process.started_at - time.time()) < 30


def origin(job_id: str, root: int | None = None, **more: Any) -> Origin:
    """A job that is known by its root, or by its cgroup, or by its user and mark."""
    lineage = Lineage(None if root is None else HostProcesses().identify(root), more.pop("adopts", False))
    return Origin(job_id, replace(lineage, cgroup=more.pop("cgroup", None)), **more)


def job_of(pid: int, *origins: Origin) -> str | None:
    (process,) = joined(Attribution(SystemClock(), origins=lambda: origins, home=HOME), DeviceProcess(pid))
    return process.job_id


@contextmanager
def family(script: str = "sleep 60", env: dict[str, str] | None = None) -> Iterator[tuple[int, int]]:
    """A process and its child, which executes `script`: what a supervisor and its job are to each other."""
    line = f"{script} & echo $!; read line; kill $!"
    parent = subprocess.Popen(
        ["/bin/sh", "-c", line], env=env or {}, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    with parent:
        assert parent.stdout is not None
        yield parent.pid, int(parent.stdout.readline())
        parent.communicate("\n")


def test_a_process_belongs_to_the_job_that_it_descends_from() -> None:
    with family() as (parent, child):
        assert job_of(child, origin("5", parent)) == "5"
        assert job_of(child, origin("5", child)) == "5"
        assert job_of(child) is None


def test_a_process_that_wears_the_mark_of_another_job_is_of_the_one_it_descends_from() -> None:
    with family(env=MARK) as (parent, child):
        for uid in (None, os.getuid()):
            assert job_of(child, origin("17", uid=uid), origin("5", parent, adopts=True)) == "5"


def test_a_pid_that_was_another_process_when_it_was_noted_is_no_root() -> None:
    with family() as (parent, child):
        noted = origin("5", parent)
        assert noted.lineage.root is not None
        before = replace(noted.lineage.root, start_ticks=noted.lineage.root.start_ticks - 1)
        assert job_of(child, Origin("5", Lineage(before))) is None


def test_of_nested_jobs_the_nearest_counts() -> None:
    with family() as (parent, child):
        assert job_of(child, origin("5", parent), origin("6", child)) == "6"


def test_a_mark_is_believed_of_the_jobs_own_user_alone() -> None:
    with running(MARK) as child:
        assert job_of(child.pid, origin("17", uid=os.getuid())) == "17"
        assert job_of(child.pid, origin("17", uid=os.getuid() + 1)) is None
        assert job_of(child.pid, origin("17", uid=None)) is None
        assert job_of(child.pid) is None


def test_a_mark_is_not_believed_while_the_job_has_a_supervisor_that_would_have_the_process_below_it() -> None:
    with running() as supervisor, running(MARK) as child:
        job = origin("17", supervisor.pid, adopts=True, uid=os.getuid())
        assert job_of(child.pid, job) is None
        supervisor.kill()
        supervisor.wait()
        assert job_of(child.pid, job) == "17"


def test_the_mark_of_another_home_counts_nothing() -> None:
    with running(MARK | {"CORRAL_HOME": "/tmp/another"}) as child:
        assert job_of(child.pid, origin("17", uid=os.getuid())) is None


def test_what_a_marked_process_started_without_its_environment_is_known_by_it() -> None:
    with family("env -i sleep 60", env=MARK) as (_, child):
        assert job_of(child, origin("17", uid=os.getuid())) == "17"


@pytest.fixture
def table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[int, int, str], None]:
    """A process table to which processes are added: pid, parent, cgroup."""
    for module in (attribution, process_memory, processes):
        monkeypatch.setattr(module, "PROC", tmp_path)

    def add(pid: int, parent: int, cgroup: str) -> None:
        (tmp_path / str(pid)).mkdir()
        numbers = [str(parent), *("0" * 17), "7"]
        (tmp_path / str(pid) / "stat").write_text(f"{pid} (a b) c) S {' '.join(numbers)} 0 0")
        (tmp_path / str(pid) / "cgroup").write_text(f"4:memory:/elsewhere\n0::{cgroup}\n")

    return add


def test_a_process_is_of_the_job_in_whose_cgroup_it_is_unless_it_descends_from_another(
    table: Callable[[int, int, str], None],
) -> None:
    table(100, 1, "/")
    table(200, 100, "/corral/5.1")
    table(201, 100, "/corral/5.1/of/its/own")
    table(202, 100, "/corral/5.10")
    job = origin("5", cgroup="/corral/5.1")
    assert [job_of(pid, job) for pid in (200, 201, 202, 100)] == ["5", "5", None, None]
    assert job_of(200, job, Origin("6", Lineage(ProcessIdentity(100, 7, "")))) == "6"


def is_of(process: Path, uid: int, mark: dict[str, str]) -> None:
    """Say whose process this is, and what is in its environment."""
    (process / "status").write_text(f"Name:\tx\nUid:\t{uid}\t{uid}\t{uid}\t{uid}\n")
    (process / "environ").write_text("\0".join(f"{name}={value}" for name, value in mark.items()))


@pytest.fixture
def hang(tmp_path: Path) -> Iterator[Callable[[int, str], Path]]:
    """Have a look at a file of a process never end: pid, name of the file. All end with the test."""
    pipes: list[Path] = []

    def make(pid: int, name: str) -> Path:
        pipe = tmp_path / str(pid) / name
        pipe.unlink(missing_ok=True)
        os.mkfifo(pipe)
        pipes.append(pipe)
        return pipe

    yield make
    for pipe in pipes:
        os.close(os.open(pipe, os.O_RDWR | os.O_NONBLOCK))


@pytest.mark.parametrize("name", ["cmdline", "environ"])
def test_a_process_whose_memory_never_answers_is_of_its_job_all_the_same(
    name: str, table: Callable[[int, int, str], None], hang: Callable[[int, str], Path]
) -> None:
    table(100, 1, "/")
    table(200, 100, "/")
    table(300, 1, "/corral/6.1")
    for pid in (100, 200, 300):
        hang(pid, name)
    jobs = (Origin("5", Lineage(ProcessIdentity(100, 7, ""))), origin("6", cgroup="/corral/6.1"))
    join = Attribution(SystemClock(), origins=lambda: jobs)
    for _ in range(2):
        assert [one.job_id for one in joined(join, DeviceProcess(200), DeviceProcess(300))] == ["5", "6"]


def test_one_user_whose_processes_never_answer_keeps_nobody_elses_from_being_known(
    table: Callable[[int, int, str], None], hang: Callable[[int, str], Path], tmp_path: Path
) -> None:
    for pid in range(200, 212):
        table(pid, 1, "/")
        is_of(tmp_path / str(pid), 1001, {})
        hang(pid, "cmdline")
    table(300, 1, "/")
    is_of(tmp_path / "300", 1002, MARK)
    (tmp_path / "300" / "cmdline").write_bytes(b"train\0--fast")
    join = Attribution(SystemClock(), origins=lambda: (origin("17", uid=1002),), home=HOME)
    began = time.monotonic()
    for _ in range(3):
        *_, known = joined(join, *map(DeviceProcess, (*range(200, 212), 300)))
        assert (known.job_id, known.command) == ("17", "train --fast")
    assert time.monotonic() - began < 10.0, "each look waits for each of them"


def test_a_process_that_answered_late_is_known_by_what_it_answered(
    table: Callable[[int, int, str], None], hang: Callable[[int, str], Path], tmp_path: Path
) -> None:
    table(200, 1, "/")
    is_of(tmp_path / "200", 1001, MARK)
    (tmp_path / "200" / "comm").write_text("short\n")
    pipe = hang(200, "cmdline")
    join = Attribution(SystemClock(), origins=lambda: (origin("17", uid=1001),), home=HOME)
    (first,) = joined(join, DeviceProcess(200))
    assert (first.job_id, first.command) == (None, "short")
    pipe.write_bytes(b"train\0--slow")
    deadline = time.monotonic() + 60.0
    while (found := joined(join, DeviceProcess(200))[0]).job_id is None and time.monotonic() < deadline:
        time.sleep(0.01)
    assert (found.job_id, found.command) == ("17", "train --slow")


def test_a_container_of_others_is_named_unless_a_user_may_have_called_a_cgroup_so(
    table: Callable[[int, int, str], None], tmp_path: Path
) -> None:
    container, job = "ab" * 32, origin("5", cgroup="/corral/5.1")
    for pid, own in ((200, "/"), (201, "/"), (202, "/corral/5.1")):
        table(pid, 1, own)
    for pid, parent in ((200, "/docker"), (201, "/user.slice/user-7.slice"), (202, "/docker")):
        cgroups = tmp_path / str(pid) / "cgroup"
        cgroups.write_text(f"4:memory:{parent}/{container}\n{cgroups.read_text()}")
    theirs = ContainerOfOthers("theirs", "repo/train:1")
    join = Attribution(SystemClock(), origins=lambda: (job,), container_named=lambda _: theirs)
    found = joined(join, DeviceProcess(200), DeviceProcess(201), DeviceProcess(202))
    assert [one.runs_in for one in found] == [theirs, None, None]


def test_what_serves_all_jobs_is_known_by_its_descent_and_a_job_cannot_call_itself_that() -> None:
    with family(env=MARK | {"CORRAL_JOB_ID": SERVICE}) as (parent, child):
        assert job_of(child) is None
        assert job_of(child, origin("5", parent)) == "5"
        assert job_of(child, origin(SERVICE, parent)) == SERVICE
        # A job may write a pid where that of the service is looked for.
        assert job_of(child, origin("5", parent), origin(SERVICE, child)) == "5"


def test_who_is_asked_for_jobs_is_asked_once_a_look_and_never_for_devices_that_nobody_uses() -> None:
    asked = []

    def origins() -> tuple[Origin, ...]:
        asked.append("origins")
        return ()

    join = Attribution(ManualClock(), origins=origins)
    with running() as one, running() as other:
        joined(join, DeviceProcess(one.pid), DeviceProcess(other.pid))
        assert len(asked) == 1
        join.attribute([DeviceSample("a", 0.0, processes=())])
        assert len(asked) == 1


def test_a_pid_of_another_namespace_stays_a_bare_pid() -> None:
    stranger = DeviceProcess(2**22 + 1, 100)
    assert joined(Attribution(SystemClock()), stranger) == (stranger,)


def test_a_process_known_here_that_has_ended_is_left_out() -> None:
    join = Attribution(SystemClock())
    with running() as child:
        assert len(joined(join, DeviceProcess(child.pid))) == 1
    assert joined(join, DeviceProcess(child.pid)) == ()


def test_a_described_process_is_not_taken_for_the_hosts_process_of_that_pid() -> None:
    described = DeviceProcess(os.getpid(), 100, user="somebody-else")
    assert joined(Attribution(SystemClock()), described) == (described,)


def test_the_container_is_the_innermost_id_of_the_cgroup() -> None:
    outer, inner = "a" * 64, "b" * 64
    assert container_in(f"/system.slice/docker-{inner}.scope") == inner
    assert container_in(f"/kubepods/pod1/{outer}/docker/{inner}") == inner
    assert container_in("/user.slice/user-1000.slice") is None
