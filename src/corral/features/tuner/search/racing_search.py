"""The racing strategy: a model of all readings chooses candidates, and most of them get only a short probe.

A search explores with probes of all loads until the model expects little gain from untried candidates. Then the leader
of the probed candidates is measured completely, heaviest load first, as long as it can still win. Its result may make
other candidates worth a probe. The search ends when no candidate is, and each neighbour of the best was tried.
"""

from collections import Counter
from dataclasses import dataclass, replace

import numpy as np

from corral.features.tuner.search.candidate_pool import CandidatePool
from corral.features.tuner.search.front import not_beaten
from corral.features.tuner.search.problem import Problem
from corral.features.tuner.search.regression import Array, Lengths
from corral.features.tuner.search.space import Parameters, row_of
from corral.features.tuner.search.start_chance import StartChance
from corral.features.tuner.search.surrogate import Encoding, Surrogate, learn_lengths, learned_from, observe
from corral.features.tuner.search.trial import LoadLevel, Trial

PROBE_RATIO = 0.15
"""A probe takes this part of each level's time."""

INITIAL = 10
"""The least number of candidates that are spread over the space before the model is used."""

EXPLORE = 0.01
"""While the expected gain is above this part of the best score, more candidates are probed."""

ENOUGH = 0.001
"""The search stops when the expected gain is below this part of the best score."""

FEWEST = 40
"""Before this many candidates were tried, the model's expected gain is not trusted."""

PATIENCE = 8
"""After this many probes in a row, a leader that can win is measured in any case."""

HOPELESS = 0.25
"""A measurement is stopped if its candidate wins with less than this probability."""

MARGIN = 0.01
"""To win, a candidate must be better by this part of the best score."""

UNLIKELY_TO_RUN = 0.05
"""A neighbour of the best is not tried if its probability of starting is lower."""

WARM_STARTS = 3
NEAR_BEST = 3


@dataclass(frozen=True, slots=True)
class MeasuredSoFar:
    """All measured candidates with the model's scores, so that a single lucky reading does not count.

    Attributes:
        front: the candidates that no other dominates, as indices.
        scores: `(measured, objectives)`.
    """

    parameters: list[Parameters]
    scores: Array
    front: list[int]


class RacingSearch:
    """Gaussian processes over the parameters, expected improvement, and an early end for candidates that are
    unlikely to win.
    """

    def __init__(self, problem: Problem) -> None:
        self._problem = problem
        self._encoding = Encoding(problem)
        self._start_chance = StartChance(self._encoding)
        self._pool = CandidatePool(problem, self._encoding)
        self._initial = min(max(problem.n_initial_random, INITIAL), problem.max_iterations // 2)
        self._heaviest_first = sorted(problem.levels, key=lambda level: -level.concurrency)
        self._learned: tuple[tuple[int, ...], dict[str, Lengths]] | None = None

    def choose(self, trials: tuple[Trial, ...]) -> Parameters | None:
        found = self._warm_start(trials)
        if found is not None:
            return found
        if len(trials) < self._initial and (unlike := self._pool.unlike(trials)) is not None:
            return unlike
        surrogate, so_far = self._model(trials)
        if surrogate is None:
            return self._pool.unlike(trials)
        leader = self._leader(trials, surrogate, so_far)
        last = self._problem.iterations_left(trials) <= 2
        if leader is not None and (last or self._probes_in_a_row(trials) >= PATIENCE):
            return leader
        order = sorted(range(len(so_far.parameters)), key=lambda index: tuple(so_far.scores[index]))
        best = [so_far.parameters[index] for index in order[:NEAR_BEST]]
        pool = self._pool.untried(trials, best)
        found, gain = self._most_gain(trials, pool, surrogate, so_far)
        if leader is not None and gain <= EXPLORE:
            return leader
        if gain > ENOUGH or len(trials) < FEWEST:
            return found
        beside, _ = self._most_gain(trials, self._pool.beside(trials, best), surrogate, so_far, UNLIKELY_TO_RUN)
        if beside is not None:
            return beside
        found, gain = self._most_gain(trials, pool, surrogate.doubted(), so_far)
        return found if gain > ENOUGH else None

    def next_level(self, trial: Trial, trials: tuple[Trial, ...]) -> LoadLevel | None:
        measured = {(reading.level.scenario, reading.level.concurrency) for reading in trial.readings}
        missing = [one for one in self._heaviest_first if (one.scenario, one.concurrency) not in measured]
        if not missing:
            return None
        before = (one for one in trials if one.number <= trial.number)
        if self._problem.iterations_left(before) > 0 and not self._is_confirmation(trial, trials):
            return replace(missing[0], minutes=missing[0].minutes * PROBE_RATIO)
        return missing[0] if not measured or self._can_win(trial.parameters, trials) else None

    def _is_confirmation(self, trial: Trial, trials: tuple[Trial, ...]) -> bool:
        """Return whether the same combination was probed as an earlier trial."""
        return any(one.number < trial.number and one.parameters == trial.parameters for one in trials)

    def _leader(self, trials: tuple[Trial, ...], surrogate: Surrogate, so_far: MeasuredSoFar) -> Parameters | None:
        """Return the best candidate that had only a probe, if it can win."""
        rows = Counter(row_of(trial.parameters) for trial in trials)
        probed = [index for index, one in enumerate(so_far.parameters) if rows[row_of(one)] == 1]
        front = not_beaten([tuple(so_far.scores[index]) for index in probed])
        leaders = [so_far.parameters[probed[index]] for index in front]
        return next((one for one in leaders if self._wins_over_complete(one, trials, surrogate)), None)

    def _probes_in_a_row(self, trials: tuple[Trial, ...]) -> int:
        confirmed = [index for index, trial in enumerate(trials) if self._is_confirmation(trial, trials)]
        return len(trials) - 1 - confirmed[-1] if confirmed else len(trials) - self._initial

    def _can_win(self, parameters: Parameters, trials: tuple[Trial, ...]) -> bool:
        surrogate, _ = self._model(trials)
        return surrogate is None or self._wins_over_complete(parameters, trials, surrogate)

    def _wins_over_complete(self, parameters: Parameters, trials: tuple[Trial, ...], surrogate: Surrogate) -> bool:
        """Return whether the candidate may win over the completely measured ones."""
        complete = [one.parameters for one in trials if self._problem.scores(one) is not None]
        if not complete:
            return True
        best = surrogate.expected(self._encoding.points(complete))
        scores = surrogate.scores(self._encoding.points([parameters]))[:, 0, :]
        as_good = np.all((best - MARGIN * np.abs(best))[None, :, :] <= scores[:, None, :], axis=2)
        return float(np.mean(~np.any(as_good, axis=1))) >= HOPELESS

    def _model(self, trials: tuple[Trial, ...]) -> tuple[Surrogate | None, MeasuredSoFar]:
        """Return the current model, and the measured candidates; no model without measurements."""
        observed = observe(self._problem, self._encoding, trials)
        lengths = self._lengths(trials) if observed is not None else {}
        if observed is None or not set(observed.metrics) <= set(lengths):
            return None, MeasuredSoFar([], np.zeros((0, 1)), [])
        surrogate = Surrogate(self._problem, observed, lengths)
        scores = surrogate.expected(observed.points)
        so_far = MeasuredSoFar(observed.parameters, scores, not_beaten([tuple(one) for one in scores.tolist()]))
        known = {row_of(parameters) for parameters in observed.parameters}
        pending = [one.parameters for one in trials if not one.ended and row_of(one.parameters) not in known]
        return surrogate.believing(self._encoding.points(pending)) if pending else surrogate, so_far

    def _lengths(self, trials: tuple[Trial, ...]) -> dict[str, Lengths]:
        """Return the lengths, learned only from ended trials. They are cached until clearly more trials have ended."""
        ended = [trial for trial in trials if trial.ended and trial.readings]
        known = learned_from(ended)
        numbers = tuple(trial.number for trial in known)
        if self._learned is None or self._learned[0] != numbers:
            observed = observe(self._problem, self._encoding, known)
            self._learned = numbers, learn_lengths(observed) if observed is not None else {}
        return self._learned[1]

    def _most_gain(
        self,
        trials: tuple[Trial, ...],
        pool: list[Parameters],
        surrogate: Surrogate,
        so_far: MeasuredSoFar,
        least_chance: float = 0.0,
    ) -> tuple[Parameters | None, float]:
        """Return the candidate with the most expected gain among those likely enough to start, None if none gains."""
        if not pool:
            return None, 0.0
        points = self._encoding.points(pool)
        chance = self._start_chance.of_candidates(trials, points)
        gain = self._gain(surrogate.scores(points), so_far.scores[so_far.front], len(trials) + 1) * chance
        gain[chance < least_chance] = 0.0
        chosen = int(np.argmax(gain))
        return (pool[chosen], float(gain[chosen])) if gain[chosen] > 0 else (None, 0.0)

    def _gain(self, scores: Array, best: Array, number: int) -> Array:
        """Return `(candidates,)`: the expected improvement of each, as a part of the best score."""
        if best.shape[1] > 1:  # another direction each time, to cover all parts of the front
            random = self._problem.random(number)
            weights = np.array([random.expovariate(1.0) for _ in range(best.shape[1])])
            low, high = best.min(axis=0), best.max(axis=0)
            scale = weights / weights.sum() / np.maximum(high - low, np.abs(low) * 0.05 + 1e-12)
            scores, best = (1 + ((one - low) * scale).max(axis=-1, keepdims=True) for one in (scores, best))
        better = (best.min() - scores[..., 0]) / max(abs(best.min()), 1e-12)
        # If no gain is expected, the candidate wins that would be best if the model errs.
        hope = 1e-7 * (2.0 + np.clip(np.quantile(better, 0.95, axis=0), -1.0, 1.0))
        return np.asarray(np.maximum(better, 0.0).mean(axis=0) + hope)

    def _warm_start(self, trials: tuple[Trial, ...]) -> Parameters | None:
        """Return the next of the best candidates of earlier tasks, from those with the longest measurements: not
        from probes.
        """
        tried = {row_of(trial.parameters) for trial in trials}
        longest = max(map(_measured_minutes, self._problem.earlier), default=0.0)
        scored = [
            (scores, trial.parameters)
            for trial in self._problem.earlier
            if _measured_minutes(trial) == longest
            and (scores := self._problem.scoring.of_readings(trial.readings)) is not None
        ]
        best = [parameters for _, parameters in sorted(scored, key=lambda one: one[0])]
        usable = [one for one in best if self._problem.space.has(one) and self._pool.can_run(one)][:WARM_STARTS]
        return next((one for one in usable if row_of(one) not in tried), None)


def _measured_minutes(trial: Trial) -> float:
    return sum(reading.level.minutes for reading in trial.readings)
