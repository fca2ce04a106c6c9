"""Inspecting files of users on the nodes where their jobs may run."""

import time
from collections.abc import Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from functools import partial
from typing import TYPE_CHECKING

from corral.control.node_registry import Nodes
from corral.model.errors import CorralError
from corral.ports.host import Credentials, FileQuery
from corral.wire import from_plain

if TYPE_CHECKING:
    from corral.preflight.file_facts import FileFacts

WITHIN_S = 3.5
"""What no node has answered by then is not known: the 3 s that an agent gives to files, and the way there."""

AFTER_FIRST_S = 0.5
"""Once one node has answered, the others have so much more time: one that hangs delays a submission no longer."""

Found = Mapping[FileQuery, "FileFacts"]


class NodeFiles:
    """Has the agents of nodes inspect files, all of them at the same time. Safe from any thread."""

    def __init__(self, nodes: Nodes) -> None:
        self._nodes = nodes

    def inspect(self, queries: Mapping[str, Sequence[FileQuery]], who: Credentials | None) -> dict[str, Found]:
        """What was found with the rights of `who`, None being the server's own, by node and query.

        `queries` are by node. What took an agent too long is left out. A node that does not answer is left out where
        another does; where none does, nothing is found on any.
        """
        if len(self._nodes) == 1:
            # Its agent bounds the time itself.
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
        """What was found on one node; nothing where it does not answer."""
        from corral.preflight.file_facts import FileFacts

        try:
            found = self._nodes.agent(node).inspect(tuple(queries), who)
            return {one.query: from_plain(FileFacts, dict(one.facts)) for one in found}
        except CorralError:
            return {}


def _found_in(answer: "Future[Found]") -> Found:
    """What an answer says; nothing where there is none by now."""
    return answer.result() if answer.done() and answer.exception() is None else {}
