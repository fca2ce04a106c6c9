"""A Unix socket is for all users: whoever connects in a loop is turned away, and nobody else."""

import asyncio
import os
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from corral.api.connections.unix_acceptor import CONNECTIONS_PER_S, MOST_AT_ONCE, ConnectRates, UnixAcceptor


class Greeting(asyncio.Protocol):
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        transport.write(b"welcome")
        transport.close()


class Turnstile(ConnectRates):
    """Lets in as many as there are places."""

    places = 0

    def may(self, uid: int) -> bool:
        assert uid == os.geteuid()
        self.places -= 1
        return self.places >= 0


@pytest.fixture
def listener(tmp_path: Path) -> Iterator[socket.socket]:
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / "socket"))
        yield listener


async def heard(listener: socket.socket) -> bytes:
    reader, writer = await asyncio.open_unix_connection(listener.getsockname())
    try:
        return await reader.read()
    finally:
        writer.close()


def test_a_user_connects_so_often_at_once_and_then_so_often_a_second() -> None:
    now_s = [0.0]
    rates = ConnectRates(lambda: now_s[0])
    assert sum(rates.may(1) for _ in range(2 * MOST_AT_ONCE)) == MOST_AT_ONCE
    assert rates.may(2), "others are not concerned"
    now_s[0] += 1.0
    assert sum(rates.may(1) for _ in range(MOST_AT_ONCE)) == CONNECTIONS_PER_S
    now_s[0] += 3600.0
    assert sum(rates.may(1) for _ in range(2 * MOST_AT_ONCE)) == MOST_AT_ONCE


def test_who_connects_too_often_hears_an_end_and_others_are_served(listener: socket.socket) -> None:
    async def connect() -> list[bytes]:
        rates = Turnstile()
        acceptor = UnixAcceptor(listener, Greeting, 10, rates=rates, free=frozenset())
        rates.places = 2
        said = [await heard(listener) for _ in range(3)]
        acceptor.close()
        return said

    assert asyncio.run(connect()) == [b"welcome", b"welcome", b""]


def test_root_and_the_servers_own_user_are_never_turned_away(listener: socket.socket) -> None:
    async def connect() -> bytes:
        acceptor = UnixAcceptor(listener, Greeting, 10, rates=Turnstile())
        said = await heard(listener)
        acceptor.close()
        return said

    assert asyncio.run(connect()) == b"welcome"
