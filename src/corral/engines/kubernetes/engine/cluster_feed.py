"""Reports the changes of all nodes of a cluster by one long poll."""

import time
import uuid
from collections.abc import Callable, Sequence
from dataclasses import replace

from corral.clock import Clock
from corral.core.model.devices.device import DeviceSample, Node
from corral.core.model.errors import CorralError, NodeUnreachable
from corral.core.ports.engine import FeedNews
from corral.core.ports.node import News
from corral.engines.kubernetes.engine.node_book import Happened, NodeBook
from corral.engines.kubernetes.inventory.seen_node import SeenNode

TELL_EVERY_S = 0.05
"""The first change is reported at once, later changes after this time. A report looks at every changed node, whether
one pod was bound meanwhile or a hundred.
"""


class ClusterFeed:
    """Implements `corral.core.ports.engine.NodeFeed`; for the hub's thread alone.

    Before each report, `members` is called with the names of the cluster's current nodes. `trouble` gives the reason
    why the API server does not answer, or None.
    """

    def __init__(
        self,
        book: NodeBook,
        clock: Clock,
        *,
        members: Callable[[frozenset[str]], None],
        trouble: Callable[[], CorralError | None],
    ) -> None:
        self._book = book
        self._clock = clock
        self._members = members
        self._trouble = trouble
        self._epoch = uuid.uuid4().hex
        self._told: dict[str, SeenNode] = {}
        self._told_s = -TELL_EVERY_S

    def news(self, timeout_s: float) -> FeedNews:
        time.sleep(max(0.0, self._told_s + TELL_EVERY_S - time.monotonic()))
        happened = self._book.wait(timeout_s)
        self._told_s = time.monotonic()
        trouble = self._trouble()
        if trouble is not None:
            self._book.tell_again(happened)
            raise NodeUnreachable(str(trouble)) from trouble
        silences = self._book.silences()
        self._members(frozenset(silences))
        for name in self._told.keys() - silences.keys():
            del self._told[name]
        silent = {name: why for name, why in silences.items() if why is not None}
        news = self._news_of(happened, {name for name, why in silences.items() if why is None})
        return FeedNews(news, [name for name in silences if name not in news and name not in silent], silent)

    def _news_of(self, happened: Happened, answering: set[str]) -> dict[str, News]:
        """Return the changes of nodes that answer. A node that does not answer is reported in full once it answers
        again.
        """
        now, found = self._clock.now(), dict[str, News]()
        fresh = answering - self._told.keys()
        for name in {**dict.fromkeys(happened.nodes), **dict.fromkeys(happened.launches), **dict.fromkeys(fresh)}:
            seen = self._book.see(name) if name in answering else None
            if seen is None:
                continue
            before = self._told.get(name)
            self._told[name] = seen
            node = _new_inventory(before, seen)
            samples, launches = _new_samples(before, seen.samples), happened.launches.get(name, ())
            if node is not None or samples or launches:
                found[name] = News(0, self._epoch, now, node, samples, launches)
        return found


def _new_inventory(before: SeenNode | None, seen: SeenNode) -> Node | None:
    # If only the readings of a node changed, the inventory is the same object.
    is_new = before is None or (before.node is not seen.node and before.node != seen.node)
    return seen.node if is_new else None


def _new_samples(before: SeenNode | None, samples: Sequence[DeviceSample]) -> tuple[DeviceSample, ...]:
    """Return the samples that differ from those before. A newer time alone is no change for a device without
    readings.
    """
    known = {} if before is None else {sample.uuid: sample for sample in before.samples}
    return tuple(sample for sample in samples if not _says_the_same(known.get(sample.uuid), sample))


def _says_the_same(before: DeviceSample | None, sample: DeviceSample) -> bool:
    if before is None or sample.metered:
        return before == sample
    return before == replace(sample, taken_at=before.taken_at)
