"""Whether the members of a gang can meet: each node tries the meeting place before anything of the gang starts."""

import threading
from collections.abc import Callable, Collection

from corral.core.model.errors import BackendFailed, Refused
from corral.core.ports.node import NodeAgent, Rendezvous


class MeetingTrial:
    """The answers of all nodes that are to reach a meeting place. `decided` gets the first failure, or None, once."""

    def __init__(self, nodes: Collection[str], decided: Callable[[BackendFailed | None], None]) -> None:
        self._lock = threading.Lock()
        self._awaited = set(nodes)
        self._failure: BackendFailed | None = None
        self._decided = decided

    def answered(self, node: str, failure: BackendFailed | None) -> None:
        """Take the answer of a node."""
        with self._lock:
            if node not in self._awaited:
                return
            self._awaited.discard(node)
            self._failure = self._failure or failure
            if self._awaited:
                return
        self._decided(self._failure)


def failure_of(agent: NodeAgent, node: str, meeting: Rendezvous, first: str) -> BackendFailed | None:
    """Return why a node cannot reach a meeting place on the node `first`; None if it can, or if its agent cannot try.

    Raises NodeUnreachable.
    """
    if agent.host is None:
        return None
    try:
        reason = agent.host.reaches(meeting)
    except Refused:
        # An agent of an earlier version does not know the call.
        return None
    if reason is None:
        return None
    return BackendFailed(
        f"node {node} cannot reach {meeting.address}:{meeting.port}, where the gang's members meet on node {first}: "
        f"{reason}; for a joined host set `address` in `hosts` to an address that the others reach, "
        "and let them connect to its ports"
    )
