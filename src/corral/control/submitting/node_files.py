"""Looking at files of users where their jobs may run."""

import queue
import time
from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING

from corral.control.node_registry import Nodes
from corral.model.errors import CorralError
from corral.ports.host import Credentials, FileQuery
from corral.wire import from_plain

if TYPE_CHECKING:
    from corral.preflight.file_facts import FileFacts

NEXT_AFTER_S = 0.03
"""A node that has not answered by then is not waited for alone: others are asked as well."""

WITHIN_S = 4.0
"""An agent takes no longer than 3 s, so that one that has not answered by then hangs."""

Found = Mapping[FileQuery, "FileFacts"]


class NodeFiles:
    """Implements `corral.ports.host.FileInspector` by the agents of nodes, each of which bounds the time it takes."""

    def __init__(self, nodes: Nodes) -> None:
        self._nodes = nodes
        self._quick: str | None = None
        """The node that answered first the last time: it is asked first."""

    def inspect(self, queries: Sequence[FileQuery], who: Credentials | None) -> "dict[FileQuery, FileFacts]":
        """What was found with the rights of `who`; of a directory that some nodes have, that it is there.

        Ever more nodes are asked until one knows: a file system that nodes share is looked at once, and a node that
        hangs delays this for a moment.
        """
        names = sorted(self._nodes, key=lambda name: name != self._quick)
        if len(names) == 1:
            return dict(self._on(names[0], queries, who))
        search = _Search(queries)
        until = time.monotonic() + WITHIN_S
        asked = 0
        while search.goes_on and search.answered < len(names) and time.monotonic() < until:
            more = names[asked : max(1, 2 * asked)]
            for name in more:
                self._nodes.worker(name).inspect(partial(self._answer, name, search, who))
            asked += len(more)
            search.wait(asked, NEXT_AFTER_S if asked < len(names) else until - time.monotonic())
        self._quick = search.first
        search.goes_on = False
        return search.found

    def _answer(self, node: str, search: "_Search", who: Credentials | None) -> None:
        if search.goes_on:
            search.answers.put((node, self._on(node, search.queries, who)))

    def _on(self, node: str, queries: Sequence[FileQuery], who: Credentials | None) -> Found:
        """What was found on one node; nothing where it does not answer."""
        from corral.preflight.file_facts import FileFacts

        try:
            found = self._nodes.agent(node).inspect(tuple(queries), who)
        except CorralError:
            return {}
        return {one.query: from_plain(FileFacts, dict(one.facts)) for one in found}


class _Search:
    """What nodes have answered so far to the same queries.

    Attributes:
        first: the node that answered first.
        goes_on: whether an answer is still of use.
    """

    def __init__(self, queries: Sequence[FileQuery]) -> None:
        self.queries = queries
        self.answers: queue.SimpleQueue[tuple[str, Found]] = queue.SimpleQueue()
        self.found: dict[FileQuery, FileFacts] = {}
        self.first: str | None = None
        self.answered = 0
        self.goes_on = True

    def wait(self, asked: int, timeout_s: float) -> None:
        """Take answers in until all is known, everybody who was asked has answered, or the time is up."""
        until = time.monotonic() + timeout_s
        while self.goes_on and self.answered < asked:
            try:
                node, found = self.answers.get(timeout=max(0.0, until - time.monotonic()))
            except queue.Empty:
                return
            self._take(node, found)

    def _take(self, node: str, found: Found) -> None:
        self.answered += 1
        if found and self.first is None:
            self.first = node
        for query, facts in found.items():
            if query not in self.found or (facts.enterable and not self.found[query].enterable):
                self.found[query] = facts
        known = [self.found.get(query) for query in self.queries]
        self.goes_on = any(facts is None or facts.enterable is False for facts in known)
