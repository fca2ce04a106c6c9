"""Who may ask about pods, and the questions as the routes serve them."""

from collections.abc import Collection

from anyio import CapacityLimiter, to_thread
from starlette.requests import Request

from corral.api.requests.bodies import InFlight, Intake
from corral.api.requests.request_turns import answer_for
from corral.core.model.errors import Conflict, Forbidden
from corral.engines.kubernetes.admission.pod_admission import PodAdmission

MOST_BODY_BYTES = 4 * 1024 * 1024
"""API servers take no larger object than 3 MiB."""

WHO = "the API server"


class AdmissionCalls:
    """The questions of API servers. `admission` is None if the server's nodes are no cluster's.

    `callers` are the names in certificates that are served; `without_certificate` serves also who shows none.
    """

    def __init__(self, admission: PodAdmission | None, *, callers: Collection[str], without_certificate: bool) -> None:
        self._admission = admission
        self._callers = frozenset(callers)
        self._without_certificate = without_certificate
        self._in_flight = InFlight(8 * MOST_BODY_BYTES)
        self._threads = CapacityLimiter(4)

    async def answer(self, request: Request, verb: str) -> bytes:
        """The answer to `mutate` or `validate`. Raises Refused, and Forbidden for other callers."""
        admission = self._serving(request)
        intake = Intake(self._in_flight, WHO, MOST_BODY_BYTES)
        try:
            intake.refuse_announced(request)
            body = await intake.bytes_of(request)
        finally:
            intake.close()
        asked = admission.mutate if verb == "mutate" else admission.validate
        return await to_thread.run_sync(asked, body, limiter=self._threads)

    def _serving(self, request: Request) -> PodAdmission:
        answer_for(WHO)
        state = request.scope["state"]
        peer, certified = state.get("peer"), state.get("certificate")
        if peer is not None:
            allowed = request.app.state.corral.authenticator.is_admin(peer.uid)
        else:
            allowed = certified in self._callers or (certified is None and self._without_certificate)
        if not allowed:
            raise Forbidden(
                "the webhook serves callers with a client certificate (corral up --tls-client-ca) of "
                f"kubernetes.admission_callers ({', '.join(sorted(self._callers)) or 'nobody'}), and those without one "
                "with kubernetes.admission_without_certificate"
            )
        if self._admission is None:
            raise Conflict("the nodes of this server are no cluster's; start it with --engine kubernetes")
        return self._admission
