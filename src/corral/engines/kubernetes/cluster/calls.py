"""Calls that are repeated after failures.

A call that fails for a moment (a broken connection, 429, 500) is repeated until its deadline, if a repetition is
harmless. Only the creation of an object whose name the server chooses is not.
"""

import random
import threading
import time
from collections.abc import Iterator
from typing import Any

from corral.engines.kubernetes.cluster.answers import error_of
from corral.engines.kubernetes.cluster.connection import Call, Connections, OpenLine, Response, ResponseStream
from corral.engines.kubernetes.cluster.errors import (
    ClusterBusy,
    ClusterFailed,
    ClusterUnreachable,
    NotAuthenticated,
    ObjectChanged,
)
from corral.engines.kubernetes.cluster.json_text import read_json
from corral.engines.kubernetes.cluster.kubeconfig import Access

_jitter = random.Random()
"""A generator of random numbers for these calls only: they run on threads, and other code, such as tests, may seed the
generator of the process.
"""

FIRST_WAIT_S, LONGEST_WAIT_S = 0.05, 2.0
FIRST_CONTACT_S = 3.0
"""The time for which an address without any answer yet is tried: the address may be wrong."""


class Calls:
    """Calls of many threads to one API server. They raise the errors of `corral.engines.kubernetes.cluster.errors`."""

    def __init__(self, access: Access) -> None:
        self._server = Connections(access)
        self._closing = threading.Event()
        self._has_answered = False

    def __str__(self) -> str:
        return str(self._server)

    def close(self) -> None:
        """Abort calls that wait for another try, and close idle connections."""
        self._closing.set()
        self._server.close()

    def stream(self, call: Call, asked: str, timeout_s: float, silence_s: float | None) -> ResponseStream:
        """Return the stream of an answer that comes in parts. Tried once, and again only with another credential."""
        deadline_s = time.monotonic() + timeout_s
        answer = self._server.stream(call, deadline_s, silence_s)
        if isinstance(answer, Response) and answer.status == 401 and self._server.access.credentials.renew():
            answer = self._server.stream(call, deadline_s, silence_s)
        if isinstance(answer, Response):
            raise error_of(answer, asked)
        return answer

    def renew(self) -> bool:
        """Get another credential. Return whether there may be one."""
        return self._server.access.credentials.renew()

    def open_line(self, timeout_s: float) -> OpenLine:
        """Open a connection of its own, for protocols beyond HTTP. Tried once."""
        return self._server.open_line(time.monotonic() + timeout_s)

    def asked(
        self, call: Call, asked: str, timeout_s: float, *, repeatable: bool = True, contended: bool = False
    ) -> dict[str, Any]:
        """Return the object in the answer to a call. The arguments are those of `answered`."""
        return _object(self.answered(call, asked, timeout_s, repeatable=repeatable, contended=contended), asked)

    def answered(
        self, call: Call, asked: str, timeout_s: float, *, repeatable: bool = True, contended: bool = False
    ) -> Response:
        """Return the successful answer.

        Args:
            call: the request.
            asked: the request in words, for messages, as "create pods one".
            timeout_s: the time limit for all tries together.
            repeatable: whether doing it twice is harmless. A call that was certainly not carried out is repeated
                anyway.
            contended: whether a conflict only means that another client was faster, and nothing was done.
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
    """Yield the wait in seconds after each failure. It doubles, with jitter, so that clients do not return all at
    once.
    """
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
