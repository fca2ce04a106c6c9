"""How long the removal of a pod may take: no longer than who removes it may act."""

import time
from typing import Any
from unittest.mock import Mock

import pytest

from corral.core.model.jobs.pod_ref import PodRef
from corral.engines.kubernetes.binding.bound_mark import BoundMarks
from corral.engines.kubernetes.binding.removing import remove_unless_taken
from corral.engines.kubernetes.cluster.client import Cluster
from corral.engines.kubernetes.cluster.errors import ClusterUnreachable

REF = PodRef("team", "one", "uid-1")
POD = {"metadata": {"namespace": "team", "name": "one", "uid": "uid-1"}, "spec": {"containers": []}, "status": {}}
LOOK_S = 0.1


def removed_by(cluster: Mock, timeout_s: float) -> None:
    remove_unless_taken(cluster, REF, BoundMarks("aaaa", lambda launch_id: None), timeout_s)


@pytest.fixture
def cluster() -> Mock:
    """An API server that takes its time to show a pod."""

    def slow(*args: Any, **kwargs: Any) -> dict[str, Any]:
        time.sleep(LOOK_S)
        return POD

    return Mock(spec=Cluster, get=slow)


def test_the_deletion_has_the_time_that_the_look_has_left(cluster: Mock) -> None:
    removed_by(cluster, 5.0)
    assert cluster.delete.call_args.kwargs["timeout_s"] <= 5.0 - LOOK_S


def test_nothing_is_deleted_once_the_look_has_taken_all_the_time(cluster: Mock) -> None:
    with pytest.raises(ClusterUnreachable, match="not deleted"):
        removed_by(cluster, LOOK_S)
    cluster.delete.assert_not_called()
