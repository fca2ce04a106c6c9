"""Runs past jobs again under other policies on the server, and waits for the result."""

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING
from urllib.parse import quote

from corral.client.connecting.transport import Transport
from corral.client.submitting.arguments import number, texts
from corral.core.model.errors import Conflict, Refused
from corral.features.replays.replay_state import ReplayState
from corral.wire import from_answer

if TYPE_CHECKING:
    from corral.features.replays.answers import Replay, ReplayResult

_ASK_EVERY_S = 0.5


def wait_for_replay(
    transport: Transport, policies: str | Sequence[str], *, since: float | None, until: float | None
) -> "ReplayResult":
    """The result of a new replay. If the caller is interrupted while it waits, the replay is ended."""
    from corral.features.replays.answers import Replay

    period = {
        name: int(number(at, name, "time.time() - 86400"))
        for name, at in (("since", since), ("until", until))
        if at is not None
    }
    body = {"policies": list(texts(policies, "policies", "['configured', 'fair-share']")), **period}
    replay = from_answer(Replay, transport.post("/replays", body))
    where = f"/replays/{quote(replay.id, safe='')}"
    try:
        while replay.state in (ReplayState.QUEUED, ReplayState.RUNNING):
            time.sleep(_ASK_EVERY_S)
            replay = from_answer(Replay, transport.get(where))
    except KeyboardInterrupt:
        transport.delete(where)
        raise
    return _result_of(replay)


def _result_of(replay: "Replay") -> "ReplayResult":
    if replay.result is not None:
        return replay.result
    if replay.state == ReplayState.CANCELLED:
        raise Conflict(f"replay {replay.id}: {replay.error}")
    raise Refused(f"replay {replay.id}: {replay.error}")
