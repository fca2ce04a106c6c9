"""The process table of this host: real processes, no pretending."""

import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace

import pytest

from corral.host.telemetry.processes import HostProcesses, read_stat


@pytest.fixture
def child() -> Iterator["subprocess.Popen[bytes]"]:
    with subprocess.Popen(["sleep", "60"]) as process:
        yield process
        process.kill()


def test_this_process_is_alive_under_its_identity() -> None:
    me = HostProcesses().identify(os.getpid())
    assert me is not None
    assert HostProcesses().alive(me)


def test_an_identity_of_another_start_or_boot_is_another_process() -> None:
    processes = HostProcesses()
    me = processes.identify(os.getpid())
    assert me is not None
    assert not processes.alive(replace(me, start_ticks=me.start_ticks + 1))
    assert not processes.alive(replace(me, boot_id="another"))


def test_a_process_that_ended_is_gone_even_before_it_is_reaped(child: "subprocess.Popen[bytes]") -> None:
    processes = HostProcesses()
    identity = processes.identify(child.pid)
    assert identity is not None
    child.kill()
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    assert not processes.alive(identity)
    assert processes.identify(child.pid) is None


def test_a_pid_that_nobody_has_has_no_identity_user_or_family() -> None:
    processes, nobody = HostProcesses(), 2**22 + 1
    assert processes.identify(nobody) is None
    assert processes.family(nobody) == frozenset()


def test_the_user_of_a_process_is_known_while_it_lives(child: "subprocess.Popen[bytes]") -> None:
    processes = HostProcesses()
    identity = processes.identify(child.pid)
    assert identity is not None
    assert processes.uid(identity) == os.getuid()
    child.kill()
    child.wait()
    assert processes.uid(identity) is None


def test_a_family_is_the_process_and_all_that_descends_from_it() -> None:
    script = "import subprocess; p = subprocess.Popen(['sleep', '60']); print(p.pid, flush=True); input(); p.kill()"
    parent = subprocess.Popen([sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    with parent:
        assert parent.stdout is not None
        grandchild = int(parent.stdout.readline())
        family = HostProcesses().family(parent.pid)
        assert {parent.pid, grandchild} <= family
        assert os.getpid() not in family
        parent.communicate("\n")


def test_a_name_with_spaces_and_parentheses_does_not_confuse_the_table() -> None:
    script = "open('/proc/self/comm', 'w').write('a) b (c'); print(1, flush=True); input()"
    process = subprocess.Popen([sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    with process:
        assert process.stdout is not None
        process.stdout.readline()
        stat = read_stat(process.pid)
        process.kill()
    assert stat is not None
    assert stat.parent_pid == os.getpid()
