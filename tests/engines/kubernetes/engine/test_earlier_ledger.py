"""Pods that an earlier ledger has made are named before another one begins, and their numbers not given again."""

import json
import shutil

from corral.engines.kubernetes.cluster.client import Selection
from corral.engines.kubernetes.cluster.resource import PODS
from tests.engines.kubernetes.engine.site import Site
from tests.engines.kubernetes.nodes import make_node


def test_pods_of_before_keep_their_numbers_and_a_new_ledger_from_beginning(site: Site) -> None:
    node = f"{site.prefix}-a"
    make_node(site.cluster, node, gpus=4)
    site.up()
    site.corral("down")
    ledger, copy = site.home / "ledger.db", site.home / "copy.db"
    shutil.copy(ledger, copy)
    site.up()
    lost = submitted(site)
    site.until("show", lost, says="STARTING")
    assert any(f"-{lost}-1-0" in pod["metadata"]["name"] for pod in site.cluster.list(PODS, Selection(site.namespace)))
    site.corral("down")

    assert f"the pod of job {lost}.1" in site.up("--anew", status=1)
    assert ledger.exists()

    for ending in ("-wal", "-shm"):
        (site.home / f"ledger.db{ending}").unlink(missing_ok=True)
    copy.replace(ledger)
    for name in ("logs", "launches", "scratch"):
        shutil.rmtree(site.home / name, ignore_errors=True)
    site.up()
    assert int(submitted(site)) > int(lost)


def submitted(site: Site) -> str:
    said = site.corral(
        "submit", "--json", "--image", "train:1", "--node", f"{site.prefix}-a", "--gpus", "1", "--", "true"
    )
    job_id: str = json.loads(said)["id"]
    return job_id
