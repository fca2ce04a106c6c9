"""Devices that fail and are repaired, at random times drawn from a seed."""

import random
from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

from corral.core.model.devices.device import Node


class Trouble(NamedTuple):
    """A failure or repair of a device at a time in Unix seconds."""

    at: float
    uuid: str
    sick: bool

    @property
    def words(self) -> str | None:
        """The reason in the device's condition."""
        return "it failed in the simulation" if self.sick else None


@dataclass(frozen=True, slots=True)
class Breakdown:
    """One device out of order from `at` until `until` (Unix seconds)."""

    uuid: str
    at: float
    until: float

    def troubles(self) -> tuple[Trouble, Trouble]:
        """The failure and the repair."""
        return Trouble(self.at, self.uuid, True), Trouble(self.until, self.uuid, False)


def breakdowns(
    nodes: Iterable[Node], *, start: float, end: float, mtbf_s: float, repair_s: float, seed: int
) -> list[Breakdown]:
    """Failures of each device with exponential times between them, mean `mtbf_s`, each repaired after `repair_s`."""
    chance = random.Random(seed)
    found = []
    for node in sorted(nodes, key=lambda one: one.name):
        for device in node.devices:
            at = start + chance.expovariate(1 / mtbf_s)
            while at < end:
                found.append(Breakdown(device.uuid, at, at + repair_s))
                at += repair_s + chance.expovariate(1 / mtbf_s)
    return sorted(found, key=lambda one: (one.at, one.uuid))
