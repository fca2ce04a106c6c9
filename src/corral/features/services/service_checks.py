"""Checks of model services for `corral doctor --engine kubernetes`."""

from collections.abc import Sequence

from corral.core.model.units import count_of
from corral.engines.kubernetes.cluster.pod_facts import PodFacts
from corral.engines.kubernetes.doctor import SHOWN, Examined, more_of
from corral.features.services.controllers import CONTROLLERS
from corral.features.services.service_kinds import KINDS
from corral.features.services.service_status import DeployedService
from corral.formatting.check_result import OK, WARNING, CheckResult


def check_operators(examined: Examined) -> CheckResult:
    """Check which operators of model services are installed."""
    installed = [
        KINDS[via].title
        for via, controller in CONTROLLERS.items()
        if controller(examined.cluster).installed(examined.cluster.namespace)
    ]
    found = f"{' and '.join(installed)} installed" if installed else "neither OME nor KServe is installed"
    return CheckResult("services", OK, found, "" if installed else "only `corral deploy` needs one of them")


def check_services(examined: Examined) -> CheckResult:
    """Check whether each service runs on the node chosen for it, and is ready."""
    cluster = examined.cluster
    controllers = [one for kind in CONTROLLERS.values() if (one := kind(cluster)).installed(cluster.namespace)]
    rows = [row for one in controllers for row in one.deployments(cluster.namespace)]
    pods = () if examined.gpus is None else examined.gpus.pods
    troubled = [(row, why) for row in rows if (why := _trouble(row, pods)) is not None]
    if not troubled:
        return CheckResult("deployed", OK, f"{count_of(len(rows), 'service')} in namespace {cluster.namespace}")
    row = troubled[0][0]
    found = "; ".join(f"{one.name}: {why}" for one, why in troubled[:SHOWN]) + more_of(len(troubled))
    advice = f"kubectl -n {row.namespace} describe pods -l {KINDS[row.via].pod_label}={row.name}"
    return CheckResult("deployed", WARNING, found, advice)


def _trouble(row: DeployedService, pods: Sequence[PodFacts]) -> str | None:
    if row.node is not None and row.affinity is None:
        return f"it was to run on {row.node}, and its affinity is gone"
    label = KINDS[row.via].pod_label
    own = [pod for pod in pods if pod.namespace == row.namespace and pod.labels.get(label) == row.name]
    elsewhere = sorted({pod.node for pod in own if pod.node is not None and row.node not in (None, pod.node)})
    if elsewhere:
        how = "is not applied" if row.affinity == "required" else "is only preferred"
        return f"it was to run on {row.node} and runs on {', '.join(elsewhere)}: the affinity {how}"
    return None if row.state.state == "ready" else f"{row.state.state}: {row.state.why}"
