"""How many alike jobs may share one device, by how long the earlier ones took alone and together. Pure.

Alike are jobs of one user and program that say `packable`. Run times are what the users' own programs make them: they
only ever decide about jobs of the same user and program.
"""

from collections.abc import Mapping, Sequence
from functools import lru_cache
from hashlib import sha256
from math import ceil, isfinite
from statistics import median
from typing import NamedTuple

from corral.core.model.jobs.job import JobSpec
from corral.core.model.runs.prediction import (
    LEAST_VALUES,
    MEMORY_HEADROOM,
    JobGroup,
    PastValues,
    groups_of,
    program_among,
)
from corral.core.model.units import MILLI_PER_DEVICE, SHARE_QUANTUM_MILLI

MOST_PACKED = 32
"""The most jobs that any site lets share a device: a smaller share is of no use."""

LEAST_RUNS = LEAST_VALUES
"""The number of runs alone, and of runs together, that are compared; fewer say nothing."""

LEAST_PEAKS = 3
"""The number of runs whose memory must have been measured before later ones are granted by it."""

ALONE_AT_MOST = 1.1
"""A run that had, on average, at most this many jobs on its device counts as one that ran alone."""

_KEY = "pack:"


class PackLimit(NamedTuple):
    """The most jobs of a program that may share a device, and why.

    Runs of `together` or more jobs took `slowdown` times as long as runs alone; both are None if too few are known. If
    that is `too_slow`, fewer may share a device. `compares` says that jobs run alone for now, so that there is
    something to compare with; `will_compare` that they will, once enough have shared a device.
    """

    jobs: int
    together: int | None = None
    slowdown: float | None = None
    too_slow: bool = False
    compares: bool = False
    will_compare: bool = False


class PackedAttempt(NamedTuple):
    """An attempt of a packable job that has ended: its program, and the device that it shared or had alone.

    `together` is how many such jobs were on the device meanwhile, itself among them, on average over its time.
    """

    program: JobGroup
    uuid: str
    together: float | None = None


def program_of(spec: JobSpec) -> JobGroup | None:
    """What a packable job runs, in the predictor's words; None if the job is not packable, or is like no other."""
    return program_among(groups_of(spec)) if spec.packable else None


def shared_by(program: JobGroup, together: float) -> JobGroup | None:
    """The group of the program's runs with so many on a device; None for a run that was neither alone nor of two."""
    if not 1 <= together <= MOST_PACKED + 1:
        return None
    jobs = round(together)
    return None if jobs == 1 and together > ALONE_AT_MOST else program._replace(amounts=(*program.amounts, jobs))


def is_run_time(ran_s: float) -> bool:
    """Whether a run time can be compared with others. A run of no time says nothing."""
    return isfinite(ran_s) and ran_s > 0


def pack_limit(past: PastValues | None, program: JobGroup, *, most: int, max_slowdown: float) -> PackLimit:
    """The limit of a program by the site's own, `most`, and the user's earlier runs.

    It is the site's until runs together are known to take more than `max_slowdown` times as long as runs alone. If only
    runs together are known, jobs run alone until they can be compared.
    """
    if most < 2:
        return PackLimit(1)
    runs = tuple(_values(past, program, jobs) for jobs in range(1, most + 1))
    return _limit(runs, most, max_slowdown)


def granted_mib(peaks: Sequence[float]) -> int | None:
    """The memory to grant to a job that names none, by the most that such jobs used; None if too few are known."""
    known = [one for one in peaks if isfinite(one) and one > 0]
    return ceil(max(known) * MEMORY_HEADROOM) if len(known) >= LEAST_PEAKS else None


def share_of(jobs: int) -> int:
    """The milli-GPU of each of so many jobs that share a device."""
    return MILLI_PER_DEVICE // jobs // SHARE_QUANTUM_MILLI * SHARE_QUANTUM_MILLI


def pack_key(user: str, program: JobGroup, jobs: int) -> str:
    """The name of those with whom a packable job shares a device: jobs of one user and program, of the same limit.

    The limit is in it, so that all have equal shares, and no more than the limit are together.
    """
    digest = sha256(repr(tuple(program)).encode(errors="replace")).hexdigest()[:16]
    return f"{_KEY}{user} {digest} 1/{jobs}"


def user_of_key(tenant: str) -> str | None:
    """The user in a `pack_key`; None if it is none, but a user's name, which has no colon."""
    return tenant.removeprefix(_KEY).rsplit(" ", 2)[0] if tenant.startswith(_KEY) else None


def _values(past: PastValues | None, program: JobGroup, jobs: int) -> tuple[float, ...]:
    of_groups: Mapping[JobGroup, tuple[float, ...]] = {} if past is None else past.of_groups
    group = shared_by(program, float(jobs))
    return () if group is None else of_groups.get(group, ())


@lru_cache(maxsize=4096)
def _limit(runs: tuple[tuple[float, ...], ...], most: int, max_slowdown: float) -> PackLimit:
    alone, *together = runs
    if len(alone) < LEAST_RUNS:
        compares = sum(map(len, together)) >= LEAST_RUNS
        return PackLimit(1 if compares else most, compares=compares, will_compare=not compares)
    found = _slowdowns(together, median(alone))
    slow = [one for one in found if one[1] > max_slowdown]
    if slow:
        jobs, slowdown = min(slow)
        return PackLimit(jobs - 1, jobs, slowdown, too_slow=True)
    return PackLimit(most, *found[0]) if found else PackLimit(most)


def _slowdowns(together: Sequence[tuple[float, ...]], alone_s: float) -> list[tuple[int, float]]:
    """How much longer so many jobs or more took than one alone, from many jobs to two. Runs of different numbers count
    together until there are enough of them. `together` has the runs of two, three and so on.
    """
    found, pool = [], list[float]()
    for jobs in range(len(together) + 1, 1, -1):
        pool += together[jobs - 2]
        if len(pool) >= LEAST_RUNS:
            found.append((jobs, median(pool) / alone_s))
            pool = []
    return found
