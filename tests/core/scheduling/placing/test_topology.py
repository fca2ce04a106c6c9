"""The best set of devices is found, and on equal terms the rest is left whole."""

from corral.core.model.devices.device import Device, Link, Node
from corral.core.model.jobs.job import Request
from corral.core.scheduling.placing.closeness import Layout, best_set, layout, set_score
from corral.core.scheduling.placing.ranking import Placer
from corral.core.scheduling.placing.scores import EarlierFirst, weighted
from corral.core.scheduling.placing.topology import Topology
from corral.core.scheduling.state.columns import Columns, NodeCapacity
from tests.core.scheduling.fleet import free


def node(*, nvlink: tuple[tuple[int, ...], ...] = (), pcie: tuple[tuple[int, ...], ...] = (), numa: int = 4) -> Node:
    """Eight devices; each group is linked among itself, and `numa` devices stand on each NUMA node."""
    devices = []
    for i in range(8):
        links = [
            Link(f"GPU-{j}", kind)
            for kind, groups in (("nvlink", nvlink), ("pcie", pcie))
            for group in groups
            if i in group
            for j in group
            if j != i
        ]
        devices.append(Device(f"GPU-{i}", i, "A100", 81_920, numa_node=i // numa, links=tuple(links)))
    return Node("n", tuple(devices), 1, 1)


def known(found: Layout | None) -> Layout:
    assert found is not None
    return found


QUADS = known(layout(node(nvlink=((0, 2, 4, 6), (1, 3, 5, 7)))))
ALL = tuple(range(8))


def test_four_devices_of_one_nvlink_group_beat_the_four_lowest() -> None:
    assert best_set(QUADS, ALL, 4) == (0, 2, 4, 6)


def test_a_pair_that_is_left_is_taken_before_a_whole_group_is_cut() -> None:
    assert best_set(QUADS, (0, 2, 4, 6, 1, 7), 2) == (1, 7)


def test_a_single_device_is_taken_where_it_cuts_the_fewest_links() -> None:
    assert best_set(QUADS, (0, 2, 4, 6, 5), 1) == (5,)


def test_without_nvlink_one_switch_is_preferred_and_then_one_numa_node() -> None:
    switches = known(layout(node(pcie=((0, 1), (2, 3), (4, 5), (6, 7)))))
    assert best_set(switches, (1, 2, 3), 2) == (2, 3)
    sockets = known(layout(node()))
    assert best_set(sockets, (2, 3, 4, 5, 6), 3) == (4, 5, 6)


def test_a_node_whose_devices_are_all_alike_has_no_layout() -> None:
    assert layout(node(nvlink=(ALL,))) is None


def test_a_set_is_scored_from_no_fast_path_to_nvlink_between_all() -> None:
    assert set_score(QUADS, (0, 2, 4, 6)) == 1.0
    assert 0.0 < set_score(QUADS, (0, 1, 2, 3)) < 0.5
    assert set_score(QUADS, (3,)) == 1.0


def test_a_set_too_large_to_try_all_is_grown_inside_its_group() -> None:
    size = 20
    groups: Layout = tuple(
        tuple(0 if i == j else (1 << 20) * (i % 2 == j % 2) for j in range(size)) for i in range(size)
    )
    assert best_set(groups, tuple(range(size)), 10) == tuple(range(0, size, 2))


def test_a_job_goes_to_the_node_where_its_devices_are_close_and_gets_that_set() -> None:
    uuids = tuple(f"GPU-{i}" for i in range(8))
    sockets = layout(node())
    columns = Columns(
        [
            NodeCapacity("far", tuple(f"far-{uuid}" for uuid in uuids), free(), sockets),
            NodeCapacity("near", uuids, free(), QUADS),
        ]
    )
    placer = Placer(columns, weighted([(1.0, Topology()), (0.1, EarlierFirst())]))
    found = placer.best(Request(devices=4))
    assert found is not None
    assert (found.row, found.slots) == (1, (0, 2, 4, 6))
    single = placer.best(Request())
    assert single is not None
    assert single.row == 0
