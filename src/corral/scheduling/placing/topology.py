"""Which devices of a node belong together: NVLink first, then one PCIe switch, then one NUMA node.

The unit is the *set* of devices that a job gets: four GPUs of one NVLink group are better than two pairs.
Of equally close sets, the one whose taking cuts the fewest fast paths to the devices that stay free.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import combinations
from math import comb

import numpy as np

from corral.model.device import Device, Node
from corral.scheduling.placing.scores import Floats, Granularity, PlacementOptions
from corral.scheduling.state.columns import Columns

_NVLINK, _PCIE, _NUMA = 1 << 20, 1 << 10, 1
"""How close two devices are. One nearer pair outweighs all pairs of the next sort, up to 45 devices a node."""

SETS_TRIED = 5_000
"""Beyond so many sets the closest one is grown device by device instead of being looked for among all."""

Layout = tuple[tuple[int, ...], ...]
"""How close each device of a node is to each other, by slot; 0 on the diagonal and between strangers."""


def layout(node: Node) -> Layout | None:
    """The layout of a node; None when its devices are all as close to each other, so that none is to be preferred."""
    links = [{link.peer_uuid: link.kind for link in device.links} for device in node.devices]
    closeness = tuple(
        tuple(_closeness(a, b, links[i], links[j]) if i != j else 0 for j, b in enumerate(node.devices))
        for i, a in enumerate(node.devices)
    )
    pairs = {closeness[i][j] for i, j in combinations(range(len(closeness)), 2)}
    return closeness if len(pairs) > 1 else None


def _closeness(a: Device, b: Device, from_a: dict[str, str], from_b: dict[str, str]) -> int:
    kinds = {from_a.get(b.uuid), from_b.get(a.uuid)}
    if "nvlink" in kinds:
        return _NVLINK
    if "pcie" in kinds:
        return _PCIE
    return _NUMA if a.numa_node is not None and a.numa_node == b.numa_node else 0


def set_score(layout: Layout, slots: Sequence[int]) -> float:
    """How close the slots are to each other, from 0 (no fast path) to 1 (NVLink between every two); 1 for one slot."""
    pairs = len(slots) * (len(slots) - 1) // 2
    return _within(layout, slots) / (pairs * _NVLINK) if pairs else 1.0


@lru_cache(maxsize=16_384)
def best_set(layout: Layout, able: tuple[int, ...], devices: int) -> tuple[int, ...]:
    """The best `devices` of the able slots, in slot order; the lowest slots of equals. `able` must hold as many."""
    if comb(len(able), devices) > SETS_TRIED:
        return _grown(layout, able, devices)
    return max(combinations(able, devices), key=lambda chosen: (_within(layout, chosen), -_cut(layout, chosen, able)))


def least_cut(layout: Layout, among: Sequence[int], able: Sequence[int]) -> int:
    """The first of those slots whose taking cuts the fewest fast paths to the other able ones."""
    return min(among, key=lambda slot: _cut(layout, (slot,), able))


def _grown(layout: Layout, able: tuple[int, ...], devices: int) -> tuple[int, ...]:
    """The best of the sets that start at one slot and add the closest slot until they are large enough."""
    best: tuple[int, ...] = ()
    for start in able:
        chosen = [start]
        while len(chosen) < devices:
            left = [slot for slot in able if slot not in chosen]
            chosen.append(max(left, key=lambda slot: sum(layout[slot][other] for other in chosen)))
        if not best or _within(layout, chosen) > _within(layout, best):
            best = tuple(sorted(chosen))
    return best


def _within(layout: Layout, slots: Sequence[int]) -> int:
    return sum(layout[a][b] for a, b in combinations(slots, 2))


def _cut(layout: Layout, chosen: Sequence[int], able: Sequence[int]) -> int:
    return sum(layout[a][b] for a in chosen for b in able if b not in chosen)


@dataclass(frozen=True, slots=True)
class Topology:
    """How close the devices that would be taken are to each other; 1 where a node's layout tells nothing."""

    granularity: Granularity = Granularity.NODES
    version: int = 0

    def __call__(self, columns: Columns, options: PlacementOptions) -> Floats:
        scores = np.ones(len(options.rows))
        if len(options.slots) > 1:
            for at, row in enumerate(options.rows.tolist()):
                known = columns.layouts[row]
                if known is not None:
                    scores[at] = set_score(known, options.slots[:, at].tolist())
        return scores
