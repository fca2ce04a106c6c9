"""What must hold after a soak, whatever was done and killed."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import median
from typing import Any

from corral.core.ledger.fold import check
from corral.core.ledger.store import open_ledger
from corral.core.model.fact import AllocationEnded, AllocationMade, Fact, JobSubmitted
from corral.core.model.home import Home
from corral.features.feature_list import slices
from tests.soak.load import WHOLE_MILLI
from tests.soak.site import Footprint, Outage, Site

LOST_BY_A_KILL_S = 70.0
"""The history is written each minute."""

BACK_AFTER_S = 10.0
"""So long after a start every device has been read again."""

GAP_S = 5.0
"""A machine this busy reads its devices so late at times; what is longer is a gap."""

WINDOW_S = 900.0
"""Over so long the history is told by the second."""

MOST_GROWTH = 1.05
MOST_GROWTH_MIB = 8.0
MORE_DESCRIPTORS = 6
"""Connections that wait to be used again."""


@dataclass(frozen=True)
class Claim:
    """Something that must hold, and what is known of it: why it does not, or how much was looked at."""

    name: str
    holds: bool
    said: str


def of_journal(home: Home) -> Iterator[Claim]:
    """What the ledger says of itself, once no server writes to it."""
    differences = check(home.ledger_url, slices())
    yield Claim("the journal folded is the tables", not differences, "; ".join(differences) or "no difference")
    facts = _facts(home)
    over = _given_away_twice(facts)
    yield Claim(
        "no device was ever given away beyond the whole",
        not over,
        "; ".join(over) or f"{len(facts)} facts, {sum(isinstance(fact, AllocationMade) for fact in facts)} allocations",
    )


def submitted(home: Home) -> set[str]:
    """The ids of all jobs that the ledger knows."""
    return {fact.job.id for fact in _facts(home) if isinstance(fact, JobSubmitted)}


def _facts(home: Home) -> list[Fact]:
    ledger = open_ledger(home.ledger_url)
    try:
        return [entry.fact for entry in ledger.journal()]
    finally:
        ledger.close()


def _given_away_twice(facts: Iterable[Fact]) -> list[str]:
    held: Counter[str] = Counter()
    grants: dict[str, list[tuple[str, int]]] = {}
    wrong = []
    for number, fact in enumerate(facts, 1):
        if isinstance(fact, AllocationMade):
            members = fact.allocation.placement.members
            mine = [(grant.uuid, grant.share_milli) for member in members for grant in member.grants]
            grants[fact.allocation.id] = mine
            for uuid, milli in mine:
                held[uuid] += milli
                if held[uuid] > WHOLE_MILLI:
                    wrong.append(f"fact {number}: {held[uuid]} thousandths of {uuid}")
        elif isinstance(fact, AllocationEnded):
            for uuid, milli in grants.pop(fact.allocation_id, ()):
                held[uuid] -= milli
    return wrong


def of_jobs(site: Site, accepted: list[str], known: set[str], ended: set[str]) -> Iterator[Claim]:
    """Nothing that was accepted is lost, and nothing ran twice."""
    parents = {job_id.partition("_")[0] for job_id in known}
    lost = [job_id for job_id in accepted if job_id not in known | parents]
    yield Claim("no accepted job was lost", not lost, f"{lost or len(accepted)} accepted")
    open_jobs = sorted(known - ended)
    yield Claim("every job has ended", not open_jobs, f"{open_jobs[:20] or len(known)} jobs")
    runs = Counter(site.ran.read_text().splitlines())
    twice = [line for line, count in runs.items() if count > 1]
    yield Claim("no attempt of a job ran twice", not twice, f"{twice or len(runs)} processes of jobs")


Message = Mapping[str, Any]


def untold(messages: Iterable[Message]) -> set[str]:
    """The ids of alerts that were told to fire, and not to be over."""
    by_state: dict[str, set[str]] = {"fired": set(), "resolved": set()}
    for message in tuple(messages):
        by_state[message["state"]].add(message["id"])
    return by_state["fired"] - by_state["resolved"]


def of_alerts(messages: Sequence[Message]) -> Iterator[Claim]:
    """What came to the webhook; a message may come twice."""
    fired = {message["id"] for message in messages if message["state"] == "fired"}
    left = untold(messages)
    sentences = [message["sentence"] for message in messages if message["id"] in left]
    said = "; ".join(sentences) or f"{len(fired)} alerts, {len(messages)} messages"
    yield Claim("each alert that was told was told to be over", bool(fired) and not left, said)


def of_leftovers(site: Site) -> Iterator[Claim]:
    """What is left once no job and no server is there any more."""
    left = site.processes()
    yield Claim("no process is left behind", not left, "; ".join(left) or "none")
    home = Home(site.box.home)
    kept = sorted(str(path) for place in (home.scratch, home.launches) for path in place.iterdir())
    yield Claim("no directory of a job is left behind", not kept, "; ".join(kept[:10]) or "none")


def of_footprint(settled: Footprint, end: Footprint, calm: list[Footprint]) -> Iterator[Claim]:
    """The process of the server that was not killed: settled under load, then (a row each second), and after it."""
    more = end.descriptors - settled.descriptors
    said = f"{settled.descriptors} under the load, {end.descriptors} after it"
    yield Claim("no descriptor is left behind", more <= MORE_DESCRIPTORS, said)
    quarter = max(1, len(calm) // 4)
    memory = [median(one.memory_mib for one in calm[at * quarter : (at + 1) * quarter]) for at in range(4)]
    most = max(memory[1] * MOST_GROWTH, memory[1] + MOST_GROWTH_MIB)
    said = f"{', '.join(f'{mib:.1f}' for mib in memory)} MiB in the quarters of {len(calm)} s; {end.threads} threads"
    yield Claim("the memory of the server does not grow", memory[3] <= most, said)


def of_history(site: Site, began: float, ended: float) -> Iterator[Claim]:
    """The readings of every device are there for all of the time, but for what kills have cost."""
    wrong, seconds = [], 0
    with site.client() as client:
        for uuid in [row.uuid for row in client.devices.list()]:
            times: list[float] = []
            start = began
            while start < ended:
                until = min(start + WINDOW_S, ended)
                found = client.devices.history(uuid, since=start, until=until, series=["temperature_c"])
                times += [point.t for point in found.series.get("temperature_c", ())]
                start = until
            seconds += len(times)
            wrong += [f"{uuid}: {gap}" for gap in _gaps([began, *times, ended], site.outages)]
    yield Claim("the history has no gap beyond restarts", not wrong, "; ".join(wrong[:5]) or f"{seconds} seconds")


def _gaps(times: list[float], outages: list[Outage]) -> list[str]:
    lost = _lost_by_kills(outages)
    return [
        f"nothing for {after - before:.0f} s from {before:.0f} on"
        for before, after in pairwise(times)
        if after - before > GAP_S and not any(before >= begin and after <= end for begin, end in lost)
    ]


def _lost_by_kills(outages: list[Outage]) -> list[tuple[float, float]]:
    """What kills may have cost. A life that was too short to write lost all of itself: close kills cost one stretch."""
    stretches: list[tuple[float, float]] = []
    for outage in sorted(outages, key=lambda each: each.began):
        begin, end = outage.began - LOST_BY_A_KILL_S, outage.ended + BACK_AFTER_S
        if stretches and begin <= stretches[-1][1]:
            begin = stretches.pop()[0]
        stretches.append((begin, end))
    return stretches
