"""What is to be sent outlives the server, is sent once, and is nobody else's to read."""

import math
import os
import sqlite3
import stat
from pathlib import Path

import pytest

from corral.core.model.errors import BackendFailed
from corral.features.channels.channel_process import Outgoing
from corral.features.channels.outbox import SENT_KEPT_S, Outbox, UserChannel, Waiting

URL = "jsons://host.example/path"


def message(number: int, at: float = 1.0) -> Waiting:
    return Waiting(Outgoing(str(number), "title", "böse\n", "info", {"value": None, "labels": {"gpu": "1"}}), at)


@pytest.fixture
def outbox(tmp_path: Path) -> Outbox:
    return Outbox(tmp_path / "deliveries.db")


def again(outbox: Outbox) -> Outbox:
    """As the next server finds it; the first may have been killed."""
    return Outbox(outbox._path)


def test_what_was_taken_waits_in_its_order_until_it_was_sent_or_dropped(outbox: Outbox) -> None:
    messages = [message(number) for number in range(4)]
    assert outbox.take("ops", messages) == messages
    outbox.take("mail", messages[:1])
    outbox.sent("ops", ["1"], 2.0)
    outbox.drop("ops", ["2"])
    assert again(outbox).waiting("ops") == [messages[0], messages[3]]
    assert again(outbox).channels() == ["mail", "ops"]


def test_what_waits_or_was_sent_is_not_taken_again_for_as_long_as_that_is_remembered(outbox: Outbox) -> None:
    outbox.take("ops", [message(1), message(2)])
    outbox.sent("ops", ["1"], 2.0)
    assert again(outbox).take("ops", [message(1), message(2), message(3)]) == [message(3)]
    assert outbox.take("mail", [message(1)]) == [message(1)]
    outbox.sent("ops", ["2"], 2.0 + SENT_KEPT_S + 1)
    assert outbox.take("ops", [message(1)]) == [message(1)]


@pytest.mark.parametrize(
    "damaged",
    [
        "[]", "{}", "x", "[" * 100_000, '{"id":1,"title":2,"body":3,"type":4,"fields":5,"group":6}',
        '{"id":"b","title":"t","body":"b","type":"info","fields":[],"group":"g"}', b"\xff",
    ],
)  # fmt: skip
def test_a_damaged_message_costs_that_one_alone(outbox: Outbox, damaged: str | bytes) -> None:
    outbox.take("ops", [message(1)])
    with sqlite3.connect(outbox._path) as db:
        db.execute("INSERT INTO waiting VALUES ('ops', 'x', 1.0, ?)", (damaged,))
    assert again(outbox).waiting("ops") == [message(1)]


@pytest.mark.parametrize("row", [("bob", "x", URL, 1.0), ("bob", 7, "nonsense", 1.0), ("bob", 7, URL, "then")])
def test_a_damaged_channel_costs_that_user_alone(outbox: Outbox, row: tuple[object, ...]) -> None:
    channel = UserChannel("alice", 7, URL, 1.0)
    outbox.set_user_channel(channel)
    outbox.set_failing("ops", 1.0)
    with sqlite3.connect(outbox._path) as db:
        db.execute("INSERT INTO users VALUES (?, ?, ?, ?)", row)
        db.executemany("INSERT INTO failing VALUES (?, ?)", [("a", "since"), ("b", math.inf)])
    assert again(outbox).users() == [channel]
    assert again(outbox).failing() == {"ops": 1.0}


def test_what_was_dropped_may_be_told_again(outbox: Outbox) -> None:
    outbox.take("ops", [message(1)])
    outbox.drop("ops")
    assert outbox.take("ops", [message(1)]) == [message(1)]


def test_channels_of_users_are_kept_and_forgotten_without_a_trace(outbox: Outbox) -> None:
    outbox.set_user_channel(UserChannel("alice", 7, "jsons://old.example/first-secret", 1.0))
    channel = UserChannel("alice", 7, "jsons://new.example/second-secret", 2.0)
    outbox.set_user_channel(channel)
    assert again(outbox).users() == [channel]
    assert outbox.remove_user_channel("alice")
    assert not outbox.remove_user_channel("alice")
    outbox.close()
    left = b"".join(path.read_bytes() for path in outbox._path.parent.iterdir())
    assert b"secret" not in left


def test_nobody_else_may_read_it_whatever_the_umask(outbox: Outbox) -> None:
    before = os.umask(0)
    try:
        outbox.set_failing("ops", 1.0)
    finally:
        os.umask(before)
    assert {stat.S_IMODE(path.stat().st_mode) for path in outbox._path.parent.iterdir()} == {0o600}


def test_a_file_that_is_none_is_refused_in_words_and_a_link_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "deliveries.db").write_text("no database" * 100)
    with pytest.raises(BackendFailed, match=r"deliveries\.db: file is not a database"):
        Outbox(tmp_path / "deliveries.db").failing()
    (tmp_path / "link.db").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(BackendFailed, match=r"link\.db"):
        Outbox(tmp_path / "link.db").failing()
    assert not (tmp_path / "elsewhere").exists()
