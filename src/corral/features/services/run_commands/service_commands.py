"""`corral deploy`, `corral deployments` and `corral undeploy`: model services on Kubernetes, without a server."""

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from corral.cli.screen import print_json, say, write_lines
from corral.core.model.errors import CorralError, Forbidden, NotFound, Refused
from corral.features.services import commands

if TYPE_CHECKING:
    from corral.client import Client
    from corral.engines.kubernetes.cluster.client import Cluster
    from corral.features.services.controllers import ServiceController
    from corral.features.services.selection import NodeSelection
    from corral.features.services.service_status import DeployedService


def deploy(given: commands.DeployCommand) -> None:
    """Run `corral deploy`."""
    from corral.features.services.controllers import CONTROLLERS
    from corral.features.services.run_commands.deploy_flags import service_of_flags, service_of_task
    from corral.features.services.selection import USUAL
    from corral.features.services.service_kinds import kind_via

    selection = selection_given(given.flags)
    if given.from_task is None:
        via, wanted = service_of_flags(given)
    else:
        via, wanted, of_task = service_of_task(given)
        selection = of_task if selection == USUAL else selection
    kind = kind_via(via)
    cluster = _connected(given.flags, wanted.namespace)
    wanted = replace(wanted, namespace=cluster.namespace)
    controller = CONTROLLERS[kind.via](cluster, say=_say_lines if given.dry_run else _print, client=_server())
    made = controller.deploy(wanted, selection, dry_run=given.dry_run)
    if given.dry_run:
        write_lines(*_as_manifest(made))
    elif not given.detach:
        say(f"waiting until {wanted.name} is ready; it is deployed whether you wait or not")
        url = controller.wait_for_ready(wanted.name, cluster.namespace, given.timeout)
        write_lines(f"{wanted.name} is ready" + (f" at {url}" if url else ""))


def deployments(given: commands.DeploymentsCommand) -> None:
    """Run `corral deployments`."""
    from corral.cli.tables.text_table import TextTable

    cluster = _connected(given.flags)
    rows = [
        row for one in _controllers(cluster) for row in one.deployments(None if given.everywhere else cluster.namespace)
    ]
    if not (rows or given.everywhere):
        _require_namespace(cluster)
    if given.json:
        print_json(rows)
        return
    if not rows:
        where = "any namespace" if given.everywhere else f"namespace {cluster.namespace}"
        say(f"nothing is deployed by Corral in {where}")
        return
    table = TextTable(
        ["NAMESPACE", "NAME", "VIA", "STATE", "GPUS", "NODE", "MODEL", "ADDRESS OR REASON"], numeric=["GPUS"]
    )
    for row in rows:
        table.add(*_cells(row))
    write_lines(*table.lines())


def undeploy(given: commands.UndeployCommand) -> None:
    """Run `corral undeploy`."""
    from corral.features.services.controllers import no_service

    cluster = _connected(given.flags)
    found = [one for one in _controllers(cluster, given.via) if one.has(given.name, cluster.namespace)]
    if len(found) > 1:
        raise Refused(f"{given.name} is a service of OME and of KServe; say which with --via", field="via")
    if not found:
        _require_namespace(cluster)
        raise no_service(given.name, cluster.namespace)
    found[0].delete_inference_service(given.name, cluster.namespace)
    write_lines(f"Removed InferenceService '{given.name}' in namespace '{cluster.namespace}'")


def _server() -> "Client | None":
    """The server of this user's commands; None if none answers."""
    from corral.client import Client
    from corral.client.connecting.transport import NoServer

    try:
        client = Client()
        client.server()
    except NoServer:
        return None
    except CorralError as error:
        say(f"whether a server binds pods of this cluster is not known: {error}")
        return None
    return client


def selection_given(given: commands.SelectionOptions) -> "NodeSelection":
    """Return the selection that these options mean. Raises Refused."""
    from corral.core.model.units import parse_duration_s
    from corral.features.services.selection import selection_of

    options = {
        name: value
        for name in (
            *("affinity", "fallback", "utilization_threshold", "memory_threshold", "whole_nodes_last", "count_hosts"),
            *("prometheus_url", "exec_nvidia_smi"),
        )
        if (value := getattr(given, name)) is not None
    }
    options |= {"prefer_nodes": given.prefer_node or [], "prefer_labels": _labels(given.prefer or [])}
    if given.window is not None:
        options["window_s"] = parse_duration_s(given.window, field="window")
    return selection_of(options)


def _labels(words: list[str]) -> dict[str, str]:
    labels = {}
    for word in words:
        key, equals, value = word.partition("=")
        if not (key and equals):
            raise Refused(f"--prefer {word!r}: write a label of a node as KEY=VALUE", field="prefer")
        labels[key] = value
    return labels


def _as_manifest(made: dict[str, Any]) -> list[str]:
    """The service as a user would write it, in lines of YAML, without the fields that the API server adds.

    Of the variables of containers it has the names alone: a value may be a secret.
    """
    import yaml

    shown = {key: made[key] for key in ("apiVersion", "kind", "metadata", "spec") if key in made}
    written = ("name", "namespace", "labels", "annotations")
    shown["metadata"] = {key: value for key, value in made["metadata"].items() if key in written}
    return yaml.safe_dump(_without_values(shown), sort_keys=False).splitlines()


def _without_values(shown: Any) -> Any:
    if isinstance(shown, list):
        return [_without_values(one) for one in shown]
    if not isinstance(shown, dict):
        return shown
    kept = {key: _without_values(value) for key, value in shown.items()}
    if isinstance(shown.get("env"), list):
        kept["env"] = [{key: one[key] for key in one if key != "value"} for one in shown["env"]]
    return kept


def _connected(flags: commands.ClusterFlags, namespace: str = "") -> "Cluster":
    """The cluster. `namespace` is that of services unless the flags name another; "" is that of the context."""
    from corral.engines.kubernetes.cluster.client import Cluster

    return Cluster.connect(flags.kubeconfig, flags.context, flags.namespace or namespace or None)


def _require_namespace(cluster: "Cluster") -> None:
    """Raises NotFound if the namespace does not exist. It is called after nothing was found there."""
    from corral.engines.kubernetes.cluster.rights import namespace_is_missing

    if namespace_is_missing(cluster):
        raise NotFound(
            f"{cluster} has no namespace {cluster.namespace}; `corral deployments -A` lists the services of all",
            field="namespace",
        )


def _controllers(cluster: "Cluster", via: str | None = None) -> "list[ServiceController]":
    """The controllers with an installed operator, whose services this user may see. Raises NotFound or Forbidden."""
    from corral.features.services.controllers import CONTROLLERS
    from corral.features.services.service_kinds import kind_via

    kinds = list(CONTROLLERS) if via is None else [kind_via(via).via]
    found, refused = [], None
    for kind in kinds:
        controller = CONTROLLERS[kind](cluster)
        try:
            if controller.installed(cluster.namespace):
                found.append(controller)
        except Forbidden as error:
            refused = error
    if not found and refused is not None:
        raise refused
    if not found:
        raise NotFound(
            "neither OME nor KServe is installed in this cluster" if via is None else f"{via} is not installed"
        )
    return found


def _cells(row: "DeployedService") -> list[str]:
    gpus = "-" if row.gpus is None else str(row.gpus)
    told = row.state.url or row.state.why
    return [row.namespace, row.name, row.via, row.state.state, gpus, row.node or "any", row.model, told or "-"]


def _say_lines(text: str) -> None:
    for line in text.split("\n"):
        say(line)


def _print(text: str) -> None:
    write_lines(*text.split("\n"))
