"""Messages reach their channels: each is tried again, none holds another up, and a restart loses none."""

import logging
import sqlite3
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from corral.clock import SystemClock
from corral.config import Settings
from corral.config.channel_url import Channel
from corral.core.model.severity import Severity
from corral.features.channels import channel_queue, delivery, sending
from corral.features.channels.channel_process import ChannelProcess, Outcome, Outgoing
from corral.features.channels.channel_queue import SITE_PACE, Pace
from corral.features.channels.delivery import Delivery
from corral.features.channels.message import AlertMessage, AlertState
from corral.features.channels.outbox import Outbox, UserChannel, Waiting
from corral.features.channels.sending import SendingThreads
from tests.features.channels.receivers import Receiver, receiving

NOBODY = (65534, 65534)
HOT = AlertMessage(
    "7", "hot", Severity.WARNING, "device GPU-1", AlertState.FIRED, 5.0, 6.0, 91.0, "It is 91 °C.", (("gpu", "1"),)
)


def outgoing(number: int) -> Outgoing:
    return Outgoing(str(number), "title", "body", "info", {})


def until(holds: Callable[[], object]) -> None:
    deadline = time.monotonic() + 60
    while not holds():
        assert time.monotonic() < deadline, "it did not come about"
        time.sleep(0.01)


class Tries:
    """Queues whose tries end as the test says; nothing leaves the process."""

    def __init__(self, path: Path, pace: Pace = SITE_PACE, threads: int = 1) -> None:
        self.outbox = Outbox(path / "deliveries.db")
        self.sent: list[tuple[str, str]] = []
        self.reports: list[tuple[str, str, str]] = []
        self.outcome: Callable[[str, str], Outcome | None] = lambda *_: Outcome(True)
        self.threads = SendingThreads(
            "test", threads, pace, self.outbox, SystemClock(), attempt=self._attempt, report=self._report
        )

    def _attempt(self, channel: str, message: Outgoing, _process: ChannelProcess) -> Outcome | None:
        outcome = self.outcome(channel, message.id)
        if outcome is not None and outcome.delivered:
            self.sent.append((channel, message.id))
        return outcome

    def _report(self, channel: str, one: Waiting, result: str, _why: str | None) -> None:
        self.reports.append((channel, one.message.id, result))


@pytest.fixture
def tries(tmp_path: Path) -> Iterator[Tries]:
    made = Tries(tmp_path)
    yield made
    made.threads.close()


def test_each_message_is_sent_once_in_its_order_and_is_known_as_sent(tries: Tries) -> None:
    for number in (1, 2, 2, 3):
        assert tries.threads.put("ops", outgoing(number))
    until(lambda: len(tries.reports) == 3)
    tries.threads.put("ops", outgoing(2))
    tries.threads.put("ops", outgoing(4))
    until(lambda: len(tries.reports) == 4)
    assert tries.sent == [("ops", str(number)) for number in (1, 2, 3, 4)]
    assert tries.outbox.waiting("ops") == []


def test_a_try_that_fails_is_repeated_before_the_next_message(tries: Tries, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(channel_queue, "FIRST_PAUSE_S", 0.01)
    answers = iter([False, False, True, True])
    tries.outcome = lambda *_: Outcome(next(answers), "no")
    tries.threads.put("ops", outgoing(1))
    tries.threads.put("ops", outgoing(2))
    until(lambda: len(tries.reports) == 4)
    assert [(message, result) for _, message, result in tries.reports] == [
        ("1", "retried"), ("1", "retried"), ("1", "delivered"), ("2", "delivered")
    ]  # fmt: skip


def test_a_failing_queue_holds_no_other_up_on_the_same_thread(tries: Tries) -> None:
    tries.outcome = lambda channel, _: Outcome(channel == "good", "no")
    for number in range(5):
        tries.threads.put("bad", outgoing(number))
        tries.threads.put("good", outgoing(number))
    until(lambda: len(tries.sent) == 5)
    assert {channel for channel, _ in tries.sent} == {"good"}
    assert len(tries.outbox.waiting("bad")) == 5


def test_a_fault_in_a_try_is_a_try_that_failed(
    tries: Tries, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(channel_queue, "FIRST_PAUSE_S", 0.01)
    monkeypatch.setattr(channel_queue, "MOST_TRIES", 2)

    def broken(_channel: str, message: str) -> Outcome:
        if message == "1":
            raise KeyError("sentence")
        return Outcome(True)

    tries.outcome = broken
    tries.threads.put("ops", outgoing(1))
    tries.threads.put("ops", outgoing(2))
    until(lambda: len(tries.reports) == 3)
    assert tries.reports == [("ops", "1", "retried"), ("ops", "1", "given_up"), ("ops", "2", "delivered")]
    assert "KeyError" in caplog.text


def test_a_fault_in_what_follows_a_try_ends_no_thread(
    tries: Tries, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(sending, "_AFTER_FAULT_S", 0.01)
    reports = iter([ValueError("odd")])

    def report(channel: str, one: Waiting, result: str, why: str | None) -> None:
        for failure in reports:
            raise failure
        tries._report(channel, one, result, why)

    monkeypatch.setattr(tries.threads, "_report", report)
    tries.threads.put("ops", outgoing(1))
    until(lambda: "it goes on" in caplog.text)
    tries.threads.put("ops", outgoing(2))
    until(lambda: tries.reports)
    assert tries.sent == [("ops", "1"), ("ops", "2")]


@pytest.mark.parametrize("fields", [5, None, [1], "text"])
def test_a_message_whose_fields_are_damaged_is_a_try_that_failed(fields: object) -> None:
    damaged = replace(outgoing(1), fields=fields)  # type: ignore[arg-type]
    found = ChannelProcess().send("json://127.0.0.1:9", damaged)
    assert not found.delivered


def test_a_stop_leaves_what_was_not_sent_to_the_next_server(tmp_path: Path) -> None:
    tries = Tries(tmp_path)
    tries.outcome = lambda _, message: Outcome(message == "1", "no")
    for number in (1, 2, 3):
        tries.threads.put("ops", outgoing(number))
    until(lambda: ("ops", "2", "retried") in tries.reports)
    tries.threads.close()
    again = Tries(tmp_path)
    again.threads.put_written("ops", again.outbox.waiting("ops"))
    again.threads.put("ops", outgoing(1))
    again.threads.put("ops", outgoing(2))
    until(lambda: len(again.sent) == 2)
    again.threads.close()
    assert again.sent == [("ops", "2"), ("ops", "3")]


def test_a_full_disk_keeps_nothing_from_being_sent(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    tries = Tries(tmp_path / "not there")
    for number in (1, 2):
        tries.threads.put("ops", outgoing(number))
    until(lambda: len(tries.sent) == 2)
    tries.threads.close()
    assert sum("messages cannot be saved" in record.message for record in caplog.records) == 1


def test_no_more_than_so_many_wait_and_the_next_that_is_sent_says_how_many_are_missing(tmp_path: Path) -> None:
    tries = Tries(tmp_path, Pace(most_waiting=2, burst=9, interval_s=0.0))
    tries.outcome = lambda *_: Outcome(False, "no")
    for number in range(6):
        tries.threads.put("ops", outgoing(number))
    until(lambda: sum(result == "dropped" for *_, result in tries.reports) == 4)
    assert {one.message.id for one in tries.outbox.waiting("ops")} == {"0", "5"}
    queue = tries.threads._queues["ops"]
    tries.threads.close()
    assert [sending._told(queue.heads(1), queue).body] == ["body\n(4 messages before it were dropped: too many waited)"]


@pytest.fixture(scope="module")
def receiver() -> Iterator[Receiver]:
    with receiving() as made:
        yield made


def deliver(tmp_path: Path, *channels: Channel, **settings: object) -> Delivery:
    made = Delivery(Outbox(tmp_path / "deliveries.db"), SystemClock(), lambda _: NOBODY)
    made.apply(replace(Settings(), channels=channels, **settings))  # type: ignore[arg-type]
    return made


def test_other_channels_are_told_of_one_that_fails_and_that_it_works_again(
    tmp_path: Path, receiver: Receiver, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(channel_queue, "FIRST_PAUSE_S", 0.01)
    monkeypatch.setattr(delivery, "TROUBLED_AFTER", 2)
    caplog.set_level(logging.DEBUG)
    receiver.says = 500
    receiver.got.clear()
    made = deliver(tmp_path, Channel("bad", receiver.url("sesame")), Channel("mail", receiver.url("good")))
    made.send("bad", HOT)
    until(lambda: made.results["bad", "retried"] >= 2)
    receiver.says = 200
    until(lambda: made.results["bad", "delivered"] == 1 and made.results["mail", "delivered"] == 2)
    made.close()
    told = [(body["name"], body["state"], body["id"]) for body in receiver.got]
    assert ("hot", "fired", "7") in told
    fired, resolved = (one for one in told if one[0] == "channel-failed")
    assert (fired[1], resolved[1], fired[2] == resolved[2]) == ("fired", "resolved", True)
    assert "sesame" not in caplog.text


def test_a_user_is_told_through_a_kind_and_an_address_that_the_site_allows(tmp_path: Path, receiver: Receiver) -> None:
    receiver.got.clear()
    open_to = {"user_channel_kinds": ("json",), "user_channel_networks": ("127.0.0.0/8",)}
    made = deliver(tmp_path, **open_to)
    made.set_user(UserChannel("alice", NOBODY[0], receiver.url("alice"), 1.0))
    made.set_user(UserChannel("mallory", 12345, receiver.url("mallory"), 1.0))
    for user in ("alice", "mallory", "bob"):
        made.send_to_user(user, outgoing(1))
    made.send_to_user("alice", outgoing(1))
    until(lambda: made.results["users", "delivered"] == 1 and made.results["users", "retried"])
    made.close()
    assert set(receiver.asked) & {"/alice", "/mallory"} == {"/alice"}
    assert made.results["users", "delivered"] == 1
    assert made.last_of_user("mallory") == Outcome(False, "its user is not known on the server's machine")


def test_a_channel_that_is_removed_gets_nothing_more_and_others_go_on(tmp_path: Path, receiver: Receiver) -> None:
    receiver.says = 503
    receiver.asked.clear()
    both = (Channel("gone", receiver.url("gone")), Channel("kept", receiver.url("kept")))
    made = deliver(tmp_path, *both)
    for name in ("gone", "kept", "never-there"):
        made.send(name, HOT)
    until(lambda: made.results["gone", "retried"] and made.results["kept", "retried"])
    made.apply(replace(Settings(), channels=both[1:]))
    assert (made.outbox.waiting("gone"), len(made.outbox.waiting("kept"))) == ([], 1)
    receiver.says = 200
    until(lambda: made.results["kept", "delivered"])
    made.close()
    assert made.results["gone", "delivered"] == 0


def test_a_file_that_makes_no_sense_keeps_no_server_from_starting(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with sqlite3.connect(tmp_path / "deliveries.db") as db:
        db.execute("CREATE TABLE waiting (channel, id, taken_at, message)")
        db.execute("INSERT INTO waiting VALUES ('ops', '1', 'then', '[')")
    db.close()
    made = deliver(tmp_path, Channel("ops", "jsons://ops.example/x"))
    made.close()
    assert "1 messages for ops are damaged and are not sent" in caplog.text


def test_a_receiver_that_hangs_holds_up_neither_another_channel_nor_the_stop_and_gets_its_message_later(
    tmp_path: Path, receiver: Receiver
) -> None:
    receiver.got.clear()
    receiver.asked.clear()
    with receiving() as hanging:
        hanging.says = "hang"
        both = (Channel("slow", hanging.url("slow")), Channel("mail", receiver.url("prompt")))
        made = deliver(tmp_path, *both)
        made.send("slow", HOT)
        hanging.until(lambda: hanging.asked)
        made.send("mail", HOT)
        receiver.until(lambda: receiver.got)
        begun = time.monotonic()
        made.close()
        assert time.monotonic() - begun < 25
        hanging.says = 200
        again = deliver(tmp_path, *both)
        hanging.until(lambda: hanging.got)
        until(lambda: again.results["slow", "delivered"])
        again.send("slow", HOT)
        again.send("mail", HOT)
        again.close()
        assert (len(hanging.got), len(receiver.got)) == (1, 1)
