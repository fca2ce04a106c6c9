"""Looks for what ran on the GPUs and nodes of an experiment while it was measured, and for usual clocks."""

import logging
import threading
from collections.abc import Iterable, Mapping, Sequence
from statistics import median
from typing import Any

from corral.client import Client
from corral.core.model.answers.devices import DeviceRow
from corral.core.model.answers.jobs import JobRow
from corral.core.model.errors import CorralError
from corral.features.history.recording.series import LEAST_USED_PCT
from corral.features.tuner.answers import ExperimentRow

log = logging.getLogger("corral.tuner")

NEWEST = 500
"""The number of jobs, started last, among which neighbours that have ended are looked for."""

_READ_DEVICES = 8
_LEAST_BUSY_S = 5.0
_RANGE = "7d"


def neighbours(client: Client, row: ExperimentRow, window: tuple[float, float]) -> dict[str, list[str]] | None:
    """Return the neighbours of an experiment in a window (Unix seconds), on the same GPU and on the same node.

    Experiments of the same task are named as such. Processes outside Corral are those at the end of the window. None if
    the experiment is no job, or if the server does not tell.
    """
    own = frozenset((row.gpu_info or {}).get("device_ids", ()))
    if row.job_id is None or not own:
        return None
    try:
        devices, jobs = client.devices.list(), _jobs_in(client, window)
    except CorralError as error:
        # The measurement counts all the same.
        log.warning("experiment %d: its neighbours are not known: %s", row.experiment_id, error)
        return None
    places = {device.uuid: device.node for device in devices}
    nodes = {places[uuid] for uuid in own if uuid in places}
    same_gpu = [name for device in devices if device.uuid in own for name in _strangers(device)]
    others = [job for job in jobs if job.id != row.job_id]
    beside = [job.id for job in others if own & set(job.devices)]
    near = [
        job.id
        for job in others
        if job.id not in beside and nodes & ({*job.nodes} | {places.get(uuid) for uuid in job.devices})
    ]
    names = _experiments(client, row) if beside or near else {}
    same_gpu += [names.get(job_id, f"job {job_id}") for job_id in beside]
    return {"same_gpu": same_gpu, "same_node": [names.get(job_id, f"job {job_id}") for job_id in near]}


def _experiments(client: Client, row: ExperimentRow) -> dict[str, str]:
    """Return the names of the experiments of the same task by their jobs; {} if the server does not tell."""
    try:
        found = client.experiments.list(row.task_id)
    except CorralError as error:
        log.warning("experiment %d: other experiments are not known: %s", row.experiment_id, error)
        return {}
    return {one.job_id: f"experiment {one.experiment_id} of this task" for one in found if one.job_id is not None}


def _strangers(device: DeviceRow) -> Iterable[str]:
    for process in device.processes:
        if process.job is None:
            yield f"process {process.pid} outside Corral"
    if device.pod is not None:
        yield f"pod {device.pod.namespace}/{device.pod.name}"


def _jobs_in(client: Client, window: tuple[float, float]) -> list[JobRow]:
    """Return the jobs that ran in a window."""
    began_at, ended_at = window
    found = {
        job.id: job
        for jobs in (
            client.jobs.list(all=True, sort="-started", limit=NEWEST),
            client.jobs.list(phase="RUNNING,STOPPING", limit=None),
        )
        for job in jobs
    }
    return [
        job
        for job in found.values()
        if job.started_at is not None
        and job.started_at < ended_at
        and (job.ended_at is None or job.ended_at > began_at)
    ]


class UsualClocks:
    """The usual clocks of models of GPU under load, from the history of the site. Thread-safe."""

    def __init__(self, devices: Sequence[DeviceRow]) -> None:
        self._devices = devices
        self._lock = threading.Lock()
        self._known: dict[str, float | None] = {}

    def of(self, client: Client, models: Iterable[str | None]) -> Mapping[str, float]:
        """Return the usual clock in MHz of each of these models, as far as it is known."""
        with self._lock:
            for model in {one for one in models if one is not None} - self._known.keys():
                self._known[model] = self._usual(client, model)
            return {model: mhz for model, mhz in self._known.items() if mhz is not None}

    def _usual(self, client: Client, model: str) -> float | None:
        """Return the median over busy steps of the clock below which 95 % of a step's readings are."""
        clocks, busy_s = [], 0.0
        for device in [one for one in self._devices if one.name == model][:_READ_DEVICES]:
            try:
                found = client.devices.history(device.uuid, _RANGE, series=("sm_clock_mhz", "utilization_pct"))
            except CorralError:
                # It has no history, or that cannot be read now.
                continue
            busy = {one.t for one in found.series.get("utilization_pct", ()) if one.mean >= LEAST_USED_PCT}
            read = [one for one in found.series.get("sm_clock_mhz", ()) if one.t in busy]
            clocks += [one.p95 for one in read]
            busy_s += sum(one.coverage * found.step_s for one in read)
        return median(clocks) if busy_s >= _LEAST_BUSY_S else None


def models_of(windows: Iterable[Sequence[Any]]) -> set[str | None]:
    """Return the models of the GPUs in windows."""
    return {gpu.name for window in windows for gpu in window}
