"""The variables of a service's server: a Secret has the values, and the service names them.

Everybody who may read the services of a namespace reads their objects, and the value of a variable may be a secret. The
Secret belongs to the service, so Kubernetes removes it with the service.
"""

import re
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from corral.core.model.errors import Refused
from corral.engines.kubernetes.cluster.client import Cluster
from corral.engines.kubernetes.cluster.errors import AlreadyExists
from corral.engines.kubernetes.cluster.objects import mapping
from corral.engines.kubernetes.cluster.resource import SECRETS

MARK_ANNOTATION = "corral.dev/deployment"
"""The annotation with a random text by which a service is known again."""

_NAME = re.compile(r"[-._a-zA-Z][-._a-zA-Z0-9]{0,252}")
_MOST_OF_MARK = 12


def env_entries(service: str, annotations: Mapping[str, str], env: Mapping[str, str]) -> list[dict[str, Any]]:
    """Return the entries of a container for these variables. Raises Refused for a name that Kubernetes refuses."""
    for name in env:
        if not _NAME.fullmatch(name):
            raise Refused(
                f"env: {name!r:.60} cannot be the name of a variable in a pod: letters, digits, '_', '-' and '.', no"
                " digit first",
                field="env",
            )
    secret = _secret_name(service, annotations)
    return [{"name": name, "valueFrom": {"secretKeyRef": {"name": secret, "key": name}}} for name in env]


def check_env_secret(cluster: Cluster, service: str, namespace: str, env: Mapping[str, str]) -> None:
    """Have the API server check the Secret of a service that is yet to be made. Raises MissingRight, Refused."""
    if env:
        cluster.create(SECRETS, _secret(f"{service}-env", env, {}), namespace, dry_run=True)


def give_env(cluster: Cluster, service: Mapping[str, Any], env: Mapping[str, str]) -> None:
    """Make the Secret of a service, if it is not there. `service` is the object as the API server has it."""
    if not env:
        return
    metadata = mapping(service.get("metadata"))
    owner = {key: service[key] for key in ("apiVersion", "kind")} | {key: metadata[key] for key in ("name", "uid")}
    name = _secret_name(metadata["name"], mapping(metadata.get("annotations")))
    # Its name is random, so an existing one is that of an earlier try.
    with suppress(AlreadyExists):
        cluster.create(SECRETS, _secret(name, env, {"ownerReferences": [owner]}), metadata["namespace"])


def _secret_name(service: str, annotations: Mapping[str, Any]) -> str:
    return f"{service}-env-{annotations.get(MARK_ANNOTATION, '')!s:.{_MOST_OF_MARK}}".rstrip("-")


def _secret(name: str, env: Mapping[str, str], more: Mapping[str, Any]) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name, **more}, "stringData": dict(env)}
