"""Caches while a real API server and its store are killed, and restored from an older copy."""

import shutil
import time
from pathlib import Path

from corral.engines.kubernetes.cluster.cache import Cache
from corral.engines.kubernetes.cluster.client import Cluster, Selection
from corral.engines.kubernetes.cluster.object_watch import ObjectWatch
from corral.engines.kubernetes.cluster.pod_facts import PodFacts, read_pod
from corral.engines.kubernetes.cluster.resource import PODS
from tests.engines.kubernetes.control_plane import Processes
from tests.engines.kubernetes.manifests import pod

PATIENCE_S = 90.0


def names(cache: Cache[PodFacts]) -> list[str]:
    return sorted(value.name for value in cache.values())


def wait_until_known(watch: ObjectWatch, cache: Cache[PodFacts], wanted: list[str]) -> None:
    until = time.monotonic() + PATIENCE_S
    while names(cache) != wanted or watch.failure is not None:
        assert time.monotonic() < until, (names(cache), watch.failure)
        time.sleep(0.05)


def test_a_cache_knows_the_truth_again_when_the_store_was_restored_from_an_older_copy(
    own_control_plane: Processes, tmp_path: Path
) -> None:
    cluster: Cluster = own_control_plane.plane.connect(tmp_path)
    watch = ObjectWatch(cluster, PODS, Selection("default"))
    cache = watch.cache(read_pod)
    cluster.create(PODS, pod("first", "default"))
    own_control_plane.stop_store()
    shutil.copytree(own_control_plane.store, tmp_path / "copy")
    own_control_plane.start_etcd()
    watch.start()
    try:
        watch.wait_until_synced(PATIENCE_S)
        for number in range(20):
            cluster.create(PODS, pod(f"later-{number:02}", "default"))
        later = [f"later-{number:02}" for number in range(20)]
        wait_until_known(watch, cache, ["first", *later])

        own_control_plane.kill_api_server()
        own_control_plane.stop_store()
        assert names(cache) == ["first", *later]
        shutil.rmtree(own_control_plane.store)
        shutil.move(tmp_path / "copy", own_control_plane.store)
        own_control_plane.start_etcd()
        own_control_plane.start_api_server()
        wait_until_known(watch, cache, ["first"])
        cluster.create(PODS, pod("afterwards", "default"))
        wait_until_known(watch, cache, ["afterwards", "first"])
    finally:
        watch.stop()
        cluster.close()
