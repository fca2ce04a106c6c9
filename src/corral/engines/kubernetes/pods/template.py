"""The parts of a pod that a job's template may set. Fields that Corral sets, and all unlisted fields, are refused."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from corral.core.model.errors import Forbidden, Refused, nearest
from corral.core.model.placing.placement_rules import TaintEffect, Toleration
from corral.engines.kubernetes.cluster.placement_fields import NotUnderstood, read_toleration
from corral.engines.kubernetes.pods.names import PREFIX

FIELD = "pod_template"

_FREE_SPEC = frozenset(
    {
        *("tolerations", "volumes", "containers", "securityContext", "imagePullSecrets", "hostAliases", "dnsPolicy"),
        *("dnsConfig", "runtimeClassName", "shareProcessNamespace"),
    }
)
_FREE_CONTAINER = frozenset(
    {
        *("name", "env", "envFrom", "volumeMounts", "imagePullPolicy", "workingDir", "lifecycle", "securityContext"),
        *("ports", "terminationMessagePath", "terminationMessagePolicy", "resizePolicy"),
    }
)
_FREE_POD_SECURITY = frozenset(
    {
        *("runAsUser", "runAsGroup", "runAsNonRoot", "fsGroup", "fsGroupChangePolicy", "supplementalGroups"),
        *("supplementalGroupsPolicy", "seccompProfile"),
    }
)
_FREE_SECURITY = frozenset({"runAsUser", "runAsGroup", "runAsNonRoot", "readOnlyRootFilesystem"})
_POWER = frozenset(
    {
        *("privileged", "capabilities", "allowPrivilegeEscalation", "procMount", "seLinuxOptions", "seccompProfile"),
        *("appArmorProfile", "sysctls", "seLinuxChangePolicy", "windowsOptions"),
    }
)
_FREE_VOLUMES = frozenset({"emptyDir", "configMap", "secret", "persistentVolumeClaim", "downwardAPI"})
_OF_THE_HOST = frozenset({"hostNetwork", "hostPID", "hostIPC", "priorityClassName", "hostUsers"})

INSTEAD = {
    "image": "--image",
    "command": "the command after --",
    "args": "the command after --",
    "resources": "--gpus, --cpus, --host-memory and --disk",
    "serviceAccountName": "--service-account",
    "serviceAccount": "--service-account",
    "activeDeadlineSeconds": "--time",
    "nodeName": "--node",
    "nodeSelector": "--label",
    "affinity": "--label, --prefer and --avoid",
    "topologySpreadConstraints": "--spread",
    "hostname": "MASTER_ADDR, which each member of a gang has",
    "schedulerName": "nothing: Corral has chosen the node",
    "restartPolicy": "--retries",
    "terminationGracePeriodSeconds": "kill_grace of the site, or --checkpoint-signal TERM@5m",
    "initContainers": "a command that does both",
}
"""The option to use in place of a field that Corral sets."""


@dataclass(frozen=True, slots=True)
class Allowed:
    """The site's permissions beyond settings that are safe on any cluster.

    Attributes:
        privileged: templates may have the host's network and processes, privileged containers and a priority class.
        host_path: whether a directory of the host may be mounted.
    """

    privileged: bool
    host_path: Callable[[str], bool]


def read_template(text: str, allowed: Allowed) -> dict[str, Any]:
    """Read the template; its `metadata` and `spec` are those of a pod.

    Raises Refused, and Forbidden for settings that the site does not allow.
    """
    try:
        template = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise Refused(f"{FIELD}: it is not JSON: {error!s:.200}", field=FIELD) from None
    _check_keys(_mapping(template, "the template"), frozenset({"metadata", "spec", "apiVersion", "kind"}), "")
    metadata = _mapping(template.get("metadata"), "metadata")
    _check_keys(metadata, frozenset({"labels", "annotations"}), "metadata.")
    for part in ("labels", "annotations"):
        for key, value in _mapping(metadata.get(part), f"metadata.{part}").items():
            if key.startswith(PREFIX) or not isinstance(value, str):
                raise Refused(f"{FIELD}: metadata.{part} has {key!r:.100}, which is Corral's or no text", field=FIELD)
    spec = _mapping(template.get("spec"), "spec")
    _check_spec(spec, allowed)
    return {"metadata": metadata, "spec": spec}


def tolerations_of(template: Mapping[str, Any]) -> tuple[Toleration, ...]:
    """Return the tolerations in a template. Raises Refused for a toleration that Kubernetes does not know."""
    return tuple(map(_toleration, _mappings(template["spec"].get("tolerations"), "spec.tolerations")))


def _toleration(written: Mapping[str, Any]) -> Toleration:
    try:
        return read_toleration(written)
    except NotUnderstood:
        raise Refused(
            f"{FIELD}: spec.tolerations has {dict(written)!r:.200}; a toleration has a key, the operator Equal (with a "
            f"value) or Exists, and perhaps an effect: {', '.join(TaintEffect)}",
            field=FIELD,
        ) from None


def _check_spec(spec: Mapping[str, Any], allowed: Allowed) -> None:
    for key in sorted(_OF_THE_HOST & spec.keys()):
        _need(allowed.privileged, f"spec.{key}")
    _check_keys(spec, _FREE_SPEC | _OF_THE_HOST, "spec.")
    _check_security(_mapping(spec.get("securityContext"), "spec.securityContext"), _FREE_POD_SECURITY, "spec.", allowed)
    tolerations_of({"spec": spec})
    for volume in _mappings(spec.get("volumes"), "spec.volumes"):
        _check_volume(volume, allowed)
    containers = _mappings(spec.get("containers"), "spec.containers")
    if len(containers) > 1:
        raise Refused(
            f"{FIELD}: spec.containers has {len(containers)}, but a job's pod has one: GPUs and memory are counted for "
            "one command; start the others from that",
            field=FIELD,
        )
    for container in containers:
        _check_keys(container, _FREE_CONTAINER, "spec.containers[0].")
        at = "spec.containers[0]."
        _check_security(_mapping(container.get("securityContext"), f"{at}securityContext"), _FREE_SECURITY, at, allowed)
        for port in _mappings(container.get("ports"), f"{at}ports"):
            if port.get("hostPort"):
                _need(allowed.privileged, f"{at}ports.hostPort")
        for part in ("env", "envFrom", "volumeMounts"):
            _mappings(container.get(part), f"{at}{part}")


def _check_security(security: Mapping[str, Any], free: frozenset[str], at: str, allowed: Allowed) -> None:
    _check_keys(security, free | _POWER, f"{at}securityContext.")
    for key in sorted(security.keys() - free):
        harmless = (key == "allowPrivilegeEscalation" and security[key] is False) or (
            key == "capabilities" and isinstance(security[key], Mapping) and security[key].keys() <= {"drop"}
        )
        if not harmless:
            _need(allowed.privileged, f"{at}securityContext.{key}")


def _check_volume(volume: Mapping[str, Any], allowed: Allowed) -> None:
    name, kinds = volume.get("name"), sorted(volume.keys() - {"name"})
    if not isinstance(name, str) or name.startswith("corral-") or len(kinds) != 1:
        raise Refused(
            f"{FIELD}: spec.volumes has {name!r:.60}; each volume has a name that does not begin with corral-, and one "
            f"source",
            field=FIELD,
        )
    kind = kinds[0]
    if kind == "hostPath":
        path = _mapping(volume["hostPath"], "hostPath").get("path")
        if not (isinstance(path, str) and ".." not in path.split("/") and allowed.host_path(path)):
            raise Forbidden(f"{FIELD}: this site does not show {path!r:.200} of its hosts to jobs", field=FIELD)
    elif kind not in _FREE_VOLUMES:
        raise Forbidden(
            f"{FIELD}: volumes of the kind {kind!r:.60} are not allowed; {nearest(kind, _FREE_VOLUMES)}",
            field=FIELD,
        )


def _need(privileged: bool, what: str) -> None:
    if not privileged:
        raise Forbidden(
            f"{FIELD}: {what} gives a pod power over its host, and this site does not allow it "
            "(kubernetes.privileged_templates)",
            field=FIELD,
        )


def _check_keys(given: Mapping[str, Any], known: frozenset[str], at: str) -> None:
    for key in sorted(given.keys() - known, key=str):
        instead = INSTEAD.get(key)
        what = f"use {instead} in place of it" if instead else nearest(key, known)
        raise Refused(f"{FIELD}: {at}{key!s:.60} cannot be set by a template; {what}", field=FIELD)


def _mapping(value: Any, what: str) -> Mapping[str, Any]:
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise Refused(f"{FIELD}: {what} is {value!r:.60}, but must be an object", field=FIELD)
    return value


def _mappings(value: Any, what: str) -> Sequence[Mapping[str, Any]]:
    if value is None:
        return ()
    if not isinstance(value, list):
        raise Refused(f"{FIELD}: {what} is {value!r:.60}, but must be a list", field=FIELD)
    return [_mapping(one, what) for one in value]
