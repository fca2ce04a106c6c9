"""Who is at the other end of a connection, as the kernel says."""

import os
import socket

import pytest

from corral.api.connections import far_end
from corral.api.connections.far_end import FarEnd

WAYS = {
    "IPv4": ("127.0.0.1", "127.0.0.1", socket.AF_INET, False),
    "IPv6": ("::1", "::1", socket.AF_INET6, False),
    "IPv4 at a listener of both": ("::", "127.0.0.1", socket.AF_INET, True),
    "IPv4 by a socket of IPv6": ("127.0.0.1", "::ffff:127.0.0.1", socket.AF_INET6, False),
}


def connected(way: str) -> tuple[socket.socket, socket.socket]:
    listens_on, reached_as, family, both = WAYS[way]
    listening = socket.AF_INET6 if ":" in listens_on else socket.AF_INET
    with socket.create_server((listens_on, 0), family=listening, dualstack_ipv6=both) as listener:
        far = socket.socket(family)
        far.connect((reached_as, listener.getsockname()[1]))
        near, _ = listener.accept()
    return near, far


def far_end_of(near: socket.socket) -> FarEnd:
    return FarEnd(near.getsockname()[:2], near.getpeername()[:2])


def no_netlink(*_: object) -> None:
    raise OSError


@pytest.fixture(params=["sock_diag", "the tables"])
def _source(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param == "the tables":
        monkeypatch.setattr(far_end, "_owner_by_netlink", no_netlink)


@pytest.mark.usefixtures("_source")
@pytest.mark.parametrize("way", WAYS)
def test_the_user_at_the_other_end_is_known(way: str) -> None:
    near, far = connected(way)
    with near, far:
        if os.geteuid() == 0:
            os.fchown(far.fileno(), 12345, -1)
        assert far_end_of(near).uid == (12345 if os.geteuid() == 0 else os.geteuid())
        assert far_end_of(near).on_this_machine


@pytest.mark.usefixtures("_source")
def test_who_has_left_is_nobody() -> None:
    near, far = connected("IPv4")
    with near:
        end = far_end_of(near)
        far.close()
        assert end.uid is None


def test_a_user_who_is_known_stays_so_for_the_connection() -> None:
    near, far = connected("IPv4")
    with near:
        end = far_end_of(near)
        assert end.uid == os.geteuid()
        far.close()
        assert end.uid == os.geteuid()


def test_a_socket_that_is_closed_between_two_looks_is_nobodys(monkeypatch: pytest.MonkeyPatch) -> None:
    looks = iter([far_end._Owner(0, 7), far_end._Owner(0, 0)])
    monkeypatch.setattr(far_end, "_owner", lambda *_: next(looks))
    assert FarEnd(("127.0.0.1", 1), ("127.0.0.1", 2)).uid is None


def test_a_uid_that_stands_for_strangers_is_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    near, far = connected("IPv4")
    with near, far:
        monkeypatch.setattr(far_end, "_stands_for_strangers", os.geteuid)
        assert far_end_of(near).uid is None


def test_an_address_of_another_machine_is_told_from_those_of_this() -> None:
    assert not FarEnd(("198.51.100.1", 7070), ("203.0.113.7", 40000)).on_this_machine
    assert FarEnd(("198.51.100.1", 7070), ("198.51.100.1", 40000)).on_this_machine
