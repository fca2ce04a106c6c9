"""A real kube-scheduler asks a real server which nodes its pods may have, and the server binds them."""

import re
import subprocess
import sys
import uuid
from pathlib import Path
from typing import Any

import yaml

from corral.engines.kubernetes.binding.pods_of_others import BOUND_FOR
from corral.engines.kubernetes.cluster.client import Cluster
from corral.engines.kubernetes.cluster.resource import NODES, PODS
from tests.certificates import make_certificate, needs_openssl
from tests.engines.kubernetes.binding.site import pod_of_others
from tests.engines.kubernetes.control_plane import ControlPlane, reserved_port, run_program
from tests.engines.kubernetes.engine.binding_server import Server
from tests.engines.kubernetes.nodes import make_node


def configuration(server: Server, directory: Path, base: dict[str, Any]) -> Path:
    """The file of a kube-scheduler with the extender, as the command adds it to one that is there."""
    url = re.search(r"serving on .*(https://[0-9.]+:\d+)", server.log())
    assert url is not None, server.log()
    before, after = directory / "before.yaml", directory / "after.yaml"
    before.write_text(yaml.safe_dump(base))
    certificate, key = directory / "system:kube-scheduler-cert.pem", directory / "system:kube-scheduler-key.pem"
    files = ("--ca", str(directory / "server-cert.pem"), "--cert", str(certificate), "--key", str(key))
    command = [str(Path(sys.executable).parent / "corral"), "kubernetes", "extender-config", url[1], *files]
    done = subprocess.run([*command, "--merge", str(before)], capture_output=True, text=True, check=True, timeout=60)
    after.write_text(done.stdout)
    return after


@needs_openssl
def test_pods_of_a_kube_scheduler_go_where_the_planner_lets_them_and_are_jobs(
    tmp_path: Path, control_plane: ControlPlane, cluster: Cluster, namespace: str
) -> None:
    node, scheduler = f"ks-{uuid.uuid4().hex[:6]}", f"{namespace}-theirs"
    make_node(cluster, node, gpus=4)
    kubeconfig = control_plane.kubeconfig(tmp_path / "kubeconfig", namespace=namespace)
    certificate, key = make_certificate(tmp_path)
    callers, _ = make_certificate(tmp_path, "system:kube-scheduler")
    server = Server(tmp_path / "home", kubeconfig, cluster, namespace, node)
    reserved = reserved_port()
    port = reserved.getsockname()[1]
    base = {
        "apiVersion": "kubescheduler.config.k8s.io/v1beta1",
        "kind": "KubeSchedulerConfiguration",
        "clientConnection": {"kubeconfig": str(kubeconfig)},
        "leaderElection": {"leaderElect": False},
        # A port must be named; one address for both is one listener.
        "healthzBindAddress": f"127.0.0.1:{port}",
        "metricsBindAddress": f"127.0.0.1:{port}",
        "profiles": [{"schedulerName": scheduler}],
    }
    tls = ("--tls-cert", str(certificate), "--tls-key", str(key), "--tls-client-ca", str(callers))
    playing = None
    try:
        server.corral("up", "--detach", "--listen", "127.0.0.1:0", *tls)
        arguments = [f"--config={configuration(server, tmp_path, base)}", "--secure-port=0", "--port=0"]
        reserved.close()
        playing = run_program("kube-scheduler", arguments, tmp_path / "kube-scheduler.log")

        def make(name: str, gpus: int) -> None:
            selector = {"kubernetes.io/hostname": node}
            made = pod_of_others(name, namespace, gpus=gpus, nodeSelector=selector, schedulerName=scheduler)
            cluster.create(PODS, made, namespace)

        def bound(name: str) -> bool:
            found = cluster.get(PODS, name, namespace)
            marked = BOUND_FOR in (found["metadata"].get("annotations") or {})
            return found["spec"].get("nodeName") == node and marked

        def why(name: str) -> str:
            conditions = cluster.get(PODS, name, namespace)["status"].get("conditions") or []
            return " ".join(str(one.get("message")) for one in conditions)

        make("one", 3)
        server.eventually(lambda: bound("one"), "the first pod is bound")
        assert f"{namespace}/one" in server.corral("ps")
        server.corral("cordon", node)
        make("two", 1)
        server.eventually(lambda: why("two"), "kube-scheduler says why the second pod waits")
        assert "cordoned" in why("two"), why("two")
        assert not bound("two")
        server.corral("uncordon", node)
        # kube-scheduler tries such a pod again when something in the cluster changes, else after a minute.
        cluster.patch(NODES, node, {"metadata": {"labels": {"changed": "true"}}})
        server.eventually(lambda: bound("two"), "the second pod is bound once it may be")
    finally:
        reserved.close()
        if playing is not None:
            playing.kill()
            playing.wait()
        server.corral("down")
