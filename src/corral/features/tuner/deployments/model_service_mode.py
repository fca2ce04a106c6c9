"""The modes `ome` and `kserve`: an InferenceService for each experiment, whose pods get their GPUs from Kubernetes.

The tuner uses the cluster like its user does with `corral deploy`: with the same controllers and the user's kubeconfig.
A service is identified by its name and by a mark of its experiment. So the next tuner finds it, and ends it.
"""

import hashlib
import logging
import os
import re
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from corral.core.model.errors import BackendFailed, Conflict, CorralError, Forbidden, NotFound, Refused, nearest
from corral.features.services.selection import NodeSelection, command_words
from corral.features.services.service_wanted import MOUNT_PATH, ModelClaim, ServiceWanted, deploy_words
from corral.features.tuner.answers import ExperimentRow
from corral.features.tuner.deployments.deployment import (
    Deployed,
    Deployment,
    Endpoint,
    ExperimentFailed,
    GpusTakenAway,
    Look,
    NothingDeploys,
    WantedGpus,
)
from corral.features.tuner.deployments.health import is_healthy, served_model
from corral.features.tuner.deployments.shell_line import shell_line
from corral.features.tuner.engines.inference_engine import InferenceEngine
from corral.features.tuner.measuring.gpu_records import course_of, gpus_of_level, windows_of
from corral.features.tuner.model.tuning_spec import GPU_OPTIONS, TuningSpec
from corral.features.tuner.search.trial import FailedStep

if TYPE_CHECKING:
    # These are imported late: most tuners, and a server that checks a task, do not use a cluster.
    from corral.engines.kubernetes.cluster.client import Cluster
    from corral.engines.kubernetes.inventory.readings.cluster_readings import ReadingSources
    from corral.features.services.controllers import ServiceController
    from corral.features.services.service_pods import ServicePods
    from corral.features.services.service_status import ServiceState
    from corral.features.tuner.deployments.service_gpus import ServiceGpus

log = logging.getLogger("corral.tuner")

LAST_LINES = 20
MARK = "corral.dev/experiment"
"""The annotation by which a tuner recognizes the service of an experiment."""

_TASK_LABEL, _EXPERIMENT_LABEL = "autotuner.io/task", "autotuner.io/experiment-id"
_LOOK_S = 0.5
_REACHED_S = 60.0
_END_S = 120.0
_MOST_TASK_NAME = 40
_OF_TUNER = ("KUBECONFIG", "CORRAL_PROMETHEUS_URL")
"""Variables of a task that are the tuner's own. The server of an experiment does not get them."""

_OF_ALL = frozenset({"kubeconfig", "model", "name", "namespace", "runtime", "via"})


class Seen(NamedTuple):
    """A service at one moment; `pods` is None if they may not be listed."""

    state: "ServiceState"
    pods: "ServicePods | None"

    @property
    def taken_away(self) -> bool:
        return self.pods is not None and bool(self.pods.going) and not self.pods.alive

    @property
    def surely_ready(self) -> bool:
        """Whether the pod is ready too: the operator may not know yet that a pod was deleted."""
        server = None if self.pods is None else self.pods.server
        return self.state.state == "ready" and (self.pods is None or (server is not None and server[1].ready))


class ModelService:
    """The service of one experiment."""

    def __init__(
        self, cluster: "Cluster", controller: "ServiceController", sources: "ReadingSources", name: str, task: Deployed
    ) -> None:
        self._cluster = cluster
        self._controller = controller
        self._sources = sources
        self._name = name
        self._namespace = task.spec.model.namespace
        self._health = task.engine.health
        self._operator_s = task.timeout_s
        self._pods: ServicePods | None = None
        self._gpus: ServiceGpus | None = None
        self._served_by: frozenset[str] = frozenset()

    @property
    def noted(self) -> Mapping[str, str]:
        return {"service_name": self._name}

    def make(self, wanted: ServiceWanted, selection: NodeSelection) -> None:
        """Create the service. Raises as the controller does."""
        self._controller.deploy(wanted, selection)

    def take_over(self, mark: str, env: Mapping[str, str]) -> bool:
        """Return whether a service of this name exists that was created with this mark.

        A tuner that was killed may have created it without its variables: it gets them now.
        """
        from corral.features.services.service_env import give_env

        try:
            found = self._cluster.get(self._controller.kind.services, self._name, self._namespace)
        except NotFound:
            return False
        if (found["metadata"].get("annotations") or {}).get(MARK) != mark:
            return False
        give_env(self._cluster, found, env)
        return True

    def await_gpus(self, timeout_s: float | None, look: Look) -> None:
        """Wait until one of its pods has a node. The operator may take the time limit of an experiment to create
        pods.
        """
        since = time.monotonic()
        while True:
            state, pods = self._seen()
            if pods is None or pods.node is not None or (state.state == "ready" and not self._served_by):
                return
            waited_s = time.monotonic() - since
            if pods.alive and timeout_s is not None and waited_s > timeout_s:
                said = f"Insufficient GPUs after waiting {timeout_s:g} s: {pods.why_no_place}"
                raise ExperimentFailed(FailedStep.DEPLOY, said)
            if not pods.alive and waited_s > self._operator_s:
                said = f"there is no pod of {self._name} after {waited_s:.0f} s: {state.why}"
                raise ExperimentFailed(FailedStep.DEPLOY, said)
            look()
            time.sleep(_LOOK_S)

    def await_ready(self, deadline: float, look: Look) -> Endpoint:
        began = time.monotonic()
        ready_at: float | None = None
        while True:
            seen = self._seen()
            if seen.state.state == "ready" and (endpoint := self._answering(seen)) is not None:
                self._watch_gpus()
                return endpoint
            ready_at = (ready_at or time.monotonic()) if seen.surely_ready else None
            if ready_at is not None and time.monotonic() - ready_at > _REACHED_S:
                raise NothingDeploys(_unreached(self._name, seen.state))
            if seen.taken_away:
                raise GpusTakenAway(f"the pods of {self._name} were taken away")
            if time.monotonic() > deadline:
                said = f"{self._name} was not ready within {time.monotonic() - began:.0f} s: {seen.state.why}"
                raise ExperimentFailed(FailedStep.DEPLOY, f"{said}; its last lines:\n{self.last_lines()}")
            look()
            time.sleep(_LOOK_S)

    def must_serve(self) -> None:
        _, pods = self._seen()
        if pods is not None and self._served_by and not self._served_by & pods.uids:
            raise GpusTakenAway(f"the pods of {self._name} were taken away")

    def gpu_info(self, gpus: int) -> dict[str, Any] | None:
        """Kubernetes does not tell which GPUs of a node these are; readings may."""
        from corral.features.tuner.deployments.service_gpus import gpu_info_of_service

        return gpu_info_of_service(self._gpu_model(), gpus, {} if self._gpus is None else self._gpus.now())

    def gpu_figures(self, began_at: float, ended_at: float) -> Mapping[str, Any]:
        """No server records these GPUs, so their course is a part of the figures."""
        window = began_at, ended_at
        read = {} if self._gpus is None else self._gpus.readings(*window)
        return {**gpus_of_level(ended_at - began_at, windows_of(read, window)), **course_of(read, window)}

    def last_lines(self) -> str:
        from corral.features.services.service_pods import last_lines

        server = None if self._pods is None else self._pods.dead or self._pods.server
        return "(none)" if server is None else last_lines(self._cluster, *server, LAST_LINES)

    def end(self, why: str) -> None:
        """Raise BackendFailed if something of it is left."""
        from corral.features.services.service_pods import find_pods

        until = time.monotonic() + _END_S
        while True:
            with suppress(NotFound):
                self._controller.delete_inference_service(self._name, self._namespace)
            pods = find_pods(self._cluster, self._controller.kind, self._name, self._namespace)
            left = pods is not None and bool(pods.alive or pods.going)
            if not left and not self._controller.has(self._name, self._namespace):
                break
            if time.monotonic() > until:
                raise BackendFailed(f"{self._name} in namespace {self._namespace} is not gone after {_END_S:.0f} s")
            time.sleep(_LOOK_S)
        self.close()

    def close(self) -> None:
        """Close the connections to the cluster."""
        if self._gpus is not None:
            self._gpus.close()
        self._controller.close()

    def _seen(self) -> Seen:
        """Return the current state. Raises ExperimentFailed as soon as it is clear that the service will not serve."""
        from corral.features.services.service_pods import death_in_words, find_pods

        try:
            state = self._controller.state(self._name, self._namespace)
        except NotFound:
            raise ExperimentFailed(FailedStep.DEPLOY, f"{self._name} was removed, and not by Corral") from None
        # While the API server does not answer, the last known state counts.
        with suppress(BackendFailed):
            self._pods = find_pods(self._cluster, self._controller.kind, self._name, self._namespace)
        if self._pods is not None and self._pods.why_no_image is not None:
            raise NothingDeploys(f"the image of the runtime cannot be had: {self._pods.why_no_image}")
        if self._pods is not None and self._pods.dead is not None:
            _, container = self._pods.dead
            step = FailedStep.MEMORY if container.reason == "OOMKilled" else FailedStep.DEPLOY
            raise ExperimentFailed(step, f"{death_in_words(container)}; its last lines:\n{self.last_lines()}")
        if state.state == "failed":
            said = f"{self._name} cannot become ready: {state.why}"
            raise ExperimentFailed(FailedStep.DEPLOY, f"{said}; its last lines:\n{self.last_lines()}")
        return Seen(state, self._pods)

    def _watch_gpus(self) -> None:
        from corral.features.tuner.deployments.service_gpus import ServiceGpus

        if self._gpus is None:
            self._gpus = ServiceGpus(
                self._cluster, self._sources, lambda: () if self._pods is None else self._pods.alive
            )

    def _answering(self, seen: Seen) -> Endpoint | None:
        """Return the first of its addresses that answers from here."""
        for url in filter(None, (seen.state.url, seen.state.inner_url)):
            if is_healthy(url, self._health) or is_healthy(url, "/v1/models"):
                self._served_by = frozenset() if seen.pods is None else seen.pods.uids
                return Endpoint(url.rstrip("/"), served_model(url))
        return None

    def _gpu_model(self) -> str | None:
        from corral.engines.kubernetes.cluster.client import Selection
        from corral.engines.kubernetes.cluster.gpu_resources import gpu_labels
        from corral.engines.kubernetes.cluster.node_facts import read_node
        from corral.engines.kubernetes.cluster.resource import NODES

        if self._pods is None or self._pods.node is None:
            return None
        try:
            # The node is listed, not read, because users that choose nodes may list them.
            (found,) = self._cluster.list(NODES, Selection(fields=f"metadata.name={self._pods.node}"))
            return gpu_labels(read_node(found)).product
        except (Forbidden, BackendFailed, ValueError):
            return None


class ModelServiceMode:
    """Services of one operator, named as in `corral deploy --via`."""

    chooses_gpus = False

    def __init__(self, via: str) -> None:
        self._via = via

    def check(self, spec: TuningSpec, engine: InferenceEngine) -> None:
        for key in GPU_OPTIONS:
            if getattr(spec, key):
                raise Refused(f"{key}: Kubernetes chooses the GPUs of model services; leave it out", field=key)
        if _claim(spec) is not None and self._via == "kserve" and "mount_path" in (spec.storage or {}):
            raise Refused(
                "storage.mount_path: KServe mounts a claim at /mnt/models; leave it out", field="storage.mount_path"
            )

    def known(self, task: Deployed, row: ExperimentRow) -> Deployment | None:
        try:
            service = self._service(task, row)
            if service.take_over(_mark(task, row), server_env(task.spec)):
                return service
            service.close()
        except (Refused, Forbidden) as error:
            if row.service_name is None:
                raise NothingDeploys(str(error)) from None
            # The service may still exist. A tuner that can read it again ends it.
            raise BackendFailed(f"{row.service_name} cannot be looked at: {error}") from None
        return None

    def deploy(self, task: Deployed, row: ExperimentRow, gpus: WantedGpus) -> Deployment:
        wanted = replace(
            self.service(task.spec, task.engine, row.parameters, gpus),
            name=_name_of(task.spec, row.experiment_id),
            annotations={MARK: _mark(task, row)},
            labels={_TASK_LABEL: _task_name(task.spec), _EXPERIMENT_LABEL: str(row.experiment_id)},
        )
        try:
            service = self._service(task, row)
            try:
                service.make(wanted, task.spec.gpu_selection)
            except CorralError:
                service.close()
                raise
        except (NotFound, Forbidden, Conflict) as error:
            raise NothingDeploys(str(error)) from None
        except Refused as error:
            if error.field in _OF_ALL:
                raise NothingDeploys(str(error)) from None
            raise ExperimentFailed(FailedStep.NOT_RUNNABLE, str(error)) from None
        return service

    def why_not_over_nodes(
        self, spec: TuningSpec, engine: InferenceEngine, parameters: Mapping[str, Any], members: int
    ) -> str | None:
        return f"a service of {self._via} is not spread over nodes here"

    def service(
        self, spec: TuningSpec, engine: InferenceEngine, parameters: Mapping[str, Any], gpus: WantedGpus
    ) -> ServiceWanted:
        return ServiceWanted(
            _task_name(spec),
            spec.model.namespace,
            spec.model.id_or_path,
            spec.base_runtime,
            engine.options(parameters),
            gpus=gpus.used,
            env=server_env(spec),
            claim=_claim(spec),
            queue=spec.queue,
            project=spec.project,
        )

    def serving_command(
        self, spec: TuningSpec, engine: InferenceEngine, parameters: Mapping[str, Any], gpus: WantedGpus
    ) -> str:
        words = deploy_words(self._via, self.service(spec, engine, parameters, gpus))
        return shell_line([*words, *command_words(spec.gpu_selection)])

    def _service(self, task: Deployed, row: ExperimentRow) -> ModelService:
        """Return the experiment's service, which may not exist yet. Raises Refused if there is no cluster."""
        from corral.engines.kubernetes.cluster.client import Cluster
        from corral.engines.kubernetes.cluster.kubeconfig import find_access
        from corral.features.services.controllers import CONTROLLERS
        from corral.features.services.watched_gpus import reading_sources

        named = {name: text for name, text in task.spec.env.items() if name in _OF_TUNER}
        environ = {**os.environ, **named}
        cluster, sources = Cluster(find_access(environ=environ)), reading_sources(task.spec.gpu_selection, environ)
        controller = CONTROLLERS[self._via](
            cluster, sources=sources, say=lambda text: log.info("%s", text), client=task.client
        )
        # A measurement is of its own time, whatever the choice of the node was made by.
        now = replace(sources, window_s=0)
        return ModelService(cluster, controller, now, _name_of(task.spec, row.experiment_id), task)


def server_env(spec: TuningSpec) -> dict[str, str]:
    """Return the variables of the server, without those of the tuner itself."""
    return {name: value for name, value in spec.env.items() if name not in _OF_TUNER}


def _claim(spec: TuningSpec) -> ModelClaim | None:
    """Return the claim in a task's `storage`. Raises Refused."""
    if not spec.storage:
        return None
    known = ("type", "pvc_name", "pvc_subpath", "mount_path")
    for key, value in spec.storage.items():
        if key not in known:
            raise Refused(f"storage.{key} is not known; {nearest(key, known)}", field=f"storage.{key}")
        if not isinstance(value, str):
            raise Refused(f"storage.{key}: {value!r:.40} is no text", field=f"storage.{key}")
    if spec.storage.get("type") != "pvc" or not spec.storage.get("pvc_name"):
        raise Refused('storage: write {"type": "pvc", "pvc_name": ..., "pvc_subpath": ...}', field="storage")
    return ModelClaim(
        spec.storage["pvc_name"], spec.storage.get("pvc_subpath", ""), spec.storage.get("mount_path", MOUNT_PATH)
    )


def _mark(task: Deployed, row: ExperimentRow) -> str:
    """Return the mark that differs from marks of other Corral servers, and of experiments before a restart of the
    task.
    """
    try:
        machine = Path("/etc/machine-id").read_bytes().strip()
    except OSError:
        machine = b""
    server = hashlib.sha256(machine + str(task.client.address).encode()).hexdigest()[:12]
    return f"{row.id}-{server}"


def _name_of(spec: TuningSpec, number: int) -> str:
    return f"{_task_name(spec)}-exp{number}"


def _task_name(spec: TuningSpec) -> str:
    """Return the task's name, changed to be valid for a service and a label."""
    name = re.sub(r"[^a-z0-9]+", "-", spec.task_name.lower()).strip("-")
    named = name if name[:1].isalpha() else f"task-{name}"
    return named[:_MOST_TASK_NAME].rstrip("-")


def _unreached(name: str, state: "ServiceState") -> str:
    urls = [url for url in (state.url, state.inner_url) if url]
    if not urls:
        return f"{name} is ready, and its operator gives it no address: the cluster needs an ingress"
    return (
        f"{name} is ready, but does not answer from the host of Corral's server at {' or '.join(urls)}: "
        "have its address resolved and reached there, or run the server within the cluster"
    )
