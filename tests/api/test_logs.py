import asyncio
import base64
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest
from starlette.types import Message

from corral.api.answers import logs
from corral.api.answers.logs import AllLogs, OneLog, Read, follow_log, read_log
from corral.api.answers.streams import BrokenOff, PiecewiseResponse
from corral.api.answers.waiting import EndSignal, InputNotices
from corral.core.model.errors import BackendFailed, NodeUnreachable
from corral.core.model.fact import JobChanged
from corral.core.model.jobs.phase import Phase
from corral.core.model.view import View
from corral.host.node.files.job_logs import JobLogs
from tests.api.world import PATIENCE_S


async def collect(chunks: AsyncIterator[bytes]) -> bytes:
    return b"".join([chunk async for chunk in chunks])


PIECE_BYTES = 1024


def reader(path: Path) -> Read:
    """Reads job 7's log as its node does."""
    logs = JobLogs(path.parent)

    async def read(offset: int) -> bytes:
        return base64.b64decode(logs.read("7", 0, offset, PIECE_BYTES, "").data)

    return read


def read_from(path: Path, offset: int) -> bytes:
    """All of the log from a byte on."""

    async def whole() -> bytes:
        log = OneLog(reader(path), offset)
        return await collect(read_log(await log.next(), log))

    return asyncio.run(whole())


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "7.log"


class FollowedJob:
    """A job whose log is followed, and whose end the test decides."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.signal = EndSignal()
        self.inputs = InputNotices()
        self.over = False

    async def has_ended(self) -> bool:
        return self.over

    def end(self) -> None:
        self.over = True
        self.signal.on_change(View(), [JobChanged("7", {"phase": Phase.SUCCEEDED}, at=1.0, by="test")])

    def follow(self, offset: int = 0) -> AsyncIterator[bytes]:
        return follow_log(
            b"", OneLog(reader(self.path), offset), "7", self.has_ended, signal=self.signal, inputs=self.inputs
        )

    def followed_while(self, happen: Callable[[], Awaitable[None]], offset: int = 0) -> bytes:
        async def both() -> bytes:
            following = asyncio.ensure_future(collect(self.follow(offset)))
            await happen()
            return await asyncio.wait_for(following, PATIENCE_S)

        return asyncio.run(both())


def test_a_log_is_read_from_the_byte_that_was_asked_for(path: Path) -> None:
    path.write_bytes(b"abc\x00\xffdef")
    assert read_from(path, 3) == b"\x00\xffdef"


def test_a_log_that_takes_many_readings_comes_whole(path: Path) -> None:
    path.write_bytes(bytes(range(256)) * (PIECE_BYTES // 100))
    assert read_from(path, 0) == path.read_bytes()


@pytest.mark.parametrize("offset", [3, 4, 10**15])
def test_beyond_the_end_of_a_log_there_is_nothing(path: Path, offset: int) -> None:
    path.write_bytes(b"abc")
    assert read_from(path, offset) == b""


def test_a_job_that_has_not_started_has_an_empty_log(path: Path) -> None:
    assert read_from(path, 0) == b""


def test_following_gives_what_is_added_until_the_end_and_all_of_it(path: Path) -> None:
    job = FollowedJob(path)

    async def happen() -> None:
        await asyncio.sleep(0.03)
        for line in (b"one\n", b"two\n"):
            with path.open("ab") as log:
                log.write(line)
            await asyncio.sleep(0.05)
        with path.open("ab") as log:
            log.write(b"last\n")
        job.end()

    assert job.followed_while(happen) == b"one\ntwo\nlast\n"


def test_following_begins_at_the_byte_that_was_asked_for(path: Path) -> None:
    path.write_bytes(b"old\nnew\n")
    job = FollowedJob(path)

    async def happen() -> None:
        job.end()

    assert job.followed_while(happen, offset=4) == b"new\n"


def test_following_a_job_that_has_ended_is_reading_it(path: Path) -> None:
    path.write_bytes(b"all\n")
    job = FollowedJob(path)
    job.over = True
    assert asyncio.run(collect(job.follow())) == b"all\n"


def test_following_a_job_that_ended_without_a_log_ends(path: Path) -> None:
    job = FollowedJob(path)

    async def happen() -> None:
        await asyncio.sleep(0.05)
        job.end()

    assert job.followed_while(happen) == b""


def test_a_server_that_stops_breaks_the_log_off_rather_than_ending_it(path: Path) -> None:
    job = FollowedJob(path)

    async def happen() -> None:
        await asyncio.sleep(0.03)
        job.signal.close()

    with pytest.raises(BrokenOff):
        job.followed_while(happen)


def test_a_hundred_can_follow_at_once(path: Path) -> None:
    job = FollowedJob(path)

    async def crowd() -> list[bytes]:
        followers = [asyncio.ensure_future(collect(job.follow())) for _ in range(100)]
        await asyncio.sleep(0.05)
        path.write_bytes(b"for all\n")
        await asyncio.sleep(0.1)
        job.end()
        return await asyncio.wait_for(asyncio.gather(*followers), PATIENCE_S)

    assert set(asyncio.run(crowd())) == {b"for all\n"}


def all_of(*logs: bytes, piece_bytes: int = 3) -> AllLogs:
    def of_rank(data: bytes) -> Read:
        async def read(offset: int) -> bytes:
            return data[offset : offset + piece_bytes]

        return read

    return AllLogs([OneLog(of_rank(data), 0) for data in logs])


def test_all_logs_together_are_whole_lines_with_the_rank_before_each() -> None:
    async def whole() -> bytes:
        logs = all_of(b"one\ntwo\n", b"", b"a\n\nlast")
        return await collect(read_log(await logs.next(), logs))

    lines = asyncio.run(whole()).splitlines()
    assert [line for line in lines if line.startswith(b"[0]")] == [b"[0] one", b"[0] two"]
    assert [line for line in lines if line.startswith(b"[2]")] == [b"[2] a", b"[2] ", b"[2] last"]
    assert len(lines) == 5


def test_of_lines_without_an_end_little_is_kept_of_any_rank() -> None:
    async def first_lines() -> list[bytes]:
        logs = all_of(b"x" * 200_000, b"y" * 200_000, piece_bytes=50_000)
        return (await logs.next()).splitlines()

    assert [(line[:5], len(line)) for line in asyncio.run(first_lines())] == [(b"[0] x", 100_004), (b"[1] y", 100_004)]


def test_a_log_that_its_node_stops_sending_ends_as_broken_off() -> None:
    async def fail_after_the_first(offset: int) -> bytes:
        if offset:
            raise BackendFailed("the agent does not answer")
        return b"begun"

    hung_up: list[bool] = []
    sent: list[Message] = []

    async def send(message: Message) -> None:
        sent.append(message)

    async def receive() -> Message:
        await asyncio.sleep(PATIENCE_S)
        raise AssertionError("nobody asks")

    async def answer() -> None:
        pieces = OneLog(fail_after_the_first, 0)
        response = PiecewiseResponse(read_log(await pieces.next(), pieces))
        await response({"type": "http", "state": {"hang_up": lambda: hung_up.append(True)}}, receive, send)

    asyncio.run(answer())
    assert ([message.get("body") for message in sent], hung_up) == ([None, b"begun"], [True])


def test_once_one_of_several_logs_cannot_be_read_no_other_read_is_begun() -> None:
    begun = 0

    async def read(offset: int) -> bytes:
        nonlocal begun
        async with one_at_a_time:
            begun += 1
            await asyncio.sleep(0)
            raise NodeUnreachable("node a does not answer")

    one_at_a_time = asyncio.Semaphore(1)
    with pytest.raises(NodeUnreachable, match="node a"):
        asyncio.run(AllLogs([OneLog(read, 0)] * 40).next())
    assert begun <= 2, "the one that failed, and one that was let in before the others were cancelled"


def test_a_log_is_looked_at_at_once_when_its_job_was_given_input(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logs, "_SOONEST_S", 100.0)
    monkeypatch.setattr(logs, "_LATEST_S", 100.0)
    job = FollowedJob(path)

    async def happen() -> None:
        await asyncio.sleep(0.05)
        path.write_bytes(b"echo")
        job.inputs.given("7")
        await asyncio.sleep(0.05)
        job.end()

    assert job.followed_while(happen) == b"echo"
    job.inputs.given("7")
