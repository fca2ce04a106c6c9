"""Waits until jobs have ended, also across a restart of the server."""

from __future__ import annotations

import time

from corral.client.connecting.transport import NoServer, ServerWentAway, Transport

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

POLL_S = 20.0
"""The longest time for which one request stays open."""

WAITED_FOR_AT_ONCE = 1000
"""The most jobs that one request asks about."""

RESTART_GRACE_S = 60.0
"""The time for which a server may be away before the client gives up."""

_RECONNECT_S = 0.2


def wait_for(transport: Transport, ids: Sequence[str], timeout_s: float | None) -> tuple[list[dict[str, Any]], bool]:
    """The jobs of these ids as the server lists them, once they have ended; and whether all have ended.

    If not all have, `timeout_s` has passed, and jobs that were not asked about yet are missing. Raises NoServer if the
    server is not there at first, is away for longer than RESTART_GRACE_S, or is away when the time is up.
    """
    deadline = None if timeout_s is None else time.monotonic() + timeout_s
    rows: list[dict[str, Any]] = []
    for start in range(0, len(ids), WAITED_FOR_AT_ONCE):
        answer = _wait_for_some(transport, list(ids[start : start + WAITED_FOR_AT_ONCE]), deadline)
        rows += answer["jobs"]
        if not answer["done"]:
            return rows, False
    return rows, True


def _wait_for_some(transport: Transport, ids: list[str], deadline: float | None) -> Any:
    """The last answer: all jobs have ended, or `deadline` (monotonic clock) has passed."""
    seen = False
    while True:
        left_s = POLL_S if deadline is None else max(0.0, deadline - time.monotonic())
        answer = _ask(transport, ids, min(POLL_S, left_s), deadline, patient=seen)
        seen = True
        if answer["done"] or (deadline is not None and time.monotonic() >= deadline):
            return answer


def _ask(transport: Transport, ids: list[str], poll_s: float, deadline: float | None, *, patient: bool) -> Any:
    body = {"ids": ids, "timeout_s": poll_s}
    away_since: float | None = None
    while True:
        try:
            return transport.post("/jobs/wait", body, repeatable=True, timeout_s=poll_s + POLL_S)
        except NoServer as error:
            now = time.monotonic()
            away_since = now if away_since is None else away_since
            patient = patient or isinstance(error, ServerWentAway)
            late = deadline is not None and now >= deadline
            if late or not patient or now - away_since > RESTART_GRACE_S:
                raise
            time.sleep(_RECONNECT_S)
