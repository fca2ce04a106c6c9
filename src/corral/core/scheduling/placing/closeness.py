"""Finds well connected devices of a node: by NVLink, then by one PCIe switch, then within one NUMA node.

The *set* of devices that a job gets counts: four GPUs of one NVLink group are better than two pairs.
Among equally well connected sets, the best has the fewest fast links to devices that stay free.
"""

from collections.abc import Sequence
from functools import lru_cache
from itertools import combinations
from math import comb

from corral.core.model.devices.device import FAST_LINKS, Device, Node

_NVLINK, _PCIE, _NUMA = 1 << 20, 1 << 10, 1
"""The closeness of two devices. One closer pair outweighs all pairs of the next kind, up to 45 devices a node."""

SETS_TRIED = 5_000
"""If there are more possible sets than this, a set is built greedily, device by device, instead of trying all."""

Layout = tuple[tuple[int, ...], ...]
"""The closeness of every two devices of a node, by slot; 0 on the diagonal and for unknown connections."""


def layout(node: Node) -> Layout | None:
    """The layout of a node; None if all its devices are equally close: then no set is better than another."""
    links = [{link.peer_uuid: link.kind for link in device.links} for device in node.devices]
    closeness = tuple(
        tuple(_closeness(a, b, links[i], links[j]) if i != j else 0 for j, b in enumerate(node.devices))
        for i, a in enumerate(node.devices)
    )
    pairs = {closeness[i][j] for i, j in combinations(range(len(closeness)), 2)}
    return closeness if len(pairs) > 1 else None


def _closeness(a: Device, b: Device, from_a: dict[str, str], from_b: dict[str, str]) -> int:
    kinds = {from_a.get(b.uuid), from_b.get(a.uuid)}
    if kinds & FAST_LINKS:
        return _NVLINK
    if "pcie" in kinds:
        return _PCIE
    return _NUMA if a.numa_node is not None and a.numa_node == b.numa_node else 0


def set_score(layout: Layout, slots: Sequence[int]) -> float:
    """The closeness of the slots, from 0 (no fast link) to 1 (NVLink between every two); 1 for a single slot."""
    pairs = len(slots) * (len(slots) - 1) // 2
    return _within(layout, slots) / (pairs * _NVLINK) if pairs else 1.0


@lru_cache(maxsize=16_384)
def best_set(layout: Layout, able: tuple[int, ...], devices: int) -> tuple[int, ...]:
    """The best set of `devices` slots out of `able`, in slot order; among equal sets, the one with the lowest slots.

    `able` must have at least `devices` slots.
    """
    if comb(len(able), devices) > SETS_TRIED:
        return _grown(layout, able, devices)
    return max(combinations(able, devices), key=lambda chosen: (_within(layout, chosen), -_cut(layout, chosen, able)))


def least_cut(layout: Layout, among: Sequence[int], able: Sequence[int]) -> int:
    """The slot out of `among` with the fewest fast links to the other able slots; among equals, the first."""
    return min(among, key=lambda slot: _cut(layout, (slot,), able))


def _grown(layout: Layout, able: tuple[int, ...], devices: int) -> tuple[int, ...]:
    """The best of the sets that grow from each slot by adding the closest slot until they are large enough."""
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
