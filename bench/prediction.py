"""How well the past of jobs tells their future: run time, memory and utilization, judged on time that was held back.

`python -m bench prediction` judges on the last part of each past; `python -m bench.prediction choose` shows the parts
that constants may be chosen by. Reads CORRAL_BENCH_DATA. The protocol: docs/research/prediction.md.
"""

import os
import sys
from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Sequence
from heapq import heappop, heappush
from pathlib import Path
from statistics import fmean, median
from typing import NamedTuple, Protocol

from bench.synthetic_site import SiteJob, site
from corral.core.model.jobs.job import JobSpec, Request
from corral.core.model.runs.prediction import PastValues, groups_of, remember
from corral.sim.benchmarks.philly import read_trace

CHOSEN_ON, JUDGED_ON = (1, 2, 3), (11, 12, 13, 14, 15)
"""Seeds of sites: constants are chosen on the first; the figures are those of the others."""

Value = Callable[[SiteJob], float | None]


class Guess(NamedTuple):
    """What is expected, and what nine of ten do not exceed."""

    middle: float
    p90: float


class Predictor(Protocol):
    """Is told each job that has ended, and asked for each that is submitted."""

    def learn(self, spec: JobSpec, value: float) -> None: ...

    def guess(self, spec: JobSpec) -> Guess | None: ...


class LongestOfFive:
    """The longest of the last five of the user's jobs of that name."""

    def __init__(self) -> None:
        self._last: dict[tuple[str, str], deque[float]] = defaultdict(lambda: deque(maxlen=5))

    def learn(self, spec: JobSpec, value: float) -> None:
        self._last[spec.user, spec.name].append(value)

    def guess(self, spec: JobSpec) -> Guess | None:
        last = self._last.get((spec.user, spec.name))
        return Guess(max(last), max(last)) if last else None


class UsersMean:
    """The mean of all of the user's jobs."""

    def __init__(self) -> None:
        self._sums: dict[str, tuple[int, float]] = {}

    def learn(self, spec: JobSpec, value: float) -> None:
        count, whole = self._sums.get(spec.user, (0, 0.0))
        self._sums[spec.user] = count + 1, whole + value

    def guess(self, spec: JobSpec) -> Guess | None:
        count, whole = self._sums.get(spec.user, (0, 0.0))
        return Guess(whole / count, whole / count) if count else None


class ByGroups:
    """The predictor that servers have."""

    def __init__(self) -> None:
        self._past: dict[str, PastValues] = {}

    def learn(self, spec: JobSpec, value: float) -> None:
        remember(self._past, spec.user, groups_of(spec), value)

    def guess(self, spec: JobSpec) -> Guess | None:
        past = self._past.get(spec.user)
        told = None if past is None else past.predict(groups_of(spec))
        return None if told is None else Guess(told.median, told.p90)


PREDICTORS: dict[str, Callable[[], Predictor]] = {
    "longest of five": LongestOfFive,
    "user's mean": UsersMean,
    "predicted": ByGroups,
}


class Asked(NamedTuple):
    """One job that was judged: its value, and the guesses of all predictors, in their order."""

    job: SiteJob
    value: float
    guesses: tuple[Guess | None, ...]


def asked_of(jobs: Sequence[SiteJob], value: Value, since: float, until: float = float("inf")) -> list[Asked]:
    """Ask all predictors at each submission from `since` to `until`. They know the jobs that had ended by then."""
    predictors = [make() for make in PREDICTORS.values()]
    ending: list[tuple[float, int]] = []
    asked = []
    for number, job in enumerate(jobs):
        if job.submitted_at >= until:
            break
        while ending and ending[0][0] <= job.submitted_at:
            ended = jobs[heappop(ending)[1]]
            known = value(ended)
            if known is not None:
                for one in predictors:
                    one.learn(ended.spec, known)
        true = value(job)
        if job.submitted_at >= since and true is not None:
            asked.append(Asked(job, true, tuple(one.guess(job.spec) for one in predictors)))
        heappush(ending, (job.ended_at, number))
    return asked


def report(title: str, asked: Sequence[Asked]) -> None:
    """A line for each predictor. Errors are of the jobs that all predictors had a guess for."""
    common = [one for one in asked if all(guess is not None for guess in one.guesses)]
    print(f"{title}: {len(asked):,} jobs, {len(common):,} of them guessed by all")
    for place, name in enumerate(PREDICTORS):
        told = [(one.value, guess) for one in asked if (guess := one.guesses[place]) is not None]
        errors = [abs(guess.middle - one.value) for one in common if (guess := one.guesses[place]) is not None]
        if told and errors:
            covered = fmean(value <= guess.p90 for value, guess in told)
            print(
                f"  {name:16} told {len(told) / len(asked):6.1%}, p90 covers {covered:6.1%}, "
                f"median error {median(errors):,.1f}",
                flush=True,
            )


def philly(path: Path) -> list[SiteJob]:
    """The trace: its virtual cluster stands for the user and its number of GPUs for the command. Nobody waits."""
    return [
        SiteJob(
            one.submitted_at,
            one.submitted_at + one.run_s,
            JobSpec(
                user=one.cluster,
                name=f"{one.gpus} GPUs",
                command=(f"{one.gpus} GPUs",),
                request=Request(devices=0, cpu_milli=one.gpus * 1000),
            ),
            one.run_s,
        )
        for one in read_trace(path)
    ]


def run_time(job: SiteJob) -> float | None:
    return job.run_s if job.succeeded else None


def memory(job: SiteJob) -> float | None:
    return None if job.memory_mib is None else float(job.memory_mib)


def utilization(job: SiteJob) -> float | None:
    return job.utilization_pct


def groups(asked: Iterable[Asked], key: Callable[[Asked], str]) -> dict[str, list[Asked]]:
    """The judged jobs by a key, the largest groups first."""
    found: dict[str, list[Asked]] = defaultdict(list)
    for one in asked:
        found[key(one)].append(one)
    return dict(sorted(found.items(), key=lambda item: -len(item[1])))


def main(*, choose: bool = False) -> None:
    data = os.environ.get("CORRAL_BENCH_DATA")
    if data is None:
        print("CORRAL_BENCH_DATA is not set: the Philly trace is not at hand")
    else:
        jobs = philly(Path(data) / "philly" / "philly_sia.csv")
        half = jobs[len(jobs) // 2].submitted_at
        tenth = jobs[len(jobs) // 10].submitted_at
        asked = asked_of(jobs, run_time, tenth, half) if choose else asked_of(jobs, run_time, half)
        report("Philly, run time in seconds", asked)
        for kind, key in (("cluster", lambda one: one.job.spec.user), ("job of", lambda one: one.job.spec.name)):
            for name, some in groups(asked, key).items():
                if len(some) >= 200:
                    report(f"Philly, {kind} {name}", some)
    sites = [site(seed) for seed in (CHOSEN_ON if choose else JUDGED_ON)]
    for title, value in (
        ("run time in seconds", run_time),
        ("memory in MiB", memory),
        ("utilization in percent", utilization),
    ):
        every = [one for jobs in sites for one in asked_of(jobs, value, jobs[len(jobs) * 4 // 10].submitted_at)]
        report(f"synthetic sites, {title}", every)


if __name__ == "__main__":
    main(choose=sys.argv[1:] == ["choose"])
