"""Draws the past of a site: jobs of users with programs, habits and moods, with the run time and use of each.

The laws were written before any predictor was tried on them. Each of them is there because it makes prediction hard:
arguments that matter beside arguments that do not, programs that change, names that never come again, bursts of equal
jobs that are all submitted before the first has ended, failures, and users whose jobs have nothing in common.
"""

import math
import random
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from corral.core.model.jobs.job import JobSpec, Request

DAY_S = 86_400.0
DAYS = 90
USERS = 40


class SiteJob(NamedTuple):
    """One job of the past: its submission and end (seconds), its specification, its run time in seconds, and its use.

    `memory_mib` is the most memory that it used of one of its GPUs, `utilization_pct` their mean utilization; None if
    nothing was measured. Only a job that succeeded says how long such jobs run.
    """

    submitted_at: float
    ended_at: float
    spec: JobSpec
    run_s: float
    succeeded: bool = True
    memory_mib: int | None = None
    utilization_pct: float | None = None


@dataclass
class _Program:
    """One program of a user. Its `configs` are (name, factor of run time, MiB of a GPU)."""

    script: str
    run_s: float
    spread: float
    utilization_pct: float
    gpus: int
    models: tuple[str, ...]
    configs: list[tuple[str, float, float]]
    named: str
    """How its user names jobs: "" never, "always" by the program, "anew" with a name that never comes again."""


def site(seed: int) -> list[SiteJob]:
    """The jobs of one site over `DAYS`, by submission."""
    draw = random.Random(seed)
    jobs = [job for number in range(USERS) for job in _of_user(draw, f"user{number:02}", busy=1 / (1 + number) ** 0.7)]
    return sorted(jobs, key=lambda job: job.submitted_at)


def _of_user(draw: random.Random, user: str, busy: float) -> Iterator[SiteJob]:
    programs = [_program(draw, user, number) for number in range(draw.choice((1, 2, 2, 3, 4, 6)))]
    erratic = draw.random() < 0.1
    at = draw.uniform(0, 3 * DAY_S)
    while at < DAYS * DAY_S:
        program = draw.choices(programs, [1 / (1 + n) for n in range(len(programs))])[0]
        if draw.random() < 0.02:
            _change(draw, program)
        burst = draw.randint(5, 30) if draw.random() < 0.08 else 1
        for _ in range(burst):
            yield _job(draw, user, program, at, erratic=erratic)
            at += draw.uniform(0.1, 3.0)
        at += draw.expovariate(busy * 24 / DAY_S)


def _program(draw: random.Random, user: str, number: int) -> _Program:
    names = ("train", "eval", "finetune", "sweep", "render", "embed", "pretrain", "infer")
    largest = draw.lognormvariate(math.log(14_000), 0.9)
    return _Program(
        script=f"/home/{user}/{draw.choice(names)}{number}.py",
        run_s=draw.lognormvariate(math.log(2400), 1.6),
        spread=draw.choice((0.05, 0.1, 0.2, 0.4, 0.8)),
        utilization_pct=draw.uniform(10, 95),
        gpus=draw.choice((1, 1, 1, 1, 2, 4, 8)),
        models=draw.choice(((), (), ("a100",), ("h100",), ("a100", "h100"))),
        configs=[
            (f"c{n}", draw.lognormvariate(0, 0.7), min(79_000.0, largest * draw.uniform(0.3, 1.0)))
            for n in range(draw.randint(1, 5))
        ],
        named=draw.choice(("", "", "always", "anew")),
    )


def _change(draw: random.Random, program: _Program) -> None:
    """A new version of the program: it is slower or faster, and needs more or less memory."""
    program.run_s *= draw.lognormvariate(0, 0.4)
    more = draw.lognormvariate(0, 0.15)
    program.configs = [(name, factor, min(79_000.0, mib * more)) for name, factor, mib in program.configs]


def _job(draw: random.Random, user: str, program: _Program, at: float, *, erratic: bool) -> SiteJob:
    config, factor, mib = draw.choice(program.configs)
    epochs = draw.choice((1, 1, 1, 2, 4))
    run_s = program.run_s * factor * epochs * draw.lognormvariate(0, program.spread)
    words = [
        "python",
        program.script,
        "--config",
        config,
        "--epochs",
        str(epochs),
        "--seed",
        str(draw.randrange(10**6)),
    ]
    name = {"": "", "always": program.script[-8:-3], "anew": f"run-{draw.randrange(10**9)}"}[program.named]
    if erratic:
        words, name, run_s = ["./" + "x" * draw.randint(1, 60) + str(draw.random())], "", draw.lognormvariate(7, 2)
    gpus, models = program.gpus, program.models
    if draw.random() < 0.1:
        gpus, models = draw.choice((1, 2)), ()
    run_s, went = max(1.0, run_s / gpus**0.5 / _speed(models)), draw.random()
    failed = went < 0.12
    if failed:
        run_s = max(1.0, run_s * draw.random())
    measured = run_s > 10 and draw.random() > 0.05
    used = mib * draw.uniform(0.97, 1.0) * (draw.uniform(0.1, 1.0) if failed else 1.0)
    busy = min(100.0, max(0.0, draw.gauss(program.utilization_pct, 8)))
    spec = JobSpec(
        user=user,
        name=name or words[-1 if erratic else 1].rpartition("/")[2],
        command=tuple(words),
        request=Request(devices=gpus, models=models),
    )
    return SiteJob(
        at,
        at + draw.expovariate(1 / 600) + run_s,
        spec,
        run_s,
        not failed,
        round(used) if measured else None,
        busy if measured else None,
    )


def _speed(models: tuple[str, ...]) -> float:
    return {(): 1.0, ("a100",): 1.0, ("h100",): 2.0}.get(models, 1.5)
