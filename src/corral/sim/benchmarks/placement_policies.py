"""Placement policies for simulators: scores for a planner to rank nodes by, or a placer to use without a planner."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from corral.core.model.errors import Refused, nearest
from corral.core.model.jobs.job import Request
from corral.core.scheduling.placing.fragmentation import Fragmentation
from corral.core.scheduling.placing.packing import SCORES, ScoreMaker, ScoringState
from corral.core.scheduling.placing.ranking import Placer
from corral.core.scheduling.placing.scores import BestFit, Floats, Granularity, Pack, PlacementOptions, Score, spread
from corral.core.scheduling.placing.worth.learner import Learner
from corral.core.scheduling.placing.worth.values import Prices, WorthScore
from corral.core.scheduling.state.columns import Columns, RowGrant

RequestMix = Sequence[tuple[Request, int]]
"""The expected workload, which FGD is given and `corral` learns: requests, each with how often it arrives."""


def scores_for(policy: str, mix: RequestMix, seed: int) -> Mapping[str, ScoreMaker]:
    """Return the scores by which a planner ranks nodes under a placement policy. Raises Refused for an unknown name."""
    plain = _plain_scores(mix, seed)
    _refuse_unknown(policy, plain)
    return {"corral": SCORES["corral"], **{name: _with_scoring_state(make) for name, make in plain.items()}}


def chooser(policy: str, columns: Columns, mix: RequestMix, seed: int) -> "Chooser":
    """Return the placement policy of this name over the columns. Raises Refused for an unknown name."""
    plain = _plain_scores(mix, seed)
    _refuse_unknown(policy, plain)
    return _Learning(columns) if policy == "corral" else Chooser(columns, plain[policy](columns))


class Chooser:
    """A policy that learns nothing: it chooses the placement with the best score."""

    def __init__(self, columns: Columns, score: Score) -> None:
        self._placer = Placer(columns, score)

    def choose(self, request: Request) -> RowGrant | None:
        """Return the placement of one member, or None if it fits nowhere."""
        return self._placer.best(request)

    def learn(self, request: Request) -> None:
        """Learn from an arrival, between two decisions."""


class _Learning(Chooser):
    """The `corral` policy: prices learned from arrivals."""

    def __init__(self, columns: Columns) -> None:
        self._learner = Learner(columns)
        self._value = WorthScore(columns, self._learner.first())
        super().__init__(columns, self._value)

    def learn(self, request: Request) -> None:
        self._learner.observe(request)
        while self._learner.due:
            prices = self._learner.advance()
            if prices is not None:
                self._value.use(prices)


@dataclass(slots=True)
class Random:
    """A policy that chooses a random node among those that fit."""

    seed: int
    version: int = 0
    granularity: Granularity = Granularity.NODES
    _random: np.random.Generator = field(init=False)

    def __post_init__(self) -> None:
        self._random = np.random.default_rng(self.seed)

    def __call__(self, columns: Columns, options: PlacementOptions) -> Floats:
        self.version += 1
        return self._random.random(len(options.rows))


def _plain_scores(mix: RequestMix, seed: int) -> dict[str, Callable[[Columns], Score]]:
    return {
        "fgd": lambda columns: Fragmentation(columns, mix),
        "best-fit": lambda _: BestFit(largest_cpu_milli=128_000, largest_gpu_milli=8_000),
        "pack": lambda _: Pack(),
        "spread": lambda _: spread(),
        "random": lambda _: Random(seed),
    }


def _with_scoring_state(make: Callable[[Columns], Score]) -> ScoreMaker:
    def made(board: ScoringState, _prices: Prices | None) -> Score:
        return make(board.columns)

    return 1.0, made


def _refuse_unknown(policy: str, plain: Mapping[str, object]) -> None:
    known = ["corral", *plain]
    if policy not in known:
        raise Refused(f"--policy: {policy!r} is not a placement policy; {nearest(policy, known)}", field="policy")
