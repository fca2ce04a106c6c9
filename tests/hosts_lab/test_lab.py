"""The hosts that tests make are what they are taken for: apart from each other, reached by a real sshd, and mortal."""

import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.hosts_lab.lab import Lab, lab, why_no_lab

pytestmark = pytest.mark.skipif(why_no_lab() is not None, reason=str(why_no_lab()))


@pytest.fixture(scope="module")
def two() -> Iterator[Lab]:
    """A lab with the hosts a and b, of which b has run for a day."""
    with lab() as made:
        made.add_host("a")
        made.add_host("b", booted_for_s=86_400)
        yield made


def over_ssh(made: Lab, host: str, *words: str, within_s: int = 60) -> subprocess.CompletedProcess[str]:
    options = ("-o", "BatchMode=yes", "-o", f"ConnectTimeout={within_s}")
    return made.head.run("ssh", *options, host, *words)


def test_a_host_has_a_name_an_address_files_and_processes_of_its_own(two: Lab, tmp_path: Path) -> None:
    for name, host in ((name, two.hosts[name]) for name in "ab"):
        assert over_ssh(two, name, "hostname; cat /etc/hostname").stdout == f"{name}\n{name}\n"
        assert host.address in over_ssh(two, name, "ip address").stdout
        host.ok("sh", "-c", f"echo {name} >/etc/whose")
        assert host.path("/etc/whose").read_text() == f"{name}\n"
        assert over_ssh(two, name, f"ls {tmp_path}").returncode != 0
    assert not Path("/etc/whose").exists()
    a, b = (two.hosts[name] for name in "ab")
    assert len({host.ok("cat", "/proc/sys/kernel/random/boot_id") for host in (a, b)}) == 2
    ran_s = [float(host.ok("cat", "/proc/uptime").split()[0]) for host in (a, b)]
    assert ran_s[1] - ran_s[0] == pytest.approx(86_400, abs=60)
    assert a.processes("sshd: /usr/sbin/sshd")
    (two.shared / "note").write_text("all see it")
    assert over_ssh(two, "b", f"cat {two.shared}/note").stdout == "all see it"


def test_hosts_reach_each_other_and_a_host_that_is_cut_off_reaches_nobody(two: Lab) -> None:
    a, b = (two.hosts[name] for name in "ab")
    reach = ("bash", "-c", f"exec 3<>/dev/tcp/{b.address}/22; head -c 3 <&3")
    assert a.ok("timeout", "2", *reach) == "SSH"
    b.link.cut()
    assert a.run("timeout", "1", *reach).returncode == 124
    b.link.mend()
    assert a.ok("timeout", "5", *reach) == "SSH"


def test_a_link_may_be_cut_in_one_direction_or_slow(two: Lab) -> None:
    b = two.hosts["b"]
    b.link.cut_to()
    assert over_ssh(two, "b", "true", within_s=1).returncode == 255
    b.link.cut_from()
    assert over_ssh(two, "b", "true", within_s=1).returncode == 255
    b.link.slow(0.2, 0.01)
    # The cut host's address counts as unreachable until it is asked for anew.
    until = time.monotonic() + 60
    while "No route" in over_ssh(two, "b", "true").stderr:
        assert time.monotonic() < until
    began = time.monotonic()
    assert over_ssh(two, "b", "echo there").stdout == "there\n"
    assert time.monotonic() - began > 1.0, "it takes several round trips"
    assert over_ssh(two, "b", "head -c 3000000 /dev/zero | wc -c").stdout == "3000000\n"
    b.link.mend()
    assert over_ssh(two, "b", "echo there").stdout == "there\n"


def test_a_host_that_loses_its_power_comes_back_with_its_disk_and_without_its_processes(two: Lab) -> None:
    a = two.hosts["a"]
    booted = a.ok("cat", "/proc/sys/kernel/random/boot_id")
    a.start("/var/log/sleeper", "sleep", "1234567")
    assert a.processes("sleep 1234567")
    a.ok("sh", "-c", "echo kept >/var/lib/kept; echo lost >/run/lost")
    a.kill()
    assert over_ssh(two, "a", "true", within_s=1).returncode == 255
    a.boot()
    assert over_ssh(two, "a", "cat /var/lib/kept; ls /run/lost").stdout == "kept\n"
    assert a.ok("cat", "/proc/sys/kernel/random/boot_id") != booted
    assert a.processes("sleep 1234567") == []


def test_a_changed_key_a_full_disk_a_missing_program_and_a_banner(two: Lab) -> None:
    host = two.add_host("c", disk_mib=16)
    full = host.fill_disk()
    assert "No space left" in over_ssh(two, "c", "echo more >/var/more").stderr
    full.unlink()
    assert over_ssh(two, "c", "echo more >/var/more; cat /var/more").stdout == "more\n"
    host.say_at_login("Welcome to c")
    assert over_ssh(two, "c", "echo mine").stdout == "Welcome to c\nmine\n"
    host.remove_program("python3*")
    assert "not found" in over_ssh(two, "c", "python3 -V").stderr
    host.set_shell("/bin/rbash")
    assert "restricted" in over_ssh(two, "c", "/bin/true").stderr
    host.add_user("ada", 4001)
    host.authorize(two.public_key, "ada")
    two.know("ada-at-c", host, user="ada")
    assert over_ssh(two, "ada-at-c", "id -un; pwd").stdout == "ada\n/home/ada\n"
    host.change_host_key()
    assert "REMOTE HOST IDENTIFICATION HAS CHANGED" in over_ssh(two, "c", "true").stderr


def test_nothing_is_left_of_a_lab() -> None:
    with lab() as made:
        host = made.add_host("d")
        host.start("/dev/null", "sleep", "7654321")
        first, directory = host.machine.pid, made.shared.parent
    assert not Path(f"/proc/{first}").exists()
    assert not directory.exists()
    assert "lab-" not in Path("/proc/self/mountinfo").read_text()
