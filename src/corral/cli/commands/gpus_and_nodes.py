"""Commands for GPUs and nodes."""

from __future__ import annotations

from corral.cli.declaring import DeclaredCommand, flag, path, text, whole

TYPE_CHECKING = False
if TYPE_CHECKING:
    from pathlib import Path


class DevicesCommand(DeclaredCommand, runs="direct.list_devices.list_devices", examples=("corral devices --json",)):
    """List all GPUs with their UUIDs and models."""

    json: bool = flag("--json", help="Print JSON.")


class AllocMapCommand(
    DeclaredCommand,
    runs="local.alloc_map.alloc_map",
    examples=(
        "corral alloc-map",
        "corral alloc-map --scan /scratch --json",
    ),
):
    """Show how much of each GPU is allocated, and to whom.

    One bar per GPU, one letter per user. With --scan no server is needed: the amounts come from resource files, and a
    bad file is named and skipped.
    """

    scan: Path | None = path("--scan", metavar="DIR", help="Read resource files under a Backend.ai scratch directory.")
    json: bool = flag("--json", help="Print JSON.")


class ResourcesCommand(
    DeclaredCommand,
    runs="site.resources.resources",
    examples=(
        "corral resources",
        "corral submit --resource cuda.shares=0.5 -- ./job",
    ),
):
    """List the resource names of other systems that jobs may use.

    A job uses names of one group by --resource NAME=AMOUNT. DEFAULT is the amount of a name that is given without an
    amount, or that is required and left out; * marks a name that every other name of its group requires.
    Descriptions are in the language of your locale if the site has them.
    """

    json: bool = flag("--json", help="Print JSON.")


class NodesCommand(DeclaredCommand, runs="direct.list_nodes.list_nodes", examples=("corral nodes --json",)):
    """List the nodes, and whether jobs may start on them."""

    json: bool = flag("--json", help="Print JSON.")


class CordonCommand(DeclaredCommand, runs="site.cordon.cordon", examples=('corral cordon 3 --reason "fan is loud"',)):
    """Keep new jobs from starting on a GPU or a node. Running jobs go on."""

    target: str = text(metavar="GPU|NODE", help="A GPU (UUID, index, NODE:INDEX) or a node's name.", required=True)
    reason: str = text("--reason", metavar="TEXT", help="Shown to everyone who looks at it.", default="")


class UncordonCommand(DeclaredCommand, runs="site.cordon.uncordon", examples=("corral uncordon 3",)):
    """Let jobs start on a GPU or a node again."""

    target: str = text(metavar="GPU|NODE", help="A GPU (UUID, index, NODE:INDEX) or a node's name.", required=True)


class DrainCommand(
    DeclaredCommand, runs="site.cordon.drain", examples=('corral drain gpu-07 --deadline 30m --reason "kernel update"',)
):
    """Empty a node: no further job starts on it. `corral uncordon` gives it back."""

    node: str = text(metavar="NODE", help="Name of the node.", required=True)
    deadline: str | None = text(
        "--deadline",
        metavar="TIME",
        help="Requeue jobs that still run after this time: 30m. By default they run to their end.",
    )
    reason: str = text("--reason", metavar="TEXT", help="Shown to everyone who looks at the node.", default="")


class MigCutCommand(DeclaredCommand, runs="site.mig.cut", examples=("corral mig cut 1 1g.10gb --count 2 --apply",)):
    """Create MIG slices on a GPU that is in MIG mode."""

    device: str = text(metavar="GPU", help="Index or UUID.", required=True)
    profile: str = text(metavar="PROFILE", help="Profile of the slices: 1g.10gb.", required=True)
    count: int = whole("--count", metavar="N", help="Number of slices.", default=1, least=1)
    apply: bool = flag("--apply", help="Make the change. Without this flag it is only shown.")
    json: bool = flag("--json", help="Print JSON.")


class MigGiveUpCommand(DeclaredCommand, runs="site.mig.give_up", examples=("corral mig give-up 1 --apply",)):
    """Delete all MIG slices of a GPU. None may be in use by a job."""

    device: str = text(metavar="GPU", help="Index or UUID.", required=True)
    apply: bool = flag("--apply", help="Make the change. Without this flag it is only shown.")
    json: bool = flag("--json", help="Print JSON.")


class MigCommand(
    DeclaredCommand,
    commands={"cut": MigCutCommand, "give-up": MigGiveUpCommand},
    examples=("corral mig cut 1 1g.10gb --count 2 --apply",),
):
    """Create and delete MIG slices. For administrators."""
