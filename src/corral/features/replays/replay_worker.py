"""The process that runs one replay: `python -m corral.features.replays.replay_worker`. Its input is an order in JSON.

It writes lines of JSON: {"progress": [done, total]} at times, and in the end either {"result": ...} or {"refused":
"why"}. It ends when its input is closed, so it does not outlive the server that started it.
"""

import json
import os
import resource
import sys
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any

from corral.as_login import take_login_standing
from corral.core.ledger.database import Database
from corral.core.ledger.reader import Reader
from corral.core.model.errors import CorralError, Refused
from corral.core.scheduling.policy import placed_by
from corral.features.feature_list import slices
from corral.features.replays.answers import ReplayResult
from corral.features.replays.replay import replay
from corral.features.replays.replay_order import ReplayOrder
from corral.plugins.queue_orders import load_policies
from corral.sim.engine import Progress
from corral.wire import from_plain, to_plain

MEMORY_BYTES = 2 * 1024**3
LONGEST_S = 330
"""The limit of CPU time. The server ends it sooner by the clock; this limit is for a process that hangs."""

MOST_JOBS = 20_000

_TELL_EVERY_S = 0.25

Say = Callable[[Mapping[str, Any]], None]


def answer(ledger_url: str, order: ReplayOrder, tell: Progress) -> ReplayResult:
    """Replay the ledger's jobs. Raises Refused and LedgerFailed."""
    slices()  # a journal has the facts of features, too
    database = Database(ledger_url)
    try:
        reader = Reader(database)
        facts = reader.facts_between(order.since, order.until, most_jobs=MOST_JOBS)
        remembered = reader.runs_before(order.since)
    except Refused as refused:
        raise Refused(f"{refused} (a replay takes {MOST_JOBS:,}): choose a shorter time", field="since") from None
    finally:
        database.close()
    policies = placed_by(order.placement, load_policies())
    return replay(facts, order, policies, tell, remembered=remembered)


class _Teller:
    """Says how far it is, a few times a second."""

    def __init__(self, say: Say) -> None:
        self._say = say
        self._told_at = 0.0

    def tell(self, done: int, total: int) -> None:
        now = time.monotonic()
        if now >= self._told_at + _TELL_EVERY_S:
            self._told_at = now
            self._say({"progress": [done, total]})


def _only_voice() -> Say:
    """Return a function that writes a line of the answer. Any other output, as of a site's own policy, is discarded."""
    out = os.fdopen(os.dup(sys.stdout.fileno()), "w")
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
    os.close(nowhere)

    def say(what: Mapping[str, Any]) -> None:
        out.write(json.dumps(what, separators=(",", ":"), allow_nan=False) + "\n")
        out.flush()

    return say


def _end_with_input() -> None:
    while os.read(sys.stdin.fileno(), 4096):
        pass
    os._exit(1)


def _bound() -> None:
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    resource.setrlimit(resource.RLIMIT_CPU, (LONGEST_S, LONGEST_S))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def main() -> None:
    """Run the one order."""
    _bound()
    say = _only_voice()
    given = json.loads(sys.stdin.readline())
    # Users order replays: none has the protection that a server may have been given.
    take_login_standing(os.getpriority(os.PRIO_PROCESS, 0))
    threading.Thread(target=_end_with_input, name="input", daemon=True).start()
    try:
        order = from_plain(ReplayOrder, given["order"])
        found = {"result": to_plain(answer(given["ledger_url"], order, _Teller(say).tell))}
    except CorralError as error:
        found = {"refused": str(error)}
    except MemoryError:
        found = {"refused": f"it needs more than {MEMORY_BYTES // 1024**3} GiB of memory; choose a shorter time"}
    say(found)
    os._exit(0)


if __name__ == "__main__":
    main()
