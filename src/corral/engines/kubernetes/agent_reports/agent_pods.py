"""The pods of agents, by the service account under which they run."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from corral.engines.kubernetes.cluster.objects import mapping, text
from corral.engines.kubernetes.cluster.pod_facts import ENDED
from corral.engines.kubernetes.inventory.occupants import PodName


@dataclass(frozen=True, slots=True)
class AgentPod:
    """A pod of an agent on its node, which has not ended."""

    namespace: str
    name: str
    uid: str
    node: str

    @property
    def key(self) -> PodName:
        """The pod's namespace and name."""
        return self.namespace, self.name


def agent_pods_of(account: str) -> Callable[[Mapping[str, Any]], AgentPod | None]:
    """Return the function that keeps the pods of a service account, "NAMESPACE/NAME", for a cache of pods.

    Only who may make pods in that namespace can make such pods.
    """
    namespace, _, service_account = account.partition("/")

    def keep(item: Mapping[str, Any]) -> AgentPod | None:
        metadata, spec = mapping(item.get("metadata")), mapping(item.get("spec"))
        if metadata.get("namespace") != namespace or spec.get("serviceAccountName") != service_account:
            return None
        node = text(spec.get("nodeName"))
        if not node or mapping(item.get("status")).get("phase") in ENDED:
            return None
        return AgentPod(namespace, str(metadata.get("name") or ""), str(metadata.get("uid") or ""), node)

    return keep
