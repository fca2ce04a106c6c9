import json
from typing import Any

import pytest

from corral.core.model.errors import Forbidden, Refused
from corral.engines.kubernetes.pods.template import Allowed, read_template

STRICT = Allowed(privileged=False, host_path=lambda path: path == "/data")
LAX = Allowed(privileged=True, host_path=lambda path: True)


def read(template: Any, allowed: Allowed = STRICT) -> dict[str, Any]:
    return read_template(json.dumps(template), allowed)


def test_what_makes_no_difference_to_the_planner_is_free() -> None:
    spec = {
        "tolerations": [{"key": "a", "operator": "Exists"}],
        "imagePullSecrets": [{"name": "registry"}],
        "volumes": [{"name": "shm", "emptyDir": {"medium": "Memory"}}, {"name": "d", "hostPath": {"path": "/data"}}],
        "securityContext": {"runAsUser": 1000, "fsGroup": 100},
        "containers": [
            {
                "env": [{"name": "TOKEN", "valueFrom": {"secretKeyRef": {"name": "t", "key": "k"}}}],
                "volumeMounts": [{"name": "shm", "mountPath": "/dev/shm"}],
                "securityContext": {"capabilities": {"drop": ["ALL"]}, "allowPrivilegeEscalation": False},
                "lifecycle": {"preStop": {"exec": {"command": ["save"]}}},
            }
        ],
    }
    template = {"metadata": {"labels": {"team": "a"}, "annotations": {"note": "b"}}, "spec": spec}
    assert read(template) == template


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ({"nodeName": "n"}, "use --node"),
        ({"nodeSelector": {"a": "b"}}, "use --label"),
        ({"affinity": {}}, "use --label"),
        ({"schedulerName": "x"}, "Corral has chosen"),
        ({"serviceAccountName": "admin"}, "use --service-account"),
        ({"activeDeadlineSeconds": 5}, "use --time"),
        ({"restartPolicy": "Always"}, "use --retries"),
        ({"initContainers": []}, "cannot be set by a template"),
        ({"ephemeralContainers": []}, "cannot be set by a template"),
        ({"automountServiceAccountToken": True}, "cannot be set by a template"),
        ({"containers": [{}, {}]}, "has 2, but a job's pod has one"),
        ({"containers": [{"image": "x"}]}, "use --image"),
        ({"containers": [{"command": ["x"]}]}, "the command after --"),
        ({"containers": [{"resources": {}}]}, "use --gpus"),
        ({"containers": [{"env": {"a": "b"}}]}, "must be a list"),
        ({"containers": ["x"]}, "must be an object"),
        ({"volumes": [{"name": "corral-0", "emptyDir": {}}]}, "does not begin with corral-"),
        ({"volumes": [{"name": "a"}]}, "one source"),
        ({"volumes": "x"}, "must be a list"),
        ({"toleration": []}, "spec.toleration cannot be set by a template; did you mean 'tolerations'"),
        ({"containers": [{"volumeMount": []}]}, "did you mean 'volumeMounts'"),
        ({"securityContext": {"runAsuser": 1}}, "securityContext.runAsuser .* did you mean 'runAsUser'"),
        ({"zone": 5}, "known: containers, "),
    ],
)
def test_what_corral_decides_is_refused_with_what_to_use(spec: dict[str, Any], message: str) -> None:
    for allowed in (STRICT, LAX):
        with pytest.raises(Refused, match=message):
            read({"spec": spec}, allowed)


@pytest.mark.parametrize(
    "spec",
    [
        {"hostNetwork": True},
        {"hostPID": True},
        {"hostIPC": True},
        {"priorityClassName": "system-node-critical"},
        {"securityContext": {"sysctls": []}},
        {"containers": [{"securityContext": {"privileged": True}}]},
        {"containers": [{"securityContext": {"allowPrivilegeEscalation": True}}]},
        {"containers": [{"securityContext": {"capabilities": {"add": ["SYS_ADMIN"]}}}]},
        {"containers": [{"securityContext": {"procMount": "Unmasked"}}]},
        {"containers": [{"ports": [{"containerPort": 1, "hostPort": 22}]}]},
        {"volumes": [{"name": "a", "hostPath": {"path": "/"}}]},
    ],
)
def test_power_over_the_host_is_the_sites_to_give(spec: dict[str, Any]) -> None:
    with pytest.raises(Forbidden, match="this site does not"):
        read({"spec": spec})
    read({"spec": spec}, LAX)


@pytest.mark.parametrize("kind", ["nfs", "csi", "projected", "gitRepo", "iscsi"])
def test_volumes_that_reach_around_the_cluster_are_refused(kind: str) -> None:
    with pytest.raises(Forbidden, match="are not allowed"):
        read({"spec": {"volumes": [{"name": "a", kind: {}}]}}, LAX)


@pytest.mark.parametrize("path", ["/data/../etc", "/data/..", None, 5, {}])
def test_a_path_of_the_host_stays_where_it_says(path: object) -> None:
    with pytest.raises(Forbidden):
        read({"spec": {"volumes": [{"name": "a", "hostPath": {"path": path}}]}}, LAX)


@pytest.mark.parametrize(
    "template",
    [
        [], "x", {"kind": "Pod", "status": {}}, {"metadata": {"name": "x"}}, {"metadata": {"finalizers": []}},
        {"metadata": {"labels": {"corral.dev/server": "x"}}}, {"metadata": {"labels": {"a": 1}}}, {"spec": []},
    ],
)  # fmt: skip
def test_what_is_no_template_is_refused(template: Any) -> None:
    with pytest.raises(Refused):
        read(template, LAX)


def test_brackets_without_end_are_refused() -> None:
    with pytest.raises(Refused, match="not JSON"):
        read_template("[" * 60_000, STRICT)
