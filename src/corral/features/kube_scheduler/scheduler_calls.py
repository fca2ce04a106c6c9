"""Who may call the extender, and its calls as the routes serve them."""

import asyncio
from collections.abc import Callable, Collection

from anyio import CapacityLimiter, to_thread
from starlette.requests import Request

from corral.api.requests.bodies import InFlight, Intake
from corral.api.requests.request_turns import UserTurns, answer_for
from corral.core.model.errors import Conflict, CorralError, Forbidden
from corral.core.model.jobs.pod_ref import PodRef
from corral.engines.kubernetes.extender import call_forms
from corral.engines.kubernetes.extender.extender import Extender
from corral.engines.kubernetes.extender.placed_pods import PlacedPods

MOST_BODY_BYTES = 96 * 1024 * 1024
"""Room for 5,000 Node objects with long lists of images."""

QUICK_BYTES = 1024 * 1024
BIND_S = 2.0
"""A pod that is not bound within this time is not bound by this call: kube-scheduler commonly waits 5 s."""

WHO = "kube-scheduler"


class SchedulerCalls:
    """The calls of kube-schedulers. `extender` and `pods` are None if the server's nodes are no cluster's.

    `callers` are the names in certificates that are served. With `by_proxy` callers without one may filter and
    prioritize.
    """

    def __init__(
        self, extender: Extender | None, pods: PlacedPods | None, *, callers: Collection[str], by_proxy: bool
    ) -> None:
        self._extender = extender
        self._pods = pods
        self._callers = frozenset(callers)
        self._by_proxy = by_proxy
        self._in_flight = InFlight(2 * MOST_BODY_BYTES)
        self._threads = CapacityLimiter(4)
        self._large = UserTurns(1, of_a_user=1)

    async def answer(self, request: Request, verb: str) -> bytes:
        """The answer to `filter`, `prioritize` or `preempt`. Raises Refused, and Forbidden for other callers."""
        extender = self._serving(request, changes=verb == "preempt")
        verbs: dict[str, Callable[[bytes], bytes]] = {
            "filter": extender.filter, "prioritize": extender.prioritize, "preempt": extender.preempt
        }  # fmt: skip
        intake = Intake(self._in_flight, WHO, MOST_BODY_BYTES)
        try:
            intake.refuse_announced(request)
            body = await intake.bytes_of(request)
            if len(body) <= QUICK_BYTES:
                return await to_thread.run_sync(verbs[verb], body, limiter=self._threads)
            async with self._large.turn(WHO):
                return await to_thread.run_sync(verbs[verb], body, limiter=self._threads)
        finally:
            intake.close()

    async def bind(self, request: Request) -> bytes:
        """Bind a pod as a job of its own, and say why if that is not possible at once."""
        extender, pods = self._serving(request, changes=True), self._pods
        assert pods is not None, "the engine that has an extender has its pods"
        intake = Intake(self._in_flight, WHO, QUICK_BYTES)
        try:
            intake.refuse_announced(request)
            call = call_forms.read_bind_call(await intake.bytes_of(request))
        finally:
            intake.close()
        why = await self._bound(pods, call.pod, call.node)
        if why is not None:
            extender.let_go(call.pod)
        return call_forms.bound(why or "")

    async def _bound(self, pods: PlacedPods, pod: PodRef, node: str) -> str | None:
        """Bind a pod. Return why it is not bound, None if it is."""
        try:
            begun = await to_thread.run_sync(pods.begin, pod, node)
        except CorralError as error:
            return str(error)
        try:
            await asyncio.wait_for(asyncio.shield(asyncio.wrap_future(begun.done)), BIND_S)
        except (TimeoutError, CorralError) as error:
            why = await to_thread.run_sync(pods.give_up, begun)
            return str(error) or why
        return None

    def _serving(self, request: Request, *, changes: bool) -> Extender:
        """The extender, if the caller may use it; `changes` is whether the call evicts or binds."""
        answer_for(WHO)
        state = request.scope["state"]
        peer, certified = state.get("peer"), state.get("certificate")
        if peer is not None:
            allowed = request.app.state.corral.authenticator.is_admin(peer.uid)
        else:
            allowed = certified in self._callers or (certified is None and self._by_proxy and not changes)
        if not allowed:
            raise Forbidden(_forbidden(certified, self._callers, by_proxy=self._by_proxy))
        if self._extender is None:
            raise Conflict("the nodes of this server are no cluster's; start it with --engine kubernetes")
        return self._extender


def _forbidden(certified: str | None, callers: Collection[str], *, by_proxy: bool) -> str:
    if certified is not None:
        named = " or ".join(sorted(callers)) or "nobody"
        return (
            f"the certificate names {certified!r:.80}, and the extender serves {named}; the setting "
            "kubernetes.extender_callers has the names"
        )
    if by_proxy:
        return "without a client certificate only filter and prioritize answer; show one for bind and preempt"
    return (
        "the extender serves callers with a client certificate (corral up --tls-client-ca), and the server's own user "
        "at its socket; through the API server's proxy, which shows none, it filters and prioritizes with the setting "
        "kubernetes.extender_by_proxy"
    )
