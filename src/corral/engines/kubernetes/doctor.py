"""The checks of `corral doctor --engine kubernetes`: the cluster, our rights, nodes with GPUs, readings, pods.

Each check asks the cluster once and changes nothing. A problem comes with the command that corrects it.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache

from corral.core.model.errors import CorralError
from corral.core.model.units import count_of
from corral.core.sharing.definitions import Catalogue
from corral.engines.kubernetes.binding.lease_record import lease_name, read_lease
from corral.engines.kubernetes.binding.notices import NOT_QUEUED
from corral.engines.kubernetes.binding.pods_of_others import SCHEDULER
from corral.engines.kubernetes.claimed_devices import RESOURCE_CLAIMS, keep_claimed
from corral.engines.kubernetes.cluster.client import Cluster, Selection
from corral.engines.kubernetes.cluster.errors import MissingRight, NoSuchObject
from corral.engines.kubernetes.cluster.gpu_resources import gpu_resources, gpus_of
from corral.engines.kubernetes.cluster.node_facts import NodeFacts, read_node
from corral.engines.kubernetes.cluster.pod_facts import PodFacts, read_pod
from corral.engines.kubernetes.cluster.resource import (
    CONFIG_MAPS,
    EVENTS,
    LEASES,
    NODES,
    OWN_NAMESPACE,
    PERSISTENT_VOLUME_CLAIMS,
    PODS,
)
from corral.engines.kubernetes.cluster.rights import (
    BINDING,
    COMMANDS_IN_JOBS,
    HEARING_AGENTS,
    READING_NAMES,
    RUNNING_JOBS,
    SEEING,
    ServerRight,
    missing_rights,
    namespace_is_missing,
)
from corral.engines.kubernetes.inventory.cluster_gpus import ClusterGpus, NodeGpus, list_gpus
from corral.engines.kubernetes.inventory.pods_elsewhere import PodElsewhere, other_scheduler, warning_of
from corral.engines.kubernetes.inventory.readings.cluster_readings import EXPORTERS_ALONE, ReadingSources
from corral.engines.kubernetes.pod_troubles import Troubles, keep_for_troubles
from corral.engines.kubernetes.resource_names.defined import read_definition, with_definitions
from corral.engines.kubernetes.resource_names.publishing import ALL_DEFINITIONS
from corral.engines.kubernetes.resource_names.written import NAMESPACE
from corral.engines.kubernetes.shares.served_shares import contested, served_shares
from corral.engines.kubernetes.shares.share_layers import layer_of_resource
from corral.formatting.check_result import FAILURE, OK, WARNING, CheckResult

SEEING_GPUS = "to know GPUs"

RIGHTS: Mapping[str, Sequence[ServerRight]] = {
    SEEING_GPUS: SEEING,
    "to run jobs": RUNNING_JOBS,
    "to run commands inside jobs": COMMANDS_IN_JOBS,
    "to bind pods of others": BINDING,
    "to hear agents on nodes": HEARING_AGENTS,
    "to read resource names of the cluster": READING_NAMES,
    "to hold GPUs": [ServerRight(verb, CONFIG_MAPS, namespace=OWN_NAMESPACE) for verb in ("get", "create", "patch")],
    "to tell why pods of jobs do not begin": [ServerRight("list", EVENTS)],
    # Secrets are mounted too, but few sites let a server read them.
    "to find volumes missing when jobs are submitted": [
        ServerRight("get", one) for one in (PERSISTENT_VOLUME_CLAIMS, CONFIG_MAPS)
    ],
    "to read dcgm-exporter": [ServerRight("get", PODS, "proxy", everywhere=True)],
}
"""The rights that Corral can use, by purpose."""


SHOWN = 3
"""The most names shown of each kind; the rest are counted."""


@dataclass(frozen=True, slots=True)
class ServerHere:
    """The facts about the server of this home that the checks need.

    Attributes:
        scheduler: the scheduler name whose pods it binds.
        tag: the tag on its pods; None if no server has run yet.
        agent_account: the service account of the agents on nodes, "NAMESPACE/NAME".
        names: the resource names of its site; None if it has none of its own.
    """

    scheduler: str = SCHEDULER
    tag: str | None = None
    agent_account: str = "corral-system/corral-agent"
    names: Catalogue | None = None


NO_SERVER = ServerHere()


@dataclass(frozen=True, slots=True)
class Examined:
    """The cluster, as the checks see it.

    Attributes:
        gpus: its nodes and pods; None if they may not be listed.
    """

    cluster: Cluster
    gpus: ClusterGpus | None
    nodes: Sequence[NodeGpus] = field(default=())
    here: ServerHere = NO_SERVER


Check = Callable[[Examined], CheckResult]
NO_CHECKS: Mapping[str, Check] = {}


def examine(
    cluster: Cluster,
    sources: ReadingSources = EXPORTERS_ALONE,
    here: ServerHere = NO_SERVER,
    more: Mapping[str, Check] = NO_CHECKS,
) -> Iterator[CheckResult]:
    """Yield the result of each check, and of `more` checks. If the cluster does not answer, yield only that."""
    try:
        major, minor = cluster.version()
    except CorralError as error:
        yield CheckResult("cluster", FAILURE, str(error), "check it with: kubectl cluster-info")
        return
    yield CheckResult("cluster", OK, f"{cluster} is Kubernetes {major}.{minor}")
    try:
        gpus: ClusterGpus | None = list_gpus(cluster, sources)
    except MissingRight:
        gpus = None  # told by the check of rights
    except CorralError as error:
        yield CheckResult("cluster", FAILURE, str(error))
        return
    examined = Examined(cluster, gpus, () if gpus is None else gpus.nodes(), here)
    checks: dict[str, Check] = {"namespace": _namespace, "rights": _rights}
    if gpus is not None:
        checks |= {
            "nodes": _nodes,
            "slices": _slices,
            "shares": _shares,
            "taints": _taints,
            "readings": _readings,
            "pods": _pods,
        }
        checks |= {"schedulers": _schedulers}
    checks |= {"binding": _binding, "queued": _queued, "resource names": _resource_names}
    if gpus is not None:
        checks |= {"claims": _claims} | _troubles(cluster)
    for about, check in {**checks, **more}.items():
        try:
            yield check(examined)
        except CorralError as error:
            yield CheckResult(about, WARNING, str(error))


def _troubles(cluster: Cluster) -> dict[str, Check]:
    """Return the checks for known troubles. The pods and nodes are listed for the first of them."""

    @cache
    def results() -> Mapping[str, Callable[[], CheckResult]]:
        nodes = {node.name: node for node in cluster.read_all(NODES, read_node)}
        pods = [one for kept in cluster.read_all(PODS, keep_for_troubles) for one in kept]
        return Troubles(nodes, pods).results()

    def named(about: str) -> Check:
        return lambda _examined: results()[about]()

    return {about: named(about) for about in Troubles({}, ()).results()}


def _namespace(examined: Examined) -> CheckResult:
    name = examined.cluster.namespace
    if namespace_is_missing(examined.cluster):
        advice = f"kubectl create namespace {name}, or name another with --namespace"
        return CheckResult("namespace", FAILURE, f"there is no namespace {name}, where jobs and services are", advice)
    return CheckResult("namespace", OK, f"jobs and services are in {name}")


def _rights(examined: Examined) -> CheckResult:
    cluster = examined.cluster
    missing = {purpose: lacking for purpose, rights in RIGHTS.items() if (lacking := missing_rights(cluster, rights))}
    if not missing:
        return CheckResult("rights", OK, f"all {sum(map(len, RIGHTS.values()))} that Corral uses")
    told = "; ".join(
        f"{purpose}: {', '.join(_with_namespace(right, cluster) for right in rights)}"
        for purpose, rights in missing.items()
    )
    state = FAILURE if SEEING_GPUS in missing else WARNING
    advice = "bind the ClusterRole of docs/kubernetes.md to this user; what you do not use may be missing"
    return CheckResult("rights", state, f"missing {told}", advice)


def _with_namespace(right: ServerRight, cluster: Cluster) -> str:
    namespace = right.scope(cluster)
    return str(right) if namespace is None else f"{right} in {namespace}"


def _nodes(examined: Examined) -> CheckResult:
    nodes = examined.nodes
    if not nodes and not any(map(served_shares, _facts(examined))):
        gpu, vendor = next(iter(gpu_resources().items()))
        advice = f"install {vendor.kubernetes.plugin}; see: kubectl describe nodes | grep {gpu}"
        return CheckResult("nodes", FAILURE, f"no node offers {' or '.join(gpu_resources())}", advice)
    total, allocatable = sum(one.total_gpus for one in nodes), sum(one.allocatable_gpus for one in nodes)
    idle = sum(max(0, one.allocatable_gpus - one.requested_gpus) for one in nodes if one.unusable is None)
    found = f"{count_of(len(nodes), 'node')} with {count_of(total, 'GPU')}, {idle} of which no pod has asked for"
    if allocatable < total:
        sick = [one.node_name for one in nodes if one.allocatable_gpus < one.total_gpus]
        advice = f"look at the device plugin's log and dmesg there; kubectl describe node {sick[0]}"
        return CheckResult("nodes", WARNING, f"{found}; unhealthy ones on {_some(sick)}", advice)
    return CheckResult("nodes", OK, found)


def _slices(examined: Examined) -> CheckResult:
    """Check whether nodes offer slices or other parts of GPUs, which the planner ignores."""
    whole, domains = gpu_resources(), tuple(vendor.kubernetes.domain for vendor in gpu_resources().values())
    known = {*whole, *layer_of_resource()}
    of_kind: dict[str, list[str]] = {}
    for node in _facts(examined):
        for resource, count in node.allocatable.others.items():
            if count and resource not in known and resource.startswith(domains):
                of_kind.setdefault(resource, []).append(node.name)
    if not of_kind:
        return CheckResult("slices", OK, f"all devices are offered as {' or '.join(whole)}")
    found = "; ".join(f"{resource} of {_some(nodes)}" for resource, nodes in sorted(of_kind.items()))
    advice = f"Corral gives out {' or '.join(whole)} alone, which slices are with the strategy single"
    return CheckResult("slices", WARNING, f"no job or pod of Corral's gets {found}", advice)


def _shares(examined: Examined) -> CheckResult:
    """Check which nodes give parts of GPUs, and whether plugins fight over some."""
    facts = _facts(examined)
    fought = {one.name: names for one in facts if (names := contested(one))}
    if fought:
        node = min(fought)
        return CheckResult(
            "shares",
            WARNING,
            f"node {node} offers the same GPUs by {' and '.join(fought[node])}, so it gives no parts of GPUs"
            + (f", as {count_of(len(fought) - 1, 'other node')}" if len(fought) > 1 else ""),
            "leave one of the two plugins on the node: they do not know of each other and can give a GPU away twice",
        )
    by_layer: dict[str, list[str]] = {}
    for one in facts:
        if (served := served_shares(one)) is not None:
            by_layer.setdefault(served.layer.name, []).append(one.name)
    found = "; ".join(f"{layer} on {_some(sorted(nodes))}" for layer, nodes in sorted(by_layer.items()))
    return CheckResult("shares", OK, f"parts of GPUs are given by {found}" if found else "no node gives parts of GPUs")


def _facts(examined: Examined) -> list[NodeFacts]:
    return [read_node(item) for item in examined.cluster.list(NODES)]


def _taints(examined: Examined) -> CheckResult:
    closed = [one for one in examined.nodes if one.unusable is not None]
    if not closed:
        return CheckResult("taints", OK, "services may be put on every node with GPUs")
    found = "; ".join(f"{one.node_name}: {one.unusable}" for one in closed[:SHOWN]) + more_of(len(closed))
    advice = f"if that is not meant: kubectl describe node {closed[0].node_name} | grep -A 5 Taints"
    state = FAILURE if len(closed) == len(examined.nodes) else WARNING
    return CheckResult("taints", state, f"no service is put on {found}", advice)


def _readings(examined: Examined) -> CheckResult:
    assert examined.gpus is not None
    unmetered = [one.node_name for one in examined.nodes if not one.readings]
    remarks = "".join(f"; {remark}" for remark in examined.gpus.readings.remarks)
    if not unmetered:
        return CheckResult("readings", OK, f"of every node{remarks}")
    found = (
        f"none of {_some(unmetered)}, so the use of their GPUs is unknown, only the requests of pods are known{remarks}"
    )
    advice = (
        "run dcgm-exporter on every node with GPUs (NVIDIA's GPU operator does), or name a Prometheus that scrapes it"
    )
    return CheckResult("readings", WARNING, found, advice)


def _pods(examined: Examined) -> CheckResult:
    assert examined.gpus is not None
    having = [pod for pod in examined.gpus.pods if pod.node is not None and not pod.ended]
    waiting = [pod for pod in examined.gpus.pods if pod.node is None and not pod.ended]
    held = sum(gpus_of(pod.requests) for pod in having)
    found = f"{count_of(len(having), 'pod')} with {count_of(held, 'GPU')}"
    if not waiting:
        return CheckResult("pods", OK, found)
    first = waiting[0]
    waits = f"{count_of(len(waiting), 'pod')} with GPUs waiting, first {first.namespace}/{first.name}: {_why(first)}"
    return CheckResult("pods", WARNING, f"{found}; {waits}", f"kubectl -n {first.namespace} describe pod {first.name}")


def _binding(examined: Examined) -> CheckResult:
    """Check which server binds pods that name Corral as their scheduler."""
    here, pods = examined.here, f"pods with schedulerName {examined.here.scheduler}"
    try:
        record = read_lease(examined.cluster.get(LEASES, lease_name(here.scheduler), OWN_NAMESPACE))
    except NoSuchObject:
        record = None
    if record is None or not record.holder:
        return CheckResult("binding", OK, f"no server binds {pods} now", "corral up --engine kubernetes")
    if here.tag is None or record.tag == here.tag:
        whose = "" if here.tag is None else ", that of this home"
        return CheckResult("binding", OK, f"{pods} are bound by {record}{whose}")
    advice = f"`corral down` there, or another kubernetes: scheduler_name here; {record.where} renewed it last at"
    found = f"{pods} are bound by {record}, and not by the server of this home, which takes over when that has ended"
    return CheckResult("binding", WARNING, found, f"{advice} {record.renewed_at}")


def _schedulers(examined: Examined) -> CheckResult:
    """Check whether other schedulers give out GPUs of the same nodes."""
    assert examined.gpus is not None
    here = examined.here
    found = [
        PodElsewhere(who, (pod.namespace, pod.name), waits=pod.node is None)
        for pod in examined.gpus.pods
        if not pod.ended
        and gpus_of(pod.requests)
        and (who := other_scheduler(pod.scheduler, pod.labels, here.scheduler, here.tag)) is not None
    ]
    warning = warning_of(found, here.scheduler)
    if warning is None:
        return CheckResult("schedulers", OK, "no other scheduler gives out GPUs")
    told, _, advice = warning.partition(". Two schedulers")
    return CheckResult("schedulers", WARNING, told, f"two schedulers{advice}")


def _queued(examined: Examined) -> CheckResult:
    """Check whether pods name Corral as their scheduler but have no job. Such pods are in no listing."""
    pending = Selection(fields="status.phase=Pending")
    pods = [pod for item in examined.cluster.list(PODS, pending) if (pod := read_pod(item)).node is None]
    refused = [
        (pod, one.message or "")
        for pod in pods
        if (one := pod.condition("PodScheduled")) is not None and one.reason == NOT_QUEUED
    ]
    if not refused:
        return CheckResult("queued", OK, "Corral has refused no pod with it as its scheduler")
    told = "; ".join(f"{pod.namespace}/{pod.name}: {why}" for pod, why in refused[:SHOWN]) + more_of(len(refused))
    first = refused[0][0]
    advice = f"correct what made it, or: kubectl -n {first.namespace} delete pod {first.name}"
    return CheckResult("queued", WARNING, f"{count_of(len(refused), 'pod')} in no queue of Corral: {told}", advice)


def _resource_names(examined: Examined) -> CheckResult:
    """Check whether the definitions of resource names in the cluster make sense."""
    items = examined.cluster.list(CONFIG_MAPS, ALL_DEFINITIONS)
    found = [one for item in items if (one := read_definition(item)) is not None]
    _, wrong = with_definitions(examined.here.names, found)
    if not wrong:
        return CheckResult("resource names", OK, f"{count_of(len(found), 'ConfigMap')} of others define resource names")
    told = "; ".join(f"{one.config_map}: {why}" for one, why in wrong[:SHOWN]) + more_of(len(wrong))
    advice = f"kubectl -n {NAMESPACE} edit configmap {wrong[0][0].config_map}"
    return CheckResult("resource names", WARNING, f"{count_of(len(wrong), 'ConfigMap')} without effect: {told}", advice)


def _claims(examined: Examined) -> CheckResult:
    """Check whether claims have GPUs of nodes that offer them in another way, too."""
    try:
        kept = examined.cluster.read_all(RESOURCE_CLAIMS, keep_claimed)
    except NoSuchObject:
        return CheckResult("claims", OK, "this cluster has no ResourceClaims of version v1")
    offering = {one.node_name for one in examined.nodes if one.total_gpus}
    devices = sorted(one for claimed in kept for one in claimed if one.pool in offering)
    if not devices:
        return CheckResult("claims", OK, "no ResourceClaim has a GPU that a node offers to pods, too")
    found = _some([f"{one.claim} has {one.device} of {one.pool}" for one in devices])
    advice = (
        "leave GPUs of a node to one of the two, its device plugin or its DRA driver: Corral counts what pods request"
    )
    return CheckResult("claims", WARNING, f"GPUs can be given twice: {found}", advice)


def _why(pod: PodFacts) -> str:
    scheduled = pod.condition("PodScheduled")
    told = None if scheduled is None else scheduled.message
    return told or f"its scheduler ({pod.scheduler}) has said nothing yet"


def _some(names: Sequence[str]) -> str:
    return ", ".join(names[:SHOWN]) + more_of(len(names))


def more_of(count: int) -> str:
    """Return the words for the number of items that are not shown."""
    return f" and {count - SHOWN} more" if count > SHOWN else ""
