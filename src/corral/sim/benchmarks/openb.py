"""Replays the openb traces (Weng et al., "Beware of Fragmentation", USENIX ATC'23): pods arrive, and no pod ends.

The nodes, the pods and the order of arrival are read from files; the production planner makes every decision.
"""

import csv
import json
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from importlib.resources import files
from importlib.resources.abc import Traversable
from time import perf_counter
from typing import Any, NamedTuple, TypeVar

import numpy as np

from corral.core.lifecycle.commands import cancel
from corral.core.lifecycle.starting import start_at_once
from corral.core.model.devices.device import Device, Node
from corral.core.model.errors import Refused, nearest
from corral.core.model.fact import JobSubmitted, ServerPart
from corral.core.model.jobs.job import Job, JobSpec, Request
from corral.core.model.placing.allocation import Member
from corral.core.model.placing.state import NodeState, Slot
from corral.core.model.units import MILLI_PER_DEVICE
from corral.core.scheduling.placing.fragmentation import Fragmentation
from corral.core.scheduling.planner import Planner
from corral.core.scheduling.policy import Backfill, Policy
from corral.core.scheduling.queueing.order import FCFS
from corral.core.scheduling.state.columns import Columns, NodeCapacity, RowGrant, Rows, Shape
from corral.sim.benchmarks.placement_policies import scores_for
from corral.sim.benchmarks.trace_files import text_of
from corral.sim.engine import Progress, inventory, untold

SHIPPED = files("corral.sim") / "data"
"""The default trace and the order of seed 42; SOURCE.md beside them says where they come from."""

T = TypeVar("T")

BINS = (80, 100, 130)
COVERED = 0.95
"""The part of a trace's pods that the target workload of FGD covers."""


class Point(NamedTuple):
    """Allocation and fragmentation after jobs with a given sum of GPUs have arrived, all in percent of capacity."""

    arrived_pct: int
    allocated_pct: float
    fragmented_pct: float


@dataclass(frozen=True, slots=True)
class Trace:
    """Nodes in tie-break order, which is that of their names, and requests in order of arrival.

    `pods` are all the trace's requests, for its mix.
    """

    nodes: tuple[Node, ...]
    pods: tuple[Request, ...]
    arrivals: tuple[Request, ...]

    @property
    def capacity_milli(self) -> int:
        """Milli-GPU of all nodes."""
        return sum(len(node.devices) for node in self.nodes) * MILLI_PER_DEVICE


def read_trace(
    nodes: Traversable, pods: Traversable, order: Traversable, *, seed: int = 42, arrivals: str = "sequence"
) -> Trace:
    """Read a trace as published: CSVs of nodes and pods, and the orders by seed; each may be gzipped.

    `arrivals` is "sequence", the seed's order, or "file": the pods in file order, repeated until 101 % has arrived.
    Raises Refused with option, file and line if a file is invalid, or has no such seed.
    """
    if arrivals not in {"sequence", "file"}:
        hint = nearest(arrivals, ["sequence", "file"])
        raise Refused(f"--arrivals: {arrivals!r} is unknown; {hint}", field="--arrivals")
    known_nodes = list(_parsed("--nodes", nodes, _node))
    sorts: dict[Request, Request] = {}
    known_pods = [sorts.setdefault(pod, pod) for pod in _parsed("--pods", pods, _pod)]
    chosen = _order(order, seed, len(known_nodes), len(known_pods))
    ordered = tuple(_ranked(rank, known_nodes[row]) for rank, row in enumerate(chosen["nodes"]))
    capacity = sum(len(node.devices) for node in ordered) * MILLI_PER_DEVICE
    if not capacity:
        raise Refused(f"--nodes: there is no GPU on the {len(ordered)} nodes of {nodes} in this order", field="--nodes")
    if arrivals == "sequence":
        return Trace(ordered, tuple(known_pods), tuple(known_pods[row] for row in chosen["pods"]))
    if not any(pod.total_milli for pod in known_pods):
        raise Refused(f"--pods: no pod of {pods} asks for a GPU: they would arrive for ever", field="--pods")
    return Trace(ordered, tuple(known_pods), tuple(_until(known_pods, capacity * 101 // 100)))


def shipped_trace(*, arrivals: str = "sequence") -> Trace:
    """The default trace in the order of seed 42, which comes with Corral."""
    return read_trace(
        SHIPPED / "openb_node_list_gpu_node.csv.gz",
        SHIPPED / "openb_pod_list_default.csv.gz",
        SHIPPED / "openb_order_default.json.gz",
        arrivals=arrivals,
    )


def target_mix(pods: Sequence[Request]) -> list[tuple[Request, int]]:
    """FGD's target workload: the most frequent classes, memory aside, that cover COVERED of the pods, counted."""
    counts = Counter((pod.cpu_milli, pod.share_milli if pod.devices else 0, pod.devices, pod.models) for pod in pods)
    ordered = sorted(((n, key) for key, n in counts.items()), reverse=True)
    taken: list[tuple[Request, int]] = []
    for count, (cpu, share, devices, models) in ordered:
        if sum(n for _, n in taken) >= COVERED * len(pods):
            break
        taken.append(
            (Request(devices=devices, share_milli=share or MILLI_PER_DEVICE, cpu_milli=cpu, models=models), count)
        )
    return taken


def run_openb(
    nodes: Traversable,
    pods: Traversable,
    order: Traversable,
    *,
    seed: int = 42,
    arrivals: str = "sequence",
    policy: str = "corral",
) -> dict[str, Any]:
    """Replay a trace under a policy and report the allocation; the keys are those of `corral simulate openb`."""
    return replay(read_trace(nodes, pods, order, seed=seed, arrivals=arrivals), policy, seed)


def replay(
    trace: Trace, policy: str, seed: int = 42, *, curve: list[Point] | None = None, progress: Progress = untold
) -> dict[str, Any]:
    """Place the arrivals of a trace one by one. A pod that fits is never refused; a pod that fails is not tried again.

    `curve` receives a point at each whole percent of capacity that has arrived.
    """
    started = perf_counter()
    run = _Run(trace, policy, seed)
    for number, request in enumerate(trace.arrivals):
        progress(number, len(trace.arrivals))
        run.arrive(request)
        if curve is not None and (not curve or run.arrived_pct >= curve[-1].arrived_pct + 1):
            curve.append(run.point())
    wall_s = perf_counter() - started
    return {"policy": policy, "seed": seed, **run.report(), "wall_s": round(wall_s, 3)} | {
        "decisions_per_s": round(len(trace.arrivals) / wall_s, 1)
    }


class _Run:
    """One replay: the planner, separate columns to measure fragmentation, and the sums for the report."""

    def __init__(self, trace: Trace, policy: str, seed: int) -> None:
        mix = target_mix(trace.pods)
        self._planner = Planner(
            policy=Policy(FCFS, Backfill.ANY, weights=((policy, 1.0),)), scores=scores_for(policy, mix, seed)
        )
        self._planner.advance(inventory(trace.nodes))
        self._capacity = trace.capacity_milli
        self._columns = Columns([_row_of(node) for node in trace.nodes])
        self._slots = {device.uuid: device.index for node in trace.nodes for device in node.devices}
        self._fragmentation = Fragmentation(self._columns, mix)
        self._allocated = self._arrived = 0
        self._failed = self._refused = 0
        self._bins: dict[int, list[tuple[float, float]]] = {bin_pct: [] for bin_pct in BINS}
        self._seconds: list[float] = []
        self._shapes: dict[Request, Shape] = {}
        self._everywhere: Rows = np.arange(len(self._columns), dtype=np.intp)

    def arrive(self, request: Request) -> None:
        """Submit one pod and carry out the decision, all of it timed; then let the policy learn."""
        number = len(self._seconds) + 1
        job = Job(str(number), number, JobSpec(user="openb", request=request), submitted_at=float(number))
        before = perf_counter()
        self._planner.advance([JobSubmitted(job, at=job.submitted_at, by=ServerPart.SIMULATOR)])
        starts, view = self._planner.plan(job.submitted_at).starts, self._planner.view
        if starts:
            self._planner.advance(
                start_at_once(view, job, starts[0].placement, by=ServerPart.SIMULATOR, at=job.submitted_at)
            )
        else:
            self._planner.advance(cancel(view, job, by=ServerPart.SIMULATOR, at=job.submitted_at))
        self._seconds.append(perf_counter() - before)
        while self._planner.learn():
            pass
        self._arrived += request.total_milli
        if starts:
            self._allocated += request.total_milli
            self._columns.take(self._taking(starts[0].placement.members[0]))
        else:
            self._failed += 1
            self._refused += self._fits_somewhere(request)
        if self.arrived_pct in self._bins:
            lost = self._fragmentation.fragmentation_milli()
            self._bins[self.arrived_pct].append((self._allocated, lost))

    @property
    def arrived_pct(self) -> int:
        """The requests so far in whole percent of capacity, pods that did not fit included."""
        return round(100 * self._arrived / self._capacity)

    def point(self) -> Point:
        """The current point of the curve."""
        lost = self._fragmentation.fragmentation_milli()
        return Point(self.arrived_pct, 100 * self._allocated / self._capacity, 100 * lost / self._capacity)

    def report(self) -> dict[str, Any]:
        """The outcome, without the wall time."""
        p50, p99 = np.percentile(self._seconds, (50, 99)) * 1000 if self._seconds else (0.0, 0.0)
        return {
            "capacity_milli": self._capacity,
            "allocated_milli": self._allocated,
            "arrived_pods": len(self._seconds),
            "failed_pods": self._failed,
            "refused_though_fitting": self._refused,
            "allocation_pct": {str(b): self._mean_pct([a for a, _ in seen]) for b, seen in self._bins.items()},
            "frag_pct": {str(b): self._mean_pct([f for _, f in seen]) for b, seen in self._bins.items()},
            "decision_ms": {"p50": round(float(p50), 4), "p99": round(float(p99), 4)},
        }

    def _fits_somewhere(self, request: Request) -> bool:
        """Return whether the pod fits on any row, computed without the policy's caches."""
        shape = self._shapes.get(request)
        if shape is None:
            shape = self._shapes[request] = Shape(request, self._columns)
        able = shape.able_slots(self._columns, shape.serving(self._columns, self._everywhere))
        return bool((able.sum(axis=1) >= request.devices).any())

    def _taking(self, member: Member) -> RowGrant:
        slots = tuple(self._slots[grant.uuid] for grant in member.grants)
        share_milli = member.grants[0].share_milli if member.grants else 0
        row = self._columns.rows[member.node]
        return RowGrant(row, slots, share_milli, (0,) * len(slots), member.cpu_milli, member.host_memory_mib)

    def _mean_pct(self, milli: Sequence[float]) -> float | None:
        return round(100 * sum(milli) / len(milli) / self._capacity, 4) if milli else None


def _row_of(node: Node) -> NodeCapacity:
    slot = {
        device.model: Slot(device.model, device.memory_mib, None, MILLI_PER_DEVICE, device.memory_mib)
        for device in node.devices
    }
    state = NodeState(tuple(slot[device.model] for device in node.devices), node.cpu_milli, node.memory_mib)
    return NodeCapacity(node.name, tuple(device.uuid for device in node.devices), state)


def _until(pods: Sequence[Request], milli: int) -> Iterator[Request]:
    arrived = 0
    while True:
        for pod in pods:
            yield pod
            arrived += pod.total_milli
            if arrived >= milli:
                return


def _parsed(option: str, path: Traversable, parse: Callable[[dict[str, str]], T]) -> Iterator[T]:
    rows = csv.DictReader(text_of(option, path).splitlines())
    for row in rows:
        try:
            yield parse(row)
        except KeyError as error:
            raise Refused(f"{option}: {path} has no column {error}", field=option) from error
        except (TypeError, ValueError) as error:
            raise Refused(f"{option}: line {rows.line_num} of {path}: {error}", field=option) from error


def _order(path: Traversable, seed: int, nodes: int, pods: int) -> dict[str, list[int]]:
    """The rows in order, by "nodes" and "pods", of this seed."""
    try:
        orders: dict[str, dict[str, list[int]]] = json.loads(text_of("--order", path))["seeds"]
        chosen = orders.get(str(seed))
        fits = chosen is None or (set(chosen["nodes"]) <= set(range(nodes)) and set(chosen["pods"]) <= set(range(pods)))
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise Refused(f"--order: {path} does not hold orders by seed: {error}", field="--order") from error
    if chosen is None:
        raise Refused(f"--seed: {path.name} has no order for seed {seed}; it has {', '.join(orders)}", field="--seed")
    if not fits:
        raise Refused(f"--order: {path} names rows beyond the {nodes} nodes and {pods} pods given", field="--order")
    return chosen


def _ranked(rank: int, node: Node) -> Node:
    """Return the node named by its place in the order, which distinguishes it from others of the same name."""
    devices = tuple(replace(device, uuid=f"GPU-{rank:06d}-{device.index}") for device in node.devices)
    return replace(node, name=f"{rank:06d}-{node.name}", devices=devices)


def _node(row: dict[str, str]) -> Node:
    devices = tuple(Device(f"GPU-{i}", i, row["model"], None) for i in range(_amount(row, "gpu")))
    return Node(row["sn"], devices, _amount(row, "cpu_milli"), _amount(row, "memory_mib"))


def _pod(row: dict[str, str]) -> Request:
    devices = _amount(row, "num_gpu")
    return Request(
        devices=devices,
        share_milli=_amount(row, "gpu_milli") if devices else MILLI_PER_DEVICE,
        models=tuple(model for model in (row.get("gpu_spec") or "").split("|") if model),
        cpu_milli=_amount(row, "cpu_milli"),
        host_memory_mib=_amount(row, "memory_mib"),
    )


def _amount(row: dict[str, str], column: str) -> int:
    try:
        amount = int(row[column])
    except ValueError as error:
        raise ValueError(f"{column} is {row[column]!r}, which is not a whole number") from error
    if amount < 0:
        raise ValueError(f"{column} is {amount}; it cannot be less than 0")
    return amount
