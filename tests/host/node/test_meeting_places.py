"""Gangs meet at ports that are free, and that no other gang of the node has."""

import socket
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace

import pytest

from corral.host.node.launches import meeting_door
from corral.host.node.launches.meeting_door import why_not_reached
from corral.host.node.launches.meeting_places import MeetingPlaces, ports_of


@pytest.fixture
def crowd() -> Iterator[None]:
    """Sockets of other programs at ports of the kernel's choice."""
    with ExitStack() as others:
        for _ in range(400):
            others.enter_context(socket.create_server(("", 0)))
        yield


@pytest.mark.usefixtures("crowd")
def test_the_ports_above_a_meeting_port_are_free_and_given_to_no_other_gang() -> None:
    places = MeetingPlaces("127.0.0.1")
    given = [places.of(f"{number}.1") for number in range(100)]
    for number in range(100):
        places.give_over(f"{number}.1")
    ports = Counter(port for place in given for port in (*ports_of(place.port), place.srun_port))
    assert set(ports.values()) == {1}
    for port in ports:
        with socket.socket() as free:
            free.bind(("", port))


def test_a_launch_keeps_its_place_until_it_is_forgotten() -> None:
    places = MeetingPlaces("127.0.0.1")
    first = places.of("1.1")
    assert places.of("1.1") == first
    places.forget("1.1")
    assert places.of("1.1").secret != first.secret
    places.close()


def test_its_agent_answers_at_the_place_until_the_job_gets_the_port_to_bind() -> None:
    places = MeetingPlaces("127.0.0.1")
    place = places.of("1.1")
    assert [why_not_reached(place) for _ in range(3)] == [None, None, None]
    assert why_not_reached(replace(place, secret="of another gang")) == "another program or another host answers there"
    assert "Connection refused" in (why_not_reached(replace(place, port=1)) or "")
    places.give_over("1.1")
    with socket.socket() as job:
        job.bind(("", place.port))
        assert places.of("1.1") == place
        assert "Connection refused" in (why_not_reached(place) or "")


def test_an_address_that_nobody_answers_at_is_given_up_after_some_seconds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(meeting_door, "TRY_S", 0.2)
    places = MeetingPlaces("127.0.0.1")
    with socket.create_server(("127.0.0.1", 0), backlog=0) as deaf:
        place = replace(places.of("1.1"), port=deaf.getsockname()[1])
        assert why_not_reached(place) == "no answer within 0.2 s"
    places.close()
