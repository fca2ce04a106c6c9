"""What is done in a soak, in an order that its seed alone decides."""

import random
from dataclasses import dataclass
from enum import StrEnum

BATCH = 10
LARGEST_GANG = 4


class Kind(StrEnum):
    """What can be done; the comments are for those whose name does not say it."""

    PODS = "pods of others"
    GANG = "a gang of others"
    ARRAY = "corral submit --array"
    SUBMITTED_GANG = "corral submit --gang"
    DELETE = "a pod deleted by hand"
    STEAL = "another scheduler binds a pod"
    SHRINK = "a node loses devices"
    GROW = "a node has its devices again"
    KILL_SERVER = "kill -9 of the server"
    RESTART_API_SERVER = "a restart of the API server"
    VANISH = "a node vanishes"
    COME_BACK = "it comes back"


@dataclass(frozen=True)
class Deed:
    """One of them. `number` is of pods or of what is chosen among, `gpus` of each pod, `pause_s` comes after it."""

    kind: Kind
    number: int
    gpus: int
    pause_s: float


SMALL = {Kind.DELETE: 30, Kind.STEAL: 25, Kind.SHRINK: 60, Kind.GROW: 60}
"""One of these for so many pods."""

LARGE = {Kind.KILL_SERVER: 200, Kind.RESTART_API_SERVER: 400, Kind.VANISH: 250}
"""One of these for so many pods, at least one."""


def deeds_of(seed: int, pods: int) -> list[Deed]:
    """So many pods, about, and everything else that happens meanwhile."""
    chance = random.Random(seed)
    made: list[Deed] = []
    left = pods
    while left > 0:
        kind = chance.choices(
            (Kind.PODS, Kind.GANG, Kind.ARRAY, Kind.SUBMITTED_GANG), weights=(BATCH, LARGEST_GANG, LARGEST_GANG, 2)
        )[0]
        gang = kind in (Kind.GANG, Kind.SUBMITTED_GANG)
        number = chance.randint(2, LARGEST_GANG) if gang else min(left, BATCH)
        left -= number
        made.append(Deed(kind, number, chance.choice((1, 1, 1, 2, 4)), chance.uniform(0.0, 0.3)))
    others = [kind for kind, each in SMALL.items() for _ in range(pods // each)]
    others += [kind for kind, each in LARGE.items() for _ in range(max(1, pods // each))]
    chance.shuffle(others)
    for kind in others:
        # Not before there is something to be met.
        place = chance.randrange(len(made) // 8, len(made) + 1)
        made.insert(place, Deed(kind, chance.randrange(1000), 0, chance.uniform(0.0, 0.5)))
        if kind is Kind.VANISH:
            later = chance.randrange(place + 1, len(made) + 1)
            made.insert(later, Deed(Kind.COME_BACK, 0, 0, 0.0))
    return made
