"""Placement policies as a simulator drives them: choose a place for a request, then learn from its arrival."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from corral.model.errors import Refused, nearest
from corral.model.job import Request
from corral.scheduling.columns import Columns, Taking
from corral.scheduling.fragmentation import Fragmentation
from corral.scheduling.learn import Learner
from corral.scheduling.packing import SCORES, ScoreMaker
from corral.scheduling.place import Placer
from corral.scheduling.score import BestFit, Floats, Options, Pack, Score, Tries, spread
from corral.scheduling.value import Value


class Chooser:
    """A policy without memory: the best score wins."""

    def __init__(self, columns: Columns, score: Score) -> None:
        self.placer = Placer(columns, score)

    def choose(self, request: Request) -> Taking | None:
        """The place for one member, None when it fits nowhere."""
        return self.placer.best(request)

    def learn(self, request: Request) -> None:
        """What the policy does with an arrival between two decisions."""


class _Learning(Chooser):
    """The `corral` policy: prices learned from arrivals."""

    def __init__(self, columns: Columns) -> None:
        self._learner = Learner(columns)
        self._value = Value(columns, self._learner.settle())
        super().__init__(columns, self._value)

    def learn(self, request: Request) -> None:
        self._learner.observe(request)
        while self._learner.due:
            prices = self._learner.advance()
            if prices is not None:
                self._value.use(prices)


class _Random(Chooser):
    """Any node that fits, each as likely."""

    def __init__(self, columns: Columns, seed: int) -> None:
        super().__init__(columns, _Indifferent())
        self._random = np.random.default_rng(seed)

    def choose(self, request: Request) -> Taking | None:
        fitting = np.flatnonzero(self.placer.scores(request) == 0.0)
        return self.placer.on(request, int(self._random.choice(fitting))) if len(fitting) else None


@dataclass(frozen=True, slots=True)
class _Indifferent:
    tries: Tries = Tries.NODES
    version: int = 0

    def __call__(self, columns: Columns, options: Options) -> Floats:
        return np.zeros(len(options.rows))


def chooser(policy: str, columns: Columns, fragmentation: Fragmentation, seed: int) -> Chooser:
    """The policy of this name over the columns. Raises Refused for a name that is none.

    `fragmentation` is the FGD score for the workload to be expected, which FGD must be told and `corral` learns.
    """
    makers: dict[str, Callable[[], Chooser]] = {
        "corral": lambda: _Learning(columns),
        "fgd": lambda: Chooser(columns, fragmentation),
        "best-fit": lambda: Chooser(columns, BestFit(largest_cpu_milli=128_000, largest_gpu_milli=8_000)),
        "pack": lambda: Chooser(columns, Pack()),
        "spread": lambda: Chooser(columns, spread()),
        "random": lambda: _Random(columns, seed),
    }
    if policy not in makers:
        raise Refused(f"--policy: {policy!r} is not a placement policy; {nearest(policy, makers)}", field="policy")
    return makers[policy]()


def scores_for(policy: str, mix: Sequence[tuple[Request, int]], seed: int) -> Mapping[str, ScoreMaker]:
    """What a planner is to rank nodes by under a placement policy. Raises Refused for a name that is none.

    `mix` is the workload to be expected, which FGD must be told and `corral` learns.
    """
    makers: dict[str, ScoreMaker] = {
        "corral": SCORES["corral"],
        "fgd": (1.0, lambda board, prices: Fragmentation(board.columns, mix)),
        "best-fit": SCORES["best-fit"],
        "pack": SCORES["pack"],
        "spread": SCORES["spread"],
        "random": (1.0, lambda board, prices: Random(seed)),
    }
    if policy not in makers:
        raise Refused(f"--policy: {policy!r} is not a placement policy; {nearest(policy, makers)}", field="policy")
    return makers


@dataclass(slots=True)
class Random:
    """Any node that fits, each as likely."""

    seed: int
    version: int = 0
    tries: Tries = Tries.NODES
    _random: np.random.Generator = field(init=False)

    def __post_init__(self) -> None:
        self._random = np.random.default_rng(self.seed)

    def __call__(self, columns: Columns, options: Options) -> Floats:
        self.version += 1
        return self._random.random(len(options.rows))
