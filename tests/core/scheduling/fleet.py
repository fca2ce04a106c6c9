"""Random nodes and requests for the placement core: small, odd, and often nearly full."""

from dataclasses import replace

from hypothesis import strategies as st

from corral.core.model.devices.device import DeviceState
from corral.core.model.devices.means import Means
from corral.core.model.jobs.job import Request
from corral.core.model.placing.placement_rules import (
    LabelExpression,
    Operator,
    PlacementRules,
    Taint,
    TaintEffect,
    Toleration,
)
from corral.core.model.placing.state import NodeState, Slot
from corral.core.scheduling.state.columns import NodeCapacity

A, B = "NVIDIA A100-SXM4-80GB", "Tesla T4"
MEMORY_MIB = {A: 81_920, B: 15_360}
COMPUTE = {A: (8, 0), B: (7, 5)}

slots = st.builds(
    lambda model, milli, known, mib, blocked, left, shared, taken: Slot(
        model=model,
        memory_mib=MEMORY_MIB[model] if known else None,
        compute=COMPUTE[model] if known else None,
        free_milli=min(milli, 1000 - taken[0]),
        free_mib=min(MEMORY_MIB[model] * mib // 10, MEMORY_MIB[model] - taken[1]) if known else None,
        blocked=blocked,
        left_mib=left if blocked else None,
        means=shared[0],
        profile=shared[1],
        one_user=shared[2] is not None,
        tenant=shared[2] or None,
        taken_milli=taken[0],
        taken_mib=taken[1] if known else 0,
    ),
    model=st.sampled_from([A, B]),
    milli=st.sampled_from([0, 1, 190, 250, 500, 999, 1000, 1000, 1000]),
    known=st.booleans(),
    mib=st.integers(0, 10),
    blocked=st.sampled_from([None, None, None, None, DeviceState.IN_USE, DeviceState.STALE, DeviceState.CORDONED]),
    left=st.sampled_from([None, 1024, 40_960]),
    taken=st.sampled_from([(0, 0), (0, 0), (0, 0), (0, 0), (250, 4096), (600, 14_000), (1000, 15_360)]),
    shared=st.sampled_from(
        [
            *[(Means.TIMESLICE, None, None)] * 4,
            (Means.EXCLUSIVE, None, None),
            (Means.MPS, None, ""),
            (Means.MPS, None, "alice"),
            (Means.MIG, None, None),
            (Means.MIG, "1g.10gb", None),
        ]
    ),
)

INFRA = Taint("dedicated", "infra")
TOLERANT = PlacementRules((Toleration("dedicated"),))
IN_ZONE_A = PlacementRules(nodes=((LabelExpression("zone", Operator.IN, ("a", "b")),),))

states = st.builds(
    NodeState,
    slots=st.lists(slots, max_size=4).map(tuple),
    cpu_milli=st.sampled_from([0, 1000, 8000, 64_000]),
    memory_mib=st.sampled_from([0, 1024, 65_536]),
    labels=st.sampled_from([(), (("zone", "a"),), (("rack", "7"), ("zone", "a"))]),
    driver=st.sampled_from([None, (535, 1), (580, 159, 3)]),
    cuda=st.sampled_from([None, (12, 2), (13, 0)]),
    taints=st.sampled_from([(), (), (INFRA,), (Taint("old", effect=TaintEffect.PREFER_NO_SCHEDULE),)]),
    members_left=st.sampled_from([None, None, 0, 1, 5]),
)

_requests = st.builds(
    Request,
    devices=st.sampled_from([0, 1, 1, 1, 2, 3]),
    share_milli=st.sampled_from([100, 190, 250, 500, 1000, 1000]),
    memory_mib=st.sampled_from([None, None, 2048, 20_480]),
    min_memory_mib=st.sampled_from([None, None, 40_000]),
    models=st.sampled_from([(), (), ("A100",), ("T4", "V100")]),
    min_compute=st.sampled_from([None, None, (8, 0)]),
    min_driver=st.sampled_from([None, None, (550,)]),
    min_cuda=st.sampled_from([None, None, (12, 4)]),
    labels=st.sampled_from([(), (), (("zone", "a"),)]),
    rules=st.sampled_from([None, None, None, TOLERANT, IN_ZONE_A]),
    cpu_milli=st.sampled_from([0, 500, 8000]),
    host_memory_mib=st.sampled_from([0, 512, 4096]),
    accept_in_use=st.sampled_from([None, None, 2048]),
    memory_percent=st.sampled_from([None, None, None, 30]),
    mig_profile=st.sampled_from([None, None, None, None, "1g.10gb"]),
    means=st.sampled_from([None, None, None, Means.MPS, Means.EXCLUSIVE]),
    tenant=st.sampled_from([None, "alice", "bob"]),
)

requests = st.builds(
    lambda request, splits: (
        replace(request, split_milli=request.share_milli) if splits and request.devices == 1 else request
    ),
    _requests,
    st.sampled_from([False, False, True]),
)
"""Some may be split over devices; columns are asked where they need not be."""


def rows(*node_states: NodeState) -> list[NodeCapacity]:
    """Nodes n0, n1, ... in these states."""
    return [
        NodeCapacity(f"n{i}", tuple(f"GPU-{i}-{slot}" for slot in range(len(state.slots))), state)
        for i, state in enumerate(node_states)
    ]


fleets = st.lists(states, min_size=1, max_size=6).map(lambda found: rows(*found))


def free(
    count: int = 8, *, milli: int = 1000, model: str = "G3", cpu: int = 128_000, memory: int = 786_432
) -> NodeState:
    """A plain node: equal slots with so much free."""
    return NodeState((Slot(model, None, None, milli, None),) * count, cpu, memory)


def shares(*milli: int, cpu: int = 128_000, model: str = "G3") -> NodeState:
    """A node with so much free on each slot."""
    return NodeState(tuple(Slot(model, None, None, left, None) for left in milli), cpu, 786_432)
