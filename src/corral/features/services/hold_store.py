"""The cluster object with all holds, read and changed so that no concurrent change is lost.

It is a ConfigMap in Corral's own namespace: deploying needs one small right for it, in whatever namespace the services
are. The API server's versions order concurrent deployments (decision 66).
"""

import calendar
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from corral.core.model.errors import BackendFailed
from corral.engines.kubernetes.cluster.client import Cluster
from corral.engines.kubernetes.cluster.errors import AlreadyExists, NoSuchObject
from corral.engines.kubernetes.cluster.objects import mapping
from corral.engines.kubernetes.cluster.resource import CONFIG_MAPS, NAMESPACES, OWN_NAMESPACE
from corral.features.services.holds import Hold, changes, holds_in

HOLDS_NAME = "corral-gpu-holds"


@dataclass(frozen=True, slots=True)
class HoldsRead:
    """The holds as they were read.

    Attributes:
        now: seconds since 1970 by the API server's clock.
        version: of the object, which a change names.
    """

    holds: tuple[Hold, ...] = ()
    data: Mapping[str, Any] = field(default_factory=dict)
    now: float = 0.0
    version: str = ""


class HoldStore:
    """The holds of one cluster. Methods raise the errors of the cluster: a missing right, or an object that changed."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    def look(self) -> HoldsRead:
        """Return the holds for reading only: a missing object holds nothing and is not made."""
        try:
            found = self._cluster.get(CONFIG_MAPS, HOLDS_NAME, OWN_NAMESPACE)
        except NoSuchObject:
            return HoldsRead()
        return self._read(found) if found.get("data") else HoldsRead()

    def read(self) -> HoldsRead:
        """Return the holds before adding one: the object and its namespace are made if they are missing."""
        try:
            found = self._cluster.get(CONFIG_MAPS, HOLDS_NAME, OWN_NAMESPACE)
        except NoSuchObject:
            found = self._made()
        return self._read(found)

    def add(self, read: HoldsRead, hold: Hold) -> None:
        """Add a hold to the holds that were read. Raises ObjectChanged if another client was faster: read and choose
        again.
        """
        self._write(read, changes(read.data, read.now, hold))

    def remove(self, service: str) -> None:
        """Remove the hold of a service. Raises ObjectChanged; the deadline ends the hold anyway."""
        read = self.look()
        if service in read.data:
            self._write(read, changes(read.data, read.now, None, removed=service))

    def _write(self, read: HoldsRead, data: dict[str, str | None]) -> None:
        body = {"metadata": {"resourceVersion": read.version}, "data": data}
        self._cluster.patch(CONFIG_MAPS, HOLDS_NAME, body, OWN_NAMESPACE)

    def _read(self, found: Mapping[str, Any]) -> HoldsRead:
        data, now = mapping(found.get("data")), self._server_time()
        version = str(mapping(found.get("metadata")).get("resourceVersion", ""))
        return HoldsRead(tuple(holds_in(data, now)), data, now, version)

    def _made(self) -> dict[str, Any]:
        body = {"metadata": {"name": HOLDS_NAME, "labels": {"app.kubernetes.io/managed-by": "corral"}}}
        with suppress(AlreadyExists):
            try:
                return self._cluster.create(CONFIG_MAPS, body, OWN_NAMESPACE)
            except NoSuchObject:
                with suppress(AlreadyExists):
                    self._cluster.create(NAMESPACES, {"metadata": {"name": OWN_NAMESPACE}})
                return self._cluster.create(CONFIG_MAPS, body, OWN_NAMESPACE)
        return self._cluster.get(CONFIG_MAPS, HOLDS_NAME, OWN_NAMESPACE)

    def _server_time(self) -> float:
        """The API server's clock, from the time it gives an object that it is only asked to pretend to make."""
        pretended = self._cluster.create(
            CONFIG_MAPS, {"metadata": {"name": f"{HOLDS_NAME}-now"}}, OWN_NAMESPACE, dry_run=True
        )
        made_at = str(mapping(pretended.get("metadata")).get("creationTimestamp"))
        try:
            return float(calendar.timegm(time.strptime(made_at, "%Y-%m-%dT%H:%M:%SZ")))
        except ValueError:
            raise BackendFailed(f"Kubernetes gave an object the time {made_at!r}, which cannot be read") from None
