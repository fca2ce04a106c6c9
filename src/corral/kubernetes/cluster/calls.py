"""Calls that are tried again.

A call that fails in passing (a connection that breaks, 429, 500) is tried again until its deadline, where that can do
no harm: anything may be tried again but making an object whose name the server chooses.
"""

import random
import threading
import time
from collections.abc import Iterator
from typing import Any

from corral.kubernetes.cluster.answers import error_of
from corral.kubernetes.cluster.connection import Call, Connections, OpenLine, Response, ResponseStream
from corral.kubernetes.cluster.errors import (
    ClusterBusy,
    ClusterFailed,
    ClusterUnreachable,
    NotAuthenticated,
    ObjectChanged,
)
from corral.kubernetes.cluster.json_text import read_json
from corral.kubernetes.cluster.kubeconfig import Access

_jitter = random.Random()
"""Its own: these run on threads, and the generator of the process may be seeded by others, as by tests."""

FIRST_WAIT_S, LONGEST_WAIT_S = 0.05, 2.0
FIRST_CONTACT_S = 3.0
"""How long an address is tried that has never answered: it may be the wrong one."""


class Calls:
    """Calls of many threads to one API server. They raise the errors of `corral.kubernetes.cluster.errors`."""

    def __init__(self, access: Access) -> None:
        self._server = Connections(access)
        self._closing = threading.Event()
        self._has_answered = False

    def __str__(self) -> str:
        return str(self._server)

    def close(self) -> None:
        """Give up calls that wait to be tried again, and close what is kept open."""
        self._closing.set()
        self._server.close()

    def stream(self, call: Call, asked: str, timeout_s: float, silence_s: float | None) -> ResponseStream:
        """What is sent bit by bit. Tried once, and again only with another credential."""
        deadline_s = time.monotonic() + timeout_s
        answer = self._server.stream(call, deadline_s, silence_s)
        if isinstance(answer, Response) and answer.status == 401 and self._server.access.credentials.renew():
            answer = self._server.stream(call, deadline_s, silence_s)
        if isinstance(answer, Response):
            raise error_of(answer, asked)
        return answer

    def renew(self) -> bool:
        """Have another credential, where there is one."""
        return self._server.access.credentials.renew()

    def open_line(self, timeout_s: float) -> OpenLine:
        """A connection of its own, for what is more than HTTP. Tried once."""
        return self._server.open_line(time.monotonic() + timeout_s)

    def asked(
        self, call: Call, asked: str, timeout_s: float, *, repeatable: bool = True, contended: bool = False
    ) -> dict[str, Any]:
        """The object that is the answer; arguments are as of `answered`."""
        return _object(self.answered(call, asked, timeout_s, repeatable=repeatable, contended=contended), asked)

    def answered(
        self, call: Call, asked: str, timeout_s: float, *, repeatable: bool = True, contended: bool = False
    ) -> Response:
        """The answer of success.

        Args:
            call: the request.
            asked: what it is, for messages, as "create pods one".
            timeout_s: until when it may take, with all tries.
            repeatable: whether it does no harm to do it twice. What was certainly not done is tried again anyway.
            contended: whether a conflict says no more than that others were faster, so that nothing was done.
        """
        began_s = time.monotonic()
        deadline_s = began_s + timeout_s
        renewed = False
        for drawn_s in _waits_s():
            wait_s = drawn_s
            try:
                answer = self._server.call(call, deadline_s)
            except ClusterUnreachable as failed:
                error: Exception = failed
                again = repeatable
            else:
                self._has_answered = True
                if answer.status < 300:
                    return answer
                error = error_of(answer, asked)
                again = isinstance(error, ClusterBusy) or (isinstance(error, ClusterFailed) and repeatable)
                again = again or (isinstance(error, ObjectChanged) and contended)
                if isinstance(error, NotAuthenticated) and not renewed:
                    renewed = again = self._server.access.credentials.renew()
                    self._server.forget_connections()
                if isinstance(error, ClusterBusy) and error.retry_after_s is not None:
                    wait_s = max(wait_s, error.retry_after_s)
            until_s = deadline_s if self._has_answered else min(deadline_s, began_s + FIRST_CONTACT_S)
            if not again or time.monotonic() + wait_s >= until_s or self._closing.wait(wait_s):
                raise error
        raise AssertionError  # the waits have no end


def _waits_s() -> Iterator[float]:
    """How long to wait after each failure: doubled, and drawn, so that many who failed together do not return so."""
    longest_s = FIRST_WAIT_S
    while True:
        yield longest_s * _jitter.uniform(0.5, 1)
        longest_s = min(longest_s * 2, LONGEST_WAIT_S)


def _object(answer: Response, asked: str) -> dict[str, Any]:
    try:
        found = read_json(answer.body)
    except ValueError:
        found = None
    if not isinstance(found, dict):
        raise ClusterFailed(f"Kubernetes: {asked}: the answer is no object; is that address an API server's?")
    return found
