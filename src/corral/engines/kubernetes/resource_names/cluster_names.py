"""Follows the definitions of resource names in a cluster, and puts them in force."""

import logging
from collections.abc import Sequence

from corral.core.sharing.definitions import Catalogue, NamesInForce, own_catalogue
from corral.engines.kubernetes.cluster.client import Cluster
from corral.engines.kubernetes.cluster.object_watch import ObjectWatch
from corral.engines.kubernetes.cluster.resource import CONFIG_MAPS
from corral.engines.kubernetes.cluster.watch_state import Change
from corral.engines.kubernetes.resource_names.defined import Defined, read_definition, with_definitions
from corral.engines.kubernetes.resource_names.publishing import ALL_DEFINITIONS
from corral.engines.kubernetes.shares.pod_shares import PodShares

log = logging.getLogger(__name__)


class ClusterNames:
    """Keeps `in_force` and the names that pods may use as the cluster defines them, from `start` to `stop`.

    A server that may not read the ConfigMaps keeps to its own names. `base` are those of the site; None: Corral's own.
    """

    def __init__(self, cluster: Cluster, base: Catalogue | None, of_pods: PodShares) -> None:
        self._base = base
        self._of_pods = of_pods
        self.in_force = NamesInForce(base or own_catalogue())
        self._told: dict[str, str] = {}
        self._watch = ObjectWatch(cluster, CONFIG_MAPS, ALL_DEFINITIONS)
        self._definitions = self._watch.cache(read_definition)
        self._definitions.subscribe(self._changed)

    def start(self) -> None:
        """Begin to follow the definitions. Nothing waits for them."""
        self._watch.start()

    def stop(self) -> None:
        self._watch.stop()

    def _changed(self, _changes: Sequence[Change[Defined]]) -> None:
        catalogue, wrong = with_definitions(self._base, self._definitions.values())
        if catalogue != self.in_force.catalogue:
            self.in_force.catalogue = catalogue
            self._of_pods.redefine(catalogue)
        told = {one.config_map: why for one, why in wrong}
        for name, why in told.items():
            if self._told.get(name) != why:
                log.warning("ConfigMap %s of kube-public changes no resource name: %s", name, why)
        self._told = told
