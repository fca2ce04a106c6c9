"""Amounts of the resources that nodes have and pods request, and the rules by which Kubernetes adds them up."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import reduce
from operator import add
from types import MappingProxyType
from typing import Any

from corral.engines.kubernetes.cluster.quantities import milli, whole

NO_DEVICES: Mapping[str, int] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Amounts:
    """An amount of each resource.

    Attributes:
        cpu_milli: thousandths of a CPU.
        memory_bytes: memory.
        ephemeral_storage_bytes: the node's own disk.
        pods: how many pods a node may have; 1 for a pod.
        others: every other resource by its whole name, including GPUs. Resources with amount 0 are left out.
    """

    cpu_milli: int = 0
    memory_bytes: int = 0
    ephemeral_storage_bytes: int = 0
    pods: int = 0
    others: Mapping[str, int] = field(default_factory=lambda: NO_DEVICES)

    def of(self, name: str) -> int:
        """Return the amount of a resource by its whole name, if it is none of the four above."""
        return self.others.get(name, 0)

    def __add__(self, other: "Amounts") -> "Amounts":
        return Amounts(
            self.cpu_milli + other.cpu_milli,
            self.memory_bytes + other.memory_bytes,
            self.ephemeral_storage_bytes + other.ephemeral_storage_bytes,
            self.pods + other.pods,
            _kept({name: self.of(name) + other.of(name) for name in {*self.others, *other.others}}),
        )

    def most(self, other: "Amounts") -> "Amounts":
        """Return the larger amount of each resource."""
        return Amounts(
            max(self.cpu_milli, other.cpu_milli),
            max(self.memory_bytes, other.memory_bytes),
            max(self.ephemeral_storage_bytes, other.ephemeral_storage_bytes),
            max(self.pods, other.pods),
            _kept({name: max(self.of(name), other.of(name)) for name in {*self.others, *other.others}}),
        )


NOTHING = Amounts()


_shapes: dict[tuple[object, ...], Amounts] = {}
_MOST_SHAPES = 10_000


def shared(amounts: Amounts) -> Amounts:
    """Return one shared value for equal amounts: most pods and nodes of a cluster have few shapes."""
    key = (
        amounts.cpu_milli,
        amounts.memory_bytes,
        amounts.ephemeral_storage_bytes,
        amounts.pods,
        *sorted(amounts.others.items()),
    )
    if len(_shapes) > _MOST_SHAPES:
        _shapes.clear()
    return _shapes.setdefault(key, amounts)


def read_amounts(written: object) -> Amounts:
    """Return the amounts in a resource list of the API. Raises BadQuantity."""
    if not isinstance(written, Mapping) or not written:
        return NOTHING
    others = {
        str(name): whole(amount)
        for name, amount in written.items()
        if name not in {"cpu", "memory", "ephemeral-storage", "pods"}
    }
    return Amounts(
        cpu_milli=milli(written.get("cpu", "0")),
        memory_bytes=whole(written.get("memory", "0")),
        ephemeral_storage_bytes=whole(written.get("ephemeral-storage", "0")),
        pods=whole(written.get("pods", "0")),
        others=_kept(others),
    )


def requests_of(spec: Mapping[str, Any]) -> Amounts:
    """Return the resources that a pod takes of its node, as kube-scheduler counts them. Raises BadQuantity.

    It is the maximum of two sums: all containers that run together, and each init container with those that run beside
    it. Init containers start one after another; those that always restart ("sidecars") stay. Requests of the whole pod
    replace those of its containers for the resources that they name. The pod's overhead is added.
    """
    total = _of_containers(spec)
    if whole_pod := (spec.get("resources") or {}).get("requests"):
        total = _of_whole_pod(total, whole_pod)
    if overhead := spec.get("overhead"):
        total += read_amounts(overhead)
    return replace(total, pods=1)


def _of_containers(spec: Mapping[str, Any]) -> Amounts:
    containers, inits = spec.get("containers") or (), spec.get("initContainers") or ()
    together = _sum(_asked(container) for container in containers)
    beside = starting = NOTHING
    for container in inits:
        if container.get("restartPolicy") == "Always":
            beside += _asked(container)
            starting = starting.most(beside)
        else:
            starting = starting.most(beside + _asked(container))
    return (together + beside).most(starting) if inits else together


def _asked(container: Mapping[str, Any]) -> Amounts:
    resources = container.get("resources") or {}
    requests, limits = resources.get("requests") or {}, resources.get("limits") or {}
    return read_amounts({**limits, **requests} if limits and limits != requests else requests or limits)


def _sum(parts: Iterable[Amounts]) -> Amounts:
    return reduce(add, parts, NOTHING)


def _of_whole_pod(containers: Amounts, written: Mapping[str, Any]) -> Amounts:
    """Return the requests with those of the whole pod in place of its containers'. They may name CPU, memory and huge
    pages.
    """
    if not written:
        return containers
    whole_pod = read_amounts(written)
    return Amounts(
        whole_pod.cpu_milli if "cpu" in written else containers.cpu_milli,
        whole_pod.memory_bytes if "memory" in written else containers.memory_bytes,
        containers.ephemeral_storage_bytes,
        containers.pods,
        _kept({**containers.others, **whole_pod.others}),
    )


def _kept(others: dict[str, int]) -> Mapping[str, int]:
    kept = {name: amount for name, amount in others.items() if amount}
    return kept or NO_DEVICES
