"""Computes the scores of a candidate from its measurements: one number per objective, lower is better.

The arrays of metrics have the load levels on their last axis, and any axes before it: one candidate is `(levels,)`.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from corral.core.model.errors import Refused, nearest
from corral.features.tuner.search.objective import Objective
from corral.features.tuner.search.trial import FailedStep, LevelReading, TrialFailure

Array = NDArray[np.float64]

STEEPNESS = 0.1
EXPONENT_LIMIT = 300.0
_BY_STEP = {
    FailedStep.NOT_RUNNABLE: 1.2,
    FailedStep.DEPLOY: 1.2,
    FailedStep.MEMORY: 1.5,
    FailedStep.CONNECTION: 0.8,
}
"""Limits the exponent, so that the penalty for a large excess stays finite."""


@dataclass(frozen=True, slots=True)
class ServiceLimit:
    """A service level: the metric must be at most `threshold_s`.

    Attributes:
        weight: the weight of the penalty for an excess.
        hard_fail: a level that exceeds it by more than `fail_ratio` of the threshold has failed.
    """

    metric: str
    threshold_s: float
    weight: float = 1.0
    hard_fail: bool = False
    fail_ratio: float = 0.5

    @property
    def field(self) -> str:
        """Its place in a task, such as "slo.latency.p99"."""
        name = self.metric.removeprefix("mean_")
        return f"slo.{name if name != self.metric else 'latency.' + name.removesuffix('_e2e_latency')}"


@dataclass(frozen=True)
class Scoring:
    """Computes the scores of candidates.

    A limit exceeded by the ratio r adds a penalty of `weight * (exp(r / steepness) - 1)` times the absolute base score.
    So the score is continuous at the limit. With `compatible` the -1 is left out, and the score jumps there by
    `weight`.
    """

    objectives: tuple[Objective, ...]
    limits: tuple[ServiceLimit, ...] = ()
    steepness: float = STEEPNESS
    compatible: bool = False

    def metrics(self, measured: Iterable[str]) -> tuple[str, ...] | None:
        """Return the metrics that the scores need, given the names of the measured ones; None if one is missing."""
        names = set(measured)
        base = [next((metric for metric in one.metrics if metric in names), None) for one in self.objectives]
        found = [*base, *(limit.metric if limit.metric in names else None for limit in self.limits)]
        return None if None in found else tuple(dict.fromkeys(metric for metric in found if metric is not None))

    def scores(self, metrics: Mapping[str, Array]) -> Array:
        """Return `(..., objectives)`: the scores of metrics of shape `(..., levels)`. The names are those of
        `self.metrics`.

        Levels that failed by a hard limit do not count, unless all failed.
        """
        failed = self._failed(metrics)
        counts = ~failed | failed.all(axis=-1, keepdims=True)
        mean = {name: (values * counts).sum(axis=-1) / counts.sum(axis=-1) for name, values in metrics.items()}
        penalty = sum((self._penalty(limit, mean[limit.metric]) for limit in self.limits), np.float64(0.0))
        found = []
        for objective in self.objectives:
            base = objective.sign * mean[next(metric for metric in objective.metrics if metric in mean)]
            found.append(base + np.abs(base) * penalty)
        return np.stack(found, axis=-1)

    def violated(self, metrics: Mapping[str, Array]) -> NDArray[np.bool_]:
        """Return `(...)`: whether every level exceeded a hard limit, so that the candidate has failed
        (`slo_violation`).
        """
        return np.asarray(self._failed(metrics).all(axis=-1))

    def of_readings(self, readings: Sequence[LevelReading]) -> tuple[float, ...] | None:
        """Return the scores of one candidate, None if a metric is missing or the candidate failed by a limit."""
        metrics = self.arrays(readings)
        if metrics is None or self.violated(metrics):
            return None
        scores = self.scores(metrics)
        return tuple(map(float, scores)) if np.isfinite(scores).all() else None

    def why_no_score(self, readings: Sequence[LevelReading]) -> str | None:
        """Return why completely measured levels have no score; None if they have one."""
        if self.of_readings(readings) is not None:
            return None
        metrics = self.arrays(readings)
        if metrics is None:
            return f"no score: {self._missing(readings)} was not measured at each level"
        return self._violation(readings) if self.violated(metrics) else "no score: the measured values are too large"

    def _missing(self, readings: Sequence[LevelReading]) -> str:
        """Return the metrics that are needed and were not measured at each level, as text."""
        names = set[str].intersection(*(set(_finite(reading.metrics)) for reading in readings)) if readings else set()
        needed = [one.metrics[0] for one in self.objectives if not names.intersection(one.metrics)]
        limits = [limit.metric for limit in self.limits if limit.metric not in names]
        return " or ".join(dict.fromkeys((*needed, *limits))) or "a value of the objective"

    def _violation(self, readings: Sequence[LevelReading]) -> str:
        """Return which hard limit was broken, and by how much, at the level that came nearest to its limits."""
        hard = [limit for limit in self.limits if limit.hard_fail]
        worst = [max(((_beyond(limit, one), limit) for limit in hard), key=itemgetter(0)) for one in readings]
        (beyond, limit), reading = min(zip(worst, readings, strict=True), key=lambda found: found[0][0])
        levels = "the only level" if len(readings) == 1 else f"each of the {len(readings)} levels"
        least = "" if len(readings) == 1 else ", the level that exceeds it least,"
        return (
            f"slo_violation: {levels} exceeds a hard limit by more than its fail_ratio. "
            f"At {reading.level.scenario}, {reading.level.concurrency} at a time{least} "
            f"{limit.metric} was {reading.metrics[limit.metric]:.4g} s; "
            f"{limit.field} allows {limit.threshold_s:.4g} s. "
            f"It is exceeded by {beyond + limit.fail_ratio:,.0%}; fail_ratio is {limit.fail_ratio:.0%}. "
            "Raise the threshold, or serve with less load"
        )

    def arrays(self, readings: Sequence[LevelReading]) -> dict[str, Array] | None:
        """Return the measurements as arrays `(levels,)` by name, None if a metric is missing or not finite."""
        if not readings:
            return None
        names = self.metrics(set[str].intersection(*(set(reading.metrics) for reading in readings)))
        if names is None:
            return None
        found = {name: np.array([reading.metrics[name] for reading in readings], np.float64) for name in names}
        return found if all(np.isfinite(values).all() for values in found.values()) else None

    def _failed(self, metrics: Mapping[str, Array]) -> NDArray[np.bool_]:
        shape = next(iter(metrics.values())).shape
        failed: NDArray[np.bool_] = np.zeros(shape, np.bool_)
        for limit in self.limits:
            if limit.hard_fail:
                np.logical_or(failed, _excess_ratio(limit, metrics[limit.metric]) > limit.fail_ratio, out=failed)
        return failed

    def _penalty(self, limit: ServiceLimit, values: Array) -> Array:
        ratio = _excess_ratio(limit, values)
        growth = np.exp(np.minimum(np.maximum(ratio, 0.0) / self.steepness, EXPONENT_LIMIT))
        penalty: Array = np.where(ratio > 0, limit.weight * (growth - (0.0 if self.compatible else 1.0)), 0.0)
        return penalty


def _excess_ratio(limit: ServiceLimit, values: Array) -> Array:
    return (values - limit.threshold_s) / limit.threshold_s


def _beyond(limit: ServiceLimit, reading: LevelReading) -> float:
    """Return by how much more than its `fail_ratio` a level exceeds a limit, as a part of the threshold."""
    return float(_excess_ratio(limit, np.array(reading.metrics[limit.metric]))) - limit.fail_ratio


def _finite(metrics: Mapping[str, float]) -> list[str]:
    return [name for name, value in metrics.items() if np.isfinite(value)]


def failure_score(failure: TrialFailure) -> float:
    """Return the score of a failed candidate, for methods that need a number: the earlier the failure, the worse."""
    by_time = ((0.2, 1000.0), (0.6, 500.0), (0.95, 200.0))
    base = next((score for ratio, score in by_time if failure.timeout_ratio < ratio), 100.0)
    return base * _BY_STEP.get(failure.step, 1.0)


def read_scoring(task: Mapping[str, Any]) -> Scoring:
    """Return the objectives of `optimization` and the limits of `slo`.

    Raises:
        Refused: with the known names or the accepted numbers.
    """
    optimization, slo = task.get("optimization") or {}, task.get("slo") or {}
    given = optimization.get("objective", Objective.LATENCY)
    names = given if isinstance(given, list) and given else [given]
    known = [objective.value for objective in Objective]
    for name in names:
        if name not in known:
            field = "optimization.objective"
            raise Refused(f"{field}: {name!r} is not known; {nearest(str(name), known)}", field=field)
    form = optimization.get("slo_score", "continuous")
    if form not in ("continuous", "compatible"):
        field = "optimization.slo_score"
        raise Refused(f"{field} is {form!r}; it is continuous or compatible", field=field)
    objectives = tuple(dict.fromkeys(Objective(name) for name in names))
    steepness = _number("slo.steepness", slo.get("steepness", STEEPNESS), above=0.0)
    return Scoring(objectives, tuple(_limits(slo)), steepness, form == "compatible")


def _limits(slo: Mapping[str, Any]) -> Iterable[ServiceLimit]:
    for name, given in slo.items():
        if name == "latency":
            for percentile, limit in _keys("slo.latency", given, ("p50", "p90", "p99")).items():
                yield _limit(f"slo.latency.{percentile}", f"{percentile}_e2e_latency", limit)
        elif name in ("ttft", "tpot"):
            yield _limit(f"slo.{name}", f"mean_{name}", given)
        elif name != "steepness":
            known = ("latency", "ttft", "tpot", "steepness")
            raise Refused(f"slo.{name} is not known; {nearest(name, known)}", field=f"slo.{name}")


def _limit(field: str, metric: str, given: Any) -> ServiceLimit:
    keys = _keys(field, given, ("threshold", "weight", "hard_fail", "fail_ratio"))
    if not isinstance(keys.get("hard_fail", False), bool):
        raise Refused(f"{field}.hard_fail is {keys['hard_fail']!r}; it is true or false", field=f"{field}.hard_fail")
    return ServiceLimit(
        metric,
        _number(f"{field}.threshold", keys.get("threshold"), above=0.0),
        _number(f"{field}.weight", keys.get("weight", 1.0), least=0.0),
        keys.get("hard_fail", False),
        _number(f"{field}.fail_ratio", keys.get("fail_ratio", 0.5), least=0.0),
    )


def _keys(field: str, given: Any, known: Sequence[str]) -> Mapping[str, Any]:
    if not isinstance(given, Mapping):
        raise Refused(f"{field} must have {', '.join(known)}, and is {given!r}", field=field)
    for key in given:
        if key not in known:
            raise Refused(f"{field}.{key} is not known; {nearest(str(key), known)}", field=f"{field}.{key}")
    return given


def _number(field: str, given: Any, *, above: float | None = None, least: float | None = None) -> float:
    wanted = f"above {above:g}" if above is not None else f"at least {least:g}"
    right = isinstance(given, int | float) and not isinstance(given, bool) and np.isfinite(given)
    if not right or (above is not None and given <= above) or (least is not None and given < least):
        raise Refused(f"{field} is {given!r}; it must be a number {wanted}", field=field)
    return float(given)
