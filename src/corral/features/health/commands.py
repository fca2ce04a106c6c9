"""Commands for the health of GPUs."""

from __future__ import annotations

from corral.cli.declaring import DeclaredCommand, flag, path, text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from pathlib import Path

_GPU = "Its UUID, the first characters of it, NODE:INDEX or its index."


class HealthTrustCommand(
    DeclaredCommand, runs="corral.features.health.run_commands.trust", examples=("corral health trust gpu-07:3",)
):
    """Let jobs start on a GPU whatever its signs say, for administrators.

    A sign that lasts, such as memory errors, counts again after it was gone once. `corral cordon` keeps jobs off a GPU.
    """

    gpu: str = text(metavar="GPU", help=_GPU, required=True)
    json: bool = flag("--json", help="Print JSON.")


class HealthProbeCommand(
    DeclaredCommand, runs="corral.features.health.run_commands.probe", examples=("corral health probe gpu-07:3",)
):
    """Have a GPU tested and watched as after a fault, for administrators. No job starts on it meanwhile.

    The test begins once nothing uses the GPU. This is the way back for a GPU that was reset by hand.
    """

    gpu: str = text(metavar="GPU", help=_GPU, required=True)
    json: bool = flag("--json", help="Print JSON.")


class HealthEvidenceCommand(
    DeclaredCommand,
    runs="corral.features.health.run_commands.evidence",
    examples=(
        "corral health evidence gpu-07:3",
        "corral health evidence gpu-07:3 --out case-4711.txt",
    ),
):
    """Print what a vendor asks for: the errors of a GPU, its counters, the driver's log, and the jobs on it.

    Only administrators get the driver's log: it names processes of all users.
    """

    gpu: str = text(metavar="GPU", help=_GPU, required=True)
    out: Path | None = path("--out", "-o", help="Write it to this file.")
    json: bool = flag("--json", help="Print JSON.")


class HealthCommand(
    DeclaredCommand,
    runs="corral.features.health.run_commands.health",
    commands={
        "evidence": HealthEvidenceCommand,
        "probe": HealthProbeCommand,
        "trust": HealthTrustCommand,
    },
    examples=(
        "corral health",
        "corral health trust gpu-07:3",
    ),
):
    """List the GPUs that are sick or were of late, and why. Trust, test and report them.

    On a suspect GPU only jobs with one GPU start, on others nothing. A quarantined GPU comes back by itself: once its
    fault is gone it is on probation, where it is tested and then watched.
    """

    json: bool = flag("--json", help="Print JSON.")
