"""Places by score: array operations rank all nodes at once. The `corral` policy is one of the scores.

The columns hold the free capacity; what is open to a job can only be less. Nodes are therefore tried in the order of
their scores. If something is promised to or set aside for other jobs, the draft's fit test decides.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from math import inf
from types import MappingProxyType

from corral.core.model.devices.device import DeviceCondition, availability_score
from corral.core.model.errors import Refused, nearest
from corral.core.model.jobs.job import Request
from corral.core.model.placing.allocation import Member, Placement
from corral.core.model.placing.fit import Fit, Misfit
from corral.core.model.placing.split import Strategy
from corral.core.model.placing.state import NodeState
from corral.core.model.units import MILLI_PER_DEVICE
from corral.core.scheduling.placing.closeness import layout
from corral.core.scheduling.placing.fragmentation import Fragmentation
from corral.core.scheduling.placing.node_by_node import choose, lent_devices_taken, member_on, nearest_misfit
from corral.core.scheduling.placing.ranking import Placer
from corral.core.scheduling.placing.scores import (
    Availability,
    BestFit,
    EarlierFirst,
    LeastLoaded,
    Pack,
    Readings,
    RoundRobin,
    Score,
    spread,
    weighted,
)
from corral.core.scheduling.placing.topology import Topology
from corral.core.scheduling.placing.worth.arrival_mix import ArrivalMix
from corral.core.scheduling.placing.worth.learner import Learner
from corral.core.scheduling.placing.worth.values import Prices, WorthScore
from corral.core.scheduling.policy import Prefer
from corral.core.scheduling.state.capacity import Capacity
from corral.core.scheduling.state.columns import CPU, Columns, NodeCapacity, RowGrant, columnar
from corral.core.scheduling.state.draft import Draft, PlacementRequest

CORRAL: tuple[tuple[str, float], ...] = (("corral", 1.0),)

MIX_GRAIN = 1000
"""The number of FGD's counts for one arrival. FGD counts in integers, and older arrivals count less than one."""


class ScoringState:
    """The columns of a capacity, and the state of the scores over them."""

    def __init__(self, capacity: Capacity, mix: ArrivalMix) -> None:
        self._capacity = capacity
        self.names = capacity.names
        self.states: list[NodeState] = [capacity.state(name) for name in self.names]
        nodes = [capacity.node(name) for name in self.names]
        self.columns = Columns(
            [
                NodeCapacity(
                    node.name,
                    tuple(device.uuid for device in node.devices),
                    state,
                    layout(node),
                    (node.cpu_milli, node.memory_mib),
                )
                for node, state in zip(nodes, self.states, strict=True)
            ]
        )
        self.learner = Learner(self.columns, mix)
        self.readings = Readings(self.columns)
        self.turns = RoundRobin(self.columns)
        self.fragmentation = Fragmentation(self.columns, ())
        self.value: WorthScore | None = None
        self._read: dict[str, DeviceCondition] = {}

    def make_value(self, prices: Prices | None) -> WorthScore:
        """The `corral` score at these prices, or at prices from a prior expectation if there are none."""
        self.value = WorthScore(self.columns, prices or self.learner.first())
        return self.value

    def best_fit(self) -> BestFit:
        """The best-fit score, relative to the largest nodes."""
        gpus = (self.columns.free_milli >= 0).sum(axis=1).max(initial=0)
        return BestFit(max(1, int(self.columns.host[CPU].max(initial=0))), max(1, int(gpus)) * MILLI_PER_DEVICE)

    def read(self) -> None:
        """Apply the samples that have changed."""
        conditions = self._capacity.view.conditions
        weight = self._capacity.view.availability_memory_weight
        places = ((row, slot, uuid) for row, uuids in enumerate(self.columns.uuids) for slot, uuid in enumerate(uuids))
        for row, slot, uuid in places:
            condition = conditions.get(uuid)
            if condition is not None and self._read.get(uuid) is not condition:
                self._read[uuid] = condition
                used, free = condition.utilization_pct, condition.memory_free_mib
                total = self._capacity.node(self.names[row]).devices[slot].memory_mib
                self.readings.observe(row, slot, availability_score(free, total, used, weight), used)

    def update_turns(self, draft: Draft, names: Iterable[str]) -> None:
        """Set the round-robin turn of each of these nodes to the device after those that were allocated last."""
        given = self._capacity.view.given
        for name in names:
            taken = [one.member.grants for one in draft.started.get(name, ()) if one.member.grants]
            uuids = [grant.uuid for grant in taken[-1]] if taken else given.get(name, ())
            places = [place for uuid in uuids if (place := self._capacity.slot(uuid)) is not None]
            slots = [slot for node, slot in places if node == name]
            if slots:
                self.turns.handed_out(self.columns, self.columns.rows[name], slots)

    def set_next_turn(self) -> None:
        """Set the round-robin turn to the node after the node of the newest allocation."""
        newest = next(iter(list(self._capacity.view.given)[-1:]), "")
        row = self.columns.rows.get(newest)
        self.turns.set_turn(0 if row is None else row + 1)


ScoreMaker = tuple[float, Callable[[ScoringState, Prices | None], Score]]
"""A factor that scales a score to about one, and the function that makes it from the state and optional prices."""

SCORES: Mapping[str, ScoreMaker] = MappingProxyType(
    {
        "corral": (1.0, lambda scoring, prices: scoring.make_value(prices)),
        "fragmentation": (0.01, lambda scoring, prices: scoring.fragmentation),
        "best-fit": (0.01, lambda scoring, prices: scoring.best_fit()),
        "pack": (1.0, lambda scoring, prices: Pack()),
        "spread": (1.0, lambda scoring, prices: spread()),
        "availability": (1.0, lambda scoring, prices: Availability(scoring.readings)),
        "least-loaded": (1.0, lambda scoring, prices: LeastLoaded(scoring.readings)),
        "round-robin": (1.0, lambda scoring, prices: scoring.turns),
        "topology": (1.0, lambda scoring, prices: Topology()),
        "earlier-first": (1.0, lambda scoring, prices: EarlierFirst()),
    }
)
"""The scores by which policies may rank nodes, by name."""


class Packer:
    """Chooses placements for a planner by a weighted sum of scores. Follows its capacity and learns from arrivals."""

    def __init__(
        self,
        capacity: Capacity,
        weights: tuple[tuple[str, float], ...] = CORRAL,
        *,
        scores: Mapping[str, ScoreMaker] | None = None,
        mix: ArrivalMix | None = None,
        prices: Prices | None = None,
    ) -> None:
        """`mix` counts arrivals. `prices` were learned from it earlier, by this packer or another.

        Raises Refused for an unknown score or a weight below zero.
        """
        self._scores = SCORES if scores is None else scores
        for name, weight in weights:
            if name not in self._scores:
                raise Refused(f"there is no score {name!r}; {nearest(name, self._scores)}", field="weights")
            if weight < 0:
                raise Refused(f"the weight of {name} is {weight:g}; it is at least 0", field="weights")
        self._capacity = capacity
        self._weights = weights
        self._names = {name for name, _ in weights}
        self._mix = ArrivalMix() if mix is None else mix
        self._draft: Draft | None = None
        self._scoring, self._placer, self._place = self._new_scoring(prices)

    @property
    def prices(self) -> Prices | None:
        """The estimated worth of free capacity; None if no score uses it. Equal prices give equal choices."""
        return None if self._scoring.value is None else self._scoring.value.prices

    def use(self, prices: Prices) -> None:
        """Use these prices, learned by this packer or another."""
        if self._scoring.value is not None:
            self._scoring.value.use(prices)

    def learn(self) -> bool:
        """Do one bounded step of learning. Return False if there is nothing to do."""
        learner = self._scoring.learner
        one_way = (
            len(self._scoring.names) < 2 and not self._mix.shared
        )  # on a single node with whole devices only, worth decides nothing
        if not self._learns or not learner.due or one_way:
            return False
        prices = learner.advance()
        if prices is not None:
            self.use(prices)
            mix = self._mix.classes()
            self._scoring.fragmentation.expect([(request, round(weight * MIX_GRAIN)) for request, weight in mix])
        return True

    def choose(self, draft: Draft, wanted: PlacementRequest) -> Placement | Misfit:
        """A placement of every member of the request, or the misfit of the nearest node. Does not change the draft."""
        request = wanted.request
        singly = bool(wanted.speeds) or not columnar(request)
        fills = request.split is Strategy.FILL and request.split_milli is not None
        if not singly or self._placer.ranks_devices or fills:
            self._follow_draft(draft)
        order = self._in_order if self._placer.ranks_devices else None
        wholes = partial(self._whole_devices, draft, wanted) if fills else None
        if singly:
            return choose(draft, wanted, Prefer.FULLEST, order=order, wholes=wholes)
        plain = (
            not request.avoid_jobs
            and not draft.repels(request)
            and not wanted.closed_pools
            and not wanted.lending_pools
            and (not wanted.respects_promises or draft.all_open)
        )
        if plain:
            found = self._placer.place(request)
            if found is not None:
                return Placement(tuple(self._member(draft, wanted, taking) for taking in found))
            if request.split_milli is None and not request.one_node and not request.spread:
                return self._placer.why_not(request)
        elif request.gang_size == 1 and request.split_milli is None:
            return self._verified(draft, wanted)
        return choose(draft, wanted, Prefer.FULLEST, order=order, wholes=wholes)

    def scores(self, draft: Draft, wanted: PlacementRequest) -> Mapping[str, float] | None:
        """The score of every node on which the request fits in free capacity; more is better.

        None for a request that the columns cannot place.
        """
        if wanted.speeds or not columnar(wanted.request):
            return None
        self._follow_draft(draft)
        scores = self._placer.scores(wanted.request).tolist()
        return {name: score for name, score in zip(self._scoring.names, scores, strict=True) if score > -inf}

    def _whole_devices(
        self, draft: Draft, wanted: PlacementRequest, name: str, free: Sequence[int], count: int
    ) -> Sequence[int]:
        """The slots that a request for `count` whole devices would take of the free ones."""
        whole = replace(wanted, request=Request(devices=count))
        return self._best_slots(draft, whole, self._scoring.columns.rows[name], tuple(free))

    def _in_order(self, name: str, slots: Sequence[int]) -> Sequence[int]:
        """See `corral.core.scheduling.placing.node_by_node.DeviceOrder`."""
        return self._placer.in_order(self._scoring.columns.rows[name], slots)

    def _member(self, draft: Draft, wanted: PlacementRequest, taking: RowGrant) -> Member:
        name, slots = self._scoring.names[taking.row], taking.slots
        apart = self._placer.ranks_devices or len(set(draft.capacity.scores(name))) > 1
        if wanted.request.gang_size == 1 and apart:
            answer = draft.fit(name, wanted)
            assert isinstance(answer, Fit), "the columns mirror the draft"
            slots = self._best_slots(draft, wanted, taking.row, answer.slots)
        return member_on(draft, wanted.request, name, slots)

    def _verified(self, draft: Draft, wanted: PlacementRequest) -> Placement | Misfit:
        """A placement on the best ranked node whose open state fits, or the misfit of the nearest node.

        A node that needs no borrowed device comes before all others.
        """
        misfits: list[Misfit] = []
        best: tuple[int, int, tuple[int, ...]] | None = None
        for row in self._placer.ranked(wanted.request):
            name = self._scoring.names[row]
            answer = draft.fit(name, wanted)
            if isinstance(answer, Misfit):
                misfits.append(answer if answer.node else replace(answer, node=name))
                continue
            lent_devices = lent_devices_taken(draft, wanted, name, answer.slots)
            if best is None or lent_devices < best[0]:
                best = (lent_devices, row, answer.slots)
            if not lent_devices:
                break
        if best is not None:
            _, row, able = best
            slots = self._best_slots(draft, wanted, row, able)
            return Placement((member_on(draft, wanted.request, self._scoring.names[row], slots),))
        return nearest_misfit(wanted.request, misfits) if misfits else self._placer.why_not(wanted.request)

    def _best_slots(self, draft: Draft, wanted: PlacementRequest, row: int, able: tuple[int, ...]) -> tuple[int, ...]:
        """The slots to take out of `able`: not borrowed if possible, then the best by score and by their links.

        Then the most available come first. Among equals, it is the lowest slot, or the last for a splittable share.
        """
        request, name = wanted.request, self._scoring.names[row]
        if len(able) <= request.devices:
            return able
        lent_slots, read = draft.capacity.slots_in_pools(name, wanted.lending_pools), draft.capacity.scores(name)
        own = tuple(slot for slot in able if slot not in lent_slots)
        able = own if len(own) >= request.devices else able
        last = -1 if request.split_milli is not None else 1
        able = tuple(sorted(able, key=lambda slot: (slot in lent_slots, -read[slot], last * slot)))
        return tuple(sorted(self._placer.best_of(request, row, able)))

    def _follow_draft(self, draft: Draft) -> None:
        """Update the columns to the free capacity of this draft."""
        by_turns = "round-robin" in self._names
        if draft is self._draft:
            row = self._update(draft, draft.changed)
            if row is not None and by_turns:
                self._scoring.turns.set_turn(row + 1)
                self._scoring.update_turns(draft, draft.changed)
            return
        if self._capacity.names is not self._scoring.names or self._scoring.columns.crowded:
            self._scoring, self._placer, self._place = self._new_scoring(self.prices)
            self._draft = None
        changed = self._capacity.changes.since(self._place)
        before = self._scoring.names if changed is None or self._draft is None else (*changed, *self._draft.changed)
        names = dict.fromkeys((*before, *draft.changed))
        self._update(draft, names)
        self._draft, self._place = draft, self._capacity.changes.place
        if by_turns:
            self._scoring.update_turns(draft, names)
            self._scoring.set_next_turn()
        if self._names & {"availability", "least-loaded"}:
            self._scoring.read()

    def _update(self, draft: Draft, names: Iterable[str]) -> int | None:
        """Write the changed states of these nodes into the columns. Return the last changed row, or None."""
        scoring, last = self._scoring, None
        for name in names:
            row = scoring.columns.rows[name]
            state = draft.free(name)
            if state is not scoring.states[row]:
                scoring.states[row] = state
                scoring.columns.put(name, state)
                last = row
        return last

    def _new_scoring(self, prices: Prices | None) -> tuple[ScoringState, Placer, int]:
        """A new scoring state for the current nodes, its placer, and the position in the capacity's changes."""
        scoring, parts = ScoringState(self._capacity, self._mix), []
        for name, weight in self._weights:
            factor, make = self._scores[name]
            parts.append((weight * factor, make(scoring, prices)))
        return scoring, Placer(scoring.columns, weighted(parts)), self._capacity.changes.place

    @property
    def _learns(self) -> bool:
        return not self._names.isdisjoint({"corral", "fragmentation"})
