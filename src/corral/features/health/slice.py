"""The slice with the history of devices' health."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from corral.core.model.draft import DraftOf
from corral.core.model.fact import Delta, DeviceHealthChanged, Fact
from corral.core.model.slice import Slice
from corral.core.model.view import EMPTY, View
from corral.features.health.facts import MOST_NOTES, HealthNoted


@dataclass(frozen=True)
class HealthSlice(Slice):
    """The last changes of the health of each device that was ever sick.

    Attributes:
        notes: the changes by the device's UUID, oldest first.
    """

    notes: Mapping[str, tuple[HealthNoted, ...]] = field(default_factory=lambda: EMPTY)

    deltas = (HealthNoted,)

    @staticmethod
    def fold(draft: "DraftOf[HealthSlice]", delta: Delta) -> None:
        """Add a change; the oldest goes when there are too many."""
        if isinstance(delta, HealthNoted):
            known = draft.value.notes.get(delta.uuid, ())
            draft.put("notes", delta.uuid, (*known, delta)[-MOST_NOTES:])

    def follows(self, view: View, facts: Sequence[Fact]) -> Sequence[Fact]:
        """Return a note of each change of the health of a device."""
        return tuple(self._notes_of(facts))

    def _notes_of(self, facts: Sequence[Fact]) -> Iterator[HealthNoted]:
        last = dict[str, int]()
        for fact in facts:
            if isinstance(fact, DeviceHealthChanged):
                uuid, health = fact.uuid, fact.health
                before = self.notes.get(uuid, ())
                number = last.get(uuid, before[-1].number if before else -1) + 1
                last[uuid] = number = number % MOST_NOTES
                yield HealthNoted(uuid, number, health.state, health.reason, fact.evidence, at=fact.at, by=fact.by)
