"""What a client makes of a stream of events that no server of ours would send."""

from pathlib import Path

import pytest

from corral.client import Client, events
from corral.core.model.errors import CorralError
from tests.client.conftest import Script
from tests.client.test_transport import NESTED

HELLO = b'id: 7\ndata: {"id": 7, "at": 1.0, "topic": "hello", "what": "hello"}\n\n'


@pytest.mark.parametrize(
    "told",
    [
        b"id: many\ndata: {}",
        b"id: " + b"9" * 5_000 + b"\ndata: {}",
        b"data: no JSON",
        b"data: " + NESTED,
        b"data: []",
        b"data: 5",
        b"data: {}",
        b"data: \xff",
        b'data: {"topic": "jobs", "what": "ended", "rows": [5]}',
        b"data: " + b"long " * 200,
    ],
)
def test_what_is_no_event_is_told_as_such(home: Path, script: Script, told: bytes) -> None:
    script.answers["GET /events"] = (200, HELLO + told + b"\n\n")
    with Client(home) as client:
        following = client.events()
        assert next(following).topic == "hello"
        with pytest.raises(CorralError, match="something that is not an event") as raised:
            next(following)
    assert len(str(raised.value)) < 400


def test_an_event_without_an_end_is_not_read_for_ever(
    home: Path, script: Script, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(events, "MOST_EVENT_BYTES", 1 << 20)
    script.answers["GET /events"] = (200, HELLO + b"data: " + b"a" * (2 << 20))
    with Client(home) as client:
        following = client.events()
        assert next(following).topic == "hello"
        with pytest.raises(CorralError, match="an event of more than 1 MiB"):
            next(following)
