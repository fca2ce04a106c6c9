"""The calls of agents: who may send a report, how large it may be, and how often one comes."""

import time

from anyio import CapacityLimiter, to_thread
from starlette.requests import Request

from corral.api.answers.errors import Busy, Unauthenticated
from corral.api.requests.bodies import InFlight, Intake
from corral.api.requests.request_turns import answer_for
from corral.clock import Clock
from corral.core.model.errors import Conflict, Forbidden, Refused
from corral.engines.kubernetes.agent_reports.agent_pods import AgentPod
from corral.engines.kubernetes.agent_reports.report_reading import MAX_BODY_BYTES
from corral.engines.kubernetes.agent_reports.report_taker import ReportTaker
from corral.engines.kubernetes.agent_reports.token_reviews import TokenRefused

WHO = "agents on nodes"

LEAST_INTERVAL_S = 0.5
"""A report of a node that comes sooner after the one before is not taken."""

_MOST_ASKING = 64
"""So many calls may wait for the API server's word on their tokens: one that hangs must not gather those of all."""

_AT_ONCE = 4

_PACE = 0.1
"""The part of a core that a node's reports may take. One of eight devices takes some milliseconds."""


class _Turns:
    """The calls that ask the API server about tokens: so many at a time, and so many that wait."""

    def __init__(self) -> None:
        self.limiter = CapacityLimiter(_AT_ONCE)
        self.asking = 0


class ReportCalls:
    """The reports of agents as the route takes them. `taker` is None if the server's nodes are no cluster's."""

    def __init__(self, taker: ReportTaker | None, clock: Clock) -> None:
        self._taker = taker
        self._clock = clock
        self._in_flight = InFlight()
        self._first, self._again = _Turns(), _Turns()
        self._reading = CapacityLimiter(2)
        self._next_s: dict[str, float] = {}
        """When the next report of a node is taken, seconds of the monotonic clock."""

    async def take(self, request: Request) -> None:
        """Take a report. Raises Refused, Unauthenticated for another token than that of an agent's pod, Forbidden over
        a connection without encryption, and Busy.
        """
        answer_for(WHO)
        if request.scope["scheme"] != "https" and request.scope["state"].get("peer") is None:
            raise Forbidden(
                "agents send their reports over HTTPS; start the server with --tls-cert and --tls-key, and name it "
                "https://HOST:PORT to the agents"
            )
        taker = self._taker
        if taker is None:
            raise Conflict("the nodes of this server are no cluster's; start it with --engine kubernetes")
        pod = await self._sender(taker, request)
        packed = _is_packed(request)
        self._keep_pace(pod.node)
        intake = Intake(self._in_flight, f"the agent on {pod.node}", MAX_BODY_BYTES)
        try:
            intake.refuse_announced(request)
            body = await intake.bytes_of(request)
            await to_thread.run_sync(self._take, taker, pod, body, packed, limiter=self._reading)
        finally:
            intake.close()

    async def _sender(self, taker: ReportTaker, request: Request) -> AgentPod:
        scheme, _, token = request.headers.get("authorization", "").partition(" ")
        if scheme.lower() != "bearer" or not token.strip():
            raise Unauthenticated("the agent shows no token; a projected token of its pod is needed")
        token = token.strip()
        try:
            return taker.known_sender(token) or await self._asked(taker, token)
        except TokenRefused as refused:
            raise Unauthenticated(str(refused)) from None

    async def _asked(self, taker: ReportTaker, token: str) -> AgentPod:
        # Whoever makes up tokens of the right form must not take the turns of agents that are known.
        turns = self._again if taker.accepted_before(token) else self._first
        if turns.asking >= _MOST_ASKING:
            raise Busy("the API server is slow to say whose tokens agents show; send the report again in a moment")
        turns.asking += 1
        try:
            return await to_thread.run_sync(taker.sender, token, limiter=turns.limiter)
        finally:
            turns.asking -= 1

    def _keep_pace(self, node: str) -> None:
        now_s = self._clock.monotonic()
        next_s = self._next_s.get(node)
        if next_s is not None and now_s < next_s:
            raise Busy(f"reports of node {node} come too often; send the next one in {next_s - now_s:.1f} s")
        self._next_s[node] = now_s + LEAST_INTERVAL_S

    def _take(self, taker: ReportTaker, pod: AgentPod, body: bytes, packed: bool) -> None:
        began_s = time.thread_time()
        try:
            taker.take(pod, body, packed=packed)
        finally:
            worked_s = time.thread_time() - began_s
            self._next_s[pod.node] = self._clock.monotonic() + max(LEAST_INTERVAL_S, worked_s / _PACE)


def _is_packed(request: Request) -> bool:
    encoding = request.headers.get("content-encoding", "identity").lower()
    if encoding not in ("identity", "gzip"):
        raise Refused(f"the content-encoding {encoding!r:.40} is not read here; send gzip, or none")
    return encoding == "gzip"
