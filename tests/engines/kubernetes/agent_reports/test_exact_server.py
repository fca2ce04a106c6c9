"""A server whose nodes get agents while jobs run: from counted GPUs to those of a report."""

import json
import time
import uuid
from dataclasses import replace
from pathlib import Path
from typing import Any

from corral.core.model.devices.device import DeviceSample
from corral.engines.kubernetes.agent.agent_report import GivenDevices
from corral.engines.kubernetes.cluster.client import Selection
from corral.engines.kubernetes.cluster.resource import PODS
from corral.engines.kubernetes.inventory.planned_devices import DEVICES
from tests.certificates import needs_openssl
from tests.engines.kubernetes.agent_reports.agents import body_of, make_agent_pod, report, token_of
from tests.engines.kubernetes.agent_reports.reporting import PATIENCE_S, Reporting
from tests.engines.kubernetes.engine.conftest import site
from tests.engines.kubernetes.engine.site import Site

__all__ = ["site"]


def told(node: str, *uuids: str, given: tuple[GivenDevices, ...] = ()) -> bytes:
    """What an agent sends now of idle devices."""
    now = time.time()
    samples = tuple(
        DeviceSample(
            one,
            now,
            utilization_pct=0,
            memory_used_mib=0,
            memory_free_mib=81920,
            memory_total_mib=81920,
            processes=(),
        )
        for one in uuids
    )
    return body_of(replace(report(node, *uuids, sent_at=now, samples=samples), given=given))


def pods_of_jobs(site: Site) -> dict[str, dict[str, Any]]:
    """The pods that the server made, by the ids of their launches."""
    found = {}
    for one in site.cluster.list(PODS, Selection(site.namespace)):
        launch = (one["metadata"].get("annotations") or {}).get("corral.dev/launch")
        if launch:
            found[launch] = one
    return found


def submit(site: Site, node: str) -> None:
    site.corral("submit", "--image", "train:1", "--node", node, "--gpus", "1", "--", "python", "train.py")


@needs_openssl
def test_jobs_keep_running_as_their_node_gets_an_agent_and_its_gpus_their_uuids(site: Site, tmp_path: Path) -> None:
    reporting = Reporting(site, tmp_path)
    (first, second), cluster, namespace = reporting.nodes, site.cluster, site.namespace
    cluster.delete(PODS, f"agent-{first}", namespace, grace_s=0)
    reporting.up()

    # The second node has an agent from the start, and nothing starts there before it reports.
    submit(site, second)
    why = site.until("why", "1", says="has not reported since this server started")
    assert f"the agent of node {second} (pod {namespace}/agent-{second})" in why
    uuids = [f"GPU-{uuid.uuid4()}" for _ in range(2)]
    assert reporting.post(told(second, uuids[1]), reporting.tokens[1]) == (204, "")
    site.until("show", "1", says="STARTING")
    deadline = time.monotonic() + PATIENCE_S
    while "1.1" not in (pods := pods_of_jobs(site)):
        assert time.monotonic() < deadline, site.corral("show", "1")
        time.sleep(0.1)
    assert pods["1.1"]["metadata"]["annotations"][DEVICES].startswith(f"{uuids[1]}:1000:")

    # The first gets one while a job runs, whose pod the kubelet gave a GPU.
    submit(site, first)
    site.until("show", "2", says="STARTING")
    while "2.1" not in (pods := pods_of_jobs(site)):
        assert time.monotonic() < deadline, site.corral("show", "2")
        time.sleep(0.1)
    assert DEVICES not in pods["2.1"]["metadata"]["annotations"]
    name = pods["2.1"]["metadata"]["name"]
    state = {"running": {"startedAt": "2026-01-01T00:00:00Z"}}
    main = {"name": "main", "image": "train:1", "imageID": "", "ready": True, "restartCount": 0, "state": state}
    running = {"phase": "Running", "startTime": "2026-01-01T00:00:00Z", "containerStatuses": [main]}
    cluster.patch(PODS, name, {"status": running}, namespace, subresource="status")
    site.until("show", "2", says="RUNNING")
    uid = make_agent_pod(cluster, namespace, f"agent-{first}", first)
    token = token_of(cluster, namespace, (f"agent-{first}", uid))
    given = GivenDevices(namespace, name, "main", "nvidia.com/gpu", (uuids[0],))
    while reporting.post(told(first, uuids[0], given=(given,)), token)[0] != 204:
        assert time.monotonic() < deadline
        time.sleep(0.2)
    rows = json.loads(site.until("devices", "--json", says=uuids[0]))
    mine = next(row for row in rows if row["uuid"] == uuids[0])
    assert (mine["node"], [one["job"] for one in mine["holders"]]) == (first, ["2"])
    assert "RUNNING" in site.corral("show", "2")
