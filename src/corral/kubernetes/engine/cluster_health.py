"""Whether what is known of a cluster is as it is now."""

import time

from corral.kubernetes.cluster.client import Cluster
from corral.kubernetes.cluster.object_watch import ObjectWatch
from corral.model.errors import CorralError

ASK_S = 3.0
"""Where its watches heard nothing for so long, the API server is asked whether it is there."""

ANSWER_S = 5.0
"""Within which it has to answer that."""


class ClusterHealth:
    """Watches tell of one that has ended at once, and of an API server that hangs only when they are due to hear of it.

    So it is asked. For one thread alone.
    """

    def __init__(self, cluster: Cluster, *watches: ObjectWatch) -> None:
        self._cluster = cluster
        self._watches = watches
        self._asked_s = 0.0

    def trouble(self) -> CorralError | None:
        """Why what is known may be old, None where it is as new as it can be. Waits for an answer where that is due."""
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
