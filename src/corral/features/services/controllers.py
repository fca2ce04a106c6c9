"""Deploys model services by OME or KServe on the node with the most idle GPUs; waits, lists and removes."""

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, ClassVar, Self
from uuid import uuid4

from corral.client import Client
from corral.core.model.errors import BackendFailed, Conflict, CorralError, NotFound, Refused
from corral.engines.kubernetes.cluster.client import Cluster, Json, Selection
from corral.engines.kubernetes.cluster.errors import AlreadyExists, MissingRight, NoSuchObject, ObjectChanged
from corral.engines.kubernetes.cluster.objects import mapping
from corral.engines.kubernetes.inventory.readings.cluster_readings import ReadingSources
from corral.features.services.hold_store import HoldStore
from corral.features.services.holds import service_key
from corral.features.services.manifests import (
    KUBERNETES_DECIDES,
    MANAGED_BY,
    PodPlacing,
    checked_name,
    service_shape,
)
from corral.features.services.node_choice import NodeChoice, NodeWanted, choose_node
from corral.features.services.parameters import gpus_in_parameters, runtime_arguments
from corral.features.services.planned_by_server import placed_by_planner, pod_scheduler, without_meaning
from corral.features.services.prerequisites import Prerequisites, find_prerequisites
from corral.features.services.selection import USUAL, NodeAffinity, NodeSelection, selection_of
from corral.features.services.selection_words import created_line, queued_block, selection_block
from corral.features.services.service_env import MARK_ANNOTATION, check_env_secret, give_env
from corral.features.services.service_kinds import KSERVE, OME, ServiceKind
from corral.features.services.service_rules import preferences_of, service_request
from corral.features.services.service_status import DeployedService, ServiceState, deployed_service, state_of
from corral.features.services.service_wanted import ServiceWanted
from corral.features.services.watched_gpus import list_cluster, reading_sources

READY_S = 1800.0
"""The time that a large model may take to be fetched and loaded."""

POLL_S = 2.0
CREATE_WAITS_S = (0.05, 0.1, 0.2, 0.4, 0.8)


class DeploymentFailed(BackendFailed):
    """The operator says that a service cannot become ready; the message has its reason."""


class DeploymentNotReady(BackendFailed):
    """A service was not ready in time. It stays deployed, and may become ready."""


def no_service(name: str, namespace: str, operator: str = "") -> NotFound:
    """Return the error of a service that is not there, or not one of this operator."""
    of = f" of {operator}" if operator else ""
    return NotFound(
        f"there is no service {name}{of} in namespace {namespace}; `corral deployments -A` lists all", field="name"
    )


class ServiceController:
    """Deploys services of one kind to one cluster.

    Args:
        cluster: the cluster; None for that of the usual kubeconfig.
        sources: the sources of readings beside dcgm-exporter; None are those of each selection.
        say: prints a line for the user.
        client: of a server of Corral. If it binds pods of this cluster, services become its jobs.
    """

    kind: ClassVar[ServiceKind]

    def __init__(
        self,
        cluster: Cluster | None = None,
        *,
        sources: ReadingSources | None = None,
        say: Callable[[str], object] = print,
        client: Client | None = None,
    ) -> None:
        self._cluster = cluster or Cluster.connect()
        self._sources = sources
        self._holds = HoldStore(self._cluster)
        self._say = say
        self._client = client

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections to the cluster, even if the caller gave it."""
        self._cluster.close()

    def deploy_inference_service(  # noqa: PLR0917 -- callers of the function that it replaces pass these by position
        self,
        task_name: str,
        experiment_id: str | int,
        namespace: str,
        model_name: str,
        runtime_name: str,
        parameters: Mapping[str, Any],
        enable_gpu_selection: bool = True,
        **options: Any,
    ) -> str:
        """Deploy the service `TASK_NAME-expEXPERIMENT_ID` and return its name; see `deploy`.

        `options` are those of `NodeSelection`, such as affinity="required".
        """
        wanted = ServiceWanted(
            f"{task_name}-exp{experiment_id}",
            namespace,
            model_name,
            runtime_name,
            parameters,
            {"corral.dev/task": str(task_name), "corral.dev/experiment": str(experiment_id)},
        )
        selection = selection_of(options if enable_gpu_selection else {**options, "affinity": "any"})
        self.deploy(wanted, selection)
        return wanted.name

    def deploy(
        self, wanted: ServiceWanted, selection: NodeSelection = USUAL, *, dry_run: bool = False
    ) -> dict[str, Any]:
        """Create the service, and return it as the API server has it. Does not wait until it is ready.

        Args:
            wanted: the service.
            selection: how its node is chosen.
            dry_run: the API server checks the service, and nothing is made or held.

        Raises:
            NotFound: the model or runtime is missing, or the operator is not installed.
            Conflict: a service has that name.
            Refused: a name or parameter is invalid, or the API server or a webhook does not accept the service.
            Forbidden: a right is missing; the message names it.
        """
        wanted = replace(wanted, annotations={**wanted.annotations, MARK_ANNOTATION: uuid4().hex})
        self._check(wanted)
        found = find_prerequisites(self._cluster, self.kind, wanted)
        self.kind.manifest(wanted, found.runtime, KUBERNETES_DECIDES)  # refused before anything is held
        check_env_secret(self._cluster, wanted.name, wanted.namespace, wanted.env)
        chooses = selection.affinity is not NodeAffinity.ANY
        placing = PodPlacing(preferences=preferences_of(selection))
        if chooses:
            placing = self._placing(wanted, found, selection, hold=not dry_run)
        node = None if placing.wish is None else placing.wish.node_name
        with self._released_if_refused(self._key(wanted), holds=node is not None and not dry_run):
            made = self._create(wanted, self.kind.manifest(wanted, found.runtime, placing), dry_run=dry_run)
        if not dry_run:
            give_env(self._cluster, made, wanted.env)
            self._say(("\n" if chooses else "") + created_line(wanted.name, wanted.namespace, node))
        return made

    def wait_for_ready(
        self, name: str, namespace: str, timeout_s: float = READY_S, *, poll_s: float = POLL_S
    ) -> str | None:
        """Return the service's address once it is ready; None if its operator gives it none.

        Raises DeploymentFailed as soon as the operator says that it cannot become ready, DeploymentNotReady when the
        time is up, and NotFound if it is removed meanwhile.
        """
        deadline_s = time.monotonic() + timeout_s
        while True:
            state = self.state(name, namespace)
            if state.state == "ready":
                return state.url
            if state.state == "failed":
                raise DeploymentFailed(f"{name} cannot become ready: {state.why}")
            if time.monotonic() + poll_s >= deadline_s:
                raise DeploymentNotReady(
                    f"{name} is not ready after {timeout_s:.0f} s, and stays deployed: {state.why};"
                    f" see: kubectl -n {namespace} get pods -l {self.kind.pod_label}={name}"
                )
            time.sleep(poll_s)

    def state(self, name: str, namespace: str) -> ServiceState:
        """Return the state of the service. While the API server does not answer, it counts as loading. Raises
        NotFound.
        """
        try:
            return state_of(self._found(name, namespace))
        except BackendFailed as error:
            return ServiceState("loading", str(error))

    def installed(self, namespace: str) -> bool:
        """Return whether the cluster has services of this kind. Raises MissingRight if they may not be listed."""
        try:
            self._cluster.page(self.kind.services, Selection(namespace), limit=1)
        except NoSuchObject:
            return False
        return True

    def has(self, name: str, namespace: str) -> bool:
        """Return whether a service has that name, whether Corral deployed it or not."""
        try:
            self._cluster.get(self.kind.services, name, namespace)
        except NoSuchObject:
            return False
        return True

    def deployments(self, namespace: str | None = None) -> list[DeployedService]:
        """The services that Corral has deployed, in a namespace or in all."""
        labels = ",".join(f"{key}={value}" for key, value in MANAGED_BY.items())
        items = self._cluster.list(self.kind.services, Selection(namespace, labels))
        rows = [deployed_service(self.kind, item) for item in items]
        return sorted(rows, key=lambda row: (row.namespace, row.name))

    def delete_inference_service(self, name: str, namespace: str) -> None:
        """Remove a service that Corral deployed, and its hold. Raises NotFound; Refused for a service that others
        deployed.
        """
        found = self._found(name, namespace)
        metadata = mapping(found.get("metadata"))
        if not MANAGED_BY.items() <= mapping(metadata.get("labels")).items():
            raise Refused(
                f"{name} in namespace {namespace} was not deployed by Corral, so it is not removed;"
                f" kubectl -n {namespace} delete {self.kind.services} {name} does it",
                field="name",
            )
        self._cluster.delete(self.kind.services, name, namespace, uid=str(metadata.get("uid")))
        self._release(service_key(self.kind.via, namespace, name))

    def _found(self, name: str, namespace: str) -> Json:
        """Return the service. Raises NotFound with what to do."""
        try:
            return self._cluster.get(self.kind.services, name, namespace)
        except NoSuchObject:
            raise no_service(name, namespace, self.kind.title) from None

    @contextmanager
    def _released_if_refused(self, service: str, *, holds: bool) -> Iterator[None]:
        try:
            yield
        except BackendFailed:
            raise  # it may have been made after all, and its pods may come: what it holds ends with its deadline
        except CorralError:
            if holds:
                self._release(service)
            raise

    def _check(self, wanted: ServiceWanted) -> None:
        checked_name(wanted.name)
        gpus_in_parameters(wanted.parameters, wanted.runtime_name)  # refused before anything is held
        runtime_arguments(wanted.parameters)
        try:
            self._cluster.get(self.kind.services, wanted.name, wanted.namespace)
        except (NoSuchObject, MissingRight):
            return
        raise self._exists(wanted)

    def _create(self, wanted: ServiceWanted, manifest: dict[str, Any], *, dry_run: bool) -> dict[str, Any]:
        """Create the service. If the name is taken, the mark tells an earlier try of ours, whose answer was lost, from
        another service.
        """
        mark = wanted.annotations[MARK_ANNOTATION]
        for wait_s in CREATE_WAITS_S:
            try:
                return self._cluster.create(self.kind.services, manifest, wanted.namespace, dry_run=dry_run)
            except AlreadyExists:
                break
            except ObjectChanged:  # a quota that others use at the same moment
                time.sleep(wait_s)
        else:
            raise BackendFailed(
                f"{wanted.name} was not created, because other clients changed its quota or limits at each attempt; "
                "try again"
            )
        there = self._cluster.get(self.kind.services, wanted.name, wanted.namespace)
        if mapping(mapping(there.get("metadata")).get("annotations")).get(MARK_ANNOTATION) != mark:
            raise self._exists(wanted)
        return there

    def _exists(self, wanted: ServiceWanted) -> Conflict:
        return Conflict(
            f"there is a service {wanted.name} in namespace {wanted.namespace} already; take another name, or first:"
            f" corral undeploy {wanted.name} --namespace {wanted.namespace}"
        )

    def _placing(
        self, wanted: ServiceWanted, found: Prerequisites, selection: NodeSelection, *, hold: bool
    ) -> PodPlacing:
        """Return where its pods are to run: as a server's planner will say, else on the node that is chosen now."""
        scheduler = pod_scheduler(self._client, self._cluster)
        if scheduler is None:
            choice = self._choose(wanted, found, selection, hold=hold)
            self._remark(*found.remarks, *choice.remarks)
            return PodPlacing(
                choice.wish(required=selection.affinity is NodeAffinity.REQUIRED), preferences_of(selection)
            )
        shape = service_shape(wanted.asked_gpus, found.rules)
        self._say(queued_block(shape.gpus, f"{wanted.namespace}/{wanted.name}"))
        self._remark(*found.remarks, *without_meaning(selection))
        return placed_by_planner(wanted, selection, scheduler, shape)

    def _remark(self, *remarks: str) -> None:
        for remark in remarks:
            self._say(f"Note: {remark}")

    def _choose(
        self, wanted: ServiceWanted, found: Prerequisites, selection: NodeSelection, *, hold: bool
    ) -> NodeChoice:
        shape = service_shape(wanted.asked_gpus, found.rules)
        sources = self._sources or reading_sources(selection)
        try:
            request = service_request(shape, found.rules, selection, found.ready_nodes)
            seen = list_cluster(self._cluster, sources, hosts=selection.count_hosts)
            node = NodeWanted(self._key(wanted), request, found.ready_nodes, selection.fallback)
            choice = choose_node(seen, self._holds, node, hold=hold)
        except (MissingRight, Refused) as error:
            choice = NodeChoice(None, why_none=str(error))
        required = selection.affinity is NodeAffinity.REQUIRED
        self._say(selection_block(shape.gpus, choice.summary, choice.why_none, choice.beside, required=required))
        if choice.summary is None and required:
            raise Conflict(f"no node can be required for {wanted.name}: {choice.why_none}")
        return choice

    def _key(self, wanted: ServiceWanted) -> str:
        return service_key(self.kind.via, wanted.namespace, wanted.name)

    def _release(self, service: str) -> None:
        try:
            self._holds.remove(service)
        except (MissingRight, ObjectChanged, BackendFailed):
            return  # its deadline ends it


class OMEController(ServiceController):
    """Deploys services by OME."""

    kind = OME


class KServeController(ServiceController):
    """Deploys services by KServe."""

    kind = KSERVE


CONTROLLERS: Mapping[str, type[ServiceController]] = {"ome": OMEController, "kserve": KServeController}
