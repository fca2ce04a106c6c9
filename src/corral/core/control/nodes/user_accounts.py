"""Users and the nodes whose accounts are their own: keeps the view informed where no job of a user can run.

Each such node is asked once for each user, and again after a while: a missing account may have been made.
"""

import threading
from collections.abc import Iterable
from concurrent.futures import Future, wait
from contextlib import suppress
from dataclasses import dataclass
from functools import partial

from corral.clock import Clock
from corral.core.control.nodes.node_registry import Nodes
from corral.core.model.errors import CorralError
from corral.core.model.fact import UsersBarred
from corral.core.model.jobs.phase import Phase
from corral.core.model.view import View
from corral.core.ports.host import JobUser
from corral.core.ports.ledger import Ledger

TRUST_S = 180.0
"""The time after which a node is asked again about a user."""

RETRY_S = 20.0
"""The time after which a node is asked again about a user who cannot use it: somebody may be about to change that."""

LOOK_INTERVAL_S = 5.0
"""The interval of looks for users whose jobs wait, and whom a node has not been asked about."""

SUBMISSION_S = 1.0
"""The time that the first submission of a user waits for the answers of nodes."""

_MOST_USERS = 500
"""The most users that one question names."""


@dataclass(frozen=True, slots=True)
class _Answer:
    asked_s: float
    lack: str | None

    def is_fresh(self, now_s: float) -> bool:
        return now_s - self.asked_s < (TRUST_S if self.lack is None else RETRY_S)


class UserAccounts:
    """Asks nodes about users. Thread-safe."""

    def __init__(self, ledger: Ledger, nodes: Nodes, clock: Clock) -> None:
        self._ledger = ledger
        self._nodes = nodes
        self._clock = clock
        self._lock = threading.Lock()
        self._answers: dict[str, dict[JobUser, _Answer]] = {}

    def look(self) -> None:
        """Ask about the users whose jobs wait, as far as no fresh answer is known."""
        names = self._with_accounts()
        if not names:
            return
        jobs = self._ledger.view().jobs.values()
        users = dict.fromkeys(JobUser(job.spec.user, job.spec.uid) for job in jobs if job.phase is Phase.PENDING)
        self._ask(names, users)

    def know(self, user: JobUser) -> None:
        """Ask about a user who submits a job, and wait a moment for the answers."""
        wait(self._ask(self._with_accounts(), [user]), timeout=SUBMISSION_S)

    def _with_accounts(self) -> list[str]:
        """Return the nodes that have accounts of their own and that answer."""
        view = self._ledger.view()
        return [name for name, agent in self._nodes.items() if agent.accounts is not None and _answers(view, name)]

    def _ask(self, names: Iterable[str], users: Iterable[JobUser]) -> list[Future[None]]:
        now_s = self._clock.monotonic()
        asked = []
        for name in names:
            with self._lock:
                known = self._answers.setdefault(name, {})
                new = [user for user in users if user not in known or not known[user].is_fresh(now_s)][:_MOST_USERS]
            if new:
                with suppress(CorralError):
                    asked.append(self._nodes.worker(name).inspect(partial(self._ask_node, name, tuple(new))))
        return asked

    def _ask_node(self, name: str, users: tuple[JobUser, ...]) -> None:
        accounts = self._nodes.agent(name).accounts
        if accounts is None:
            return
        try:
            lacks = accounts.lacks(users)
        except CorralError:
            # The node itself refuses a job that it cannot run.
            return
        now_s = self._clock.monotonic()
        with self._lock:
            known = self._answers.setdefault(name, {})
            known.update({user: _Answer(now_s, lack) for user, lack in zip(users, lacks, strict=True)})
            kept = {user: one for user, one in known.items() if now_s - one.asked_s < 2 * TRUST_S}
            self._answers[name] = kept
            reasons = {user.name: one.lack for user, one in kept.items() if one.lack is not None}
            if reasons != dict(self._ledger.view().barred.get(name, {})):
                self._ledger.observe([UsersBarred(name, reasons)])


def _answers(view: View, name: str) -> bool:
    return name in view.nodes and name not in view.silences
