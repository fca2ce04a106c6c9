"""The strategy with tree-structured Parzen estimators of Optuna (the extra `tuner`).

The study is rebuilt from the trials each time, so it has no state of its own.
"""

from collections.abc import Mapping
from itertools import count, islice

from corral.core.model.errors import Refused
from corral.features.tuner.search.problem import Problem
from corral.features.tuner.search.scoring import failure_score
from corral.features.tuner.search.space import ListedParameter, Parameter, Parameters, Value
from corral.features.tuner.search.trial import LoadLevel, Trial

try:
    import optuna
    from optuna.distributions import BaseDistribution, CategoricalDistribution, FloatDistribution, IntDistribution
except ModuleNotFoundError as missing:
    raise Refused(
        "strategy `bayesian` needs Optuna; install corral with its extra `tuner`",
        field="optimization.strategy",
    ) from missing

ASKS = 20
"""Optuna may propose tried combinations. After this many proposals a combination is drawn."""


class TpeSearch:
    """The first `n_initial_random` candidates are drawn. A failed candidate gets a bad score, so that it is not
    tried again.
    """

    def __init__(self, problem: Problem) -> None:
        self._problem = problem
        self._distributions = {one.name: _distribution(one) for one in problem.space.parameters}

    def choose(self, trials: tuple[Trial, ...]) -> Parameters | None:
        random = self._problem.random(len(trials) + 1)
        if len(trials) < self._problem.n_initial_random:
            return self._problem.draw_new(random, trials)
        study = self._study(trials, seed=random.getrandbits(32))
        tried = {tuple(trial.parameters.items()) for trial in trials}
        proposed = (self._parameters(study.ask(self._distributions).params) for _ in count())
        for found in islice(proposed, ASKS):
            if tuple(found.items()) not in tried and self._problem.why_not(found) is None:
                return found
        return self._problem.draw_new(random, trials)

    def next_level(self, trial: Trial, trials: tuple[Trial, ...]) -> LoadLevel | None:
        return self._problem.next_level_in_turn(trial)

    def _study(self, trials: tuple[Trial, ...], seed: int) -> optuna.Study:
        # The drawn trials are part of the study, so the sampler itself need not draw any.
        sampler = optuna.samplers.TPESampler(n_startup_trials=0, seed=seed)
        verbosity = optuna.logging.get_verbosity()
        optuna.logging.set_verbosity(optuna.logging.WARNING)
        directions = [optuna.study.StudyDirection.MINIMIZE] * len(self._problem.scoring.objectives)
        study = optuna.create_study(study_name=self._problem.study_name, sampler=sampler, directions=directions)
        optuna.logging.set_verbosity(verbosity)
        study.add_trials([self._told(trial) for trial in trials])
        return study

    def _told(self, trial: Trial) -> optuna.trial.FrozenTrial:
        if not trial.ended:
            state, scores = optuna.trial.TrialState.RUNNING, None
        else:
            state = optuna.trial.TrialState.COMPLETE
            scores = self._problem.scores(trial) or self._bad(trial)
        return optuna.trial.create_trial(
            state=state,
            params={one.name: _encoded(one, trial.parameters[one.name]) for one in self._problem.space.parameters},
            distributions=self._distributions,
            values=scores,
        )

    def _bad(self, trial: Trial) -> tuple[float, ...]:
        score = 100.0 if trial.failure is None else failure_score(trial.failure)
        return (score,) * len(self._problem.scoring.objectives)

    def _parameters(self, proposed: Mapping[str, Value]) -> Parameters:
        return {one.name: _decoded(one, proposed[one.name]) for one in self._problem.space.parameters}


def _distribution(parameter: Parameter) -> BaseDistribution:
    """Return the distribution of a parameter. Listed numbers are encoded by their rank, so that neighbours are
    similar.
    """
    if isinstance(parameter, ListedParameter):
        places = len(parameter.values)
        return IntDistribution(0, places - 1) if parameter.ordered else CategoricalDistribution(tuple(range(places)))
    if parameter.whole:
        return IntDistribution(int(parameter.low), int(parameter.high), log=parameter.log)
    return FloatDistribution(parameter.low, parameter.high, log=parameter.log)


def _encoded(parameter: Parameter, value: Value) -> Value:
    return parameter.steps.index(value) if isinstance(parameter, ListedParameter) else value


def _decoded(parameter: Parameter, found: Value) -> Value:
    return parameter.steps[int(found)] if isinstance(parameter, ListedParameter) else found
