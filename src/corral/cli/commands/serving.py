"""Commands for the server and the site."""

from __future__ import annotations

import corral
from corral.cli.declaring import DeclaredCommand, choice, flag, path, text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from pathlib import Path

MOCK_BOXES = f"{corral.__path__[0]}/host/telemetry/data"
"""The directory of the files with mock devices that come with Corral."""


class UpCommand(
    DeclaredCommand,
    runs="local.server.up",
    examples=(
        "corral up --detach",
        "corral up --listen 0.0.0.0:7878 --tls-cert c.pem --tls-key k.pem",
    ),
):
    """Start the server in $CORRAL_HOME (default ~/.corral).

    It listens on a Unix socket there. Jobs run on when the server stops; the next one takes them over.

    If the home had a ledger before and it is gone, the server does not start: put the ledger back, restore a backup
    ("corral help docs install"), or begin with an empty one by --anew. --anew is refused while anything of the
    earlier ledger runs.

    With --listen it also listens on TCP, where clients need a token: see "corral token".

    With --engine kubernetes its nodes are those of a cluster, and jobs run there as pods: see "corral help docs
    kubernetes".

    Settings are read from config.yaml there, lines such as "kill_grace: 30s": "corral help docs settings" lists them
    all. "corral help docs mock-devices" has the format of the file for --mock; "--mock cluster" are four nodes that
    come with Corral.
    """

    detach: bool = flag("--detach", "-d", help="Run in the background; return when it answers.")
    mock: Path | None = path(
        "--mock",
        metavar="[FILE]",
        help="Use eight mock devices, or those of the file, not real ones.",
        alone=f"{MOCK_BOXES}/mock-8gpu.toml",
    )
    engine: str | None = text("--engine", metavar="NAME", help="Where nodes come from: host, kubernetes.")
    kubeconfig: Path | None = path("--kubeconfig", metavar="FILE", help="Kubeconfig file; default as for kubectl.")
    context: str | None = text("--context", metavar="NAME", help="The context in the kubeconfig.")
    namespace: str | None = text("--namespace", metavar="NAME", help="Namespace of the pods of jobs.")
    listen: str | None = text("--listen", metavar="HOST:PORT", help="Also listen on TCP, for clients with a token.")
    tls_cert: Path | None = path("--tls-cert", metavar="FILE", help="TLS certificate (PEM) for --listen.")
    tls_key: Path | None = path("--tls-key", metavar="FILE", help="Private key of the certificate (PEM).")
    tls_client_ca: Path | None = path(
        "--tls-client-ca", metavar="FILE", help="CA (PEM) of the certificates of programs such as kube-scheduler."
    )
    insecure: bool = flag("--insecure", help="Allow other machines to connect without encryption.")
    anew: bool = flag("--anew", help="Move the files of an earlier ledger aside, and begin with an empty one.")


class DownCommand(DeclaredCommand, runs="local.server.down", examples=("corral down",)):
    """Stop the server in $CORRAL_HOME. Jobs run on."""


class DoctorCommand(
    DeclaredCommand,
    runs="local.doctor.doctor",
    examples=(
        "corral doctor",
        "corral doctor --engine kubernetes",
    ),
):
    """Check this machine and its server, and show what to fix.

    With CORRAL_URL set, it checks what a client needs, and asks the server for its nodes and GPUs.

    Exits with 1 if a problem keeps Corral from working; warnings do not count.
    """

    engine: str | None = text("--engine", metavar="kubernetes", help="Check a Kubernetes cluster instead.")
    kubeconfig: str | None = text("--kubeconfig", metavar="FILE", help="Default: $KUBECONFIG, or ~/.kube/config.")
    context: str | None = text("--context", metavar="C", help="Context of the kubeconfig.")
    namespace: str | None = text("--namespace", metavar="N", help="Namespace of jobs and services.")
    prometheus: str | None = text(
        "--prometheus", metavar="URL", help="A Prometheus that scrapes dcgm-exporter.", env="CORRAL_PROMETHEUS_URL"
    )
    json: bool = flag("--json", help="Print JSON.")


class ConfigCheckCommand(
    DeclaredCommand,
    runs="local.config.check",
    examples=(
        "corral config check",
        "corral config check cluster-config.yaml",
    ),
):
    """Check a settings file before a server reads it.

    Shows each mistake with its line, 20 at most, and exits with 2. Without mistakes, lists keys that have no effect
    yet, and GPUs, users and projects that do not exist.
    """

    file: Path | None = path(metavar="[FILE]", help="File to check.  [default: the home's config.yaml]")
    json: bool = flag("--json", help="Print JSON.")


class ConfigReloadCommand(DeclaredCommand, runs="site.config_reload.reload", examples=("corral config reload",)):
    """Have the running server read its settings again.

    Shows the settings that have changed, and those that change only when the server is restarted. If anything in the
    file is wrong, shows its line, changes nothing and exits with 2. For administrators. `systemctl reload corral`
    and SIGHUP do the same.
    """

    json: bool = flag("--json", help="Print JSON.")


class ConfigInitCommand(
    DeclaredCommand,
    runs="local.config.init",
    examples=(
        "corral config init",
        "corral config init - | less",
    ),
):
    """Write a first settings file with comments, for a machine that people share.

    It sets a time limit for all jobs, the GPUs of each user, and rules of priority; alerts and more are in comments.
    An existing file is never overwritten.
    """

    file: Path | None = path(
        metavar="[FILE]", help="File to write; - is standard output.  [default: the home's config.yaml]"
    )


class ConfigCommand(
    DeclaredCommand,
    commands={"check": ConfigCheckCommand, "reload": ConfigReloadCommand, "init": ConfigInitCommand},
    examples=("corral config check cluster-config.yaml",),
):
    """Write, check and reload the settings of a site."""


class TokenCreateCommand(
    DeclaredCommand,
    runs="site.token_command.create",
    examples=(
        "corral token create --expires 7d",
        "corral token create --user alice --scope read",
    ),
):
    """Create a token and print it; it is not shown again. Its holder acts as its user, within its scope."""

    user: str | None = text(
        "--user", metavar="USER", help="User it acts as; administrators may name any.  [default: you]"
    )
    expires: str = text("--expires", metavar="TIME", help="How long it is valid, or 'never'.", default="30d")
    scope: str = choice(
        "--scope",
        help="read: look only; submit: also submit and change own jobs; admin: everything.",
        choices=("read", "submit", "admin"),
        default="submit",
    )
    json: bool = flag("--json", help="Print JSON.")


class TokenListCommand(
    DeclaredCommand,
    runs="site.token_command.list_tokens",
    examples=(
        "corral token list",
        "corral token list --all --json",
    ),
):
    """List your tokens, or as administrator everybody's. The secrets are not stored, so they are not shown."""

    all: bool = flag("--all", "-a", help="Also tokens that have expired or were revoked lately.")
    json: bool = flag("--json", help="Print JSON.")


class TokenRevokeCommand(DeclaredCommand, runs="site.token_command.revoke", examples=("corral token revoke 3",)):
    """Revoke a token and all tokens created with it, at once. Jobs submitted with it run on."""

    token_id: str = text(metavar="ID", help="Its id in `corral token list`.", required=True)


class TokenCommand(
    DeclaredCommand,
    commands={"create": TokenCreateCommand, "list": TokenListCommand, "revoke": TokenRevokeCommand},
    examples=("corral token create --expires 7d",),
):
    """Create, list and revoke tokens for access over TCP."""


class AgentConnectCommand(
    DeclaredCommand, runs="local.agent.connect", examples=("ssh gpu-05 corral agent connect </dev/null",)
):
    """Join standard input and output to the agent of this host. A server runs this by SSH.

    It ends with the connection, and with status 69 if no agent answers here.
    """

    home: Path | None = path(
        "--home", metavar="DIR", help="Home of the agent. Default: /var/lib/corral-agent, or a user's own."
    )


class AgentReleaseCommand(DeclaredCommand, runs="local.agent.release", examples=("corral agent release",)):
    """Free the agent of this host from its server, so that another server can join the host.

    Remove the host at its server first, as far as that server still runs: otherwise it takes the agent again.
    """

    home: Path | None = path(
        "--home", metavar="DIR", help="Home of the agent. Default: /var/lib/corral-agent, or a user's own."
    )


class AgentCommand(
    DeclaredCommand,
    runs="local.agent.agent",
    commands={"connect": AgentConnectCommand, "release": AgentReleaseCommand},
    examples=("corral agent --home /var/lib/corral --socket /run/corral/agent.sock",),
):
    """Run the agent of this host, in the foreground. For administrators.

    A server uses the agent to launch and watch jobs on this host: `corral hosts add` installs and starts it. The agent
    answers its own user and root. Jobs run on when it stops; the next agent with the same --home takes them over.
    """

    home: Path | None = path(
        "--home", metavar="DIR", help="Directory for records, logs and scratch. Default: that of a joined host."
    )
    socket: Path | None = path("--socket", metavar="PATH", help="Unix socket to answer on. Default: in --home.")
    mock: Path | None = path("--mock", metavar="FILE", help="Use the mock devices in this file, not real ones.")
    node: str | None = text("--node", metavar="NAME", help="Name of the node. Default: the host's name.")
    config: Path | None = path("--config", metavar="FILE", help="Settings. Default: config.yaml in --home.")
    server_home: Path | None = path(
        "--server-home", metavar="DIR", help="Home of the server of the jobs. Default: --home."
    )
    address: str = text(
        "--address", metavar="HOST", help="Address by which other hosts reach this one, for gangs.", default="127.0.0.1"
    )
    claimed: bool = flag("--claimed", help="Serve the one server that has joined this host. Without --home always.")
