"""A server that binds pods which others make, as the installed command starts it."""

import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from corral.engines.kubernetes.cluster.client import Cluster
from corral.engines.kubernetes.cluster.errors import NoSuchObject
from corral.engines.kubernetes.cluster.resource import PODS
from tests.engines.kubernetes.binding.site import pod_of_others

PATIENCE_S = 60.0


class Server:
    """A home whose server binds the pods that name its namespace as their scheduler."""

    def __init__(self, home: Path, kubeconfig: Path, cluster: Cluster, namespace: str, node: str) -> None:
        self.home = home
        self.home.mkdir()
        self.cluster, self.namespace, self.node = cluster, namespace, node
        (self.home / "config.yaml").write_text(
            "engine: kubernetes\n"
            f"kubernetes:\n  kubeconfig: {kubeconfig}\n  namespace: {namespace}\n  scheduler_name: {namespace}\n"
            f"  pod_users: [{namespace}=alice]\n"
        )

    def corral(self, *words: str) -> str:
        env = {**os.environ, "CORRAL_HOME": str(self.home), "NO_COLOR": "1", "COLUMNS": "250"}
        command = [str(Path(sys.executable).parent / "corral"), *words]
        done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=PATIENCE_S)
        return done.stdout + done.stderr

    def make(self, name: str, labels: dict[str, str] | None = None, **more: Any) -> None:
        # Nodes of other tests are there, too.
        own: dict[str, Any] = {
            "nodeSelector": {"kubernetes.io/hostname": self.node},
            "terminationGracePeriodSeconds": 5,
        }
        made = pod_of_others(name, self.namespace, **{**own, **more})
        made["metadata"]["labels"] = labels or {}
        self.cluster.create(PODS, made, self.namespace)

    def eventually(self, holds: Callable[[], object], what: str) -> None:
        deadline = time.monotonic() + PATIENCE_S
        while not holds():
            assert time.monotonic() < deadline, f"{what}: {self.corral('ps', '--all')}{self.log()[-3000:]}"
            time.sleep(0.1)

    def log(self) -> str:
        return (self.home / "server.log").read_text()

    def phase(self, name: str) -> str | None:
        try:
            return str(self.cluster.get(PODS, name, self.namespace)["status"].get("phase"))
        except NoSuchObject:
            return None
