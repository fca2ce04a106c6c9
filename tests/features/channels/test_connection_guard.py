"""What a user's channel may reach: public addresses of others, and what the site has named."""

import json
import subprocess
import sys
from ipaddress import ip_network

import pytest

from corral.features.channels.connection_guard import forbidden, is_own_address

INSIDE = (
    "127.0.0.1", "127.8.9.1", "0.0.0.0", "10.0.0.1", "172.16.3.4", "192.168.1.1", "169.254.169.254", "100.64.0.1",
    "224.0.0.1", "255.255.255.255", "192.0.2.1", "::", "::1", "fe80::1", "fe80::1%eth0", "fd00:ec2::254", "ff02::1",
    "::ffff:127.0.0.1", "::ffff:10.0.0.1", "64:ff9b::7f00:1", "64:ff9b::a9fe:a9fe", "2002:7f00:1::", "2001:db8::1",
    "localhost", "", "2130706433", "0177.0.0.1",
)  # fmt: skip
OUTSIDE = ("1.1.1.1", "93.184.216.34", "2606:4700::1111", "::ffff:1.1.1.1", "64:ff9b::101:101")


@pytest.mark.parametrize("address", INSIDE)
def test_inner_addresses_are_refused_however_they_are_written(address: str) -> None:
    assert forbidden(address, (), lambda _: False)


@pytest.mark.parametrize("address", OUTSIDE)
def test_public_addresses_are_allowed_unless_they_are_this_machines(address: str) -> None:
    assert not forbidden(address, (), lambda _: False)
    assert forbidden(address, (), lambda _: True)


def test_a_network_that_the_site_has_named_is_allowed_and_its_neighbours_are_not() -> None:
    allowed = [ip_network("10.1.0.0/16"), ip_network("fd00::/64")]
    assert [forbidden(one, allowed, lambda _: False) for one in ("10.1.2.3", "::ffff:10.1.2.3", "fd00::7")] == [
        False
    ] * 3
    assert [forbidden(one, allowed, lambda _: False) for one in ("10.2.0.1", "fd00:1::1", "127.0.0.1")] == [True] * 3


def test_an_address_of_this_machine_is_known_without_a_list() -> None:
    assert is_own_address("127.0.0.1")
    assert not is_own_address("192.0.2.77")


TRIES = """
import json, os, socket, subprocess, sys
from corral.features.channels.connection_guard import NotAllowed, close_to_all_but
close_to_all_but([])
def outcome(call):
    try:
        call()
    except NotAllowed:
        return "refused"
    except OSError as error:
        return type(error).__name__
    return "done"
udp = lambda: socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
print(json.dumps({
    "tcp": outcome(lambda: socket.create_connection(("127.0.0.1", 9), 1)),
    "name": outcome(lambda: socket.socket().connect(("localhost", 9))),
    "connect_ex": outcome(lambda: socket.socket().connect_ex(("127.0.0.1", 9))),
    "unix": outcome(lambda: socket.socket(socket.AF_UNIX).connect("/nowhere")),
    "datagram": outcome(lambda: udp().sendto(b"x", ("127.0.0.1", 9))),
    "message": outcome(lambda: udp().sendmsg([b"x"], [], 0, ("127.0.0.1", 9))),
    "bind": outcome(lambda: socket.socket().bind(("127.0.0.1", 0))),
    "popen": outcome(lambda: subprocess.Popen(["true"])),
    "system": outcome(lambda: os.system("true")),
    "fork": outcome(os.fork),
    "spawn": outcome(lambda: os.posix_spawn("/bin/true", ["true"], {})),
    "read": outcome(lambda: open("/etc/passwd")),
    "up": outcome(lambda: open(sys.prefix + "/../../../etc/passwd")),
    "write": outcome(lambda: open("/tmp/corral-channel", "w")),
    "os.open": outcome(lambda: os.open("/etc/shadow", os.O_RDONLY)),
    "remove": outcome(lambda: os.remove("/tmp/corral-channel")),
    "own code": outcome(lambda: open(json.__file__)),
}))
"""


def test_a_guarded_process_reaches_no_inner_address_runs_nothing_and_reads_only_its_own_code() -> None:
    done = subprocess.run([sys.executable, "-c", TRIES], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found.pop("own code") == "done"
    assert set(found.values()) == {"refused"}, found
