"""`corral kubernetes`: prepare a cluster for a server."""

import os
import sys
from pathlib import Path

from corral.cli.local.server import own_python
from corral.cli.screen import say, write_lines
from corral.client import Client
from corral.core.model.errors import Refused
from corral.features.kubernetes import commands

AGENT = "corral.engines.kubernetes.agent.program"


def publish_resources(given: commands.PublishResourcesCommand) -> None:
    """Run `corral kubernetes publish-resources`."""
    import yaml

    from corral.engines.kubernetes.cluster.client import Cluster
    from corral.engines.kubernetes.resource_names.publishing import changes_to, write

    with Client() as client:
        names = client.resource_names()
    cluster = Cluster.connect(given.flags.kubeconfig, given.flags.context)
    changes = changes_to(cluster, names)
    if given.dry_run:
        bodies = [change.body for change in changes if change.writes]
        write_lines(*yaml.safe_dump_all(bodies, sort_keys=False, allow_unicode=True).splitlines() if bodies else ())
    for change in changes:
        if given.dry_run:
            say(str(change))
        else:
            write(cluster, change)
            write_lines(str(change))


def extender_config(given: commands.ExtenderConfigCommand) -> None:
    """Run `corral kubernetes extender-config`."""
    import yaml

    from corral.engines.kubernetes.cluster.gpu_resources import gpu_resources
    from corral.engines.kubernetes.extender import scheduler_file
    from corral.engines.kubernetes.shares.share_layers import counted_layers

    if given.url is None:
        raise Refused("the URL of the server is missing; write https://HOST:PORT", field="url")
    files = scheduler_file.SchedulerFiles(given.kubeconfig, given.ca, given.cert, given.key)
    parts = tuple(layer.known_by for layer in counted_layers())
    entry = scheduler_file.extender_entry(given.url, files, (*gpu_resources(), *parts))
    version = scheduler_file.api_version(given.kubernetes_version)
    if given.merge is None:
        document = scheduler_file.new_file(version, files, entry)
    else:
        document = scheduler_file.merged(_read_yaml(given.merge), entry, yields=parts)
    if document["apiVersion"] != scheduler_file.TRIED:
        say(f"{document['apiVersion']} is written from its published types, and was not tried with a kube-scheduler")
    write_lines(*yaml.safe_dump(document, sort_keys=False, allow_unicode=True).splitlines())


def webhook_config(given: commands.WebhookConfigCommand) -> None:
    """Run `corral kubernetes webhook-config`."""
    import yaml

    from corral.engines.kubernetes.admission.webhook_file import webhook_configurations

    if given.url is None or given.ca is None:
        raise Refused("write the URL of the server, https://HOST:PORT, and --ca with the CA of its certificate")
    try:
        authority = given.ca.read_bytes()
    except OSError as error:
        raise Refused(f"--ca: {given.ca} cannot be read: {error.strerror}", field="--ca") from None
    policy, timeout_s = given.failure_policy, given.timeout
    documents = webhook_configurations(given.url, authority, failure_policy=policy, timeout_s=timeout_s)
    write_lines(*yaml.safe_dump_all(documents, sort_keys=False).splitlines())


def agent(given: commands.NodeAgentCommand) -> None:
    """Run `corral kubernetes agent`."""
    if given.server is None:
        raise Refused("the server is missing; write --server https://HOST:PORT", field="--server")
    options: dict[str, object] = {
        "--server": given.server,
        "--token-file": given.token_file,
        "--ca-file": given.ca_file,
        "--node": given.node,
        "--kubelet-dir": given.kubelet_dir,
        "--mock": given.mock,
        "--config": given.config,
        "--home": given.home,
    }
    words = [word for option, value in options.items() if value is not None for word in (option, str(value))]
    words += ["--node-labels"] if given.node_labels else []
    words += ["--device-plugin"] if given.device_plugin else []
    os.execv(sys.executable, [*own_python(), "-m", AGENT, *words])


def _read_yaml(path: Path) -> object:
    import yaml

    try:
        return yaml.safe_load(path.read_text())
    except OSError as error:
        raise Refused(f"--merge: cannot read {path}: {error.strerror}", field="--merge") from None
    except (yaml.YAMLError, ValueError) as error:
        raise Refused(f"--merge: {path} is no YAML: {error!s:.200}", field="--merge") from None
