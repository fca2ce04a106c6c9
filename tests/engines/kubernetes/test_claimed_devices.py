"""ResourceClaims by the bytes of the published types: no API server of these tests has them."""

import json
from typing import Any

import pytest

from corral.engines.kubernetes.claimed_devices import ClaimedDevice, keep_claimed
from corral.engines.kubernetes.cluster.client import Cluster
from corral.engines.kubernetes.doctor import examine
from corral.formatting.check_result import OK, WARNING
from tests.engines.kubernetes.nodes import make_node

ALLOCATED = """
{"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim", "metadata": {"name": "one-gpu-x", "namespace": "team-a"},
 "spec": {"devices": {"requests": [{"name": "gpu", "exactly": {"deviceClassName": "gpu.nvidia.com"}}]}},
 "status": {"allocation": {"devices": {"results": [
   {"request": "gpu", "driver": "gpu.nvidia.com", "pool": "gpu-07", "device": "gpu-3"},
   {"request": "nic", "driver": "net.example.com", "pool": "gpu-07", "device": "nic-0"},
   {"request": "look", "driver": "gpu.nvidia.com", "pool": "gpu-07", "device": "gpu-4", "adminAccess": true}]}},
  "reservedFor": [{"resource": "pods", "name": "train", "uid": "u"}]}}
"""


def test_the_gpus_that_a_claim_was_given_are_read_and_nothing_else() -> None:
    (found,) = keep_claimed(json.loads(ALLOCATED)) or ()
    assert found == ClaimedDevice("team-a/one-gpu-x", "gpu.nvidia.com", "gpu-07", "gpu-3")


@pytest.mark.parametrize(
    "written",
    [
        {},
        {"metadata": {"name": "waits"}, "status": {}},
        {"status": {"allocation": {"devices": {"results": "all"}}}},
        {"status": {"allocation": {"devices": {"results": [None, {"driver": ["gpu.nvidia.com"], "pool": 7}]}}}},
    ],
)
def test_a_claim_without_devices_or_sense_has_none(written: dict[str, Any]) -> None:
    assert keep_claimed(written) is None


def test_doctor_passes_over_a_cluster_without_claims_and_tells_of_gpus_that_can_be_given_twice(
    cluster: Cluster, namespace: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert {one.about: one for one in examine(cluster)}["claims"].state == OK
    node = f"a-{namespace}"
    make_node(cluster, node, gpus=4)
    claim = json.loads(ALLOCATED.replace("gpu-07", node))
    listed = Cluster.read_all

    def with_claims(self: Cluster, resource: Any, keep: Any, *more: Any, **options: Any) -> Any:
        return [keep(claim)] if resource.kind == "ResourceClaim" else listed(self, resource, keep, *more, **options)

    monkeypatch.setattr(Cluster, "read_all", with_claims)
    told = {one.about: one for one in examine(cluster)}["claims"]
    assert told.state == WARNING
    assert f"team-a/one-gpu-x has gpu-3 of {node}" in told.found
