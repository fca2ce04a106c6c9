"""What this checkout decides on drawn sites, and what its ledger's journal folds to: `bench.outside` compares it.

`python -m bench.inside plans 100` prints every plan on that many sites, each drawn from its number;
`python -m bench.inside fold LEDGER_URL` prints the view that the facts of a journal lead to.
"""

import dataclasses
import json
import sys
from collections.abc import Iterable, Iterator, Mapping, Set
from enum import Enum
from random import Random
from typing import Any

from corral.core.model.devices.device import Device, Node
from corral.core.model.jobs.job import Job, JobSpec, Request
from corral.core.model.placing.plan import Plan
from corral.core.model.queues.queue import Limits, Pool, Project, Queue, Quota
from corral.core.model.view import View
from corral.core.scheduling.planner import Planner
from corral.core.scheduling.policy import POLICIES
from corral.sim.engine import Engine, SimulatedWork, inventory
from corral.sim.faults.faults import Breakdown
from corral.sim.replays.journal import read_journal

BEGIN = 1_000_000.0
TICK_S = 3600.0
LONGEST_S = 100_000.0
NAMES = ("a", "b", "c")


def drawn_site(chance: Random) -> View:
    """Two nodes of five GPUs, three queues with policies and quotas, some of them below a fourth, and maybe a pool."""
    some = chance.choice
    queues = [Queue("lab", quota=Quota(share_milli=some([None, 4000])))]
    for name in NAMES:
        parent, share_milli = some([None, "lab"]), some([None, None, 2000, 3000])
        borrow_milli = some([None, 1000]) if parent and share_milli else None
        queues.append(
            Queue(
                name,
                policy=some(sorted(POLICIES)),
                weight=some([1.0, 3.0]),
                parent=parent,
                quota=Quota(share_milli=share_milli, running=some([None, None, 2]), borrow_milli=borrow_milli),
                preempts=some([False, True]),
                backfill=some([None, "none", "easy", "conservative", "any"]),
            )
        )
    gpus = some([("GPU-m-0",), ("m:1", "GPU-n-0"), ()])
    pool = Pool("own", gpus, users=("x",), lends=True, part=None if gpus else 0.4)
    of_user = Quota(devices=some([None, None, 2]), running=some([None, None, 2]))
    view = View(
        queues={queue.name: queue for queue in queues},
        projects={"p": Project("p", quota=Quota(devices=some([None, 2])))},
        pools=some([{}, {pool.name: pool}]),
        limits=Limits(max_running_jobs=some([None, None, 3]), of_user=of_user),
    )
    return view.advance(inventory([_node("m", 3, "H100"), _node("n", 2, "A100")]))


def _node(name: str, gpus: int, model: str) -> Node:
    devices = tuple(Device(f"GPU-{name}-{i}", i, model, 81_920, compute_capability=(8, 0)) for i in range(gpus))
    return Node(name, devices, cpu_milli=8_000, memory_mib=524_288)


def drawn_work(chance: Random, number: int) -> SimulatedWork:
    """A job that wants up to three GPUs, or half of each, alone or as a gang of two."""
    some = chance.choice
    request = Request(
        devices=some([0, 1, 1, 2, 3]),
        share_milli=some([1000, 1000, 500]),
        gang_size=some([1, 1, 1, 2]),
        models=some([(), (), ("A100",)]),
        cpu_milli=some([1, 2000]),
    )
    seconds = some([1.0, 3.0, 10.0, 40.0])
    spec = JobSpec(
        user=some("xyz"),
        command=("true",),
        queue=some(NAMES),
        project=some(["default", "default", "p"]),
        priority=chance.randint(1, 9),
        time_limit_s=some([None, seconds, 4 * seconds]),
        request=request,
    )
    return SimulatedWork(Job(str(number), number, spec, BEGIN + chance.randint(0, 30)), seconds)


def plans(sites: int) -> Iterator[str]:
    """A line for each part of each plan in the life of each site, but for the parts that are empty."""
    for number in range(sites):
        chance = Random(number)
        site = drawn_site(chance)
        works = [drawn_work(chance, 1 + at) for at in range(chance.randint(1, 12))]
        # What can't start on the empty site would wait for ever.
        possible = [one for one in works if Planner(replaced(site, one.job)).plan(BEGIN + LONGEST_S).starts]
        told: list[str] = []

        def note(now: float, plan: Plan, number: int = number, told: list[str] = told) -> None:
            for name, value in plain(plan).items():
                if value and name != "version":
                    told.append(f"{number} at {now - BEGIN:g} s, {name}: {json.dumps(value, sort_keys=True)}")

        failing = [Breakdown("GPU-n-0", BEGIN + 20, BEGIN + 50)] if chance.random() < 0.5 else []
        Engine(Planner(site), [note], tick_s=TICK_S, breakdowns=failing, until=BEGIN + LONGEST_S).run(possible)
        yield from told


def replaced(site: View, job: Job) -> View:
    """The site with this job alone."""
    return dataclasses.replace(site, jobs={job.id: job})


def folded(url: str) -> Iterator[str]:
    """A line for each field of the view that a journal leads to, and for each entry of those that are mappings."""
    for name, value in plain(View().advance(read_journal(url))).items():
        for key, item in value.items() if isinstance(value, dict) else [("", value)]:
            yield f"{name} {key}: {json.dumps(item, sort_keys=True)}"


def plain(value: Any) -> Any:
    """Plain data of any value: fields by name, whatever the module of its class is."""
    if isinstance(value, Enum):
        return value.value
    if dataclasses.is_dataclass(value):
        return {field.name: plain(getattr(value, field.name)) for field in dataclasses.fields(value)}
    if isinstance(value, tuple) and hasattr(value, "_asdict"):
        return plain(value._asdict())
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, Set):
        return sorted(map(plain, value), key=str)
    if isinstance(value, str | int | float | bool | None):
        return value
    return [plain(item) for item in value] if isinstance(value, Iterable) else str(value)


def main(kind: str, of: str) -> None:
    for line in plans(int(of)) if kind == "plans" else folded(of):
        print(line)


if __name__ == "__main__":
    main(*sys.argv[1:])
