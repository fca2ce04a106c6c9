"""Checks whether the known state of a cluster is up to date."""

import time

from corral.core.model.errors import CorralError
from corral.engines.kubernetes.cluster.client import Cluster
from corral.engines.kubernetes.cluster.object_watch import ObjectWatch

ASK_S = 3.0
"""The silence of the watches after which the API server is asked for its version."""

ANSWER_S = 5.0
"""Within which it has to answer that."""


class ClusterHealth:
    """Tells when the known state of a cluster may be old.

    A watch that ended reports its failure at once. A watch on an API server that hangs notices it only late, so the API
    server is also asked. For one thread alone.
    """

    def __init__(self, cluster: Cluster, *watches: ObjectWatch) -> None:
        self._cluster = cluster
        self._watches = watches
        self._asked_s = 0.0

    def trouble(self) -> CorralError | None:
        """Return why the known state may be old, or None. Waits for an answer of the API server if a check is due."""
        for watch in self._watches:
            if watch.failure is not None:
                return watch.failure
        quiet_s = min(watch.silent_s() for watch in self._watches)
        if min(quiet_s, time.monotonic() - self._asked_s) < ASK_S:
            return None
        try:
            self._cluster.version(ANSWER_S)
        except CorralError as error:
            return error
        self._asked_s = time.monotonic()
        return None
