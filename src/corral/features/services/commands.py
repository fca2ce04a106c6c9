"""Commands for model services on Kubernetes."""

from __future__ import annotations

from corral.cli.declaring import DeclaredCommand, DeclaredOptions, flag, number, text, whole


class SelectionOptions(DeclaredOptions):
    """How the node of a service is chosen: the options of `NodeSelection`."""

    affinity: str = text(
        "--node",
        metavar="preferred|required|any",
        help="Prefer the chosen node, require it, or choose none.",
        default="preferred",
    )
    fallback: str = text(
        "--fallback",
        metavar="kubernetes|pin",
        help="If no node has enough idle GPUs: let Kubernetes decide, or pin to the least used.",
        default="kubernetes",
    )
    utilization_threshold: float | None = number(
        "--utilization-threshold", metavar="PERCENT", help="A GPU used so much or more is not idle; default: 30."
    )
    memory_threshold: float | None = number(
        "--memory-threshold",
        metavar="PERCENT",
        help="A GPU with so much memory in use or more is not idle; default: 50.",
    )
    prefer_node: list[str] | None = text(
        "--prefer-node", metavar="NODE", help="A node that comes first if it has enough idle GPUs.", many=True
    )
    prefer: list[str] | None = text(
        "--prefer", metavar="K=V", help="Nodes with this label come first if they have enough idle GPUs.", many=True
    )
    whole_nodes_last: bool = flag(
        "--whole-nodes-last", help="Rather a node in use than a free one, if the service needs a part of it."
    )
    count_hosts: bool = flag(
        "--count-hosts", help="Only nodes with room for the pod, and for the CPUs and memory that the runtime asks for."
    )
    window: str | None = text(
        "--window", metavar="TIME", help="Judge the use of GPUs over this time, as 1h, by Prometheus; default: now."
    )
    prometheus_url: str | None = text(
        "--prometheus",
        metavar="URL",
        help="A Prometheus that scrapes dcgm-exporter, for GPU readings; default: $CORRAL_PROMETHEUS_URL.",
    )
    exec_nvidia_smi: bool = flag("--exec-nvidia-smi", help="Run nvidia-smi in pods whose GPUs have no other readings.")


class DeployCommand(
    DeclaredCommand,
    runs="corral.features.services.run_commands.deploy",
    takes=SelectionOptions,
    examples=(
        "corral deploy chat --via ome --model llama-3-2-1b-instruct \\",
        "      --runtime sglang-llama-small --param tp-size=2",
    ),
):
    """Deploy a model service on the node with the most idle GPUs.

    Waits until it is ready, and prints its address; fails as soon as its operator says that it cannot become ready.
    """

    name: str = text(metavar="NAME", help="The service's name.", required=True)
    via: str = text("--via", metavar="ome|kserve", help="The operator that runs it.", required=True)
    model: str = text(
        "--model", metavar="M", help="A ClusterBaseModel of OME, or a storage URI for KServe.", required=True
    )
    runtime: str = text("--runtime", metavar="R", help="The serving runtime.", required=True)
    param: list[str] | None = text(
        "--param", metavar="KEY=VALUE", help="An option of the runtime; tp-size is the number of GPUs.", many=True
    )
    namespace: str | None = text(
        "--namespace", "-n", metavar="N", help="Namespace of the service; default: that of the context."
    )
    dry_run: bool = flag("--dry-run", help="Print the objects, and create nothing.")
    detach: bool = flag("--detach", "-d", help="Do not wait until it is ready.")
    timeout: int = whole("--timeout", metavar="SECONDS", help="Longest wait.", default=1800)
    kubeconfig: str | None = text("--kubeconfig", metavar="FILE", help="Default: $KUBECONFIG, or ~/.kube/config.")
    context: str | None = text("--context", metavar="C", help="Context of the kubeconfig, instead of its current one.")


class DeploymentsCommand(
    DeclaredCommand,
    runs="corral.features.services.run_commands.deployments",
    examples=("corral deployments --namespace serving",),
):
    """List the model services that Corral has deployed."""

    namespace: str | None = text(
        "--namespace", "-n", metavar="N", help="Namespace of the service; default: that of the context."
    )
    everywhere: bool = flag("--all-namespaces", "-A", help="List the services of every namespace.")
    json: bool = flag("--json", help="Print JSON.")
    kubeconfig: str | None = text("--kubeconfig", metavar="FILE", help="Default: $KUBECONFIG, or ~/.kube/config.")
    context: str | None = text("--context", metavar="C", help="Context of the kubeconfig, instead of its current one.")


class UndeployCommand(
    DeclaredCommand,
    runs="corral.features.services.run_commands.undeploy",
    examples=("corral undeploy chat --namespace serving",),
):
    """Remove a model service that Corral has deployed, and free its GPUs."""

    name: str = text(metavar="NAME", help="The service's name.", required=True)
    via: str | None = text("--via", metavar="ome|kserve", help="The operator of the service.")
    namespace: str | None = text(
        "--namespace", "-n", metavar="N", help="Namespace of the service; default: that of the context."
    )
    kubeconfig: str | None = text("--kubeconfig", metavar="FILE", help="Default: $KUBECONFIG, or ~/.kube/config.")
    context: str | None = text("--context", metavar="C", help="Context of the kubeconfig, instead of its current one.")
