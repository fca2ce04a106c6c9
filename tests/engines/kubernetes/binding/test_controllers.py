"""Pods that the real controllers make of Jobs, JobSets' Jobs, Deployments and StatefulSets that name Corral."""

import subprocess
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from corral.core.model.jobs.phase import Phase
from corral.engines.kubernetes.binding.binder import JOBSETS
from corral.engines.kubernetes.cluster.client import Cluster, Selection
from corral.engines.kubernetes.cluster.errors import AlreadyExists, NoSuchObject
from corral.engines.kubernetes.cluster.resource import PODS, ResourceType
from tests.engines.kubernetes.binding.site import Site, pod_of_others, site
from tests.engines.kubernetes.control_plane import ControlPlane, controller_manager_arguments, run_program
from tests.engines.kubernetes.manifests import CUSTOM_RESOURCE_DEFINITIONS, JOBS

DEPLOYMENTS = ResourceType("apps", "v1", "deployments", "Deployment")
STATEFUL_SETS = ResourceType("apps", "v1", "statefulsets", "StatefulSet")
MAKERS = "job,deployment,replicaset,statefulset"
"""Other controllers would touch what other tests have in the same cluster."""


@pytest.fixture
def place(control_plane: ControlPlane, cluster: Cluster, namespace: str, tmp_path: Path) -> Iterator[Site]:
    kubeconfig = control_plane.kubeconfig(tmp_path / "controllers.kubeconfig")
    arguments = controller_manager_arguments(kubeconfig, MAKERS)
    controllers = run_program("kube-controller-manager", arguments, tmp_path / "controllers.log")
    try:
        with site(cluster, namespace, tmp_path / "home") as running:
            yield running
    finally:
        controllers.terminate()
        with suppress(subprocess.TimeoutExpired):
            controllers.wait(20)
        controllers.kill()


class Makers:
    """What makes pods in a namespace, and these pods as their kubelets would have them."""

    def __init__(self, place: Site, namespace: str) -> None:
        self.place = place
        self.namespace = namespace

    def make(
        self, kind: ResourceType, name: str, *, gpus: int, annotations: dict[str, str] | None = None, **spec: Any
    ) -> None:
        pod = pod_of_others("", self.namespace, gpus=gpus, annotations=annotations)
        labels = {"app": name, **spec.pop("labels", {})}
        if kind is not JOBS:
            spec["selector"] = {"matchLabels": {"app": name}}
            pod["spec"]["restartPolicy"] = "Always"
        template = {"metadata": {"labels": labels, "annotations": pod["metadata"]["annotations"]}, "spec": pod["spec"]}
        body = {"metadata": {"name": name}, "spec": {**spec, "template": template}}
        self.place.cluster.create(kind, body, self.namespace)

    def change(self, kind: ResourceType, name: str, **spec: Any) -> None:
        self.place.cluster.patch(kind, name, {"spec": spec}, self.namespace)

    def pods(self, name: str) -> list[dict[str, Any]]:
        """Those that are not being deleted."""
        found = self.place.cluster.list(PODS, Selection(self.namespace, labels=f"app={name}"))
        return [pod for pod in found if "deletionTimestamp" not in pod["metadata"]]

    def bound(self, name: str, count: int) -> list[str]:
        """The names of its pods, once so many are bound, and are ready."""
        self.place.eventually(lambda: [bool(pod["spec"].get("nodeName")) for pod in self.pods(name)] == [True] * count)
        names = [pod["metadata"]["name"] for pod in self.pods(name)]
        for pod in names:
            ready = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
            # A ready pod may replace another, which goes then.
            with suppress(NoSuchObject):
                self.place.cluster.patch(PODS, pod, {"status": ready}, self.namespace, subresource="status")
        return names

    def phases(self) -> dict[str, Phase]:
        """Of each job, by what its pods are called."""
        return {job.spec.name.removeprefix(f"{self.namespace}/"): job.phase for job in self.place.all_jobs()}


def test_what_controllers_make_is_bound_scaled_replaced_and_finished(
    place: Site, cluster: Cluster, namespace: str
) -> None:
    # One test: to start the controllers takes longer than what is seen of them, and two of them would make all twice.
    makers = Makers(place, namespace)
    a_job_runs_its_pods_as_a_gang_and_completes(makers)
    the_jobs_of_a_jobset_start_together(makers)
    a_deployment_is_scaled_and_rolled_over(makers)
    a_stateful_set_makes_its_pods_one_by_one_and_anew(makers)
    assert not place.server.ledger.view().allocations


def a_job_runs_its_pods_as_a_gang_and_completes(makers: Makers) -> None:
    gang = {"corral.dev/gang": "pair", "corral.dev/gang-size": "2"}
    makers.make(JOBS, "train", gpus=8, annotations=gang, parallelism=2, completions=2)
    pods = makers.bound("train", 2)
    assert len({pod["spec"]["nodeName"] for pod in makers.pods("train")}) == 2
    assert list(makers.phases()) == ["pair"]
    for pod in pods:
        makers.place.ended(pod, makers.namespace)
    makers.place.eventually(lambda: makers.phases()["pair"] is Phase.SUCCEEDED)
    makers.place.eventually(
        lambda: makers.place.cluster.get(JOBS, "train", makers.namespace)["status"].get("succeeded") == 2
    )


def the_jobs_of_a_jobset_start_together(makers: Makers) -> None:
    cluster, namespace = makers.place.cluster, makers.namespace
    define_jobsets(makers.place)
    jobs = [{"name": name, "replicas": 1, "template": {"spec": {"parallelism": 1}}} for name in ("driver", "worker")]
    cluster.create(JOBSETS, {"metadata": {"name": "set"}, "spec": {"replicatedJobs": jobs}}, namespace)
    labels = {"jobset.sigs.k8s.io/jobset-name": "set"}
    makers.make(JOBS, "set-driver-0", gpus=8, labels=labels)
    makers.place.eventually(lambda: len(makers.pods("set-driver-0")) == 1)
    makers.make(JOBS, "set-worker-0", gpus=8, labels=labels)
    for pod in (*makers.bound("set-driver-0", 1), *makers.bound("set-worker-0", 1)):
        makers.place.ended(pod, namespace)
    makers.place.eventually(lambda: makers.phases().get("set") is Phase.SUCCEEDED)


def define_jobsets(place: Site) -> None:
    schema = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
    names = {"plural": JOBSETS.plural, "singular": "jobset", "kind": JOBSETS.kind}
    versions = [{"name": JOBSETS.version, "served": True, "storage": True, "schema": schema}]
    spec = {"group": JOBSETS.group, "names": names, "scope": "Namespaced", "versions": versions}
    with suppress(AlreadyExists):
        place.cluster.create(CUSTOM_RESOURCE_DEFINITIONS, {"metadata": {"name": str(JOBSETS)}, "spec": spec})
    place.eventually(lambda: is_served(place.cluster, JOBSETS))


def is_served(cluster: Cluster, resource: ResourceType) -> bool:
    try:
        cluster.page(resource, limit=1)
    except NoSuchObject:
        return False
    return True


def a_deployment_is_scaled_and_rolled_over(makers: Makers) -> None:
    makers.make(DEPLOYMENTS, "serve", gpus=3, replicas=1)
    (first,) = makers.bound("serve", 1)
    makers.change(DEPLOYMENTS, "serve", replicas=3)
    assert first in makers.bound("serve", 3)
    makers.change(DEPLOYMENTS, "serve", replicas=1)
    makers.place.eventually(lambda: list(makers.phases().values()).count(Phase.CANCELLED) == 2)
    (kept,) = makers.bound("serve", 1)
    (template,) = (pod["spec"]["containers"] for pod in makers.pods("serve"))
    container = {key: template[0][key] for key in ("name", "resources")}
    makers.change(DEPLOYMENTS, "serve", template={"spec": {"containers": [{**container, "image": "serve:2"}]}})
    makers.place.eventually(lambda: len(makers.pods("serve")) == 2)
    makers.bound("serve", 2)
    makers.place.eventually(lambda: makers.phases()[kept] is Phase.CANCELLED)
    (new,) = makers.bound("serve", 1)
    makers.change(DEPLOYMENTS, "serve", replicas=0)
    makers.place.eventually(lambda: makers.phases()[new] is Phase.CANCELLED)


def a_stateful_set_makes_its_pods_one_by_one_and_anew(makers: Makers) -> None:
    makers.make(STATEFUL_SETS, "ranks", gpus=8, replicas=2, serviceName="ranks")
    assert makers.bound("ranks", 1) == ["ranks-0"]
    makers.place.eventually(lambda: len(makers.pods("ranks")) == 2)
    assert makers.bound("ranks", 2) == ["ranks-0", "ranks-1"]
    before = makers.pods("ranks")[0]["metadata"]["uid"]
    makers.place.cluster.delete(PODS, "ranks-0", makers.namespace)
    makers.place.eventually(lambda: before not in [pod["metadata"]["uid"] for pod in makers.pods("ranks")])
    makers.bound("ranks", 2)
    makers.change(STATEFUL_SETS, "ranks", replicas=0)
    makers.place.eventually(lambda: not makers.pods("ranks") and not makers.place.server.ledger.view().allocations)
