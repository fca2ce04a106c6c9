"""Inspecting files of users on the nodes where their jobs may run."""

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from typing import TYPE_CHECKING

from corral.control.node_registry import Nodes
from corral.model.errors import CorralError
from corral.ports.host import Credentials, FileQuery
from corral.wire import from_plain

if TYPE_CHECKING:
    from corral.preflight.file_facts import FileFacts

DEADLINE_S = 3.5
"""What a node has not answered by then is not known: the 3 s that its agent gives to files, and the way there."""
_AT_ONCE = 64
"""So many calls are made at once; one to a node that hangs is left behind, and holds its thread for a while."""

Found = Mapping[FileQuery, "FileFacts"]


class NodeFiles:
    """Has the agents of nodes inspect files, all of them at the same time. Safe from any thread."""

    def __init__(self, nodes: Nodes, *, deadline_s: float = DEADLINE_S) -> None:
        self._nodes = nodes
        self._deadline_s = deadline_s
        self._pool = ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="inspect")

    def inspect(self, queries: Mapping[str, Sequence[FileQuery]], who: Credentials | None) -> dict[str, Found]:
        """What was found with the rights of `who`, None being the server's own, by node and query.

        `queries` are by node. What took too long is left out, and so is all of a node that does not answer.
        """
        if len(self._nodes) == 1:
            # Its agent bounds the time itself.
            return {name: self._on(name, asked, who) for name, asked in queries.items()}
        asked_of = {name: self._pool.submit(self._on, name, asked, who) for name, asked in queries.items()}
        done, late = wait(asked_of.values(), timeout=self._deadline_s)
        for waiting in late:
            waiting.cancel()
        return {name: answer.result() if answer in done else {} for name, answer in asked_of.items()}

    def _on(self, node: str, queries: Sequence[FileQuery], who: Credentials | None) -> "Found":
        """What was found on one node; nothing where it does not answer."""
        from corral.preflight.file_facts import FileFacts

        try:
            found = self._nodes.agent(node).inspect(tuple(queries), who)
            return {one.query: from_plain(FileFacts, dict(one.facts)) for one in found}
        except CorralError:
            return {}
