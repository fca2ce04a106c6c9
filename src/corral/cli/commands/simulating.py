"""The command `corral simulate`."""

from __future__ import annotations

from corral.cli.declaring import DeclaredCommand, flag, number, path, text, whole

TYPE_CHECKING = False
if TYPE_CHECKING:
    from pathlib import Path


class SimulateOpenbCommand(
    DeclaredCommand, runs="local.simulate.openb", examples=("corral simulate openb --policy fgd --json -",)
):
    """Packing: place whole and shared GPUs of a production trace (openb)."""

    nodes: Path | None = path("--nodes", help="CSV of nodes.  [default: the trace that comes with Corral]")
    pods: Path | None = path("--pods", help="CSV of pods.")
    order: Path | None = path("--order", help="Gzipped JSON of arrival and tie-break orders by seed.")
    seed: int = whole("--seed", help="Which of the orders to use.", default=42)
    arrivals: str = text(
        "--arrivals", help="sequence: the seed's order; file: the order in the CSV.", default="sequence"
    )
    policy: str = text(
        "--policy", help="fgd, best-fit, random, pack, spread or corral; several: fgd,corral.", default="corral"
    )
    html: Path | None = path("--html", metavar="FILE", help="Write a chart of the run as one HTML page.")
    json_to: str | None = text("--json", metavar="FILE", help="Write the report as JSON; - for standard output.")


class SimulateSwfCommand(
    DeclaredCommand,
    runs="local.simulate.swf",
    examples=(
        "corral simulate swf --trace lublin_256.swf --procs 256 \\",
        "    --windows 1981 --order corral --backfill easy",
    ),
):
    """Queue order and backfill: waits and slowdowns on a trace of parallel jobs (SWF)."""

    trace: Path = path("--trace", help="A trace in the Standard Workload Format.", required=True)
    procs: int = whole("--procs", help="Processors of the cluster.", default=256, least=1)
    windows: str = text("--windows", help="First job of each window, from 0: 0,1024,2048.", default="0")
    jobs: int = whole("--jobs", help="Jobs in each window.", default=1024, least=1)
    order: str = text(
        "--order", help="fcfs, priority, sjf, saf, slowdown, corral ...; several: fcfs,corral.", default="corral"
    )
    backfill: str = text("--backfill", help="none, easy or conservative.", default="easy")
    backfill_order: str = text("--backfill-order", help="queue or sjf.", default="queue")
    commit_head: bool = flag("--commit-head", help="Keep the first job of the queue first until it starts.")
    limit_factor: float = number(
        "--limit-factor", help="Time limits are up to this many times the run times.", default=1.0, least=1
    )
    html: Path | None = path("--html", metavar="FILE", help="Write a chart of the run as one HTML page.")
    json_to: str | None = text("--json", metavar="FILE", help="Write the report as JSON; - for standard output.")


class SimulateGavelCommand(
    DeclaredCommand,
    runs="local.simulate.gavel",
    examples=("corral simulate gavel --jobs multi_seed0.csv --rate 1.0 --policy corral",),
):
    """Mixed GPU models: completion times if jobs run faster on some models (Gavel)."""

    jobs: Path = path("--jobs", help="CSV of jobs with their speed on each model.", required=True)
    rate: float = number("--rate", help="Jobs per hour.", default=1.0, least=0.001)
    cluster: str = text(
        "--cluster", help="Devices of each model, the preferred model first.", default="v100=36,p100=36,k80=36"
    )
    policy: str = text("--policy", help="fifo, las, las-het or corral; several: las,corral.", default="corral")
    measure: str = text("--measure", help="Jobs to measure, FIRST-LAST from 0.", default="4000-4999")
    html: Path | None = path("--html", metavar="FILE", help="Write a chart of the run as one HTML page.")
    json_to: str | None = text("--json", metavar="FILE", help="Write the report as JSON; - for standard output.")


class SimulateJournalCommand(
    DeclaredCommand,
    runs="local.simulate.journal",
    examples=(
        "corral simulate journal --policy fair-share,las --html what-if.html",
        "corral simulate journal --add-gpus 16",
    ),
):
    """What if: replay this server's own history under other policies or with more GPUs.

    The page and the figures also show the actual course.
    """

    home: str | None = text(
        "--home",
        metavar="DIR",
        help="The server's home.  [env var: CORRAL_HOME; default: ~/.corral]",
        env="CORRAL_HOME",
    )
    ledger: str | None = text("--ledger", help="URL of the ledger, if it is not in the home.")
    policy: str = text("--policy", help="Policies to try: fair-share,las,corral ...", default="corral")
    backfill: str = text("--backfill", help="none, easy or conservative.", default="easy")
    add_gpus: int = whole("--add-gpus", help="Add this many GPUs.", default=0, least=0)
    mtbf: str | None = text("--mtbf", help="Let GPUs fail after this time on average: 30d.")
    repair: str = text("--repair", help="How long a failed GPU is missing.", default="1h")
    seed: int = whole("--seed", help="Seed of the failures.", default=42)
    html: Path | None = path("--html", metavar="FILE", help="Write a chart of the run as one HTML page.")
    json_to: str | None = text("--json", metavar="FILE", help="Write the report as JSON; - for standard output.")


class SimulatePhillyCommand(
    DeclaredCommand,
    runs="local.simulate.philly",
    examples=("corral simulate philly --jobs philly_sia.csv --gpus 300 --order corral",),
):
    """A real queue of GPU jobs whose run times are predicted from history (Philly)."""

    jobs: Path = path("--jobs", help="CSV of jobs: timestamp, duration, num_gpus, cluster.", required=True)
    gpus: int = whole("--gpus", help="GPUs of the cluster.", default=300, least=1)
    take: str = text("--take", help="Jobs to run, FIRST-LAST from 0.", default="0-9999")
    order: str = text("--order", help="fcfs, sjf, saf, corral ...; several: fcfs,corral.", default="corral")
    backfill: str = text("--backfill", help="none, easy or conservative.", default="easy")
    html: Path | None = path("--html", metavar="FILE", help="Write a chart of the run as one HTML page.")
    json_to: str | None = text("--json", metavar="FILE", help="Write the report as JSON; - for standard output.")


class SimulateKueueCommand(
    DeclaredCommand, runs="local.simulate.kueue", examples=("corral simulate kueue --config baseline.yaml --json -",)
):
    """Kueue's benchmark on the real server loop: real ledger and time, simulated jobs.

    "warnings" are lines that a server would have in its log; CORRAL_DEBUG=1 shows them.
    """

    config: Path = path("--config", help="A generator file of Kueue's scheduling benchmark.", required=True)
    html: Path | None = path("--html", metavar="FILE", help="Write a chart of the run as one HTML page.")
    json_to: str | None = text("--json", metavar="FILE", help="Write the report as JSON; - for standard output.")


class SimulateFaultsCommand(
    DeclaredCommand, runs="local.simulate.faults", examples=("corral simulate faults --nodes 4 --jobs 500 --seed 7",)
):
    """Faults on the real ledger and control loop, with simulated jobs: failing GPUs, silent nodes, killed servers.

    Exits with 1 if a guarantee was broken. "warnings" are lines that the servers would have in their logs because of
    the faults; CORRAL_DEBUG=1 shows them.
    """

    nodes: int = whole("--nodes", help="Nodes of the cluster.", default=3, least=1, most=64)
    gpus: int = whole("--gpus", help="GPUs of each node.", default=4, least=1, most=64)
    jobs: int = whole("--jobs", help="Number of jobs.", default=200, least=1)
    seed: int = whole("--seed", help="Seed of all random events.", default=42)
    html: Path | None = path("--html", metavar="FILE", help="Write a chart of the run as one HTML page.")
    json_to: str | None = text("--json", metavar="FILE", help="Write the report as JSON; - for standard output.")


class SimulateScaleCommand(
    DeclaredCommand,
    runs="local.simulate.scale",
    examples=("corral simulate scale --nodes 12500 --jobs 100000 --json -",),
):
    """Speed: decisions per second on a large cluster that is kept nearly full."""

    nodes: int = whole("--nodes", help="Nodes of the fleet.", default=12500, least=1)
    gpus_per_node: int = whole("--gpus-per-node", help="GPUs of each node.", default=8, least=1)
    jobs: int = whole("--jobs", help="Jobs to place once the fleet is full.", default=100000, least=1)
    policy: str = text("--policy", help="Placement policy, as for openb.", default="corral")
    html: Path | None = path("--html", metavar="FILE", help="Write a chart of the run as one HTML page.")
    json_to: str | None = text("--json", metavar="FILE", help="Write the report as JSON; - for standard output.")


class SimulateCommand(
    DeclaredCommand,
    commands={
        "openb": SimulateOpenbCommand,
        "swf": SimulateSwfCommand,
        "gavel": SimulateGavelCommand,
        "journal": SimulateJournalCommand,
        "philly": SimulatePhillyCommand,
        "kueue": SimulateKueueCommand,
        "faults": SimulateFaultsCommand,
        "scale": SimulateScaleCommand,
    },
    examples=("corral simulate openb --policy corral --json -",),
):
    """Replay recorded or generated jobs with the scheduler's code."""
