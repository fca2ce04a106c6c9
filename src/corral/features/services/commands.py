"""Commands for model services on Kubernetes."""

from __future__ import annotations

from corral.cli.declaring import DeclaredCommand, DeclaredOptions, flag, number, text, whole


class ClusterFlags(DeclaredOptions):
    """The cluster, and the namespace of services."""

    namespace: str | None = text(
        "--namespace", "-n", metavar="N", help="Namespace of the service; default: that of the context."
    )
    kubeconfig: str | None = text("--kubeconfig", metavar="FILE", help="Default: $KUBECONFIG, or ~/.kube/config.")
    context: str | None = text("--context", metavar="C", help="Context of the kubeconfig, instead of its current one.")


class SelectionOptions(ClusterFlags):
    """The cluster, and how the node of a service is chosen in it: the options of `NodeSelection`."""

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
    runs="corral.features.services.run_commands.service_commands.deploy",
    takes=SelectionOptions,
    examples=(
        "corral deploy chat --via ome --model llama-3-2-1b-instruct \\",
        "      --runtime sglang-llama-small --param tp-size=2",
        "corral deploy --from 17",
    ),
):
    """Deploy a model service on the node with the most idle GPUs.

    Waits until it is ready, and prints its address; fails as soon as its operator says that it cannot become ready.

    With --from, the service is as the best experiment of a task of the autotuner was, with the same parameters, GPUs,
    model, storage and variables, and by default its choice of nodes. The tasks of everybody will do, but those with
    variables only for their users and administrators. If the experiments of the task were jobs and not services of a
    cluster, nothing is deployed: it prints the command that serves the model as a job, and exits with 1.
    """

    name: str | None = text(metavar="[NAME]", help="The service's name; with --from by default the task's.")
    from_task: str | None = text("--from", metavar="TASK", help="Deploy the winner of this task of the autotuner.")
    experiment: int | None = whole(
        "--experiment", "-e", metavar="NO", help="With --from: this experiment in place of the winner.", least=1
    )
    via: str | None = text("--via", metavar="ome|kserve", help="The operator that runs it.")
    model: str | None = text("--model", metavar="M", help="A ClusterBaseModel of OME, or a storage URI for KServe.")
    runtime: str | None = text("--runtime", metavar="R", help="The serving runtime.")
    param: list[str] | None = text(
        "--param",
        metavar="KEY=VALUE",
        help="An option of the runtime; of tp, pp, dp, cp and dcp the sizes say how many GPUs.",
        many=True,
    )
    gpus: int | None = whole(
        "--gpus",
        metavar="N",
        help="Number of GPUs.  [default: by --param, else the runtime's, else 1]",
        least=1,
        most=1024,
    )
    env: list[str] | None = text(
        "--env", metavar="K[=V]", help="Set a variable of the server; K alone has the value of this shell.", many=True
    )
    claim: str | None = text(
        "--claim", metavar="PVC[/DIR]", help="The model is in this PersistentVolumeClaim, or in a directory of it."
    )
    mount_path: str | None = text(
        "--mount-path", metavar="DIR", help="Where OME's server finds the model of --claim.  [default: /model]"
    )
    queue: str | None = text(
        "--queue", metavar="Q", help="Queue of its job, if a server of Corral binds pods of this cluster."
    )
    project: str | None = text("--project", metavar="P", help="Project of that job.")
    dry_run: bool = flag("--dry-run", help="Print the objects, of variables the names alone, and create nothing.")
    detach: bool = flag("--detach", "-d", help="Do not wait until it is ready.")
    timeout: int = whole("--timeout", metavar="SECONDS", help="Longest wait.", default=1800)


class DeploymentsCommand(
    DeclaredCommand,
    runs="corral.features.services.run_commands.service_commands.deployments",
    takes=ClusterFlags,
    examples=("corral deployments --namespace serving",),
):
    """List the model services that Corral has deployed."""

    everywhere: bool = flag("--all-namespaces", "-A", help="List the services of every namespace.")
    json: bool = flag("--json", help="Print JSON.")


class UndeployCommand(
    DeclaredCommand,
    runs="corral.features.services.run_commands.service_commands.undeploy",
    takes=ClusterFlags,
    examples=("corral undeploy chat --namespace serving",),
):
    """Remove a model service that Corral has deployed, and free its GPUs."""

    name: str = text(metavar="NAME", help="The service's name.", required=True)
    via: str | None = text("--via", metavar="ome|kserve", help="The operator of the service.")
