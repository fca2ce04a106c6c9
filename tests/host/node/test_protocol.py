"""What the port names goes over a socket and comes out as it was."""

import json
import socket
import struct
import threading
import time
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from corral.core.model.errors import BackendFailed, CorralError, Forbidden, NodeUnreachable, Refused
from corral.host.node.agent_calls import METHODS
from corral.host.node.protocol import MAX_FRAME_BYTES, BadFrame, Closed, error_of, plain_error, receive, send
from corral.wire import MAX_FLOAT, MAX_INTEGER, from_plain, to_plain

st.register_type_strategy(float, st.floats(-MAX_FLOAT, MAX_FLOAT))
st.register_type_strategy(int, st.integers(-MAX_INTEGER, MAX_INTEGER))

KINDS = {
    f"{method} {what}": kind
    for method in METHODS.values()
    for what, kind in (*method.parameters.items(), ("result", method.result))
    if kind is not type(None) and "FileFinding" not in str(kind)
}


@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)
@settings(max_examples=3)
@given(data=st.data())
def test_every_argument_and_result_survives(kind: Any, data: st.DataObject) -> None:
    value = data.draw(st.from_type(kind))
    assert from_plain(kind, json.loads(json.dumps(to_plain(value)))) == value


class OfThisSideAlone(Forbidden):
    """A class that the other side does not know."""


@pytest.mark.parametrize(
    ("error", "heard"),
    [
        (Refused("no", field="name"), Refused("no", field="name")),
        (NodeUnreachable("gone"), NodeUnreachable("gone")),
        (OfThisSideAlone("not you"), Forbidden("not you")),
    ],
)
def test_an_error_is_heard_as_the_nearest_class_that_both_sides_know(error: CorralError, heard: CorralError) -> None:
    told = error_of(json.loads(json.dumps(plain_error(error))))
    assert (type(told), str(told), vars(told)) == (type(heard), str(heard), vars(heard))


def test_an_error_of_an_unknown_class_is_a_failure_of_the_host() -> None:
    assert type(error_of({"error": "OutOfCheese", "message": "no"})) is BackendFailed


@pytest.fixture
def pair() -> Any:
    mine, theirs = socket.socketpair()
    with mine, theirs:
        yield mine, theirs


def test_a_frame_that_comes_in_pieces_is_one_message(pair: tuple[socket.socket, socket.socket]) -> None:
    mine, theirs = pair
    data = json.dumps({"result": "x" * 300_000}).encode()

    def dribble() -> None:
        for piece in (struct.pack(">I", len(data))[:2], struct.pack(">I", len(data))[2:], data[:7], data[7:]):
            theirs.sendall(piece)

    threading.Thread(target=dribble, daemon=True).start()
    assert receive(mine)["result"] == "x" * 300_000


def test_a_frame_that_breaks_off_is_bad_and_an_end_between_frames_is_none(
    pair: tuple[socket.socket, socket.socket],
) -> None:
    mine, theirs = pair
    send(theirs, {"result": None})
    theirs.sendall(struct.pack(">I", 10) + b"half")
    theirs.shutdown(socket.SHUT_WR)
    assert receive(mine) == {"result": None}
    with pytest.raises(BadFrame, match="breaks off"):
        receive(mine)
    with pytest.raises(Closed):
        receive(mine)


def test_nobody_waits_beyond_the_deadline(pair: tuple[socket.socket, socket.socket]) -> None:
    mine, theirs = pair
    theirs.sendall(b"\0\0")
    with pytest.raises(TimeoutError):
        receive(mine, time.monotonic() + 0.05)
    with pytest.raises(TimeoutError):
        send(mine, {"result": "x" * 10_000_000}, time.monotonic() + 0.05)


def test_what_is_too_large_is_not_sent(pair: tuple[socket.socket, socket.socket]) -> None:
    with pytest.raises(BadFrame, match="larger than"):
        send(pair[0], {"result": "x" * MAX_FRAME_BYTES})
