"""`corral simulate`: replay recorded or made-up work under a policy, with the scheduler's own code and no server."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from corral.cli.screen import example, print_json, write_lines
from corral.model.errors import Refused
from corral.model.units import is_whole

if TYPE_CHECKING:
    from corral.sim.history import History

app = typer.Typer(
    name="simulate",
    help="Replay recorded or made-up work under a policy, with the scheduler's own code.",
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    add_completion=False,
    epilog="\b\nExample:\n  corral simulate openb --policy corral --json -",
)

HtmlTo = Annotated[Path | None, typer.Option("--html", metavar="FILE", help="Draw the run as one HTML page.")]
JsonTo = Annotated[
    str | None, typer.Option("--json", metavar="FILE", help="Write the report as JSON; - is the screen.")
]


@app.command(epilog=example("corral simulate openb --policy fgd --json -"))
def openb(
    *,
    nodes: Annotated[
        Path | None, typer.Option(help="CSV of nodes; the trace that comes with Corral if left out.")
    ] = None,
    pods: Annotated[Path | None, typer.Option(help="CSV of pods.")] = None,
    order: Annotated[Path | None, typer.Option(help="JSON of arrival and tie-break orders by seed, gzipped.")] = None,
    seed: Annotated[int, typer.Option(help="Which of the orders.")] = 42,
    arrivals: Annotated[str, typer.Option(help="sequence: the seed's order; file: as the pods stand.")] = "sequence",
    policy: Annotated[str, typer.Option(help="fgd, best-fit, random, pack, spread or corral.")] = "corral",
    html: HtmlTo = None,
    json_to: JsonTo = None,
) -> None:
    """Pack whole and shared GPUs: the openb traces of a production cluster."""
    from corral.sim.openb import Point, read_trace, replay, shipped_trace
    from corral.sim.report import packing_page

    given = [path for path in (nodes, pods, order) if path is not None]
    if given and len(given) < 3:
        raise Refused("--nodes, --pods and --order belong together; give all of them, or none for the shipped trace")
    if nodes is not None and pods is not None and order is not None:
        trace = read_trace(nodes, pods, order, seed=seed, arrivals=arrivals)
    elif seed != 42:
        raise Refused("--seed: the trace that comes with Corral has the order of seed 42 alone", field="--seed")
    else:
        trace = shipped_trace(arrivals=arrivals)
    curve: list[Point] = []
    report = replay(trace, policy, seed, curve=None if html is None else curve)
    if html is not None:
        _save(html, packing_page(report, curve))
    _write(report, json_to)


@app.command(
    epilog=example(
        "corral simulate swf --trace lublin_256.swf --procs 256 \\", "    --windows 1981 --order corral --backfill easy"
    )
)
def swf(
    *,
    trace: Annotated[Path, typer.Option(help="A trace in the Standard Workload Format.")],
    procs: Annotated[int, typer.Option(help="Processors of the cluster.", min=1)] = 256,
    windows: Annotated[str, typer.Option(help="Where the windows begin: 0-based job numbers, by commas.")] = "0",
    jobs: Annotated[int, typer.Option(help="Jobs of a window.", min=1)] = 1024,
    order: Annotated[str, typer.Option(help="fcfs, priority, sjf, saf, slowdown, corral ...")] = "corral",
    backfill: Annotated[str, typer.Option(help="none, easy or conservative.")] = "easy",
    backfill_order: Annotated[str, typer.Option(help="queue or sjf.")] = "queue",
    commit_head: Annotated[bool, typer.Option("--commit-head", help="Whoever is at the head stays there.")] = False,
    limit_factor: Annotated[float, typer.Option(help="Limits are up to so many times the run times.", min=1)] = 1.0,
    html: HtmlTo = None,
    json_to: JsonTo = None,
) -> None:
    """Queue order and backfill: slowdowns and waits on a trace of parallel jobs."""
    from corral.sim.history import History
    from corral.sim.swf import read_trace, simulate

    history = History()
    report = simulate(
        read_trace(trace),
        processors=procs,
        windows=_numbers(windows, "--windows"),
        jobs=jobs,
        order=order,
        backfill=backfill,
        backfill_order=backfill_order,
        commit_head=commit_head,
        limit_factor=limit_factor,
        history=None if html is None else history,
    )
    title = f"{trace.name} under {order}, {backfill} backfill"
    _write_queue(title, report, history, html, json_to, units="Processors")


@app.command(epilog=example("corral simulate gavel --jobs multi_seed0.csv --rate 1.0 --policy corral"))
def gavel(
    *,
    jobs: Annotated[Path, typer.Option(help="CSV of jobs with their speed on each model.")],
    rate: Annotated[float, typer.Option(help="Jobs an hour.", min=0.001)] = 1.0,
    cluster: Annotated[
        str, typer.Option(help="Devices of each model, the preferred first.")
    ] = "v100=36,p100=36,k80=36",
    policy: Annotated[str, typer.Option(help="fifo, las, las-het or corral.")] = "corral",
    measure: Annotated[str, typer.Option(help="Jobs that count, FIRST-LAST from 0.")] = "4000-4999",
    html: HtmlTo = None,
    json_to: JsonTo = None,
) -> None:
    """Mixed device models: completion times where jobs run faster on some than on others."""
    from corral.sim.gavel import read_trace, simulate
    from corral.sim.history import History

    history = History()
    report = simulate(
        read_trace(jobs),
        rate=rate,
        cluster=_cluster(cluster),
        policy=policy,
        measure=_range(measure, "--measure"),
        history=None if html is None else history,
    )
    _write_queue(f"{jobs.name} under {policy}", report, history, html, json_to)


@app.command(epilog=example("corral simulate journal --policy fair-share", "corral simulate journal --add-gpus 16"))
def journal(
    *,
    home: Annotated[
        Path | None, typer.Option(help="The server's home.", envvar="CORRAL_HOME", show_default="~/.corral")
    ] = None,
    ledger: Annotated[str | None, typer.Option(help="The ledger's URL, where the site has named another.")] = None,
    policy: Annotated[str, typer.Option(help="The policy to try: any order, las, corral ...")] = "corral",
    backfill: Annotated[str, typer.Option(help="none, easy or conservative.")] = "easy",
    add_gpus: Annotated[int, typer.Option(help="So many GPUs more than there were.", min=0)] = 0,
    mtbf: Annotated[str | None, typer.Option(help="Let GPUs fail on average after so long, such as 30d.")] = None,
    repair: Annotated[str, typer.Option(help="How long a failed GPU is gone.")] = "1h",
    seed: Annotated[int, typer.Option(help="Of the failures.")] = 42,
    html: HtmlTo = None,
    json_to: JsonTo = None,
) -> None:
    """What if: this server's own past under another policy, or with more GPUs."""
    from corral.model.home import Home
    from corral.model.units import parse_duration_s
    from corral.sim.history import History
    from corral.sim.journal import Faults, read_journal, simulate

    url = ledger or Home(home or Path.home() / ".corral").ledger_url
    faults = None
    if mtbf is not None:
        faults = Faults(parse_duration_s(mtbf, field="--mtbf"), parse_duration_s(repair, field="--repair"), seed)
    history = History()
    facts = read_journal(url)
    report = simulate(facts, policy=policy, backfill=backfill, add_gpus=add_gpus, faults=faults, history=history)
    _write_queue(f"The journal under {policy}", report, history, html, json_to)


@app.command(epilog=example("corral simulate philly --jobs philly_sia.csv --gpus 300 --order corral"))
def philly(
    *,
    jobs: Annotated[Path, typer.Option(help="CSV of jobs: timestamp, duration, num_gpus, cluster.")],
    gpus: Annotated[int, typer.Option(help="GPUs of the cluster.", min=1)] = 300,
    take: Annotated[str, typer.Option(help="Jobs to run, FIRST-LAST from 0.")] = "0-9999",
    order: Annotated[str, typer.Option(help="fcfs, sjf, saf, corral ...")] = "corral",
    backfill: Annotated[str, typer.Option(help="none, easy or conservative.")] = "easy",
    html: HtmlTo = None,
    json_to: JsonTo = None,
) -> None:
    """A real queue of GPU jobs, whose run times are known from history only."""
    from corral.sim.history import History
    from corral.sim.philly import read_trace, simulate

    first, last = _range(take, "--take")
    history = History()
    report = simulate(
        read_trace(jobs)[first : last + 1],
        gpus=gpus,
        order=order,
        backfill=backfill,
        history=None if html is None else history,
    )
    _write_queue(f"{jobs.name} under {order}, {backfill} backfill", report, history, html, json_to)


@app.command(epilog=example("corral simulate kueue --config baseline.yaml --json -"))
def kueue(
    *,
    config: Annotated[Path, typer.Option(help="A generator file of Kueue's scheduling benchmark.")],
    json_to: JsonTo = None,
) -> None:
    """Kueue's benchmark against the live loop: real ledger, simulated work, real time."""
    from corral.sim.kueue import read_generator, simulate

    _write(simulate(read_generator(config)), json_to)


@app.command(epilog=example("corral simulate faults --jobs 500 --seed 7"))
def faults(
    *,
    gpus: Annotated[int, typer.Option(help="GPUs of the machine.", min=1, max=64)] = 4,
    jobs: Annotated[int, typer.Option(help="So many jobs come.", min=1)] = 200,
    seed: Annotated[int, typer.Option(help="Of everything that happens.")] = 42,
    json_to: JsonTo = None,
) -> None:
    """A server's life with faults: sick GPUs, lost launches, restarts; real ledger and control loop, simulated work.

    Exits with 1 when a promise was broken.
    """
    from corral.sim.life import simulate

    report = simulate(gpus=gpus, jobs=jobs, seed=seed)
    _write(report, json_to)
    if report["broken"]:
        raise typer.Exit(1)


@app.command(epilog=example("corral simulate scale --nodes 12500 --jobs 100000 --json -"))
def scale(
    *,
    nodes: Annotated[int, typer.Option(help="Nodes of the fleet.", min=1)] = 12500,
    gpus_per_node: Annotated[int, typer.Option(help="GPUs of each node.", min=1)] = 8,
    jobs: Annotated[int, typer.Option(help="Jobs to place once the fleet is full.", min=1)] = 100_000,
    policy: Annotated[str, typer.Option(help="Placement policy, as for openb.")] = "corral",
    json_to: JsonTo = None,
) -> None:
    """Decisions a second on a large fleet that is kept nearly full."""
    from corral.sim.scale import run_scale

    _write(run_scale(nodes=nodes, gpus_per_node=gpus_per_node, jobs=jobs, policy=policy), json_to)


def _range(text: str, flag: str) -> tuple[int, int]:
    first, _, last = text.partition("-")
    if not (is_whole(first) and is_whole(last) and int(first) <= int(last)):
        raise Refused(f"{flag}: {text!r} is no range; write FIRST-LAST, such as 4000-4999", field=flag)
    return int(first), int(last)


def _numbers(text: str, flag: str) -> list[int]:
    try:
        return [int(part) for part in text.split(",")]
    except ValueError as error:
        raise Refused(f"{flag}: {text!r} is no list of numbers; write such as 0,1024,2048", field=flag) from error


def _cluster(text: str) -> dict[str, int]:
    counts = {}
    for part in text.split(","):
        model, _, count = part.partition("=")
        if not model or not is_whole(count):
            raise Refused(f"--cluster: {part!r} is not MODEL=COUNT; write such as v100=36,k80=8", field="--cluster")
        counts[model.strip()] = int(count)
    return counts


def _save(path: Path, text: str) -> None:
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise Refused(f"{path} cannot be written: {error.strerror}") from error


def _write_queue(
    title: str,
    report: Mapping[str, Any],
    history: "History",
    html: Path | None,
    json_to: str | None,
    *,
    units: str = "GPUs",
) -> None:
    """The report, and its page where one is wanted."""
    if html is not None:
        from corral.sim.report import queue_page

        _save(html, queue_page(title, report, history, units=units))
    _write(report, json_to)


def _write(report: Mapping[str, Any], json_to: str | None) -> None:
    """The report as JSON to a file or the screen, else as a table of its figures."""
    if json_to == "-":
        print_json(report)
    elif json_to is not None:
        _save(Path(json_to), json.dumps(report, indent=2) + "\n")
    else:
        from corral.sim.figures import text

        write_lines(*text(report).splitlines())
