"""Runs one task: asks the search, runs the experiments, and ends the task. Its whole state is in the ledger.

A tuner that is killed at any moment loses nothing. The next one rebuilds the search from the recorded experiments, and
continues those that are not over.
"""

import logging
import os
from collections.abc import Callable
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import suppress
from dataclasses import replace
from functools import partial

from corral.client import Client
from corral.config.tuner import TunerSettings
from corral.core.model.errors import Conflict, CorralError
from corral.features.tuner.answers import ExperimentRow, TaskDetail
from corral.features.tuner.deployments.deployment import Deployed, NothingDeploys
from corral.features.tuner.deployments.modes import mode_of
from corral.features.tuner.engines.inference_engine import engine_on_site
from corral.features.tuner.measuring.generators import choose_generator, with_tokenizer
from corral.features.tuner.running.disturbances import UsualClocks
from corral.features.tuner.running.experiment_record import trial_of
from corral.features.tuner.running.experiment_run import SERVER_FAILED, ExperimentRun, RunningTask, StopSign, end_server
from corral.features.tuner.running.shared_search import SharedSearch
from corral.features.tuner.running.task_gpus import TaskGpus
from corral.features.tuner.search.search import Search
from corral.features.tuner.search.trial import Candidate, Later, Trial
from corral.features.tuner.task_bounds import MOST_EXPERIMENTS
from corral.features.tuner.tasks.asked_gpus import asked_gpus
from corral.features.tuner.tasks.best_combinations import best_combinations, sureness
from corral.features.tuner.tasks.known_limits import left_out, local_model, why_not
from corral.features.tuner.tasks.obtainable_gpus import most_memory_mib
from corral.features.tuner.tasks.task_problem import problem_of

log = logging.getLogger("corral.tuner")

LOOK_S = 1.0
MOST_EARLIER = 3
"""The number of earlier tasks of the same model from which a search learns."""
DEFAULT_TIMEOUT_S = 1800.0

Connect = Callable[[], Client]


def run_task(connect: Connect, task_id: str, site: TunerSettings) -> None:
    """Run a task to its end, or stop the running experiments of a cancelled one.

    Raises BackendFailed or LedgerFailed if the server is away or cannot write; the next tuner continues. Any other
    error fails the task, and ends its experiments.
    """
    client = connect()
    try:
        _TaskRun(connect, client, task_id, site).run()
    except SERVER_FAILED:
        raise
    except Exception as error:
        why = _in_words(error, f"the tuner of task {task_id}")
        log.error("task %s: %s", task_id, why)
        _end_experiments(client, task_id, site, why)
        _fail(client, task_id, why)


def _in_words(error: Exception, what: str) -> str:
    """Return an unexpected error as text. The log has more of one that is a bug."""
    if isinstance(error, CorralError):
        return str(error)
    log.error("bug in Corral: %s failed", what, exc_info=error)
    return f"this is a bug in Corral: {type(error).__name__}: {error}"


def _end_experiments(client: Client, task_id: str, site: TunerSettings, why: str) -> None:
    """End the experiments that run, with their servers: nobody else would, and a task with experiments cannot end."""
    config = client.tasks.get(task_id).config
    for row in client.experiments.list(task_id):
        if row.status not in ("success", "failed"):
            mode = mode_of(config.deployment_mode, site)
            deployed = Deployed(client, task_id, config, engine_on_site(config, site), DEFAULT_TIMEOUT_S)
            end_server(partial(mode.known, deployed, row), row)
            with suppress(Conflict):
                client.experiments.change(row.id, status="failed", error_message=why)


def _fail(client: Client, task_id: str, why: str) -> None:
    # A task that was cancelled meanwhile has ended already.
    with suppress(Conflict):
        client.tasks.end(task_id, "failed", why)


class _TaskRun:
    def __init__(self, connect: Connect, client: Client, task_id: str, site: TunerSettings) -> None:
        self._connect = connect
        self._client = client
        self._id = task_id
        detail = client.tasks.get(task_id)
        self._row, config = detail.task, detail.config
        engine = engine_on_site(config, site)
        rows = client.experiments.list(task_id, metrics=True)
        devices = client.devices.list()
        gpus = TaskGpus(asked_gpus(config), devices, client.nodes.list(), rows)
        model = local_model(config, os.environ)
        problem = replace(
            problem_of(config, engine),
            why_not=why_not(config, engine, model, most_memory_mib(gpus.obtainable)),
            earlier=earlier_trials(client, detail),
        )
        benchmark = with_tokenizer(config.benchmark, config.model.id_or_path)
        config = replace(config, benchmark=benchmark)
        self._task = RunningTask(
            task_id,
            config,
            engine,
            mode_of(config.deployment_mode, site),
            model,
            choose_generator(benchmark, engine=engine.name, env={**os.environ, **config.env}),
            gpus,
            UsualClocks(devices),
            SharedSearch(Search(problem, map(trial_of, rows))),
            StopSign(),
            float(config.optimization.get("timeout_per_iteration") or DEFAULT_TIMEOUT_S),
        )
        self._alive = [row for row in rows if row.status not in ("success", "failed")]
        self._stopped = sum(not trial.counts for trial in map(trial_of, rows))
        self._problem = problem
        self._threads = ThreadPoolExecutor(max(config.max_parallel, len(self._alive), 1), "experiment")
        self._running: set[Future[None]] = set()
        self._hopeless: str | None = None
        self._planned = self._row.planned_experiments

    def run(self) -> None:
        """Run until the search is finished or the task is cancelled, and no experiment runs any more."""
        if self._row.status != "running":
            self._task.stop.set()
        else:
            if self._planned is None:
                for line in left_out(self._problem):
                    log.info("task %s: %s", self._id, line)
            self._plan()
        with self._threads:
            for row in self._alive:
                self._start(row)
            try:
                reason = self._search()
            except BaseException as error:
                if not isinstance(error, SERVER_FAILED):
                    self._task.stop.why = f"the task failed: {error}"
                    self._task.stop.set()
                self._threads.shutdown(wait=False, cancel_futures=True)
                raise
        if self._hopeless is not None:
            _fail(self._client, self._id, self._hopeless)
        elif not self._task.stop.is_set():
            self._end(reason)

    def _search(self) -> str:
        """Run the search to its end. Return why there is nothing more to try."""
        finished: str | None = None
        while finished is None or self._running:
            if finished is None and not self._task.stop.is_set():
                finished = self._begin_what_may()
            elif self._task.stop.is_set():
                finished = "the task was cancelled"
            done, self._running = wait(self._running, LOOK_S, FIRST_COMPLETED)
            for one in done:
                one.result()
            if not self._task.stop.is_set() and self._client.tasks.get(self._id).task.status != "running":
                self._task.stop.set()
            if done and not self._task.stop.is_set():
                self._plan()
        return finished

    def _plan(self) -> None:
        """Record the most experiments of the task, if they are more than recorded. Stopped ones are made again."""
        most = min(self._task.search.most_trials() + self._stopped, MOST_EXPERIMENTS)
        if self._planned is not None and most <= self._planned:
            return
        self._planned = most
        # A task that was cancelled meanwhile keeps its number.
        with suppress(Conflict):
            self._client.tasks.plan(self._id, most)

    def _begin_what_may(self) -> str | None:
        """Start the candidates of the search. Return why the search is finished, None if it is not."""
        while self._gpus_are_settled():
            match self._task.search.ask():
                case Candidate(number=number, parameters=parameters, repeats=repeats):
                    try:
                        self._start(self._client.experiments.create(self._id, number, parameters, repeats=repeats))
                    except Conflict:
                        # The task was cancelled, or it has another tuner: the next check of its state tells.
                        self._task.stop.set()
                        return "the task was cancelled"
                case Later():
                    return None
                case ended:
                    return ended.why
        return None

    def _gpus_are_settled(self) -> bool:
        """Return whether another experiment may begin: all keep to the model of GPU that the first one got."""
        return not self._task.mode.chooses_gpus or self._task.gpus.settled or not self._running

    def _start(self, row: ExperimentRow) -> None:
        self._running.add(self._threads.submit(self._run_one, row))

    def _run_one(self, row: ExperimentRow) -> None:
        with self._connect() as client:
            run = ExperimentRun(client, self._task, row)
            try:
                run.run()
            except NothingDeploys as error:
                self._hopeless = f"no experiment can be deployed: {error}"
            except SERVER_FAILED:
                raise
            except Exception as error:
                run.give_up(_in_words(error, f"experiment {row.experiment_id} of task {self._id}"))

    def _end(self, why: str) -> None:
        row = self._client.tasks.get(self._id).task
        if row.successful_experiments:
            self._client.tasks.end(self._id, "completed")
        else:
            last = self._client.experiments.list(self._id)[-1:]
            told = f"; the last one: {last[0].error_message}" if last else self._why_none()
            self._client.tasks.end(self._id, "failed", f"no experiment succeeded ({why}){told}")
        log.info("task %s: %s", self._id, why)
        bests = best_combinations(self._client.experiments.list(self._id))
        for best in bests if len(bests) > 1 else ():
            number, model = best.experiments[0].experiment_id, best.gpu_model or "GPUs of unknown model"
            log.info("task %s: the best on %s is experiment %d: %s", self._id, model, number, sureness(best))

    def _why_none(self) -> str:
        """Return why the first combination cannot run, "" if no reason is known."""
        first = self._problem.space.named([values[0] for values in self._problem.space.steps])
        why = self._problem.why_not(first)
        return "" if why is None else f"; the first combination cannot run: {why}"


def earlier_trials(client: Client, detail: TaskDetail) -> tuple[Trial, ...]:
    """Return the trials of the user's newest earlier tasks with the same model and inference server.

    Those tasks had ended when this one started. So a tuner that continues the task uses the same trials as the one
    before.
    """
    row = detail.task
    alike = [
        one.id
        for one in client.tasks.list()
        if (one.user, one.model, one.base_runtime) == (row.user, row.model, row.base_runtime)
        and one.completed_at is not None
        and one.completed_at < (row.started_at or row.created_at)
        and one.id != row.id
    ]
    rows = [each for task_id in alike[:MOST_EARLIER] for each in client.experiments.list(task_id)]
    found = (trial_of(each) for each in rows if each.objective_score is not None)
    return tuple(trial for trial in found if trial.failure is None)
