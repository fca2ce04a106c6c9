"""Devices that fall sick and are repaired, at random times that a seed fixes."""

import random
from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

from corral.model.device import Node


class Trouble(NamedTuple):
    """At this time (Unix seconds) the device falls sick, or is well again."""

    at: float
    uuid: str
    sick: bool

    @property
    def words(self) -> str | None:
        """What the device's condition says of it."""
        return "it failed in the simulation" if self.sick else None


@dataclass(frozen=True, slots=True)
class Breakdown:
    """One device out of order from `at` until `until` (Unix seconds)."""

    uuid: str
    at: float
    until: float

    def troubles(self) -> tuple[Trouble, Trouble]:
        """Its begin and its end."""
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
