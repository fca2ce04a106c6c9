"""An API server that hangs does not gather the calls of all agents in the server."""

import asyncio
import base64
import json
import socket
import threading
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from starlette.requests import Request

from corral.api.answers.errors import Busy
from corral.clock import SystemClock
from corral.engines.kubernetes.agent_reports.agent_pods import agent_pods_of
from corral.engines.kubernetes.agent_reports.report_box import ReportBox
from corral.engines.kubernetes.agent_reports.report_taker import ReportTaker
from corral.engines.kubernetes.agent_reports.token_reviews import TokenHolder, TokenReviews, _key, _Known
from corral.engines.kubernetes.cluster.cache import Cache
from corral.features.agent_reports.report_calls import ReportCalls
from tests.engines.kubernetes.control_plane import ControlPlane

ACCOUNT = "corral-system/corral-agent"
CLAIMS = {"sub": "system:serviceaccount:corral-system:corral-agent", "exp": 4_000_000_000}
MANY = 100


def request(number: int) -> Request:
    """A call with a token of this number, which looks like an agent's."""
    claims = base64.urlsafe_b64encode(json.dumps({**CLAIMS, "number": number}).encode()).decode()
    headers = [(b"authorization", f"Bearer a.{claims}.c".encode())]
    return Request({"type": "http", "scheme": "https", "headers": headers, "state": {"peer": None}})


def test_tokens_that_strangers_make_up_take_no_turn_of_agents_that_were_known(tmp_path: Path) -> None:
    with closing(socket.create_server(("127.0.0.1", 0), backlog=MANY)) as hanging:
        url = f"http://127.0.0.1:{hanging.getsockname()[1]}"
        cluster = ControlPlane("", "", "", "").connect(tmp_path, url=url)
        clock = SystemClock()
        pods: Cache[Any] = Cache(agent_pods_of(ACCOUNT), threading.RLock(), lambda: True)
        reviews = TokenReviews(cluster, ACCOUNT, clock)
        calls = ReportCalls(
            ReportTaker(ReportBox(), reviews, pods, lambda uid: None, clock, silent_after_s=10.0), clock
        )
        agents = request(MANY)
        token = agents.headers["authorization"].partition(" ")[2]
        # The API server accepted it a minute ago.
        reviews._known[_key(token)] = _Known(TokenHolder(ACCOUNT, "corral-system", "agent", "uid"), 0.0)

        async def call_all() -> set[asyncio.Task[None]]:
            strangers = [asyncio.create_task(calls.take(request(number))) for number in range(MANY)]
            await asyncio.wait(strangers, return_when=asyncio.FIRST_COMPLETED)
            agent = asyncio.create_task(calls.take(agents))
            done, _ = await asyncio.wait([agent], timeout=0.3)
            for one in (*strangers, agent):
                one.cancel()
            hung_up, _ = hanging.accept()
            hung_up.close()
            hanging.close()
            return done

        refused = asyncio.run(call_all())
    assert not refused, "it was told that the API server is slow, and it had a turn of its own"


def test_only_so_many_tokens_wait_for_an_api_server_that_hangs(tmp_path: Path) -> None:
    with closing(socket.create_server(("127.0.0.1", 0), backlog=MANY)) as hanging:
        url = f"http://127.0.0.1:{hanging.getsockname()[1]}"
        cluster = ControlPlane("", "", "", "").connect(tmp_path, url=url)
        clock = SystemClock()
        pods: Cache[Any] = Cache(agent_pods_of(ACCOUNT), threading.RLock(), lambda: True)
        reviews = TokenReviews(cluster, ACCOUNT, clock)
        calls = ReportCalls(
            ReportTaker(ReportBox(), reviews, pods, lambda uid: None, clock, silent_after_s=10.0), clock
        )

        async def call_all() -> list[BaseException | None]:
            waiting = [asyncio.create_task(calls.take(request(number))) for number in range(MANY)]
            done, _ = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
            for one in waiting:
                one.cancel()
            # Those who ask the API server end as it hangs up.
            hung_up, _ = hanging.accept()
            hung_up.close()
            hanging.close()
            return [one.exception() for one in done]

        refused = asyncio.run(call_all())
    assert refused
    with pytest.raises(Busy, match="the API server is slow"):
        raise refused[0] or AssertionError("a report was taken")
    assert len(refused) == MANY - 64
