"""A process sends one message, and says what came of it without a word of the URL."""

import socket
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from aiosmtpd.controller import Controller

from corral.config.channel_url import Channel
from corral.core.model.errors import Refused
from corral.features.channels.channel_process import ChannelProcess, Guard, Outcome, Outgoing, check_channels
from corral.features.channels.channel_worker import cause_in
from tests.features.channels.receivers import Receiver, nobody, receiving

NOBODY = 65534
SECRET = "s3cr3t-T0ken"
FIELDS = {"id": "7:fired", "value": 91.5, "since": 1.5, "labels": {"gpu": "3"}, "state": "fired"}
MESSAGE = Outgoing("7:fired", "[warning] hot: device GPU-1", "It is 91.5 °C.", "warning", FIELDS)


@pytest.fixture(scope="module")
def receiver() -> Iterator[Receiver]:
    with receiving() as made:
        yield made


def send(url: str, guard: Guard | None = None) -> Outcome:
    return ChannelProcess().send(url, MESSAGE, guard)


def test_a_webhook_gets_the_words_and_the_fields(receiver: Receiver) -> None:
    assert send(receiver.url(f"words?secret={SECRET}")) == Outcome(True)
    body = receiver.got[-1]
    assert {key: body[key] for key in FIELDS} == FIELDS
    assert (body["title"], body["message"], body["type"]) == (MESSAGE.title, MESSAGE.body, "warning")


def test_failures_are_told_in_our_own_words(receiver: Receiver) -> None:
    receiver.says = 500
    with nobody() as closed, ThreadPoolExecutor(2) as both:
        answered = both.submit(send, receiver.url(f"{SECRET}?x={SECRET}"))
        refused = both.submit(send, f"json://user:{SECRET}@127.0.0.1:{closed}/{SECRET}")
        assert answered.result() == Outcome(False, "the receiver answered 500")
        assert refused.result() == Outcome(False, "the receiver refused the connection")
    receiver.says = "close"
    assert send(receiver.url("close")) == Outcome(False, "the receiver closed the connection without an answer")
    receiver.says = 200


@pytest.mark.parametrize(
    ("lines", "cause"),
    [
        (["Failed to send JSON POST notification: Forbidden, error=403."], "the receiver answered 403"),
        (
            [f"Socket Exception: HTTPSConnectionPool(host='{SECRET}'): [Errno -2] Name or service not known"],
            "not known",
        ),
        (
            [f"certificate verify failed: Hostname mismatch, '{SECRET}'"],
            "the certificate of the receiver is not trusted",
        ),
        ([f"something new about {SECRET}"], "it was not accepted"),
        ([], "it was not accepted"),
    ],
)
def test_no_cause_repeats_what_was_logged(lines: list[str], cause: str) -> None:
    assert cause in cause_in(lines)
    assert SECRET not in cause_in(lines)


def test_who_never_answers_is_given_up_at_the_deadline_with_the_process() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        begun = time.monotonic()
        outcome = ChannelProcess(timeout_s=1.0).send(f"json://127.0.0.1:{silent.getsockname()[1]}/x", MESSAGE)
        assert outcome == Outcome(False, "the receiver did not accept the message within 1 s")
        assert time.monotonic() - begun < 25


def test_a_stop_ends_the_process_and_the_url_was_in_no_list_of_processes() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        process = ChannelProcess()
        url = f"json://127.0.0.1:{silent.getsockname()[1]}/{SECRET}"
        sending = threading.Thread(target=process.send, args=(url, MESSAGE))
        sending.start()
        taken, _ = silent.accept()
        child = process._child
        assert child is not None
        for name in ("cmdline", "environ"):
            assert SECRET.encode() not in Path(f"/proc/{child.pid}/{name}").read_bytes()
        process.stop()
        sending.join(25)
        assert not sending.is_alive()
        assert not process.send(url, MESSAGE).delivered
        taken.close()


def test_a_users_channel_reaches_no_inner_address_unless_the_site_allows_its_network(receiver: Receiver) -> None:
    receiver.asked.clear()
    guards = [Guard(NOBODY, NOBODY), Guard(NOBODY, NOBODY, ("127.0.0.0/8",))]
    urls = [receiver.url("inner").replace("127.0.0.1", host) for host in ("127.0.0.1", "localhost", "0.0.0.0")]
    with ThreadPoolExecutor(2) as both:
        outcomes = list(both.map(lambda url: send(url, guards[0]), urls))
    assert [one.delivered for one in outcomes] == [False] * 3
    assert all("its address is not allowed" in (one.why or "") for one in outcomes)
    assert receiver.asked == {}
    assert send(receiver.url("inner"), guards[1]) == Outcome(True)


def test_a_mail_server_gets_the_words() -> None:
    got: list[str] = []

    class Mailbox:
        async def handle_DATA(self, _server: object, _session: object, envelope: object) -> str:  # noqa: N802
            got.append(envelope.content.decode())  # type: ignore[attr-defined]
            return "250 taken"

    with nobody() as port:
        pass
    server = Controller(Mailbox(), hostname="127.0.0.1", port=port)
    server.start()
    try:
        outcome = send(f"mailto://127.0.0.1:{port}/ops@example.org?from=corral@example.org&format=text")
        assert outcome == Outcome(True)
    finally:
        server.stop()
    assert "Subject: [warning] hot: device GPU-1" in got[0]
    assert "To: ops@example.org" in got[0]


def test_urls_that_apprise_does_not_understand_are_refused_without_being_shown() -> None:
    channels = [
        Channel("ops", f"jsom://{SECRET}/x"),
        Channel("chat", f"slack://{SECRET}"),
        Channel("good", f"json://{SECRET}/x"),
    ]
    with pytest.raises(Refused) as refused:
        check_channels(channels, {"channels": "config.yaml, line 3"})
    said = str(refused.value)
    assert "config.yaml, line 3: channels.ops: apprise does not know the kind 'jsom'; did you mean 'json'?" in said
    assert "channels.chat: this URL is incomplete for the kind slack; write it as slack://{token_a}" in said
    assert "good" not in said
    assert SECRET not in said
