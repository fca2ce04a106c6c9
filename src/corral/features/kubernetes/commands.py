"""Commands that prepare a Kubernetes cluster."""

from __future__ import annotations

from corral.cli.declaring import DeclaredCommand, DeclaredOptions, flag, path, text, whole

TYPE_CHECKING = False
if TYPE_CHECKING:
    from pathlib import Path


class WhichCluster(DeclaredOptions):
    """The cluster."""

    kubeconfig: str | None = text("--kubeconfig", metavar="FILE", help="Default: $KUBECONFIG, or ~/.kube/config.")
    context: str | None = text("--context", metavar="C", help="Context of the kubeconfig, instead of its current one.")


class PublishResourcesCommand(
    DeclaredCommand,
    runs="corral.features.kubernetes.run_commands.publish_resources",
    takes=WhichCluster,
    examples=("corral kubernetes publish-resources --dry-run",),
):
    """Write the server's resource names into the cluster, where other systems read them.

    Each is a ConfigMap "cf-crl-GROUP-KEY" in the namespace kube-public. Definitions that somebody else made there are
    left as they are. It needs the rights get, list, create and patch on configmaps of kube-public.
    """

    dry_run: bool = flag("--dry-run", help="Print the ConfigMaps that would be written, and write nothing.")


class ExtenderConfigCommand(
    DeclaredCommand,
    runs="corral.features.kubernetes.run_commands.extender_config",
    examples=(
        "corral kubernetes extender-config https://10.96.7.7:7443 --kubernetes-version 1.20",
        "corral kubernetes extender-config https://10.96.7.7:7443 --merge /etc/kubernetes/scheduler-config.yaml",
    ),
):
    """Print the configuration by which kube-scheduler asks a server of Corral for its pods with GPUs.

    The server must listen at the URL with --tls-cert and --tls-client-ca. kube-scheduler has no DNS of the cluster:
    write an address. The paths are those on the machine of kube-scheduler, to which --config names the file. With
    --merge a file that is there is printed with the extender added, or renewed; comments are lost.

    v1beta1 was tried with kube-scheduler 1.20; the other versions are written from the published types.
    """

    url: str | None = text(metavar="URL", help="Where the server listens, as https://HOST:PORT.")
    kubernetes_version: str | None = text(
        "--kubernetes-version", metavar="V", help="Version of kube-scheduler, such as 1.20; default 1.25 or newer."
    )
    merge: Path | None = path("--merge", metavar="FILE", help="Add the extender to this configuration.")
    kubeconfig: str = text(
        "--scheduler-kubeconfig", metavar="FILE", default="/etc/kubernetes/scheduler.conf", help="Its kubeconfig."
    )
    ca: str = text("--ca", metavar="FILE", default="/etc/kubernetes/pki/corral-ca.crt", help="CA of the server.")
    cert: str = text(
        "--cert", metavar="FILE", default="/etc/kubernetes/pki/corral-scheduler.crt", help="Its own certificate."
    )
    key: str = text("--key", metavar="FILE", default="/etc/kubernetes/pki/corral-scheduler.key", help="Its own key.")


class NodeAgentCommand(
    DeclaredCommand,
    runs="corral.features.kubernetes.run_commands.agent",
    examples=("corral kubernetes agent --server https://corral.corral-system:7443 --ca-file /etc/corral/ca.crt",),
):
    """Report the devices of the node on which this runs to a server, every few seconds. A DaemonSet runs it.

    It shows the token that the kubelet projects into its pod, of the audience corral and the service account that the
    server's setting kubernetes.agent_account names. Without the extra kubelet, or without the directory pod-resources
    of the kubelet, the server does not learn which pod has which device.

    With --device-plugin it also offers the devices to the kubelet, and gives pods those that were planned for them. It
    serves no resource that another device plugin serves on the node. How devices are shared is said by --config.
    """

    server: str | None = text("--server", metavar="URL", help="Where the server listens, as https://HOST:PORT.")
    token_file: Path | None = path(
        "--token-file", metavar="FILE", help="The token of the pod. Default: /var/run/secrets/corral/token."
    )
    ca_file: Path | None = path("--ca-file", metavar="FILE", help="Certificates to trust; default the system's.")
    node: str | None = text("--node", metavar="NAME", help="Name of the node. Default: $NODE_NAME.")
    kubelet_dir: Path | None = path("--kubelet-dir", metavar="DIR", help="Default: /var/lib/kubelet.")
    node_labels: bool = flag("--node-labels", help="Label the node with the versions for which programs may be built.")
    mock: Path | None = path("--mock", metavar="FILE", help="Use the mock devices in this file, not real ones.")
    device_plugin: bool = flag("--device-plugin", help="Offer the devices to the kubelet; needs the extra kubelet.")
    config: Path | None = path("--config", metavar="FILE", help="Settings, of which those on sharing devices count.")
    home: Path | None = path(
        "--home", metavar="DIR", help="Where it keeps what it gave, a path of the host. Default: /var/lib/corral."
    )


class WebhookConfigCommand(
    DeclaredCommand,
    runs="corral.features.kubernetes.run_commands.webhook_config",
    examples=("corral kubernetes webhook-config https://10.96.7.7:7443 --ca ca.crt | kubectl apply -f -",),
):
    """Print the two configurations by which an API server asks a server of Corral about pods with GPUs.

    In namespaces with the label corral.dev/admission=enabled they get Corral as their scheduler, and queue and project
    by the labels corral.dev/queue and corral.dev/project of the namespace. Those that can never run are refused. The
    server must listen at the URL with --tls-cert. API servers know no DNS of the cluster: write an address.
    """

    url: str | None = text(metavar="URL", help="Where the server listens, as https://HOST:PORT.")
    ca: Path | None = path("--ca", metavar="FILE", help="CA of the server's certificate, which the output has.")
    failure_policy: str = text(
        "--failure-policy", metavar="P", default="Ignore", help="Ignore lets pods in if nobody answers; or Fail."
    )
    timeout: int = whole("--timeout", metavar="S", default=3, help="Seconds after which nobody has answered.")


class KubernetesCommand(
    DeclaredCommand,
    commands={
        "publish-resources": PublishResourcesCommand,
        "extender-config": ExtenderConfigCommand,
        "webhook-config": WebhookConfigCommand,
        "agent": NodeAgentCommand,
    },
    examples=("corral kubernetes publish-resources --dry-run",),
):
    """Prepare a Kubernetes cluster for a server of Corral."""
