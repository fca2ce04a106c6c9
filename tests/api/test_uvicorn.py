"""What Corral leans on of uvicorn's internals: pyproject.toml allows the versions for which it holds, and no others."""

import asyncio
import inspect
import socket
import tomllib
from collections.abc import Callable, Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest
import uvicorn
from packaging.requirements import Requirement
from starlette.types import Receive, Scope, Send
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
from uvicorn.protocols.websockets.wsproto_impl import WSProtocol
from uvicorn.server import ServerState

from corral.api.connections.peer import PeerProtocol
from corral.api.connections.socket_protocol import EventSocketProtocol
from corral.api.server import _Server

PYPROJECT = Path(__file__).parents[2] / "pyproject.toml"
GET = b"GET / HTTP/1.1\r\nhost: x\r\n\r\n"

HTTP_METHODS = [
    "connection_made",
    "connection_lost",
    "pause_writing",
    "resume_writing",
    "send_400_response",
    "handle_websocket_upgrade",
    "on_message_begin",
    "on_header",
    "on_headers_complete",
    "on_body",
    "on_message_complete",
    "on_response_complete",
]
SERVER_METHODS = ["capture_signals", "main_loop", "shutdown", "startup"]
SOCKET_METHODS = ["connection_lost", "connection_made"]

ATTRIBUTES: dict[type, list[str]] = {
    HttpToolsProtocol: [
        "app",
        "app_state",
        "client",
        "connections",
        "cycle",
        "flow",
        "headers",
        "loop",
        "parser",
        "pipeline",
        "scheme",
        "scope",
        "transport",
    ],
    WSProtocol: ["app_state", "loop", "scope", "transport", "writable"],
}
"""What is read or set from outside of the class that makes it."""


@pytest.fixture
def loop() -> Iterator[asyncio.AbstractEventLoop]:
    made = asyncio.new_event_loop()
    yield made
    made.close()


class Wire(asyncio.Transport):
    """A connection that keeps what is written to it."""

    def __init__(self) -> None:
        super().__init__()
        self.written = b""
        self.is_read = True
        self.closed = False

    def write(self, data: Any) -> None:
        self.written += data

    def pause_reading(self) -> None:
        self.is_read = False

    def resume_reading(self) -> None:
        self.is_read = True

    def is_closing(self) -> bool:
        return self.closed

    def close(self) -> None:
        self.closed = True

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        self.protocol = protocol


async def hello(scope: Scope, receive: Receive, send: Send) -> None:
    await receive()
    await send({"type": "http.response.start", "status": 204})
    await send({"type": "http.response.body"})


def made_by(protocol: type, loop: asyncio.AbstractEventLoop, **state: Any) -> Any:
    config = uvicorn.Config(hello, lifespan="off", log_config=None, ws=WSProtocol)
    return protocol(config=config, server_state=ServerState(), app_state=state, _loop=loop)


def connected(
    loop: asyncio.AbstractEventLoop, protocol: type = HttpToolsProtocol, **state: Any
) -> tuple[HttpToolsProtocol, Wire]:
    made, wire = made_by(protocol, loop, **state), Wire()
    made.connection_made(wire)
    return made, wire


def answer_all(loop: asyncio.AbstractEventLoop, protocol: HttpToolsProtocol) -> None:
    while protocol.tasks:
        loop.run_until_complete(asyncio.gather(*protocol.tasks))


def test_the_version_is_one_that_the_package_allows_and_no_other_minor_version_is() -> None:
    extras = tomllib.loads(PYPROJECT.read_text())["project"]["optional-dependencies"]
    (asked,) = (one for one in map(Requirement, extras["server"]) if one.name == "uvicorn")
    major, minor, _ = map(int, version("uvicorn").split("."))
    assert asked.specifier.contains(version("uvicorn"))
    assert not asked.specifier.contains(f"{major}.{minor + 1}.0")
    assert not asked.specifier.contains(f"{major}.{minor - 1}.99")


@pytest.mark.parametrize(
    ("ours", "theirs", "names"),
    [
        (PeerProtocol, HttpToolsProtocol, HTTP_METHODS),
        (_Server, uvicorn.Server, SERVER_METHODS),
        (EventSocketProtocol, WSProtocol, SOCKET_METHODS),
    ],
)
def test_what_is_overridden_is_there_and_takes_what_it_took(ours: type, theirs: type, names: list[str]) -> None:
    shared = {name for name in vars(ours) if name in vars(theirs) and not name.startswith("__")}
    assert shared == set(names)
    for name in names:
        parameters = [list(inspect.signature(vars(one)[name]).parameters) for one in (ours, theirs)]
        assert parameters[0] == parameters[1], name


def test_what_is_called_of_it_is_there() -> None:
    for name in ("data_received", "timeout_keep_alive_handler", "_unset_keepalive_if_required", "shutdown"):
        assert callable(getattr(HttpToolsProtocol, name)), name


@pytest.mark.parametrize("protocol", [HttpToolsProtocol, WSProtocol])
def test_a_connection_has_the_attributes_that_are_read_and_set(protocol: type, loop: asyncio.AbstractEventLoop) -> None:
    made = made_by(protocol, loop)
    made.connection_made(Wire())
    missing = [name for name in ATTRIBUTES[protocol] if not hasattr(made, name) and name != "scope"]
    assert missing == []


def test_the_state_of_a_connection_is_copied_into_each_request(loop: asyncio.AbstractEventLoop) -> None:
    protocol, _ = connected(loop, peer="somebody")
    protocol.data_received(GET)
    assert protocol.scope["state"] == {"peer": "somebody"}
    assert protocol.scope["state"] is not protocol.app_state
    answer_all(loop, protocol)


def test_one_request_is_answered_at_a_time_and_the_next_wait_parsed_without_more_being_read(
    loop: asyncio.AbstractEventLoop,
) -> None:
    protocol, wire = connected(loop)
    protocol.data_received(GET * 3)
    assert (len(protocol.tasks), len(protocol.pipeline), wire.is_read) == (1, 2, False)
    answer_all(loop, protocol)
    assert wire.written.count(b"HTTP/1.1 204 ") == 3
    assert (len(protocol.pipeline), wire.is_read, protocol.cycle.response_complete) == (0, True, True)
    assert protocol.timeout_keep_alive_task is not None


def test_a_request_says_whether_its_body_is_still_coming_and_takes_an_end_of_the_connection(
    loop: asyncio.AbstractEventLoop,
) -> None:
    protocol, wire = connected(loop)
    protocol.data_received(b"POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 2\r\n\r\n{")
    assert protocol.cycle.more_body
    protocol.data_received(b"}")
    assert not protocol.cycle.more_body
    protocol.cycle.keep_alive = False
    answer_all(loop, protocol)
    assert b"connection: close" in wire.written
    assert wire.closed


def test_what_a_callback_of_the_parser_raises_ends_in_the_answer_400(loop: asyncio.AbstractEventLoop) -> None:
    told: list[str] = []

    class Strict(HttpToolsProtocol):
        def on_header(self, name: bytes, value: bytes) -> None:
            raise ValueError

        def send_400_response(self, msg: str) -> None:
            told.append(msg)

    connected(loop, Strict)[0].data_received(GET)
    assert len(told) == 1


def test_a_connection_that_becomes_a_websocket_is_handed_over_with_its_state(loop: asyncio.AbstractEventLoop) -> None:
    handed: list[dict[str, Any]] = []

    class Taken(asyncio.Protocol):
        def __init__(self, **given: Any) -> None:
            handed.append(given)

        def data_received(self, data: bytes) -> None:
            assert data.startswith(b"GET / HTTP/1.1\r\n")

    protocol, wire = connected(loop, left="called at its end")
    protocol.ws_protocol_class = Taken
    protocol.data_received(GET[:-2] + b"connection: upgrade\r\nupgrade: websocket\r\n\r\n")
    assert [one["app_state"] for one in handed] == [{"left": "called at its end"}]
    assert set(handed[0]) == {"config", "server_state", "app_state"}
    assert isinstance(wire.protocol, Taken)
    assert protocol not in protocol.connections


def test_a_websocket_that_is_let_write_on_waits_for_its_client_no_longer(loop: asyncio.AbstractEventLoop) -> None:
    protocol = made_by(WSProtocol, loop)
    protocol.connection_made(Wire())
    protocol.pause_writing()
    assert not protocol.writable.is_set()
    protocol.writable.set()
    loop.run_until_complete(asyncio.wait_for(protocol.writable.wait(), 1))


def test_a_server_starts_then_loops_then_shuts_down_and_signals_are_taken_around_it() -> None:
    steps: list[str] = []

    def noted(name: str) -> Callable[..., Any]:
        async def step(self: Any, sockets: Any = None) -> None:
            steps.append(name)
            if name == "startup":
                await uvicorn.Server.startup(self, sockets)
                assert (self.servers[0].is_serving(), self.lifespan.state) == (True, {})
                assert self.server_state.connections == set()
            elif name == "shutdown":
                await uvicorn.Server.shutdown(self, sockets)

        return step

    own = type("Own", (uvicorn.Server,), {name: noted(name) for name in ("startup", "main_loop", "shutdown")})
    with socket.create_server(("127.0.0.1", 0)) as listener:
        own(uvicorn.Config(hello, lifespan="off", log_config=None)).run([listener])
    assert steps == ["startup", "main_loop", "shutdown"]
