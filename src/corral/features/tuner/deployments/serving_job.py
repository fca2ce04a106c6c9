"""The job that serves a model for an experiment: submitted once, found again after a crash, watched, and ended.

A server that no node can hold is a gang: the engine's own launcher joins its members, and the first one answers.
"""

import ipaddress
import logging
import re
import sys
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from importlib.resources import files
from typing import Any, Literal, NamedTuple

from corral.client import Client
from corral.core.model.answers.job_details import JobDetail
from corral.core.model.errors import Conflict, CorralError, Forbidden, Refused
from corral.core.model.jobs.container import Container
from corral.core.model.jobs.phase import Phase
from corral.core.model.jobs.submission import Submission
from corral.core.model.runs.exit_code import exit_code_in_words
from corral.features.services.service_wanted import ServiceWanted
from corral.features.tuner.answers import ExperimentRow
from corral.features.tuner.deployments.deployment import (
    LOOK_S,
    Deployed,
    Deployment,
    Endpoint,
    ExperimentFailed,
    GpusTakenAway,
    Look,
    NothingDeploys,
    WantedGpus,
)
from corral.features.tuner.deployments.health import is_healthy
from corral.features.tuner.deployments.port_holder import CANNOT_RUN, HOST, NOT_FOUND, PORT, SAYS, place
from corral.features.tuner.deployments.shell_line import shell_line
from corral.features.tuner.engines.inference_engine import InferenceEngine
from corral.features.tuner.engines.over_nodes import OverNodes, Version, way_over_nodes, why_not_over_nodes
from corral.features.tuner.measuring.gpu_records import gpu_info_of, gpus_of_level
from corral.features.tuner.model.tuning_spec import TuningSpec
from corral.features.tuner.search.trial import FailedStep

log = logging.getLogger("corral.tuner")

LAST_LINES = 20
_FIRST_LOOK_S = 0.03
_END_S = 120.0
_NO_CONTAINER = 125
"""The exit code of `docker run` if the container never started."""

_NO_IMAGE = re.compile(r"\bimage\b.{1,1000}\b(?:pulled|fetched)\b", re.DOTALL)
"""Matches the reasons of jobs that never ran because their image was not available. All experiments use this image."""

_DEFAULT = Submission()
_OF_ALL = frozenset({"image", "volume", "volumes", "network", "shm_size", "user", "queue", "project"})
"""An error in one of these fields concerns every experiment, whatever its parameters."""


class ServingJob:
    """One job by its id, with the path of its server's health check."""

    def __init__(self, client: Client, job_id: str, name: str, health: str) -> None:
        self._id = job_id
        self._name = name
        self._client = client
        self._health = health
        self._node = ""
        self._offsets: dict[str, int] = {}
        self._line = b""
        self._url: str | None = None
        self._attempt: int | None = None
        self._has_served = False

    @property
    def noted(self) -> Mapping[str, str]:
        return {"job_id": self._id, "service_name": self._name}

    def await_gpus(self, timeout_s: float | None, look: Look) -> None:
        """Wait until the job runs. With free GPUs that takes some hundredths of a second."""
        since, pause_s = time.monotonic(), _FIRST_LOOK_S
        while True:
            job = self._client.jobs.get(self._id)
            if job.phase == "RUNNING":
                self._attempt = job.attempts
                if job.members[0].node != self._node:
                    self._node, self._line = job.members[0].node, b""
                return
            if job.ended:
                raise self._failed(job)
            waited_s = time.monotonic() - since
            if job.phase == "PENDING" and timeout_s is not None and waited_s > timeout_s:
                why = self._client.jobs.why(self._id).reason
                raise ExperimentFailed(FailedStep.DEPLOY, f"Insufficient GPUs after waiting {timeout_s:g} s: {why}")
            look()
            time.sleep(pause_s)
            pause_s = min(2 * pause_s, LOOK_S)

    def await_ready(self, deadline: float, look: Look) -> Endpoint:
        began = time.monotonic()
        while True:
            self._read_address()
            if self._url is not None and is_healthy(self._url, self._health):
                self._has_served = True
                return Endpoint(self._url)
            self.must_serve()
            if time.monotonic() > deadline:
                raise ExperimentFailed(
                    FailedStep.DEPLOY,
                    f"the server did not answer at {self._health} within {time.monotonic() - began:.0f} s; "
                    f"its last lines:\n{self.last_lines()}",
                )
            look()
            time.sleep(LOOK_S)

    def must_serve(self) -> None:
        """Raise if the attempt that was waited for no longer runs; the job may be running again as another attempt."""
        job = self._client.jobs.get(self._id)
        if job.ended:
            raise self._failed(job)
        if (ended := next((one for one in job.members if one.phase is Phase.SUCCEEDED), None)) is not None:
            # Such an end stops no other member, and the others wait for this one.
            said = f"member {ended.rank} on {ended.node} ended with 0 while others ran"
            raise ExperimentFailed(FailedStep.DEPLOY, f"{said}; the last lines:\n{self.last_lines()}")
        if job.phase != "RUNNING" or job.attempts != self._attempt:
            # The next attempt gets another port, and this one may be given to another process.
            self._url = None
            raise GpusTakenAway(job.reason or "the job was stopped for others")

    def gpu_info(self, gpus: int) -> dict[str, Any] | None:
        return gpu_info_of(self._client.jobs.get(self._id), gpus)

    def gpu_figures(self, began_at: float, ended_at: float) -> Mapping[str, Any]:
        try:
            found = self._client.jobs.gpus_window(self._id, began_at, ended_at)
        except CorralError as error:
            # The figures of the load are known all the same.
            log.warning("job %s: its GPUs are not known from %.0f to %.0f: %s", self._id, began_at, ended_at, error)
            return {}
        return gpus_of_level(ended_at - began_at, found.gpus)

    def last_lines(self) -> str:
        """Return the end of the output, of a gang with the rank before each line."""
        rank = log_rank(self._client.jobs.get(self._id))
        return "".join(self._client.jobs.logs(self._id, tail=LAST_LINES, rank=rank)).strip() or "(none)"

    def end(self, why: str) -> None:
        """End the job, so that its GPUs are free."""
        with suppress(Conflict):
            self._client.jobs.cancel(self._id, why)
        self._client.wait(self._id, _END_S)

    def _failed(self, job: JobDetail) -> ExperimentFailed:
        """Return the error for an ended job, with the server's last lines."""
        diagnosis = self._client.jobs.why(self._id).diagnosis or ""
        how = job.reason or (
            f"the server ended with {exit_code_in_words(job.exit_code, job.signal)}"
            if job.exit_code is not None
            else f"the server's job is {job.phase}"
        )
        parts = [how, *([diagnosis] if diagnosis else []), f"its last lines:\n{self.last_lines()}"]
        if self._never_began(job):
            return NothingDeploys("; ".join(parts))
        memory = "memory" in diagnosis.lower()
        return ExperimentFailed(FailedStep.MEMORY if memory else FailedStep.DEPLOY, "; ".join(parts))

    def _never_began(self, job: JobDetail) -> bool:
        """Return whether no server ever ran. The exit code is the same for a container that a user removed."""
        if job.phase == "FAILED" and job.started_at is None and _NO_IMAGE.search(job.reason or ""):
            # The registry failed at each start, or a cluster has waited long enough for the image.
            return not self._has_served
        self._read_address()
        without_container = job.exit_code == _NO_CONTAINER and self._url is None
        return (without_container or job.exit_code in (CANNOT_RUN, NOT_FOUND)) and not self._has_served

    def _read_address(self) -> None:
        """Read the address from the newest matching line of the log: earlier attempts had other addresses.

        Each node has a log of the attempts there.
        """
        for block in self._client.jobs.logs_bytes(self._id, offset=self._offsets.get(self._node, 0)):
            self._offsets[self._node] = self._offsets.get(self._node, 0) + len(block)
            *whole, self._line = (self._line + block).split(b"\n")
            for line in whole:
                self._url = _url_in(line.decode(errors="replace").strip()) or self._url


class ServerWork(NamedTuple):
    """The work of a serving job; with a container its command runs inside."""

    command: tuple[str, ...]
    env: Mapping[str, str]
    workdir: str
    container: Container | None = None


class PrintedWork(NamedTuple):
    """The work of a serving job that a person submits.

    Attributes:
        options: options of `corral run` beside those of the request, for a shell.
        env_names: the variables that the shell must have. Their values may be secrets, so they are not printed.
    """

    options: str
    env_names: Sequence[str]
    command: tuple[str, ...]


def log_rank(job: JobDetail) -> Literal[0, "all"]:
    """Return the rank for the whole log of a server's job."""
    return "all" if len(job.members) > 1 else 0


class JobMode(ABC):
    """A mode in which the server of an experiment is a job."""

    chooses_gpus = True

    def check(self, spec: TuningSpec, engine: InferenceEngine) -> None:
        """Refuse parameters with which the server would not be where the tuner looks for it."""
        for name in spec.parameters:
            if engine.sets_itself(name):
                field = f"parameters.{name}"
                raise Refused(f"{field}: Corral gives each server its own; leave it out", field=field)

    @abstractmethod
    def work(self, spec: TuningSpec, engine: InferenceEngine, parameters: Mapping[str, Any]) -> ServerWork:
        """Return the job's work. HOST and PORT in its command stand for the server's address."""

    @abstractmethod
    def printed(self, spec: TuningSpec, engine: InferenceEngine, parameters: Mapping[str, Any]) -> PrintedWork:
        """Return the same work for a person, with an address that does not change."""

    def service(
        self, spec: TuningSpec, engine: InferenceEngine, parameters: Mapping[str, Any], gpus: WantedGpus
    ) -> ServiceWanted | None:
        """Return None: nothing of it is in a cluster."""
        return None

    def serving_command(
        self, spec: TuningSpec, engine: InferenceEngine, parameters: Mapping[str, Any], gpus: WantedGpus
    ) -> str:
        way = self.way_over_nodes(spec, engine, parameters, gpus.request.gang_size)
        printed = self.printed(spec, engine, parameters if way is None else {**way.options, **parameters})
        command = printed.command if way is None else ("sh", "-c", way.line(printed.command, {}))
        words = [*gpu_words(gpus), *_terms(spec)]
        env = [word for name in printed.env_names for word in ("--env", name)]
        return f"corral run {shell_line([*words, *env])} {printed.options} -- {shell_line(command)}"

    def known(self, task: Deployed, row: ExperimentRow) -> Deployment | None:
        name = _name_of(task, row)
        job_id = row.job_id or _submitted_before(task.client, name, row.created_at)
        return None if job_id is None else ServingJob(task.client, job_id, name, task.engine.health)

    def deploy(self, task: Deployed, row: ExperimentRow, gpus: WantedGpus) -> Deployment:
        spec, name, members = task.spec, _name_of(task, row), gpus.request.gang_size
        work = self._member_work(spec, task.engine, row.parameters, members)
        submission = Submission(
            command=(*_holder(in_image=work.container is not None), *work.command),
            name=name,
            request=gpus.request,
            exclusive=gpus.exclusive,
            env=work.env,
            workdir=work.workdir,
            container=work.container,
            queue=spec.queue,
            project=spec.project,
            time_limit_s=2 * task.timeout_s + 600.0,
        )
        try:
            return ServingJob(task.client, task.client.submit(submission).id, name, task.engine.health)
        except Forbidden as forbidden:
            raise NothingDeploys(str(forbidden)) from None
        except Refused as refused:
            if members > 1:
                raise ExperimentFailed(FailedStep.NOT_RUNNABLE, _refused_gang(refused, members)) from None
            if refused.field in _OF_ALL:
                raise NothingDeploys(str(refused)) from None
            kept = f"not runnable on {gpus.kept}, to which the task keeps: " if gpus.kept else ""
            no_gang = f"; {gpus.not_over_nodes}" if gpus.not_over_nodes else ""
            raise ExperimentFailed(FailedStep.NOT_RUNNABLE, f"{kept}{refused}{no_gang}") from None

    def version(self, spec: TuningSpec, engine: InferenceEngine) -> Version | None:
        """Return the version of the engine of a task, None if it is not known."""
        return None

    def why_not_over_nodes(
        self, spec: TuningSpec, engine: InferenceEngine, parameters: Mapping[str, Any], members: int
    ) -> str | None:
        return why_not_over_nodes(engine, parameters, members, self.version(spec, engine))

    def _member_work(
        self, spec: TuningSpec, engine: InferenceEngine, parameters: Mapping[str, Any], members: int
    ) -> ServerWork:
        """Return the work of each member."""
        way = self.way_over_nodes(spec, engine, parameters, members)
        if way is None:
            return self.work(spec, engine, parameters)
        work = self.work(spec, engine, {**way.options, **parameters})
        # The holder of the port replaces the last two words, which the shell has as "$1" and "$2".
        line = way.line(work.command, {HOST: '"$1"', PORT: '"$2"'})
        return work._replace(command=("sh", "-c", line, "sh", HOST, PORT))

    def way_over_nodes(
        self, spec: TuningSpec, engine: InferenceEngine, parameters: Mapping[str, Any], members: int
    ) -> OverNodes | None:
        """Return the way of a combination that runs on this number of nodes, None if that is one."""
        way = way_over_nodes(engine, parameters, self.version(spec, engine)) if members > 1 else None
        return way if isinstance(way, OverNodes) else None


def _refused_gang(refused: Refused, members: int) -> str:
    """Return why a gang is refused. Experiments on one node may not be."""
    remedy = '; in the file of the task that is docker.network, such as "host"' if refused.field == "network" else ""
    return f"it needs {members} nodes: {refused}{remedy}"


def gpu_words(gpus: WantedGpus) -> Iterator[str]:
    """Yield the options of `corral run` that ask for the same GPUs."""
    request = gpus.request
    yield from ("--exclusive",) if gpus.exclusive else ("--gpus", str(request.devices))
    if request.gang_size > 1:
        yield from ("--gang", str(request.gang_size), "--spread")
    if request.models:
        yield from ("--gpu-model", ",".join(request.models))
    if request.min_memory_mib is not None:
        yield from ("--min-memory", f"{request.min_memory_mib}M")
    if request.power_limit_w is not None:
        yield from ("--power-limit", str(request.power_limit_w))
    for flag, values in (
        ("--node", request.named_nodes),
        ("--device", request.device_uuids),
        ("--label", map("=".join, request.labels)),
        ("--prefer", map("=".join, request.prefers)),
    ):
        for value in values:
            yield from (flag, value)


def _terms(spec: TuningSpec) -> Iterator[str]:
    """Yield the options for a queue and a project that are not the default ones."""
    for flag, name, default in (("--queue", spec.queue, _DEFAULT.queue), ("--project", spec.project, _DEFAULT.project)):
        if name != default:
            yield from (flag, name)


def _name_of(task: Deployed, row: ExperimentRow) -> str:
    return f"tune-{task.task_id}-exp{row.experiment_id}"


def _submitted_before(client: Client, name: str, since: float) -> str | None:
    """Return the id of the job with this name submitted since then (Unix seconds), None if there is none."""
    found = client.jobs.list(all=True, user="me", name=name, since=since)
    return next((row.id for row in found if (row.submitted_at or 0.0) >= since), None)


def _holder(*, in_image: bool) -> tuple[str, ...]:
    """Return the command that finds the address and then becomes the server."""
    if in_image:
        # An image has no Corral, but inference servers need Python.
        text = files("corral.features.tuner.deployments").joinpath("port_holder.py").read_text()
        return ("python3", "-I", "-c", text, place())
    return (sys.executable, "-I", "-m", "corral.features.tuner.deployments.port_holder", place())


def _url_in(line: str) -> str | None:
    """Return the address in a line of the port holder, None for any other line."""
    host, colon, port = line.removeprefix(SAYS).rpartition(":")
    if not (line.startswith(SAYS) and colon and port.isascii() and port.isdigit()):
        return None
    try:
        return f"http://{ipaddress.IPv4Address(host)}:{int(port)}"
    except ValueError:
        return None
