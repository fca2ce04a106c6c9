"""Finds out which pod shows a token: the API server says so, by a TokenReview."""

import json
import threading
from base64 import urlsafe_b64decode
from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

from corral.clock import LATEST, Clock
from corral.core.model.errors import Forbidden
from corral.engines.kubernetes.cluster.client import Cluster
from corral.engines.kubernetes.cluster.objects import mapping, text
from corral.engines.kubernetes.cluster.resource import TOKEN_REVIEWS

AUDIENCE = "corral"
"""The audience of the tokens that agents show. The API server itself accepts no such token."""

MAX_TOKEN = 16 * 1024
"""The most characters of a token. Those that the API server issues have about a thousand."""

KNOWN_S = 60.0
"""For this long, an answer of the API server counts."""

MOST_KNOWN = 10_000

REVIEW_S = 5.0
"""The API server must answer within this time."""

_POD_NAME, _POD_UID = "authentication.kubernetes.io/pod-name", "authentication.kubernetes.io/pod-uid"
_ACCOUNT = "system:serviceaccount:"


class TokenRefused(Forbidden):
    """The token does not show that its holder is an agent's pod."""


@dataclass(frozen=True, slots=True)
class TokenHolder:
    """The pod to which a token is bound, and its service account, "NAMESPACE/NAME"."""

    account: str
    namespace: str
    pod: str
    pod_uid: str


@dataclass(frozen=True, slots=True)
class _Known:
    holder: TokenHolder
    until_s: float


class TokenReviews:
    """The holders of tokens for one cluster. Safe from any thread.

    Only answers that accept a token are kept. What a token says of itself, its account and when it expires, is read
    before the API server is asked: strangers do not make the server ask about tokens that it would refuse anyway.
    """

    def __init__(self, cluster: Cluster, account: str, clock: Clock) -> None:
        self._cluster = cluster
        self._account = account
        self._clock = clock
        self._lock = threading.Lock()
        self._known: dict[bytes, _Known] = {}

    def known(self, token: str) -> TokenHolder | None:
        """Return the holder without asking the API server; None if it must be asked."""
        with self._lock:
            known = self._known.get(_key(token))
        return None if known is None or self._clock.monotonic() >= known.until_s else known.holder

    def accepted_before(self, token: str) -> bool:
        """Return whether the API server has accepted the token once: it is none that a stranger made up."""
        with self._lock:
            return _key(token) in self._known

    def holder(self, token: str) -> TokenHolder:
        """Return the pod to which the token is bound. Raises TokenRefused, and the errors of the cluster's client."""
        known = self.known(token)
        if known is not None:
            return known
        lasts_s = self._lasts_s(token)
        answer = self._cluster.create(
            TOKEN_REVIEWS, {"spec": {"token": token, "audiences": [AUDIENCE]}}, timeout_s=REVIEW_S
        )
        holder = holder_in(mapping(answer.get("status")))
        if holder.account != self._account:
            raise self._of_another(holder.account)
        with self._lock:
            while len(self._known) >= MOST_KNOWN:
                del self._known[next(iter(self._known))]
            self._known[_key(token)] = _Known(holder, self._clock.monotonic() + min(KNOWN_S, lasts_s))
        return holder

    def _lasts_s(self, token: str) -> float:
        """Return for how long the token is valid by its own words. Raises TokenRefused if they do not fit."""
        claims = _claims_of(token)
        account = str(claims.get("sub") or "").removeprefix(_ACCOUNT).replace(":", "/", 1)
        if account != self._account:
            raise self._of_another(account)
        expires = claims.get("exp")
        if not isinstance(expires, (int, float)):
            raise TokenRefused("the token never expires; agents show a projected token, which does")
        # The API server compares with its own clock, which may differ from this server's.
        return max(0.0, min(expires, LATEST) - self._clock.shown(self._clock.now()))

    def _of_another(self, account: str) -> TokenRefused:
        return TokenRefused(
            f"the token is of the service account {account!r:.80}, and agents run as {self._account}, by the setting "
            "kubernetes.agent_account"
        )


def holder_in(status: Mapping[str, Any]) -> TokenHolder:
    """Return the pod that the status of a TokenReview names. Raises TokenRefused."""
    if status.get("authenticated") is not True:
        why = str(status.get("error") or "it gives no reason")
        raise TokenRefused(f"the API server does not accept the token: {why:.200}")
    audiences = status.get("audiences")
    # An API server that knows no audiences accepts tokens for itself, which agents must not show.
    if not isinstance(audiences, list) or AUDIENCE not in audiences:
        raise TokenRefused(f"the token is not for the audience {AUDIENCE}")
    user = mapping(status.get("user"))
    name, extra = str(user.get("username") or ""), mapping(user.get("extra"))
    namespace, _, account = name.removeprefix(_ACCOUNT).partition(":")
    pod, pod_uid = (_single(extra.get(key)) for key in (_POD_NAME, _POD_UID))
    if not name.startswith(_ACCOUNT) or pod is None or pod_uid is None:
        raise TokenRefused("the token is bound to no pod; agents show a projected token, which is")
    return TokenHolder(f"{namespace}/{account}", namespace, pod, pod_uid)


def _single(values: object) -> str | None:
    return text(values[0]) if isinstance(values, list) and len(values) == 1 else None


def _claims_of(token: str) -> Mapping[str, Any]:
    """Return what a token says of itself, which proves nothing. Raises TokenRefused if it is none of the kind."""
    parts = token.split(".")
    if len(token) > MAX_TOKEN or len(parts) != 3 or not token.isascii():
        raise TokenRefused("this is no token of a service account")
    try:
        found = json.loads(urlsafe_b64decode(parts[1] + "=" * (-len(parts[1]) % 4)))
    except (ValueError, RecursionError):
        raise TokenRefused("this is no token of a service account") from None
    return mapping(found)


def _key(token: str) -> bytes:
    return sha256(token.encode(errors="surrogateescape")).digest()
