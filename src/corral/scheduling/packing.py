"""The `corral` way to choose: nodes ranked in columns by what their free capacity is worth, not looked at one by one.

The columns mirror what is free; what a node has open to a job can only be less. So a place is looked for in the order
of the ranking, and where something is promised to or kept for others, the draft's own fit has the last word.
"""

from collections.abc import Iterable
from dataclasses import replace

import numpy as np

from corral.model.allocation import Placement
from corral.model.fit import Misfit, NodeState
from corral.model.job import Request
from corral.scheduling.capacity import Capacity
from corral.scheduling.choose import best_misfit, choose, member_on
from corral.scheduling.columns import Columns, NodeRow, columnar
from corral.scheduling.draft import Ask, Draft
from corral.scheduling.learn import Learner
from corral.scheduling.place import Placer
from corral.scheduling.policy import Prefer
from corral.scheduling.topology import layout
from corral.scheduling.value import Prices, Value


class Packer:
    """Chooses places for a planner. Mirrors its capacity, learns from arrivals, and judges by the prices it has."""

    def __init__(self, capacity: Capacity) -> None:
        self._capacity = capacity
        self._draft: Draft | None = None
        self._read()
        self._learner = Learner(self._columns)
        self._judge_by(self._learner.settle())

    @property
    def prices(self) -> Prices:
        """What free capacity is taken to be worth. Two packers with the same prices choose the same."""
        return self._value.prices

    def use(self, prices: Prices) -> None:
        """Judge by these prices, learned by this packer or by another."""
        self._value.use(prices)

    def observe(self, request: Request) -> None:
        """Take note of a request that has arrived; once for each job."""
        self._learner.observe(request)

    def learn(self) -> bool:
        """One bounded step of learning, between decisions; False when there is nothing to do."""
        if not self._learner.due:
            return False
        prices = self._learner.advance()
        if prices is not None:
            self._value.use(prices)
        return True

    def choose(self, draft: Draft, ask: Ask) -> Placement | Misfit:
        """A place for every member of what is asked, or the misfit of the best node. The draft is not changed."""
        request = ask.request
        if ask.speeds or request.device_uuids or not columnar(request):
            return choose(draft, ask, Prefer.FULLEST)
        self._mirror(draft)
        plain = not request.avoid_jobs and not ask.shut and not ask.lent and (not ask.kept or draft.unpromised)
        if plain:
            found = self._placer.place(request)
            if found is not None:
                members = (member_on(draft, request, self._names[taken.row], taken.slots) for taken in found)
                return Placement(tuple(members))
            if request.split_milli is None and not request.one_node and not request.spread:
                return self._placer.why_not(request)
        elif request.gang_size == 1 and request.split_milli is None:
            return self._verified(draft, ask)
        return choose(draft, ask, Prefer.FULLEST)

    def _verified(self, draft: Draft, ask: Ask) -> Placement | Misfit:
        """The best ranked node whose open capacity serves the ask, or the misfit of the nearest of those with room."""
        misfits = []
        scores = self._placer.scores(ask.request)
        fitting = np.flatnonzero(scores > -np.inf)
        for row in fitting[np.argsort(-scores[fitting], kind="stable")].tolist():
            name = self._names[row]
            answer = draft.fit(name, ask)
            if isinstance(answer, Misfit):
                misfits.append(answer if answer.node else replace(answer, node=name))
            else:
                taken = self._placer.on(ask.request, row)
                slots = answer.slots[: ask.request.devices]
                if taken is not None and set(taken.slots) <= set(answer.slots):
                    slots = taken.slots
                return Placement((member_on(draft, ask.request, name, slots),))
        return best_misfit(misfits) if misfits else self._placer.why_not(ask.request)

    def _mirror(self, draft: Draft) -> None:
        """Let the columns say what is free in this draft."""
        if draft is self._draft:
            self._put(draft, draft.changed)
            return
        if self._capacity.names is not self._names or self._columns.crowded:
            self._read()
            self._learner = Learner(self._columns, self._learner.mix)
            self._judge_by(self._value.prices)
        self._draft = draft
        self._put(draft, self._names)

    def _put(self, draft: Draft, names: Iterable[str]) -> None:
        for name in names:
            row = self._columns.rows[name]
            state = draft.free(name)
            if state is not self._seen[row]:
                self._seen[row] = state
                self._columns.put(name, state)

    def _read(self) -> None:
        """Columns for the nodes that there are now."""
        capacity = self._capacity
        self._names = capacity.names
        self._seen: list[NodeState] = [capacity.state(name) for name in self._names]
        nodes = [capacity.node(name) for name in self._names]
        self._columns = Columns(
            [
                NodeRow(node.name, tuple(device.uuid for device in node.devices), state, layout(node))
                for node, state in zip(nodes, self._seen, strict=True)
            ]
        )

    def _judge_by(self, prices: Prices) -> None:
        self._value = Value(self._columns, prices)
        self._placer = Placer(self._columns, self._value)
