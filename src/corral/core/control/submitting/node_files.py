"""Inspecting files of users on the nodes where their jobs may run."""

import time
from collections.abc import Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from functools import partial
from typing import TYPE_CHECKING

from corral.core.control.nodes.node_registry import Nodes
from corral.core.model.errors import CorralError
from corral.core.ports.host import Credentials, FileQuery
from corral.wire import from_plain

if TYPE_CHECKING:
    from corral.core.preflight.file_facts import FileFacts

WITHIN_S = 3.5
"""The time limit of all answers: the 3 s that an agent has for files, and the way there. Later answers count as
unknown.
"""

AFTER_FIRST_S = 0.5
"""The time that the other nodes have after the first answer: a node that hangs delays a submission no longer."""

Found = Mapping[FileQuery, "FileFacts"]


class NodeFiles:
    """Lets the agents of nodes inspect files, all at the same time. Safe from any thread."""

    def __init__(self, nodes: Nodes) -> None:
        self._nodes = nodes

    def inspect(self, queries: Mapping[str, Sequence[FileQuery]], who: Credentials | None) -> dict[str, Found]:
        """Return the findings with the rights of `who`, or the server's own for None, by node and query.

        `queries` are by node. Queries that took an agent too long are left out. Nodes that do not answer are left out
        if another does; if none answers, the findings of all are empty.
        """
        if len(self._nodes) == 1:
            # The only node is asked on this thread: its agent limits the time itself.
            return {name: self._on(name, asked, who) for name, asked in queries.items()}
        asked_of = {
            name: self._nodes.worker(name).inspect(partial(self._on, name, asked, who))
            for name, asked in queries.items()
        }
        waiting: set[Future[Found]] = set(asked_of.values())
        until = time.monotonic() + WITHIN_S
        while waiting and (left_s := until - time.monotonic()) > 0:
            done, waiting = wait(waiting, timeout=left_s, return_when=FIRST_COMPLETED)
            if any(map(_found_in, done)):
                until = min(until, time.monotonic() + AFTER_FIRST_S)
        answers = {name: found for name, answer in asked_of.items() if (found := _found_in(answer))}
        return answers or {name: {} for name in queries}

    def _on(self, node: str, queries: Sequence[FileQuery], who: Credentials | None) -> "Found":
        """Return the findings on one node; empty if it does not answer."""
        from corral.core.preflight.file_facts import FileFacts

        try:
            host = self._nodes.agent(node).host
            found = () if host is None else host.inspect(tuple(queries), who)
            return {one.query: from_plain(FileFacts, dict(one.facts)) for one in found}
        except CorralError:
            return {}


def _found_in(answer: "Future[Found]") -> Found:
    """Return the findings in an answer; empty if there is no answer by now."""
    return answer.result() if answer.done() and answer.exception() is None else {}
