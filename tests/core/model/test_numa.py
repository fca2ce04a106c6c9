from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from corral.core.model.devices.device import Device, Node
from corral.core.model.devices.numa import NumaBinding, cpu_list, numa_binding, read_cpu_list
from corral.core.model.placing.allocation import Grant, Member

CPUS = {0: (0, 1, 2, 3), 1: (4, 5, 6, 7)}


def two_sockets(*numa_nodes: int | None) -> Node:
    """A host with two NUMA nodes of four CPUs, and a device on each of the given ones."""
    devices = tuple(Device(f"GPU-{i}", i, "A100", 81920, numa_node=number) for i, number in enumerate(numa_nodes))
    return Node("box", devices, 8000, 65536, numa_cpus=tuple(CPUS.items()))


def having(*indices: int, share_milli: int = 1000, cpu_milli: int = 0) -> Member:
    return Member("box", tuple(Grant(f"GPU-{i}", share_milli) for i in indices), cpu_milli)


def test_whole_devices_bind_to_the_numa_nodes_that_they_are_on() -> None:
    host = two_sockets(0, 1, 1)
    assert numa_binding(having(0), host) == NumaBinding((0,), CPUS[0])
    assert numa_binding(having(1, 2), host) == NumaBinding((1,), CPUS[1])
    assert numa_binding(having(2, 0), host) == NumaBinding((0, 1), CPUS[0] + CPUS[1])


@pytest.mark.parametrize(
    ("member", "why"),
    [
        (having(), "it has no device"),
        (having(0, share_milli=500), "it has a part of one, whose neighbours may be anywhere"),
        (having(2), "the kernel tells no NUMA node of this one"),
        (having(3), "this one's NUMA node has no CPUs"),
        (having(9), "the node does not have this one any more"),
        (having(0, cpu_milli=5000), "its NUMA node has four CPUs and it asked for five"),
    ],
)
def test_others_are_not_bound(member: Member, why: str) -> None:
    assert numa_binding(member, two_sockets(0, 1, None, 5)) is None, why


def test_a_slice_and_a_host_that_binds_nothing_are_not_bound() -> None:
    host = two_sockets(0)
    assert numa_binding(having(0), replace(host, numa_cpus=())) is None
    assert numa_binding(having(0), None) is None
    slices = (replace(host.devices[0], mig_profile="1g.10gb", parent_uuid="GPU-9"),)
    assert numa_binding(having(0), replace(host, devices=slices)) is None


@pytest.mark.parametrize(("cpus", "text"), [((), ""), ((3,), "3"), ((0, 1, 2, 8, 10, 11), "0-2,8,10-11")])
def test_cpus_are_written_as_the_kernel_writes_them(cpus: tuple[int, ...], text: str) -> None:
    assert cpu_list(cpus) == text
    assert read_cpu_list(f"{text}\n") == cpus


@given(st.frozensets(st.integers(0, 300)).map(lambda cpus: tuple(sorted(cpus))))
def test_a_list_of_cpus_reads_as_it_was_written(cpus: tuple[int, ...]) -> None:
    assert read_cpu_list(cpu_list(cpus)) == cpus
