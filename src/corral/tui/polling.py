"""Asks the server at intervals for state without events: waits and expected starts, reasons, earlier utilization."""

from functools import partial
from typing import Any

from corral.client import Client
from corral.core.model.answers.job_details import Explanation
from corral.tui.board import Board
from corral.tui.feed import Answered, Asker, read_devices, read_past, read_waits
from corral.tui.job_lines import about_waiting

WAITS_EVERY_S = 5.0
_DEVICES_EVERY_S = 2.0
_SERVER_EVERY_S = 30.0


class LookingAgain:
    """Keeps the board up to date. `why` is the explanation of the waiting job that the user looks at."""

    def __init__(self, board: Board, asker: Asker) -> None:
        self.why = ""
        self._why_of: str | None = None
        self._board = board
        self._asker = asker
        self._asked_at: dict[str, float] = {}

    def look_at(self, job_id: str | None) -> None:
        """Set the waiting job of `why`, or None."""
        if job_id != self._why_of:
            self._why_of = job_id
            self.why = "" if job_id is None else f"job {job_id} waits"
            self._asked_at.pop("why", None)

    def ask(self, now_s: float, server_now: float, visible_devices: Any) -> None:
        """Ask all questions that are due at `now_s` of a monotonic clock, without waiting for answers."""
        again = self._board.look_again
        if "devices" in again and self._due("devices", now_s, _DEVICES_EVERY_S):
            again.discard("devices")
            self._asker.ask(read_devices, self._hear)
        if self._due("server", now_s, 1.0 if "server" in again else _SERVER_EVERY_S):
            again.discard("server")
            self._asker.ask(Client.server, self._hear)
        if self._board.waiting and self._due("waits", now_s, WAITS_EVERY_S):
            self._asker.ask(read_waits, self._hear)
        if self._why_of is not None and self._due("why", now_s, WAITS_EVERY_S):
            self._asker.ask(partial(_why, self._why_of), self._hear_why)
        for uuid in visible_devices:
            past = partial(read_past, uuid=uuid, now=server_now)
            if self._board.sparks.lacks_past(uuid) and self._asker.ask(past, self._hear):
                self._board.sparks.asked(uuid)

    def _due(self, what: str, now_s: float, every_s: float) -> bool:
        if now_s - self._asked_at.get(what, float("-inf")) < every_s:
            return False
        self._asked_at[what] = now_s
        return True

    def _hear(self, answered: Answered) -> None:
        if answered.value is not None:
            self._board.apply([answered.value])

    def _hear_why(self, answered: Answered) -> None:
        explanation: Explanation | None = answered.value
        if explanation is not None and explanation.id == self._why_of and explanation.phase == "PENDING":
            self.why = about_waiting(explanation)


def _why(job_id: str, client: Client) -> Explanation:
    return client.jobs.why(job_id)
