"""A large cluster in the caches that follow it: a real API server with 5,000 nodes and 40,000 pods.

`python -m bench kubernetes_watch` prints how long a process needs from its start until it knows all of them, how much
memory it has then, how soon it knows of a change, and what an event costs it. It needs KUBEBUILDER_ASSETS.
"""

import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import replace
from pathlib import Path

from bench.kubernetes_store import fill, pod_name
from corral.engines.kubernetes.cluster.cache import Cache
from corral.engines.kubernetes.cluster.client import Cluster
from corral.engines.kubernetes.cluster.node_facts import read_node
from corral.engines.kubernetes.cluster.object_watch import ObjectWatch, read_event
from corral.engines.kubernetes.cluster.pod_facts import PodFacts, read_pod
from corral.engines.kubernetes.cluster.resource import NODES, PODS
from corral.engines.kubernetes.cluster.watch_state import Change, Known, WatchState
from tests.engines.kubernetes.assets import find_program
from tests.engines.kubernetes.control_plane import Processes

NODES_IN_ALL, PODS_IN_ALL = 5_000, 40_000
EVENTS = 2_000
CHANGES = 200
BOOT_S = 300.0


def main() -> None:
    if find_program("kube-apiserver") is None:
        print("KUBEBUILDER_ASSETS names no directory with kube-apiserver: not measured")
        return
    with tempfile.TemporaryDirectory() as directory:
        processes = Processes(Path(directory) / "control-plane")
        try:
            plane = processes.start()
            cluster = plane.connect(Path(directory))
            began_s = time.monotonic()
            fill(plane, cluster, NODES_IN_ALL, PODS_IN_ALL)
            print(
                f"{NODES_IN_ALL:,} nodes and {PODS_IN_ALL:,} pods written to etcd in {time.monotonic() - began_s:.0f} s"
            )
            cluster.close()
            kubeconfig = plane.kubeconfig(Path(directory) / "kubeconfig")
            command = [sys.executable, "-m", "bench.kubernetes_watch", str(kubeconfig), str(time.monotonic())]
            subprocess.run(command, check=True)
        finally:
            processes.stop()


def follow(kubeconfig: str, began_s: float) -> None:
    """What the measured process does, which began then, before its imports."""
    empty_mib = _peak_mib()
    cluster = Cluster.connect(kubeconfig)
    watches = ObjectWatch(cluster, NODES), ObjectWatch(cluster, PODS)
    nodes, pods = watches[0].cache(read_node), watches[1].cache(read_pod)
    for watch in watches:
        watch.start()
    for watch in watches:
        watch.wait_until_synced(BOOT_S)
    boot_s, cpu_s, boot_mib = time.monotonic() - began_s, time.process_time(), _peak_mib()
    assert (len(nodes.values()), len(pods.values())) == (NODES_IN_ALL, PODS_IN_ALL)
    print(
        f"all known {boot_s:.1f} s after the process began (goal 15), of which it was on a CPU for {cpu_s:.1f} s; "
        f"{boot_mib:.0f} MiB at most (goal 400), {empty_mib:.0f} of them before"
    )
    time_changes(cluster, pods)
    time_events(cluster)
    for watch in watches:
        watch.stop()
    cluster.close()


def time_changes(cluster: Cluster, pods: Cache[PodFacts]) -> None:
    """How soon a change is told, each made when the one before was."""
    told = threading.Semaphore(0)

    def hear(changes: list[Change[PodFacts]]) -> None:
        if changes[0].old is not None:
            told.release()

    pods.subscribe(hear)
    delays_ms = []
    for number in range(CHANGES):
        cluster.patch(PODS, pod_name(number), {"metadata": {"labels": {"changed": str(os.getpid())}}})
        answered_s = time.monotonic()
        assert told.acquire(timeout=60)
        delays_ms.append(1e3 * (time.monotonic() - answered_s))
    print(
        f"a change is told {statistics.median(delays_ms):.1f} ms after the answer to who made it "
        f"(worst of {CHANGES}: {max(delays_ms):.1f} ms)"
    )


def time_events(cluster: Cluster) -> None:
    """What an event costs: from its line to what changed."""
    changes: list[Change[PodFacts]] = []
    state = WatchState([Known(read_pod, changes.extend)])
    page = cluster.page(PODS, limit=EVENTS)
    state.listed(replace(page, continue_token=None))
    changes.clear()
    lines = []
    for number, item in enumerate(page.items):
        metadata = {**item["metadata"], "resourceVersion": str(10**9 + number), "labels": {"changed": "again"}}
        lines.append(json.dumps({"type": "MODIFIED", "object": {**item, "metadata": metadata}}).encode())
    began_s = time.process_time()
    for line in lines:
        state.heard(read_event(line))
    each_ms = 1e3 * (time.process_time() - began_s) / len(lines)
    assert len(changes) == len(lines)
    print(f"an event of a pod ({len(lines[0]):,} bytes) takes {each_ms:.3f} ms (goal 1)")


def _peak_mib() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


if __name__ == "__main__":
    follow(sys.argv[1], float(sys.argv[2]))
