"""Definitions of resource names written into a real cluster, beside those of others."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from corral.core.control.submitting.device_request import RequestRules
from corral.core.model.answers.site import ResourceNameRow
from corral.engines.kubernetes.cluster.client import Cluster
from corral.engines.kubernetes.cluster.resource import CONFIG_MAPS
from corral.engines.kubernetes.resource_names.publishing import ALL_DEFINITIONS, changes_to, write
from corral.engines.kubernetes.resource_names.written import NAMESPACE, config_map, is_of_kubernetes, map_name
from tests.engines.kubernetes.control_plane import ControlPlane

CORRAL = [sys.executable, "-c", "import sys; from corral.cli import main; sys.exit(main())"]
OWN = RequestRules().resource_names()
VCUDA = next(row for row in OWN if row.name == "tencent.com/vcuda-core")


@pytest.fixture(autouse=True)
def clean(cluster: Cluster) -> Iterator[None]:
    yield
    for item in cluster.list(CONFIG_MAPS, ALL_DEFINITIONS):
        cluster.delete(CONFIG_MAPS, item["metadata"]["name"], NAMESPACE)


def test_a_definition_is_written_as_the_vendor_of_the_form_shows_it() -> None:
    written = config_map(VCUDA)
    assert written["metadata"] == {
        "name": "cf-crl-gpu-manager-vcuda-core",
        "namespace": "kube-public",
        "labels": {
            "features.alauda.io/type": "CustomResourceLimitation",
            "features.alauda.io/group": "gpu-manager",
            "features.alauda.io/enabled": "true",
            "app.kubernetes.io/managed-by": "corral",
        },
    }
    data = written["data"]
    assert all(isinstance(value, str) for value in data.values())
    assert data | {"descriptionEn": "", "descriptionZh": ""} == {
        "key": "tencent.com/vcuda-core",
        "dataType": "integer",
        "defaultValue": "20",
        "descriptionZh": "",
        "descriptionEn": "",
        "group": "gpu-manager",
        "limits": "optional",
        "requests": "disabled",
    }


def test_names_that_no_pod_can_have_are_not_written() -> None:
    assert {row.name for row in OWN if not is_of_kubernetes(row.name)} == {
        "cuda.shares",
        "cuda.device",
        "cuda.device:*-mig",
    }


@pytest.mark.parametrize("key", ["Example.COM/Big_Thing.v2", "example.com/--x--"])
def test_a_name_is_one_that_kubernetes_takes(key: str) -> None:
    name = map_name("My Group", key)
    assert name == name.lower()
    assert not name.endswith("-")
    assert " " not in name


def test_all_are_written_once_and_changed_where_they_differ(cluster: Cluster) -> None:
    for change in changes_to(cluster, OWN):
        assert change.writes
        write(cluster, change)
    assert [str(change) for change in changes_to(cluster, OWN) if change.writes] == []
    name = "cf-crl-gpu-manager-vcuda-core"
    cluster.patch(CONFIG_MAPS, name, {"data": {"defaultValue": "99"}}, NAMESPACE)
    (changed,) = [change for change in changes_to(cluster, OWN) if change.writes]
    assert str(changed) == f"tencent.com/vcuda-core: {name} changed"
    write(cluster, changed)
    assert cluster.get(CONFIG_MAPS, name, NAMESPACE)["data"]["defaultValue"] == "20"


def test_what_others_define_is_left_to_them(cluster: Cluster) -> None:
    foreign = config_map(VCUDA)
    foreign["metadata"]["name"] = "cf-crl-theirs-vcuda-core"
    del foreign["metadata"]["labels"]["app.kubernetes.io/managed-by"]
    taken = config_map(ResourceNameRow("tencent.com/vcuda-memory", "gpu-manager"))
    taken["data"]["key"] = "example.com/other"
    del taken["metadata"]["labels"]["app.kubernetes.io/managed-by"]
    for body in (foreign, taken):
        cluster.create(CONFIG_MAPS, body, NAMESPACE)
    left = {change.key: change for change in changes_to(cluster, OWN) if not change.writes}
    assert left.keys() == {"tencent.com/vcuda-core", "tencent.com/vcuda-memory"}
    assert "left as cf-crl-theirs-vcuda-core defines it" in str(left["tencent.com/vcuda-core"])
    assert "cf-crl-gpu-manager-vcuda-memory" in str(left["tencent.com/vcuda-memory"])


def test_a_dry_run_prints_and_writes_nothing_and_then_all_are_written(
    control_plane: ControlPlane, cluster: Cluster, tmp_path: Path
) -> None:
    kubeconfig = control_plane.kubeconfig(tmp_path / "config")
    env = {**os.environ, "CORRAL_HOME": str(tmp_path / "home"), "KUBECONFIG": str(kubeconfig), "COLUMNS": "200"}

    def corral(*words: str) -> str:
        run = subprocess.run([*CORRAL, *words], capture_output=True, text=True, env=env, timeout=120)
        assert run.returncode == 0, run.stderr
        return run.stdout

    corral("up", "--detach")
    try:
        assert "name: cf-crl-gpu-manager-vcuda-core" in corral("kubernetes", "publish-resources", "--dry-run")
        assert cluster.list(CONFIG_MAPS, ALL_DEFINITIONS) == ()
        written = corral("kubernetes", "publish-resources")
        assert "tencent.com/vcuda-core: cf-crl-gpu-manager-vcuda-core created" in written
        assert "created" not in corral("kubernetes", "publish-resources")
    finally:
        corral("down")
