"""Explains why a request has no place on one node, in a sentence that nodes in equal states share."""

from corral.core.model.jobs.job import Request
from corral.core.model.placing.fit import HOST_CAUSES, STATIC_CAUSES, Cause, Misfit
from corral.core.model.units import count_of, format_memory
from corral.core.scheduling.explaining.phrases import count_of_cpus, need_of

_OF_THE_NODE = {
    Cause.NODE_GONE: "the node is gone",
    Cause.NODE_SILENT: "the node does not answer, so nothing starts there",
    Cause.NODE_DRAINING: "the node is drained, so nothing starts there",
    Cause.NODE_CORDONED: "the node is cordoned, so nothing starts there",
    Cause.NODE_NAME: "it names other nodes",
    Cause.LABELS: "the node lacks a label that it asks for",
    Cause.NODE_AFFINITY: "the node lacks the labels that its node affinity asks for",
    Cause.DRIVER: "the node's driver is older, or not known",
    Cause.CUDA: "the node's CUDA version is older, or not known",
    Cause.TAINT: "the node has a taint that it does not tolerate",
    Cause.MEMBERS: "the node takes no more pods",
    Cause.AFFINITY: "nothing that it wants to be near runs on the node",
    Cause.ANTI_AFFINITY: "something runs on the node with which it must not share it, by the rules of either",
    Cause.SPREAD: "the node would have too many of its like",
}
_OF_DEVICES = {
    Cause.VENDOR: "of another maker",
    Cause.MODEL: "of another model",
    Cause.COMPUTE: "of a lower compute capability",
    Cause.MEMORY: "with too little memory",
    Cause.POWER_LIMIT: "without such a power limit",
    Cause.NOT_NAMED: "not named",
    Cause.AVOIDED: "kept off",
    Cause.PROFILE: "without such a slice",
    Cause.MEANS: "shared in another way",
    Cause.RESOURCE: "that its cluster gives by another resource",
    Cause.IN_USE: "in use by others",
    Cause.STALE: "with memory held by others",
    Cause.TENANT: "serving others",
    Cause.FREE_MEMORY: "with too little free memory",
    Cause.POWER_BUDGET: "above the power budget",
    Cause.PROBATION: "on probation",
    Cause.RESERVED: "kept for others",
}
_EVICTABLE = frozenset({Cause.ALLOCATED, Cause.TENANT, Cause.FREE_MEMORY, Cause.IN_USE, Cause.STALE})


def node_shortage(request: Request, misfit: Misfit) -> str:
    """What the request needs, and what a node lacks: "it needs 2 GPUs; the node has 1 free, 6 allocated"."""
    return f"it needs {need_of(request)}; {_lack(misfit)}"


def pods_in_the_way(misfit: Misfit) -> bool:
    """Whether the request might fit if pods that run on the node ended, whoever has started them."""
    if misfit.never or misfit.cause in STATIC_CAUSES:
        return False
    if misfit.cause in HOST_CAUSES or misfit.eviction_helps:
        return True
    if misfit.cause in _OF_THE_NODE:
        return misfit.cause in (Cause.ANTI_AFFINITY, Cause.SPREAD)
    return misfit.available + sum(count for cause, count in misfit.devices if cause in _EVICTABLE) >= misfit.wanted


def _lack(misfit: Misfit) -> str:
    free = max(0, misfit.available)
    if misfit.cause is Cause.CPU:
        return f"the node has {count_of_cpus(free)} free"
    if misfit.cause in (Cause.HOST_MEMORY, Cause.DISK):
        return f"the node has {format_memory(free)} of {'disk' if misfit.cause is Cause.DISK else 'memory'} free"
    if misfit.cause in _OF_THE_NODE:
        return _OF_THE_NODE[misfit.cause]
    others = [f"{count} {_OF_DEVICES.get(cause, cause.value)}" for cause, count in misfit.devices]
    if misfit.never:
        return f"the node has {count_of(free, 'such GPU')}" + (f", {', '.join(others)}" if others else "")
    if not others:
        return f"the node has {count_of(free, 'GPU')}" if free else "the node has no GPU"
    return f"the node has {', '.join([f'{free} free', *others])}"
