"""Runs one experiment from its job to its record. Results are stored after every level of load.

So a restarted tuner continues after the last level. The job always ends before the experiment is recorded as over.
"""

import logging
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from corral.client import Client
from corral.core.model.errors import BackendFailed, Conflict, CorralError, LedgerFailed, Refused
from corral.core.model.units import count_of, format_memory
from corral.core.preflight.model_need import ModelNeed
from corral.core.preflight.model_source import LocalModel
from corral.features.tuner.answers import ExperimentRow
from corral.features.tuner.deployments.deployment import (
    Deployed,
    Deployment,
    Endpoint,
    ExperimentFailed,
    GpusTakenAway,
    Mode,
    NothingDeploys,
    WantedGpus,
)
from corral.features.tuner.engines.candidate_need import candidate_need
from corral.features.tuner.engines.inference_engine import InferenceEngine
from corral.features.tuner.engines.power_limit import power_limit_w_of
from corral.features.tuner.measuring.built_in_generator import BuiltInGenerator
from corral.features.tuner.measuring.generators import Chosen, LoadGenerator
from corral.features.tuner.measuring.gpu_records import (
    energy_of_level,
    figures_of_gpus,
    model_in,
    models_in,
    windows_of_level,
)
from corral.features.tuner.measuring.level_figures import (
    HEADLINES,
    RATES,
    AppliedLoad,
    GeneratorFailed,
    MeasuredLevel,
    combined,
    level_metrics,
)
from corral.features.tuner.measuring.noise import noise_of_gpus, with_neighbours
from corral.features.tuner.model.tuning_spec import TuningSpec
from corral.features.tuner.running.disturbances import UsualClocks, models_of, neighbours
from corral.features.tuner.running.experiment_record import state_of, trial_of
from corral.features.tuner.running.shared_search import SharedSearch
from corral.features.tuner.running.task_gpus import TaskGpus
from corral.features.tuner.search.objective import Objective
from corral.features.tuner.search.trial import FailedStep, LevelReading, LoadLevel, TrialFailure

log = logging.getLogger("corral.tuner")

WARM_UP_REQUESTS = 3
_WARM_UP_S = 60.0
_LOOK_AT_JOB_S = 2.0
_MINUTE_S = 60.0
_READ = (*HEADLINES, *RATES, "mean_total_throughput_per_gpu", *Objective.ENERGY.metrics)


SERVER_FAILED = (BackendFailed, LedgerFailed)
"""Errors after which the next tuner continues: nothing is wrong with the task."""


class TaskStopped(Exception):
    """The task must end before this experiment has ended; the message says why."""


class StopSign(threading.Event):
    """Set if a task must end early."""

    why = "the task was cancelled"


@dataclass(frozen=True)
class RunningTask:
    """The parts that all experiments of a task share."""

    id: str
    config: TuningSpec
    engine: InferenceEngine
    mode: Mode
    model: LocalModel | None
    chosen: Chosen
    gpus: TaskGpus
    clocks: UsualClocks
    search: SharedSearch
    stop: StopSign
    timeout_s: float


class ExperimentRun:
    """Runs one experiment, on a thread of its own with a client of its own."""

    def __init__(self, client: Client, task: RunningTask, row: ExperimentRow) -> None:
        self._client = client
        self._task = task
        self._row = row
        self._trial = trial_of(row)
        self._levels: list[dict[str, Any]] = []
        self._deployed = Deployed(client, task.id, task.config, task.engine, task.timeout_s)
        self._server: Deployment | None = None
        self._endpoint: Endpoint | None = None
        self._gpus = 1
        self._deployed_here = False
        self._began = time.monotonic()

    def run(self) -> None:
        """Deploy the server, measure level after level, end the server, and record the result.

        After that, raise NothingDeploys if every other combination would fail in the same way.
        """
        error: str | None = None
        hopeless: NothingDeploys | None = None
        try:
            self._measure_all()
        except ExperimentFailed as failed:
            error = str(failed)
            hopeless = failed if isinstance(failed, NothingDeploys) else None
            ratio = min(1.0, (time.monotonic() - self._began) / self._task.timeout_s)
            self._trial = replace(self._trial, failure=TrialFailure(failed.step, ratio))
        except TaskStopped as stopped:
            error = str(stopped)
            self._trial = replace(self._trial, failure=TrialFailure(FailedStep.STOPPED))
        if self._server is not None:
            self._server.end(f"experiment {self._row.experiment_id} of task {self._task.id} is over")
        if hopeless is not None:
            # Before the search learns of the failure: it would offer the next combination, which may begin at once.
            self._task.stop.why = f"experiment {self._row.experiment_id} showed that none can be deployed"
            self._task.stop.set()
        self._finish(error)
        if hopeless is not None:
            raise hopeless

    def give_up(self, error: str) -> None:
        """End the server, and record that the experiment failed: it cannot go on, whatever its record says."""
        end_server(lambda: self._server, self._row)
        self._trial = replace(self._trial, ended=True, failure=TrialFailure(FailedStep.OTHER))
        self._task.search.tell(self._trial)
        with suppress(Conflict):
            # Its user may have recorded its end.
            self._change(status="failed", error_message=error)

    def _measure_all(self) -> None:
        self._server = self._known()
        self._levels = list((self._row.metrics or {}).get("raw_results", ()))
        self._look()
        need = self._needed()
        while (level := self._task.search.next_level(self._row.experiment_id)) is not None:
            try:
                server, endpoint = self._ready(need)
                self._measure(server, endpoint, level)
            except GpusTakenAway as taken:
                log.info("experiment %d waits again: %s", self._row.experiment_id, taken)
                self._change(status="pending")

    def _needed(self) -> ModelNeed:
        task = self._task
        try:
            need = candidate_need(task.config, task.engine, task.model, self._row.parameters)
        except Refused as refused:
            raise ExperimentFailed(FailedStep.NOT_RUNNABLE, str(refused)) from None
        memory = "unknown memory" if need.min_memory_mib is None else f"{format_memory(need.min_memory_mib)} each"
        log.info(
            "experiment %d of task %s: estimated requirements: %s with %s",
            self._row.experiment_id, task.id, count_of(need.gpus, "GPU"), memory,
        )  # fmt: skip
        self._gpus = need.gpus
        return need

    def _ready(self, need: ModelNeed) -> tuple[Deployment, Endpoint]:
        """Return the server, running and answering. Does nothing if it is in that state already."""
        task = self._task
        server = self._server = self._server or self._deploy(need)
        server.await_gpus(task.config.gpu_wait_timeout_s, self._look)
        if self._row.status == "benchmarking" and self._endpoint is not None:
            return server, self._endpoint
        self._began = time.monotonic()
        self._note_gpus(server, need.gpus)
        endpoint = self._endpoint = server.await_ready(self._deadline, self._look)
        self._warm_up(server, endpoint)
        self._change(status="benchmarking", service_url=endpoint.url)
        return server, endpoint

    def _note_gpus(self, server: Deployment, gpus: int) -> None:
        """Record the GPUs. Raise GpusTakenAway if they are of another model than the task keeps to.

        A job that was submitted before the model was known may start again on another one.
        """
        found = server.gpu_info(gpus)
        if not self._task.gpus.keeps(found):
            server.end("the task keeps to another model of GPU")
            self._server = None
            other = f"it got {' and '.join(models_in(found))}, and the task keeps to another model of GPU"
            raise ExperimentFailed(FailedStep.DEPLOY, other) if self._deployed_here else GpusTakenAway(other)
        if found is not None and found["count"] < gpus:
            said = f"it needs {gpus} GPUs, and the whole node has {found['count']}"
            raise ExperimentFailed(FailedStep.NOT_RUNNABLE, said)
        changes = {name: value for name, value in (("gpu_info", found),) if value is not None}
        if changes or self._row.status != "deploying":
            self._change(status="deploying", **changes)
        self._task.gpus.note(found)
        self._trial = replace(self._trial, gpu_model=model_in(found))

    def _known(self) -> Deployment | None:
        """Return the server that an earlier tuner has deployed. It must answer again before it is measured."""
        server = self._task.mode.known(self._deployed, self._row)
        if server is not None and (self._row.service_name is None or self._row.status == "benchmarking"):
            self._change(status="deploying", **server.noted)
        return server

    def _deploy(self, need: ModelNeed) -> Deployment:
        wanted = self._wanted(self._task.gpus.wanted(need, self._models_before()))
        server = self._task.mode.deploy(self._deployed, self._row, wanted)
        self._deployed_here = bool(wanted.kept)
        self._change(**server.noted)
        return server

    def _models_before(self) -> tuple[str, ...]:
        """Return the models of GPU of the experiment that this one repeats, () if it repeats none."""
        if self._row.repeats is None:
            return ()
        return models_in(self._client.experiments.of_number(self._task.id, self._row.repeats).gpu_info)

    def _wanted(self, gpus: WantedGpus) -> WantedGpus:
        """Return the GPUs to ask for, on several nodes if no node has so many."""
        task = self._task
        if not task.mode.chooses_gpus:
            return gpus
        gpus = gpus._replace(request=replace(gpus.request, power_limit_w=power_limit_w_of(self._row.parameters)))
        why_not = partial(task.mode.why_not_over_nodes, task.config, task.engine, self._row.parameters)
        found = task.gpus.on_nodes(gpus, why_not)
        if (members := found.request.gang_size) > 1:
            log.info("experiment %d of task %s is a gang on %d nodes", self._row.experiment_id, task.id, members)
        return found

    @property
    def _deadline(self) -> float:
        return self._began + self._task.timeout_s

    def _look(self) -> None:
        if self._task.stop.is_set():
            raise TaskStopped(self._task.stop.why)

    def _warm_up(self, server: Deployment, endpoint: Endpoint) -> None:
        """Send a few requests that do not count: the first ones compile and fill caches."""
        spec, generator = self._task.config.benchmark, BuiltInGenerator(self._task.config.env)
        if generator.why_not(spec) is not None:
            return
        left_s = max(1.0, self._deadline - time.monotonic())
        load = AppliedLoad(spec.traffic_scenarios[0], 1, WARM_UP_REQUESTS, min(_WARM_UP_S, left_s))
        self._applied(generator, server, endpoint, load)

    def _measure(self, server: Deployment, endpoint: Endpoint, level: LoadLevel) -> None:
        left_s = self._deadline - time.monotonic()
        if left_s <= 0:
            raise ExperimentFailed(FailedStep.OTHER, f"it was not measured within {self._task.timeout_s:g} s")
        spec = self._task.config.benchmark
        most_s = min(level.minutes * _MINUTE_S, left_s)
        load = AppliedLoad(level.scenario, level.concurrency, spec.max_requests_per_iteration, most_s)
        generator = self._task.chosen.generator
        result = self._applied(generator, server, endpoint, load)
        if not result.answered:
            raise ExperimentFailed(
                FailedStep.CONNECTION,
                f"no request was answered at {level.concurrency} at a time within {result.duration_s:.1f} s: "
                f"{result.first_failure or 'all took longer'}; the server's last lines:\n{server.last_lines()}",
            )
        found = {
            **level_metrics(result, generator=generator.name, gpus=self._gpus),
            **server.gpu_figures(result.began_at, result.ended_at),
        }
        found |= energy_of_level(found)
        self._levels.append(found)
        read = {name: found[name] for name in _READ if found.get(name) is not None}
        self._trial = replace(self._trial, readings=(*self._trial.readings, LevelReading(level, read)))
        self._task.search.tell(self._trial)
        noise = self._noise((result.began_at, result.ended_at))
        self._change(
            metrics=self._metrics(), search_state=state_of(self._trial), noise=noise, **self._gpus_now_known(server)
        )

    def _noise(self, window: tuple[float, float]) -> dict[str, Any]:
        """Return the noise of all levels so far; the last one was measured in this window."""
        found = with_neighbours(self._row.noise, neighbours(self._client, self._row, window))
        windows = [windows_of_level(level) for level in self._levels]
        return found | noise_of_gpus(windows, self._task.clocks.of(self._client, models_of(windows)))

    def _gpus_now_known(self, server: Deployment) -> dict[str, Any]:
        """Return the GPUs as a change of the record, if they were not known when the server became ready."""
        known = (self._row.gpu_info or {}).get("device_ids")
        return {} if known else {"gpu_info": server.gpu_info(self._gpus)}

    def _applied(
        self, generator: LoadGenerator, server: Deployment, endpoint: Endpoint, load: AppliedLoad
    ) -> MeasuredLevel:
        """Apply a load and return its result.

        Raises TaskStopped, ExperimentFailed or GpusTakenAway if it did not run to its end.
        """
        gone: list[Exception] = []
        looked_at = time.monotonic()

        def stop() -> bool:
            nonlocal looked_at
            if not self._task.stop.is_set() and time.monotonic() - looked_at >= _LOOK_AT_JOB_S:
                looked_at = time.monotonic()
                try:
                    server.must_serve()
                except (ExperimentFailed, GpusTakenAway) as error:
                    gone.append(error)
            return bool(gone) or self._task.stop.is_set()

        config = self._task.config
        named = config.benchmark.model_name or endpoint.model or config.model.id_or_path
        spec = replace(config.benchmark, model_name=named)
        try:
            result = generator.measure(endpoint.url, spec, load, seed=self._row.experiment_id, stop=stop)
        except GeneratorFailed as error:
            # If the server had ended before, that is the cause to report.
            server.must_serve()
            raise ExperimentFailed(FailedStep.OTHER, str(error)) from None
        self._look()
        if gone:
            raise gone[0]
        # The server may have ended between two checks.
        server.must_serve()
        return result

    def _metrics(self) -> dict[str, Any]:
        note = self._task.chosen.note
        noted = {} if note is None else {"generator_note": note}
        return combined(self._levels) | figures_of_gpus(self._levels) | noted

    def _finish(self, error: str | None) -> None:
        self._trial = replace(self._trial, ended=True)
        self._task.search.tell(self._trial)
        scores = None if error is not None else self._task.search.scores(self._row.experiment_id)
        metrics = self._metrics() if self._levels else None
        if scores is None and error is None:
            # The search learns from the levels themselves, so this is no failure of the trial.
            measured = self._task.search.why_no_score(self._row.experiment_id)
            error = measured if self._levels else "nothing was measured"
        changes = {
            "status": "success" if error is None else "failed",
            "error_message": error,
            "objective_score": None if scores is None else scores[0],
            "metrics": metrics,
            "search_state": state_of(self._trial),
        }
        self._change(**{name: value for name, value in changes.items() if value is not None})

    def _change(self, **changes: Any) -> None:
        self._row = self._client.experiments.change(self._row.id, **changes)


def end_server(find: Callable[[], Deployment | None], row: ExperimentRow) -> None:
    """End the inference server of an experiment, if there is one. Of Corral's errors only `SERVER_FAILED` are raised.

    The record names the server, and the task's user may have changed it.
    """
    try:
        if (server := find()) is not None:
            server.end(f"experiment {row.experiment_id} of task {row.task_id} is over")
    except SERVER_FAILED:
        raise
    except CorralError as error:
        log.warning("experiment %d of task %s: its server was not ended: %s", row.experiment_id, row.task_id, error)
