"""The definitions of OME and KServe, as they publish them, in a real API server."""

import os
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import yaml

from corral.engines.kubernetes.cluster.client import Cluster
from corral.engines.kubernetes.cluster.errors import AlreadyExists, NoSuchObject
from corral.engines.kubernetes.cluster.resource import ResourceType
from tests.engines.kubernetes.manifests import CUSTOM_RESOURCE_DEFINITIONS

DATA = Path(os.environ.get("CORRAL_BENCH_DATA", "nowhere")) / "crds"

needs_definitions = pytest.mark.skipif(
    not DATA.is_dir(), reason="needs OME's and KServe's definitions: set CORRAL_BENCH_DATA to the directory with `crds`"
)

_MERGING = ("x-kubernetes-list-map-keys", "x-kubernetes-list-type", "x-kubernetes-map-type")
_SERVED_S = 60.0
_NOT_WRITTEN = frozenset(
    {"decoder", "router", "explainer", "transformer", "decoderConfig", "routerConfig", "worker", "workerSpec", "leader"}
)
"""Parts that Corral never writes, each with the whole schema of a pod: an API server takes a second of CPU for each."""
_ANYTHING = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}


def install(cluster: Cluster, *files: str) -> None:
    """Install definitions such as "ome/ome.io_inferenceservices.yaml"; returns when all are served."""
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    definitions = [readable_by_old_servers(yaml.load((DATA / file).read_text(), loader)) for file in files]
    for definition in definitions:
        with suppress(AlreadyExists):
            cluster.create(CUSTOM_RESOURCE_DEFINITIONS, definition)
    for definition in definitions:
        for resource in _resources(definition):
            _wait_until_served(cluster, resource)


def readable_by_old_servers(definition: dict[str, Any]) -> dict[str, Any]:
    """The definition without what Kubernetes 1.20 cannot read, and without descriptions: etcd takes 1.5 MB."""
    stripped: dict[str, Any] = _stripped(definition)
    stripped["spec"].pop("conversion", None)
    stripped["metadata"] = {"name": stripped["metadata"]["name"]}
    return stripped


def _stripped(part: Any) -> Any:
    if isinstance(part, list):
        return [_stripped(item) for item in part]
    if not isinstance(part, dict):
        return part
    kept = {
        key: _ANYTHING if key in _NOT_WRITTEN and "properties" in value else _stripped(value)
        for key, value in part.items()
        if key not in _MERGING and not (key == "description" and isinstance(value, str))
    }
    if kept.get("default") == "":
        del kept["default"]
    return kept


def _resources(definition: dict[str, Any]) -> Iterator[ResourceType]:
    spec = definition["spec"]
    for version in spec["versions"]:
        yield ResourceType(
            spec["group"],
            version["name"],
            spec["names"]["plural"],
            spec["names"]["kind"],
            namespaced=spec["scope"] == "Namespaced",
        )


def _wait_until_served(cluster: Cluster, resource: ResourceType) -> None:
    until = time.monotonic() + _SERVED_S
    while True:
        try:
            cluster.page(resource, limit=1)
            return
        except NoSuchObject:
            if time.monotonic() > until:
                raise
            time.sleep(0.05)
