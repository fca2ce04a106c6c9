"""Who is behind a process: real processes with real marks."""

import os
import pwd
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from corral.clock import ManualClock, SystemClock
from corral.model.device import DeviceProcess, DeviceSample
from corral.telemetry.attribution import Attribution, container_in

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


def joined(attribution: Attribution, *processes: DeviceProcess) -> tuple[DeviceProcess, ...]:
    (sample,) = attribution.attribute([DeviceSample("a", 0.0, processes=processes)])
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


def test_a_process_with_the_mark_of_this_home_belongs_to_the_job_it_names() -> None:
    with running(MARK) as child:
        (process,) = joined(Attribution(SystemClock(), home=HOME), DeviceProcess(child.pid))
    assert process.job_id == "17"


def test_the_mark_of_another_home_counts_nothing() -> None:
    with running(MARK | {"CORRAL_HOME": "/tmp/another"}) as child:
        (process,) = joined(Attribution(SystemClock(), home=HOME), DeviceProcess(child.pid))
    assert process.job_id is None


def test_a_process_that_scrubbed_its_environment_is_known_by_its_parent() -> None:
    script = (
        "import subprocess; p = subprocess.Popen(['sleep', '60'], env={}); print(p.pid, flush=True); input(); p.kill()"
    )
    parent = subprocess.Popen(
        [sys.executable, "-c", script], env=MARK, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    with parent:
        assert parent.stdout is not None
        (process,) = joined(Attribution(SystemClock(), home=HOME), DeviceProcess(int(parent.stdout.readline())))
        parent.communicate("\n")
    assert process.job_id == "17"


def test_corral_knows_its_own_processes_and_what_descends_from_them() -> None:
    script = "sleep 60 & echo $!; read line; kill $!"
    # The parent is not the process of the tests, which is nobody's where it is the first of its namespace.
    parent = subprocess.Popen(
        ["/bin/sh", "-c", script], env={}, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    with parent:
        assert parent.stdout is not None
        child_pid = int(parent.stdout.readline())
        for owners in ({child_pid: "5"}, {parent.pid: "5"}):
            attribution = Attribution(SystemClock(), owners=owners.copy)
            (process,) = joined(attribution, DeviceProcess(child_pid))
            assert process.job_id is None
            attribution.learn_owners()
            (process,) = joined(attribution, DeviceProcess(child_pid))
            assert process.job_id == "5"
        parent.communicate("\n")


def test_owners_are_asked_only_for_processes_without_a_mark_and_seldom() -> None:
    asked = []

    def owners() -> dict[int, str]:
        asked.append("owners")
        return {}

    clock = ManualClock()
    attribution = Attribution(clock, owners=owners, home=HOME)
    with running(MARK) as marked, running() as unmarked:
        joined(attribution, DeviceProcess(marked.pid))
        attribution.learn_owners()
        assert asked == []
        for _ in range(3):
            joined(attribution, DeviceProcess(unmarked.pid))
            attribution.learn_owners()
        assert len(asked) == 1
        clock.advance(10.0)
        attribution.learn_owners()
        assert len(asked) == 2


def test_a_process_that_has_just_been_adopted_is_no_stranger_for_the_rest_of_the_pause() -> None:
    owners: dict[int, str] = {}
    attribution = Attribution(ManualClock(), owners=owners.copy)
    with running() as child:
        joined(attribution, DeviceProcess(child.pid))
        attribution.learn_owners()
        joined(attribution, DeviceProcess(child.pid))
        owners[child.pid] = "5"
        attribution.learn_owners(("5.1",))
        (process,) = joined(attribution, DeviceProcess(child.pid))
    assert process.job_id == "5"


def test_a_pid_of_another_namespace_stays_a_bare_pid() -> None:
    stranger = DeviceProcess(2**22 + 1, 100)
    assert joined(Attribution(SystemClock()), stranger) == (stranger,)


def test_a_process_known_here_that_has_ended_is_left_out() -> None:
    attribution = Attribution(SystemClock())
    with running() as child:
        assert len(joined(attribution, DeviceProcess(child.pid))) == 1
    assert joined(attribution, DeviceProcess(child.pid)) == ()


def test_a_described_process_is_not_taken_for_the_hosts_process_of_that_pid() -> None:
    described = DeviceProcess(os.getpid(), 100, user="somebody-else")
    assert joined(Attribution(SystemClock()), described) == (described,)


def test_the_container_is_the_innermost_id_of_the_cgroup() -> None:
    outer, inner = "a" * 64, "b" * 64
    assert container_in(f"/system.slice/docker-{inner}.scope") == inner
    assert container_in(f"/kubepods/pod1/{outer}/docker/{inner}") == inner
    assert container_in("/user.slice/user-1000.slice") is None
