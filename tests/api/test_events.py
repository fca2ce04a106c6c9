import contextlib
import os
import random
import socket
import sqlite3
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from corral.api.connections import websockets
from corral.api.events import event_feed, event_stream
from corral.api.events.event_batches import EventBatch
from corral.api.routes import event_routes
from corral.core.model.answers.events import Event
from corral.core.model.devices.device import DeviceCondition, DeviceSample
from corral.core.model.fact import ConditionObserved, DeviceCordoned, Fact, JobSubmitted
from corral.core.model.jobs.job import Job, JobSpec
from corral.core.ports.ledger import Decided
from tests.api.event_clients import KINDS, Happening, SocketClient, StreamClient, following
from tests.api.world import PATIENCE_S, UUIDS, Served, World

both = pytest.mark.parametrize("kind", KINDS)


def commit(world: World, *facts: Fact) -> None:
    world.ledger.commit(lambda _: Decided(facts, None)).result()


def cordon(world: World, reason: str = "hot") -> None:
    """One entry of the journal, and one event."""
    commit(world, DeviceCordoned(UUIDS[0], reason, at=time.time(), by="root"))


def submitted(number: int, name: str = "job") -> JobSubmitted:
    return JobSubmitted(Job(str(number), number, JobSpec("alice", ("true",), name=name), 1.0), at=1.0, by="alice")


def until(client: Any, last: int) -> list[Happening]:
    """The events up to this place of the journal."""
    found: list[Happening] = []
    while not found or (found[-1]["id"] or 0) < last:
        found.append(client.next())
    return found


def places(events: list[Happening]) -> list[int]:
    return [event["id"] for event in events if event["topic"] not in event_stream.OF_THE_STREAM]


def to_the_end(client: Any) -> list[Happening]:
    """All that comes before the server ends the stream."""
    found: list[Happening] = []
    with contextlib.suppress(EOFError):
        while True:
            found.append(client.next())
    return found


def test_both_ways_tell_the_same_events_live_and_later(served: Served) -> None:
    with following(served.raw_connection, StreamClient) as stream, following(served.raw_connection, SocketClient) as ws:
        first = served.submit(name="one")
        served.call("POST", f"/jobs/{first}/cancel")
        served.call("POST", f"/devices/{UUIDS[0]}/cordon", {"reason": "hot"})
        last = served.world.ledger.position
        live = until(stream, last)
        assert until(ws, last) == live
    assert [event["what"] for event in live] == ["submitted", "changed", "cordoned"]
    assert live[0]["rows"][0]["name"] == "one"
    assert live[1]["rows"][0]["phase"] == "CANCELLED"
    for kind in KINDS:
        with following(served.raw_connection, kind, "after=0") as client:
            assert until(client, last) == live


@both
def test_a_client_hears_of_what_comes_after_its_hello_and_where_that_is(kind: Any, served: Served) -> None:
    served.submit()
    with following(served.raw_connection, kind) as client:
        assert client.hello["id"] == served.world.ledger.position == 1
        assert abs(client.hello["at"] - time.time()) < 5.0
        (row,) = client.hello["rows"]
        assert row["topics"] == ["jobs", "devices", "alerts", "tasks"]
        served.submit(name="next")
        assert client.next()["rows"][0]["name"] == "next"


@both
def test_only_the_topics_that_were_asked_for_are_told(kind: Any, served: Served) -> None:
    with following(served.raw_connection, kind, "topics=devices") as client:
        served.submit()
        cordon(served.world)
        assert client.next()["topic"] == "devices"


@both
def test_no_event_is_missed_or_doubled_however_often_clients_come_back(
    kind: Any, served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Some places are kept, older ones are read from the journal."""
    monkeypatch.setattr(event_feed, "KEPT_BYTES", 3_000)
    total = 250
    draw = random.Random(1)

    def write() -> None:
        while served.world.ledger.position < total:
            count = min(draw.randint(1, 12), total - served.world.ledger.position)
            first = served.world.ledger.position + 1
            commit(served.world, *(submitted(first + i) for i in range(count)))

    def read(seed: int) -> list[int]:
        mine, seen, last = random.Random(seed), list[int](), 0
        while last < total:
            with following(served.raw_connection, kind, f"after={last}") as client:
                for _ in range(mine.randint(1, 90)):
                    seen.append(client.next()["id"])
                    last = client.last_id
                    if last == total:
                        break
        return seen

    with ThreadPoolExecutor(5) as pool:
        readers = [pool.submit(read, seed) for seed in range(4)]
        pool.submit(write).result(PATIENCE_S)
        for reader in readers:
            assert reader.result(PATIENCE_S) == list(range(1, total + 1))


@both
def test_a_client_resumes_at_the_next_server(kind: Any, home: Path) -> None:
    world = World(home)
    served = Served(world)
    with following(served.raw_connection, kind) as client:
        served.submit()
        last = client.next()["id"]
    served.stop()
    cordon(world)
    world.close()
    world = World(home)
    cordon(world, "still hot")
    served = Served(world)
    try:
        with following(served.raw_connection, kind, f"after={last}") as client:
            assert [client.next()["rows"][0]["reason"] for _ in range(2)] == ["hot", "still hot"]
    finally:
        served.stop()
        world.close()


def test_what_a_browser_says_of_its_last_event_counts_more_than_its_first_query(served: Served) -> None:
    for _ in range(3):
        cordon(served.world)
    with following(served.raw_connection, StreamClient, "after=0", Last_Event_ID="2") as client:
        assert client.next()["id"] == 3


@both
def test_a_journal_that_does_not_reach_back_is_told_and_the_client_goes_on(kind: Any, served: Served) -> None:
    for _ in range(5):
        cordon(served.world)
    with sqlite3.connect(served.world.home.root / "ledger.db") as database:
        database.execute("DELETE FROM latest_facts")
        database.execute("DELETE FROM journal WHERE sequence <= 3")
    with following(served.raw_connection, kind, "after=3") as client:
        assert places(until(client, 5)) == [4, 5]
    with following(served.raw_connection, kind, "after=1") as client:
        told = client.next()
        assert (told["topic"], told["what"], told["id"]) == ("reset", "gone", 5)
        assert "read all listings again" in told["message"]
        cordon(served.world)
        assert client.next()["id"] == 6


@both
def test_a_place_that_is_not_there_yet_is_told_and_the_client_goes_on(kind: Any, served: Served) -> None:
    for number, after in ((1, 7), (3, 10**17)):
        cordon(served.world)
        with following(served.raw_connection, kind, f"after={after}") as client:
            told = client.next()
            assert (told["topic"], told["what"], told["id"]) == ("reset", "ahead", number)
            cordon(served.world)
            assert client.next()["id"] == number + 1
        wait_for(lambda: not served.app_state.events._clients)


NONSENSE = {
    "topics=job": "did you mean 'jobs'?",
    "topics=jobs,,alerts": "a part of topics is empty",
    "after=-1": "after must be 0 or more, not -1",
    "after=9999999999999999999": "after must be an integer",
    "after=1e3": "after must be an integer",
    "since=1": "since is not a known parameter",
}


@both
def test_what_makes_no_sense_is_refused_in_words(kind: Any, served: Served) -> None:
    for query, said in NONSENSE.items():
        with served.raw_connection() as raw:
            client = kind(raw, query)
            assert client.status == 422
            assert said in client.error()


def test_a_last_event_that_is_none_is_refused(served: Served) -> None:
    for last in ("-1", "x", "9" * 19, "1\t2"):
        with served.raw_connection() as raw:
            client = StreamClient(raw, "", Last_Event_ID=last)
            assert (client.status, "is not the id of an event" in client.error()) == (422, True)


def test_a_head_alone_is_not_sent(served: Served) -> None:
    answer = served.call("HEAD", "/events")
    assert (answer.status, answer.headers["allow"]) == (405, "GET")


@both
def test_the_page_of_another_site_may_not_follow_and_an_own_one_may(kind: Any, served: Served) -> None:
    for origin in ("https://evil.example", "null", "http://x:8080", "http://y", "http://[::", "http://["):
        with served.raw_connection() as raw:
            client = kind(raw, "", Origin=origin)
            assert (client.status, "only its own pages may" in client.error()) == (403, True)
    for origin in ("http://x", "https://X:443"):
        with following(served.raw_connection, kind, Origin=origin):
            pass


NAMES = (
    *('"\n\ndata: {}\n\n', "\r\nid: 99\r\n", "</script><b>", "\u2028\u2029\x00\x1b[2J", "\ud800 alone", "日本 🦙"),
    "{}",
)


@both
def test_no_name_breaks_out_of_its_event(kind: Any, served: Served) -> None:
    commit(served.world, *(submitted(number, name) for number, name in enumerate(NAMES, 1)))
    with following(served.raw_connection, kind, "after=0") as client:
        assert [event["rows"][0]["name"] for event in until(client, len(NAMES))] == list(NAMES)


@both
def test_neither_environment_nor_command_is_told(kind: Any, served: Served) -> None:
    served.submit(command=["true", "--password=secret"], env={"TOKEN": "secret"}, workdir="/")
    with following(served.raw_connection, kind, "after=0") as client:
        assert "secret" not in str(client.next())


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(event_stream, "STALL_S", 0.2)
    monkeypatch.setattr(event_routes, "STALL_S", 0.2)


FILL = 2_500


def fill(world: World) -> int:
    """More than fits between a server and a client that does not read."""
    for start in range(1, FILL, 500):
        commit(world, *(submitted(number, "x" * 200) for number in range(start, start + 500)))
    return world.ledger.position


@both
@pytest.mark.usefixtures("impatient")
def test_a_client_that_does_not_read_is_told_so_and_goes_while_others_hear_everything(
    kind: Any, served: Served
) -> None:
    with following(served.raw_connection, kind) as slow, following(served.raw_connection, kind) as quick:
        with ThreadPoolExecutor(1) as pool:
            hearing = pool.submit(until, quick, FILL)
            last = fill(served.world)
            assert places(hearing.result(PATIENCE_S)) == list(range(1, last + 1))
        time.sleep(0.3)
        got = to_the_end(slow)
        assert got[-1]["topic"] == "overflow"
        heard = places(got)
        assert heard == list(range(1, len(heard) + 1))
        assert got[-1]["id"] == slow.last_id == heard[-1] < last
        if kind is SocketClient:
            assert slow.code == websockets.CLOSED_SLOW


@both
@pytest.mark.usefixtures("impatient")
def test_a_client_that_never_reads_is_disconnected(kind: Any, served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(event_routes, "FAREWELL_S", 0.1)
    with following(served.raw_connection, kind):
        fill(served.world)
        wait_for(lambda: not served.app_state.events._clients)
        wait_for(lambda: len(served.server._server.server_state.connections) == 0)


def wait_for(true: Callable[[], object]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not true():
        assert time.monotonic() < deadline, "it did not come about"
        time.sleep(0.005)


def test_a_thousand_clients_that_come_and_go_leave_nothing_behind(served: Served) -> None:
    def visit(kind: Any) -> None:
        with following(served.raw_connection, kind):
            pass

    for kind in KINDS:
        visit(kind)
    wait_for(lambda: not served.server._server.server_state.connections)
    threads, descriptors = threading.active_count(), len(os.listdir("/proc/self/fd"))
    for _ in range(500):
        for kind in KINDS:
            visit(kind)
    wait_for(lambda: not served.server._server.server_state.connections)
    assert len(os.listdir("/proc/self/fd")) <= descriptors
    assert threading.active_count() <= threads + 2
    feed = served.app_state.events
    assert (feed._tasks, feed._clients, list(feed._recent)) == ([], {}, [])


@both
def test_so_many_clients_of_a_user_and_in_all_and_no_more(
    kind: Any, served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    for limit, said in (("MOST_OF_A_USER", "close some of them"), ("MOST_CLIENTS", "try again in a moment")):
        monkeypatch.setattr(event_feed, limit, 1)
        with following(served.raw_connection, kind), served.raw_connection() as raw:
            refused = kind(raw, "")
            assert (refused.status, said in refused.error()) == (503, True)
        wait_for(lambda: not served.app_state.events._clients)
        with following(served.raw_connection, kind):
            pass
        wait_for(lambda: not served.app_state.events._clients)
        monkeypatch.setattr(event_feed, limit, 100)


@both
def test_over_tcp_a_token_of_scope_read_is_needed_and_a_revoked_one_ends_the_stream(
    kind: Any, served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(event_stream, "PING_S", 0.02)

    def connect() -> socket.socket:
        return socket.create_connection(("127.0.0.1", served.port), PATIENCE_S)

    for token, status in (("", 401), ("Bearer wrong-but-long-enough", 401)):
        with connect() as raw:
            assert kind(raw, "", Authorization=token).status == status
    made = served.call("POST", "/tokens", {"scope": "read"}).data
    with following(connect, kind, Authorization=f"Bearer {made['token']}") as client:
        assert client.next()["topic"] == "ping"
        served.call("POST", f"/tokens/{made['id']}/revoke")
        to_the_end(client)
        if kind is SocketClient:
            assert client.code == websockets.CLOSED_FORBIDDEN


@both
def test_a_ping_says_how_far_the_client_has_come(kind: Any, served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(event_stream, "PING_S", 0.02)
    with following(served.raw_connection, kind, "topics=alerts") as client:
        cordon(served.world)
        while client.next()["id"] != 1:
            pass
        assert client.last_id == 1


@both
def test_a_server_that_stops_ends_every_stream_at_once(kind: Any, world: World) -> None:
    served = Served(world)
    with following(served.raw_connection, kind) as client:
        served.stop()
        with pytest.raises(EOFError):
            client.next()
        if kind is SocketClient:
            assert client.code == websockets.CLOSED_RESTART


def test_a_websocket_that_says_something_is_closed(served: Served) -> None:
    with following(served.raw_connection, SocketClient) as client:
        client.say("hello")
        with pytest.raises(EOFError):
            client.next()
        assert client.code == websockets.CLOSED_MESSAGE


def test_a_websocket_at_another_path_is_refused(served: Served) -> None:
    with served.raw_connection() as raw:
        raw.sendall(
            b"GET /api/v1/jobs HTTP/1.1\r\nhost: x\r\nconnection: upgrade\r\nupgrade: websocket\r\n"
            b"sec-websocket-key: AAAAAAAAAAAAAAAAAAAAAA==\r\nsec-websocket-version: 13\r\n\r\n"
        )
        assert raw.recv(1 << 16).startswith(b"HTTP/1.1 403")


@both
def test_a_device_that_falls_ill_is_told_at_once_and_is_in_the_listing_of_who_comes_later(
    kind: Any, served: Served
) -> None:
    ledger = served.world.ledger
    with following(served.raw_connection, kind, "topics=devices") as client:
        ledger.observe([ConditionObserved(DeviceCondition(UUIDS[0], unhealthy="memory errors"))])
        told = client.next()
        assert (told["topic"], told["what"], told["id"]) == ("devices", "unhealthy", None)
        assert told["rows"] == [{"uuid": UUIDS[0], "reason": "memory errors"}]
        ledger.observe([ConditionObserved(DeviceCondition(UUIDS[0]))])
        assert client.next()["what"] == "well"
        place = ledger.position
    with following(served.raw_connection, kind, f"topics=devices&after={place}") as client:
        cordon(served.world)
        assert client.next()["what"] == "cordoned"


@both
def test_metrics_are_samples_of_devices_from_now_on(kind: Any, served: Served) -> None:
    served.world.samples[UUIDS[1]] = DeviceSample(UUIDS[1], time.time(), utilization_pct=40, power_mw=70_500)
    with following(served.raw_connection, kind, "topics=metrics,devices") as client:
        told = client.next()
        assert (told["topic"], told["id"]) == ("metrics", None)
        read, unread = {row["uuid"]: row for row in told["rows"]}[UUIDS[1]], told["rows"][0]
        assert (read["utilization_pct"], read["power_w"], read["temperature_c"]) == (40, 70.5, None)
        assert (unread["uuid"], unread["utilization_pct"], unread["taken_at"]) == (UUIDS[0], None, None)
        served.world.samples[UUIDS[1]] = DeviceSample(UUIDS[1], time.time(), utilization_pct=41)
        (row,) = client.next()["rows"]
        assert (row["uuid"], row["utilization_pct"]) == (UUIDS[1], 41)


def test_who_loses_the_connection_between_two_events_of_one_place_hears_both() -> None:
    """The place is told with the last event that has it, so that a browser does not go on behind what it missed."""
    batch = EventBatch(
        [
            Event("jobs", "allocated", 7),
            Event("devices", "allocated", 7),
            Event("jobs", "changed", 8),
        ]
    )
    lines = batch.stream(frozenset(("jobs", "devices"))).split(b"\n")
    assert [line for line in lines if line.startswith((b"id", b"event"))] == [
        b"event: jobs",
        b"id: 7",
        b"event: devices",
        b"id: 8",
        b"event: jobs",
    ]
    assert batch.stream(frozenset(("jobs",))).startswith(b"id: 7\nevent: jobs")
