"""Looking at files of users where their jobs may run."""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

from corral.control.node_registry import Nodes
from corral.model.errors import CorralError
from corral.ports.host import Credentials, FileQuery
from corral.wire import from_plain

if TYPE_CHECKING:
    from corral.preflight.file_facts import FileFacts

AT_ONCE = 16
"""So many nodes are asked at the same time."""


class NodeFiles:
    """Implements `corral.ports.host.FileInspector` by the agents of nodes, each of which bounds the time it takes."""

    def __init__(self, nodes: Nodes) -> None:
        self._nodes = nodes
        self._pool = ThreadPoolExecutor(AT_ONCE, thread_name_prefix="inspect")

    def inspect(self, queries: Sequence[FileQuery], who: Credentials | None) -> "dict[FileQuery, FileFacts]":
        """What was found with the rights of `who`; of a directory that some nodes have, that it is there."""
        names = tuple(self._nodes)
        if len(names) == 1:
            return self._on(names[0], queries, who)
        found: dict[FileQuery, FileFacts] = {}
        for answers in self._pool.map(lambda name: self._on(name, queries, who), names):
            for query, facts in answers.items():
                if query not in found or (facts.enterable and not found[query].enterable):
                    found[query] = facts
        return found

    def _on(self, node: str, queries: Sequence[FileQuery], who: Credentials | None) -> "dict[FileQuery, FileFacts]":
        """What was found on one node; nothing where it does not answer."""
        from corral.preflight.file_facts import FileFacts

        try:
            found = self._nodes.agent(node).inspect(tuple(queries), who)
        except CorralError:
            return {}
        return {one.query: from_plain(FileFacts, dict(one.facts)) for one in found}
