"""What one job could have on each node at one moment: the answers that a scheduler outside of Corral asks for."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass

from corral.core.model.jobs.job import Job
from corral.core.model.placing.allocation import Member, Placement
from corral.core.model.placing.fit import Fit, Misfit
from corral.core.scheduling.placing.node_by_node import choose
from corral.core.scheduling.placing.places import Places
from corral.core.scheduling.policy import Policy, Prefer
from corral.core.scheduling.queueing.admission import Barrier
from corral.core.scheduling.state.capacity import NodeChanges
from corral.core.scheduling.state.draft import Draft, PlacementRequest


@dataclass(slots=True)
class Opening:
    """The places that are open to a job of one member. Valid until the planner advances.

    `wanted` is its request for a place, and `policy` that of its queue. `changes` names the nodes whose state changes.
    `scorer` gives the scores by which the policy ranks nodes; None if it has none.
    """

    job: Job
    wanted: PlacementRequest
    policy: Policy
    places: Places
    changes: NodeChanges
    scorer: Callable[[Draft, PlacementRequest], Mapping[str, float] | None] | None

    @property
    def names(self) -> tuple[str, ...]:
        """Every node. The same tuple is returned until a node comes, leaves, or gets other devices."""
        return self.places.draft.capacity.names

    @property
    def barrier(self) -> Barrier | None:
        """The limit or quota that keeps the job off every node; None if there is none."""
        return self.places.admission.barrier(self.job)

    @property
    def stands_alone(self) -> bool:
        """Whether the answer for a node depends on that node alone, and not on what runs elsewhere, or on quotas."""
        request = self.wanted.request
        counts_alike = request.whole and request.mig_profile is None and self.places.admission.power is None
        return counts_alike and not request.by_neighbours and not self.places.draft.repels(request)

    def take(self, members: Sequence[Member]) -> None:
        """Count these members as allocated from now on, as far as their nodes have their devices."""
        draft = self.places.draft
        nodes, slots_of = draft.capacity.view.nodes, draft.capacity.slots_of
        draft.take([one for one in members if one.node in nodes and len(slots_of(one)) == len(one.grants)])

    def on(self, name: str) -> Placement | Misfit | Barrier:
        """The job's place on a node; else the misfit there, or the limit that it would exceed with its place there."""
        found = choose(self.places.draft, self.wanted, self.policy.prefer, among=(name,))
        if isinstance(found, Misfit):
            return found
        return self.places.admission.exceeded_only_there(self.job, found) or found

    def misfit(self, name: str) -> Misfit | Barrier | None:
        """The reason why the job has no place on a node, None if it has one."""
        if not self.stands_alone or self.wanted.speeds:
            found = self.on(name)
            return None if isinstance(found, Placement) else found
        answer = self.places.draft.fit(name, self.wanted)
        return answer if isinstance(answer, Misfit) else None

    def fits_without(
        self,
        name: str,
        members: Sequence[Member],
        *,
        holders: Collection[str] = (),
        cpu_milli: int = 0,
        memory_mib: int = 0,
        disk_mib: int = 0,
    ) -> bool:
        """Whether the job would fit on a node without these members and these pods of others.

        `holders` are the pods, as `HoldingPod` is written, and the amounts are what they take of the host.
        """
        draft = self.places.draft
        trial = draft.with_free({name: draft.free(name)})
        trial.give(members)
        state, view = trial.free(name), draft.capacity.view
        pods = [(view.conditions.get(device.uuid), device) for device in draft.capacity.node(name).devices]
        let_go = [one is not None and one.pod is not None and str(one.pod) in holders for one, _ in pods]
        slots = tuple(
            slot._replace(blocked=None, left_mib=None, memory_mib=device.memory_mib, free_mib=device.memory_mib)
            if gone
            else slot
            for slot, gone, (_, device) in zip(state.slots, let_go, pods, strict=True)
        )
        freed = state._replace(
            slots=slots,
            cpu_milli=state.cpu_milli + cpu_milli,
            memory_mib=state.memory_mib + memory_mib,
            disk_mib=state.disk_mib + disk_mib,
            members_left=None if state.members_left is None else state.members_left + len(holders),
        )
        return isinstance(draft.with_free({name: freed}).fit(name, self.wanted), Fit)

    def scores(self, names: Sequence[str]) -> Sequence[float]:
        """How much the policy likes each of these nodes, on all of which the job has a place; more is better."""
        draft, request = self.places.draft, self.wanted.request
        scores = None if self.scorer is None else self.scorer(draft, self.wanted)
        if scores is not None:
            worst = min(scores.values(), default=0.0)
            return [scores.get(name, worst) for name in names]
        liked = [float(draft.preference(request, name)) for name in names]
        if self.policy.prefer is Prefer.FIRST:
            return [like - at / len(names) for at, like in enumerate(liked)]
        free = [sum(max(0, slot.free_milli) for slot in draft.free(name).slots) for name in names]
        most = max(free, default=0) + 1
        return [like - milli / most for milli, like in zip(free, liked, strict=True)]
