"""Channels as people meet them over the API: tried by administrators, owned by users, shown without their URLs."""

import os
import pwd
from collections.abc import Iterator
from dataclasses import replace

import pytest

from corral.config import Settings
from corral.config.channel_url import SAFE_KINDS, Channel
from corral.features.channels import channel_access as channels
from tests.api.test_token_routes import made
from tests.api.world import Served
from tests.features.channels.receivers import Receiver, receiving

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only a server of root's has tokens of other users")

NOBODY = pwd.getpwuid(65534).pw_name
SECRET = "s3cr3t-T0ken"


@pytest.fixture(scope="module")
def receiver() -> Iterator[Receiver]:
    with receiving() as one:
        yield one


@pytest.fixture(autouse=True)
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(channels, "OWN_INTERVAL_S", 0.0)


def test_an_administrator_tries_a_channel_and_hears_what_came_of_it(served: Served, receiver: Receiver) -> None:
    named = (Channel("ops", receiver.url(SECRET)), Channel("team/b", receiver.url("b")))
    served.world.delivery.apply(replace(Settings(), channels=named))
    good = served.call("POST", "/channels/ops/test")
    assert (good.status, good.data["delivered"], good.data["why"]) == (200, True, None)
    assert receiver.got[-1]["name"] == "channel-test"
    receiver.says = 500
    assert served.call("POST", "/channels/ops/test").data["why"] == "the receiver answered 500"
    receiver.says = 200
    listed = served.call("GET", "/channels")
    assert listed.data["channels"][0] == {
        "name": "ops", "kind": "json", "user": None, "delivered": False, "why": "the receiver answered 500"
    }  # fmt: skip
    assert SECRET.encode() not in listed.body
    unknown = served.call("POST", "/channels/opps/test")
    assert (unknown.status, unknown.error["message"]) == (404, "there is no channel 'opps'; did you mean 'ops'?")


def test_a_plain_user_neither_sees_nor_tries_the_sites_channels(served: Served, receiver: Receiver) -> None:
    served.world.delivery.apply(replace(Settings(), channels=(Channel("ops", receiver.url()),)))
    tokens = [made(served, user=NOBODY, scope=scope)["token"] for scope in ("read", "submit")]
    for token in tokens:
        assert served.call_tcp("GET", "/channels", token=token).data == {"channels": []}
        assert served.call_tcp("POST", "/channels/ops/test", token=token).status == 403
    assert served.call_tcp("POST", "/own-channel", {"url": "jsons://a.example/x"}, token=tokens[0]).status == 403


def test_a_users_channel_is_of_an_allowed_kind_is_tried_and_is_forgotten(served: Served, receiver: Receiver) -> None:
    token = made(served, user=NOBODY)["token"]
    opened = replace(Settings(), user_channel_kinds=(*SAFE_KINDS, "json"))
    served.world.delivery.apply(opened)
    refused = served.call_tcp("POST", "/own-channel", {"url": f"mqtt://{SECRET}/x"}, token=token)
    assert (refused.status, "a channel of the kind mqtt is not allowed" in refused.error["message"]) == (422, True)
    broken = served.call_tcp("POST", "/own-channel", {"url": f"slack://{SECRET}"}, token=token)
    assert (broken.status, "this URL is incomplete for the kind slack" in broken.error["message"]) == (422, True)
    assert SECRET.encode() not in refused.body + broken.body
    url = receiver.url(SECRET)
    assert served.call_tcp("POST", "/own-channel", {"url": url}, token=token).data["kind"] == "json"
    inner = served.call_tcp("POST", "/own-channel/test", token=token).data
    assert (inner["delivered"], "its address is not allowed" in inner["why"]) == (False, True)
    served.world.delivery.apply(replace(opened, user_channel_networks=("127.0.0.0/8",)))
    assert served.call_tcp("POST", "/own-channel/test", token=token).data["delivered"]
    (row,) = served.call_tcp("GET", "/channels", token=token).data["channels"]
    assert (row["user"], row["kind"], row["delivered"]) == (NOBODY, "json", True)
    assert served.call("GET", "/channels").data == {"channels": []}
    assert served.call_tcp("POST", "/own-channel/remove", token=token).data == {"channels": []}
    assert served.call_tcp("POST", "/own-channel/test", token=token).status == 404


def test_a_user_tries_no_more_than_one_url_every_few_seconds(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(channels, "OWN_INTERVAL_S", 600.0)
    token = made(served, user=NOBODY)["token"]
    answers = [served.call_tcp("POST", "/own-channel", {"url": "jsons://one.example/x"}, token=token) for _ in range(2)]
    assert [answer.status for answer in answers] == [200, 409]
    assert "you have tried a channel just now" in answers[1].error["message"]
