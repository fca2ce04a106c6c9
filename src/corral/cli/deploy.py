"""`corral deploy`, `corral deployments` and `corral undeploy`: model services on Kubernetes, without a server."""

from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from corral.cli.screen import command_group, example, print_json, say, write_lines
from corral.model.errors import Forbidden, NotFound, Refused

if TYPE_CHECKING:
    from corral.kubernetes.cluster.client import Cluster
    from corral.kubernetes.services.controllers import ServiceController
    from corral.kubernetes.services.deployed_services import DeployedService
    from corral.kubernetes.services.idle_nodes import Fallback

app = command_group()

Namespace = Annotated[
    str | None, typer.Option("--namespace", "-n", metavar="N", help="Of the service; default: that of the context.")
]
Kubeconfig = Annotated[
    str | None, typer.Option("--kubeconfig", metavar="FILE", help="Default: $KUBECONFIG, or ~/.kube/config.")
]
Context = Annotated[str | None, typer.Option("--context", metavar="C", help="Of the kubeconfig, instead of its own.")]
Via = Annotated[str | None, typer.Option("--via", metavar="ome|kserve", help="The operator of the service.")]


@app.command(
    epilog=example(
        "corral deploy chat --via ome --model llama-3-2-1b-instruct \\",
        "      --runtime sglang-llama-small --param tp-size=2",
    )
)
def deploy(
    name: Annotated[str, typer.Argument(metavar="NAME", help="The service's name.")],
    *,
    via: Annotated[str, typer.Option("--via", metavar="ome|kserve", help="The operator that is to run it.")],
    model: Annotated[
        str, typer.Option("--model", metavar="M", help="A ClusterBaseModel of OME, or a storage URI for KServe.")
    ],
    runtime: Annotated[str, typer.Option("--runtime", metavar="R", help="The serving runtime.")],
    param: Annotated[
        list[str] | None,
        typer.Option("--param", metavar="KEY=VALUE", help="An option of the runtime; tp-size is the number of GPUs."),
    ] = None,
    namespace: Namespace = None,
    node: Annotated[
        str,
        typer.Option("--node", metavar="preferred|required|any", help="Whether it should, or must, run where chosen."),
    ] = "preferred",
    fallback: Annotated[
        str,
        typer.Option(
            "--fallback",
            metavar="kubernetes|pin",
            help="Where no node has enough idle GPUs: who decides, or the calmest.",
        ),
    ] = "kubernetes",
    prometheus: Annotated[
        str | None,
        typer.Option(
            "--prometheus",
            envvar="CORRAL_PROMETHEUS_URL",
            show_envvar=False,
            metavar="URL",
            help="A Prometheus that scrapes dcgm-exporter, for readings.",
        ),
    ] = None,
    exec_nvidia_smi: Annotated[
        bool,
        typer.Option("--exec-nvidia-smi", help="Run nvidia-smi in pods with GPUs where nothing measures these."),
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print what would be made; make and hold nothing.")
    ] = False,
    detach: Annotated[bool, typer.Option("--detach", "-d", help="Do not wait until it is ready.")] = False,
    timeout: Annotated[int, typer.Option("--timeout", metavar="SECONDS", help="How long to wait.")] = 1800,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
) -> None:
    """Deploy a model service on the node with the most idle GPUs.

    Waits until it is ready, and prints its address; fails as soon as its operator says that it cannot become ready.
    """
    from corral.kubernetes.inventory.readings.cluster_readings import ReadingSources
    from corral.kubernetes.services.controllers import CONTROLLERS
    from corral.kubernetes.services.manifests import ServiceWanted
    from corral.kubernetes.services.parameters import parameters_from
    from corral.kubernetes.services.service_kinds import kind_via

    kind = kind_via(via)
    if node not in ("preferred", "required", "any"):
        raise Refused(f"--node {node!r} is not known: preferred, required or any", field="node")
    cluster = _connected(kubeconfig, context, namespace)
    controller = CONTROLLERS[kind.via](
        cluster, sources=ReadingSources(prometheus, exec_nvidia_smi), say=_say_lines if dry_run else _print
    )
    wanted = ServiceWanted(name, cluster.namespace, model, runtime, parameters_from(param or []))
    made = controller.deploy(
        wanted,
        select_node=node != "any",
        affinity="required" if node == "required" else "preferred",
        fallback=cast("Fallback", fallback),
        dry_run=dry_run,
    )
    if dry_run:
        write_lines(*_as_manifest(made))
    elif not detach:
        say(f"waiting until {name} is ready; it is deployed whether you wait or not")
        url = controller.wait_for_ready(name, cluster.namespace, timeout)
        write_lines(f"{name} is ready" + (f" at {url}" if url else ""))


@app.command(epilog=example("corral deployments --namespace serving"))
def deployments(
    namespace: Namespace = None,
    everywhere: Annotated[bool, typer.Option("--all-namespaces", "-A", help="In every namespace.")] = False,
    json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
) -> None:
    """List the model services that Corral has deployed."""
    from corral.cli.text_table import TextTable

    cluster = _connected(kubeconfig, context, namespace)
    rows = [row for one in _controllers(cluster) for row in one.deployments(None if everywhere else cluster.namespace)]
    if not (rows or everywhere):
        _require_namespace(cluster)
    if json:
        print_json(rows)
        return
    if not rows:
        where = "any namespace" if everywhere else f"namespace {cluster.namespace}"
        say(f"nothing is deployed by Corral in {where}")
        return
    table = TextTable(
        ["NAMESPACE", "NAME", "VIA", "STATE", "GPUS", "NODE", "MODEL", "ADDRESS OR REASON"], numeric=["GPUS"]
    )
    for row in rows:
        table.add(*_cells(row))
    write_lines(*table.lines())


@app.command(epilog=example("corral undeploy chat --namespace serving"))
def undeploy(
    name: Annotated[str, typer.Argument(metavar="NAME", help="The service's name.")],
    via: Via = None,
    namespace: Namespace = None,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
) -> None:
    """Remove a model service that Corral has deployed, and what it holds."""
    cluster = _connected(kubeconfig, context, namespace)
    found = [one for one in _controllers(cluster, via) if one.has(name, cluster.namespace)]
    if len(found) > 1:
        raise Refused(f"{name} is a service of OME and of KServe; say which with --via", field="via")
    if not found:
        _require_namespace(cluster)
        raise NotFound(
            f"there is no service {name} in namespace {cluster.namespace}; `corral deployments -A` lists all",
            field="name",
        )
    found[0].delete_inference_service(name, cluster.namespace)
    write_lines(f"Removed InferenceService '{name}' in namespace '{cluster.namespace}'")


def _as_manifest(made: dict[str, Any]) -> list[str]:
    """The service as a user would write it, in lines of YAML: without what the API server adds."""
    import yaml

    shown = {key: made[key] for key in ("apiVersion", "kind", "metadata", "spec") if key in made}
    written = ("name", "namespace", "labels", "annotations")
    shown["metadata"] = {key: value for key, value in made["metadata"].items() if key in written}
    return yaml.safe_dump(shown, sort_keys=False).splitlines()


def _connected(kubeconfig: str | None, context: str | None, namespace: str | None) -> "Cluster":
    from corral.kubernetes.cluster.client import Cluster

    return Cluster.connect(kubeconfig, context, namespace)


def _require_namespace(cluster: "Cluster") -> None:
    """Nothing was found in it: raises NotFound where it is not there at all."""
    from corral.kubernetes.cluster.rights import namespace_is_missing

    if namespace_is_missing(cluster):
        raise NotFound(
            f"{cluster} has no namespace {cluster.namespace}; `corral deployments -A` lists the services of all",
            field="namespace",
        )


def _controllers(cluster: "Cluster", via: str | None = None) -> "list[ServiceController]":
    """Those whose operator is installed, and whose services may be looked at."""
    from corral.kubernetes.services.controllers import CONTROLLERS
    from corral.kubernetes.services.service_kinds import kind_via

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
