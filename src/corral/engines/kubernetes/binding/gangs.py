"""Collects the pods of each gang until all of them exist. Pure."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from corral.core.model.errors import Refused
from corral.core.model.jobs.pod_ref import PodRef
from corral.engines.kubernetes.binding.pod_ask import PodAsk
from corral.engines.kubernetes.cluster.objects import mapping, sequence

GangName = tuple[str, str]
"""The namespace and the name of a gang."""


@dataclass(slots=True)
class Gangs:
    """The pods of gangs that are not whole yet, by gang."""

    _waiting: dict[GangName, dict[str, PodAsk]] = field(default_factory=dict)
    _gang_of: dict[str, GangName] = field(default_factory=dict)
    """The gang of each waiting pod, by the pod's UID."""
    _sizes: dict[GangName, int] = field(default_factory=dict)

    def add(self, ask: PodAsk, size: int) -> tuple[PodAsk, ...] | None:
        """Add a pod to its gang. Return all members once the gang is complete, or None while pods are missing.

        Raises Refused, and changes nothing, if an earlier member states another size.
        """
        assert ask.gang is not None, "only members of a gang are gathered"
        name = ask.gang.namespace, ask.gang.name
        if self._gang_of.get(ask.pod.uid, name) != name:
            self.drop(ask.pod)
        waiting = self._waiting.setdefault(name, {})
        other = next((one for one in waiting.values() if one.gang != ask.gang), None)
        if other is not None:
            raise Refused(
                f"all pods of gang {ask.gang.name:.80} must give the same size, and {other.pod.name} gives "
                "another; correct it, or use two gangs"
            )
        waiting[ask.pod.uid] = ask
        self._sizes[name] = size
        self._gang_of[ask.pod.uid] = name
        if len(waiting) < size:
            return None
        members = sorted(waiting.values(), key=lambda one: (len(one.pod.name), one.pod))[:size]
        for one in members:
            self.drop(one.pod)
        return tuple(members)

    def drop(self, pod: PodRef) -> GangName | None:
        """Remove a pod that is gone. Return its gang if other members still wait."""
        name = self._gang_of.pop(pod.uid, None)
        if name is None:
            return None
        del self._waiting[name][pod.uid]
        if self._waiting[name]:
            return name
        del self._waiting[name], self._sizes[name]
        return None

    def lacking(self, name: GangName) -> dict[PodRef, str]:
        """Return the reason for waiting of each pod of an incomplete gang."""
        there = [one.pod for one in self._waiting.get(name, {}).values()]
        why = f"gang {name[1]:.80} starts when all of its {self._sizes.get(name, 0)} pods are there; {len(there)} are"
        return dict.fromkeys(there, why)


def jobset_size(jobset: Mapping[str, object]) -> int | None:
    """Return the number of pods that a JobSet runs at a time, or None if it cannot be read."""
    total = 0
    for one in sequence(mapping(jobset.get("spec")).get("replicatedJobs")):
        job = mapping(mapping(one.get("template")).get("spec"))
        replicas, parallelism = one.get("replicas", 1), job.get("parallelism", 1)
        if not isinstance(replicas, int) or not isinstance(parallelism, int):
            return None
        total += replicas * parallelism
    return total or None


def refuse_different(members: Sequence[PodAsk], user_of: Callable[[PodAsk], str]) -> None:
    """Raise Refused if the members of a gang have different requests or different users."""
    first = members[0]
    for other in members[1:]:
        if user_of(first) != user_of(other):
            raise Refused(
                f"the pods of a gang must belong to one user: {first.pod.name} is of {user_of(first)} and "
                f"{other.pod.name} "
                f"of {user_of(other)}, by their service accounts; give them the same account, or use two gangs"
            )
        for what in ("request", "queue", "project", "priority"):
            if _compared(first, what) != _compared(other, what):
                raise Refused(
                    f"the pods of a gang must ask for the same, and {first.pod.name} and {other.pod.name} differ in "
                    f"their {'resources or rules' if what == 'request' else what}; make them equal, or use two gangs"
                )


def _compared(ask: PodAsk, what: str) -> object:
    if what == "request" and ask.request.rules is not None:
        # Labels that number the members, as Jobs and StatefulSets set them, make no difference to their places.
        return replace(ask.request, rules=replace(ask.request.rules, tags=()))
    return getattr(ask, what)
