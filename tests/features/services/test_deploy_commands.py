"""`corral deploy`, `corral deployments` and `corral undeploy` as their user meets them, with a real API server."""

import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from corral.engines.kubernetes.cluster.client import Selection
from corral.engines.kubernetes.cluster.errors import NoSuchObject
from corral.engines.kubernetes.cluster.resource import SECRETS
from corral.features.services.service_kinds import OME
from tests.engines.kubernetes.control_plane import ControlPlane
from tests.engines.kubernetes.definitions import needs_definitions
from tests.features.services.conftest import Site
from tests.features.services.operator import make_pod, say_failed, say_ready

pytestmark = needs_definitions

CORRAL = [sys.executable, "-c", "import sys; from corral.cli import main; sys.exit(main())"]
Corral = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def corral(site: Site, control_plane: ControlPlane, tmp_path: Path) -> Corral:
    kubeconfig = control_plane.kubeconfig(tmp_path / "config", namespace=site.namespace)

    def run(*words: str, **variables: str) -> "subprocess.CompletedProcess[str]":
        env = {
            **os.environ,
            "CORRAL_HOME": str(tmp_path),
            "COLUMNS": "2000",
            "KUBECONFIG": str(kubeconfig),
            **variables,
        }
        return subprocess.run([*CORRAL, *words], capture_output=True, text=True, env=env, timeout=120)

    return run


def once_made(site: Site, name: str, then: Callable[[], None]) -> threading.Thread:
    """Play the operator: do this when the service is there."""

    def wait() -> None:
        for _ in range(600):
            try:
                site.cluster.get(OME.services, name, site.namespace)
                break
            except NoSuchObject:
                time.sleep(0.05)
        then()

    thread = threading.Thread(target=wait)
    thread.start()
    return thread


def test_a_service_is_deployed_listed_and_removed(site: Site, corral: Corral) -> None:
    node = site.node("a")
    site.ready_on(node)

    def serve() -> None:
        make_pod(site.cluster, OME, site.namespace, "chat", gpus=2, node=node)
        say_ready(site.cluster, OME, site.namespace, "chat")

    operator = once_made(site, "chat", serve)
    words = ["--via", "ome", "--model", site.model, "--runtime", site.runtime, "--param", "tp-size=2"]
    told = corral("deploy", "chat", *words)
    operator.join()
    url = f"http://chat.{site.namespace}.example.test"
    assert told.returncode == 0, told.stderr
    assert (
        told.stdout
        == f"""\
=== GPU Node Selection ===
Looking for node with 2 idle GPU(s)...
Selected node '{node}' for deployment:
  - Allocatable GPUs: 8/8
  - Idle GPUs: 8
  - Avg Utilization: 0.0%
  - Avg Memory Usage: 0.0%
✓ Selected node: {node}
==========================

Created InferenceService 'chat' in namespace '{site.namespace}' on node '{node}'
chat is ready at {url}
"""
    )
    _, row = corral("deployments").stdout.splitlines()
    assert row.split() == [site.namespace, "chat", "ome", "ready", "2", node, site.model, url]
    (listed,) = json.loads(corral("deployments", "--json").stdout)
    assert (listed["name"], listed["state"]["url"]) == ("chat", url)
    again = corral("deploy", "chat", *words)
    assert (again.returncode, "corral undeploy chat" in again.stderr) == (1, True)
    assert corral("undeploy", "chat").stdout == f"Removed InferenceService 'chat' in namespace '{site.namespace}'\n"
    assert corral("undeploy", "chat").returncode != 0
    assert "nothing is deployed" in corral("deployments").stderr


def test_two_commands_at_once_do_not_take_the_same_gpus(site: Site, corral: Corral) -> None:
    site.ready_on(site.node("a"), site.node("b"))
    words = ["--via", "ome", "--model", site.model, "--runtime", site.runtime, "--param", "tp-size=8", "--detach"]
    told: list[str] = []
    both = [
        threading.Thread(target=lambda name=name: told.append(corral("deploy", name, *words).stdout))
        for name in ("chat", "code")
    ]
    for one in both:
        one.start()
    for one in both:
        one.join()
    chosen = [line for text in told for line in text.splitlines() if line.startswith("✓ Selected node: ")]
    assert sorted(line.split()[-1].partition("-")[0] for line in chosen) == ["a", "b"], told


def test_a_service_that_cannot_become_ready_fails_with_its_reason(site: Site, corral: Corral) -> None:
    site.ready_on(site.node("a"))
    operator = once_made(
        site, "chat", lambda: say_failed(site.cluster, OME, site.namespace, "chat", "no space left on device")
    )
    told = corral("deploy", "chat", "--via", "ome", "--model", site.model, "--runtime", site.runtime, "--node", "any")
    operator.join()
    assert told.returncode == 1
    assert "chat cannot become ready: BlockedByFailedLoad: ModelLoadFailed: no space left on device" in told.stderr


def test_a_dry_run_prints_what_kubectl_could_apply(site: Site, corral: Corral) -> None:
    node = site.node("a")
    site.ready_on(node)
    words = ["--via", "ome", "--model", site.model, "--runtime", site.runtime, "--node", "required", "--dry-run"]
    told = corral("deploy", "chat", *words)
    assert told.returncode == 0, told.stderr
    made = yaml.safe_load(told.stdout)
    assert (made["kind"], made["metadata"]["annotations"]["corral.dev/node"]) == ("InferenceService", node)
    assert f"corral: ✓ Selected node: {node}" in told.stderr.splitlines()
    assert "nothing is deployed" in corral("deployments").stderr


def test_a_server_that_does_not_answer_or_lets_nobody_in_keeps_no_service_from_its_node(
    site: Site, corral: Corral
) -> None:
    node = site.node("a")
    site.ready_on(node)
    words = ["--via", "ome", "--model", site.model, "--runtime", site.runtime, "--dry-run", "--prefer", "zone=a"]
    for url in ("http://127.0.0.1:9", "no address"):
        told = corral("deploy", "chat", *words, CORRAL_URL=url, CORRAL_TOKEN="t")
        assert told.returncode == 0, told.stderr
        assert f"✓ Selected node: {node}" in told.stderr
    assert "whether a server binds pods of this cluster is not known" in told.stderr


def test_a_dry_run_names_variables_and_shows_no_value_of_one(site: Site, corral: Corral) -> None:
    site.ready_on(site.node("a"))
    own = {"spec": {"engineConfig": {"runner": {"env": [{"name": "OF_RUNTIME", "value": "runtime-secret"}]}}}}
    site.cluster.patch(OME.runtimes[0], site.runtime, own)
    words = ["--via", "ome", "--model", site.model, "--runtime", site.runtime, "--gpus", "3", "--dry-run"]
    told = corral("deploy", "chat", *words, "--claim", "models/llama", "--env", "MINE=my-secret", "--env", "PATH")
    assert told.returncode == 0, told.stderr
    engine = yaml.safe_load(told.stdout)["spec"]["engine"]
    assert [entry["name"] for entry in engine["runner"]["env"]] == ["OF_RUNTIME", "MINE", "PATH"]
    assert engine["runner"]["resources"]["limits"] == {"nvidia.com/gpu": "3"}
    assert engine["volumes"][0]["persistentVolumeClaim"] == {"claimName": "models"}
    assert "secret" not in (told.stdout + told.stderr).replace("secretKeyRef", "")
    assert os.environ["PATH"] not in told.stdout
    assert site.cluster.list(SECRETS, Selection(site.namespace)) == ()


@pytest.mark.parametrize(
    ("words", "code", "why"),
    [
        (["--via", "helm", "--model", "m", "--runtime", "r"], 2, "deployed by ome or kserve"),
        (["--via", "ome", "--model", "m", "--runtime", "r", "--param", "tp-size=many"], 2, "no size of parallelism"),
        (
            ["--via", "ome", "--model", "m", "--runtime", "r", "--node", "best"],
            2,
            "affinity: 'best' is not allowed; known: any, preferred, required",
        ),
        (["--via", "ome", "--model", "m", "--runtime", "r", "--fallback", "x"], 2, "known: kubernetes, pin"),
        (["--via", "kserve", "--model", "m", "--runtime", "nothing-at-all"], 1, "there is no runtime nothing-at-all"),
    ],
)
def test_what_makes_no_sense_is_refused_in_one_line(corral: Corral, words: list[str], code: int, why: str) -> None:
    told = corral("deploy", "chat", *words)
    assert told.returncode == code
    assert why in told.stderr
    assert len(told.stderr.splitlines()) == 1


@pytest.mark.parametrize("words", [("deployments",), ("deployments", "--json"), ("undeploy", "chat")])
def test_a_namespace_that_is_not_there_is_said_not_to_be(site: Site, corral: Corral, words: tuple[str, ...]) -> None:
    told = corral(*words, "--namespace", "nope")
    assert (told.returncode, told.stdout) == (1, "")
    assert "has no namespace nope" in told.stderr
