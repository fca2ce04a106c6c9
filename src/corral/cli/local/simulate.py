"""`corral simulate`: replays recorded or generated jobs with the scheduler's own code, without a server."""

import json
import logging
import os
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from corral.cli.progress import ProgressLine
from corral.cli.screen import example, print_json, write_lines
from corral.event_log import log_to_stderr
from corral.model.errors import Refused
from corral.model.units import is_whole

if TYPE_CHECKING:
    from corral.sim.history import History
    from corral.sim.progress import Progress

R = TypeVar("R")

app = typer.Typer(
    name="simulate",
    help="Replay recorded or generated jobs with the scheduler's own code.",
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    add_completion=False,
    epilog="\b\nExample:\n  corral simulate openb --policy corral --json -",
)

HtmlTo = Annotated[
    Path | None, typer.Option("--html", metavar="FILE", help="Write a chart of the run as one HTML page.")
]
JsonTo = Annotated[
    str | None, typer.Option("--json", metavar="FILE", help="Write the report as JSON; - for standard output.")
]


@app.command(epilog=example("corral simulate openb --policy fgd --json -"))
def openb(
    *,
    nodes: Annotated[
        Path | None, typer.Option(help="CSV of nodes.  [default: the trace that comes with Corral]")
    ] = None,
    pods: Annotated[Path | None, typer.Option(help="CSV of pods.")] = None,
    order: Annotated[Path | None, typer.Option(help="Gzipped JSON of arrival and tie-break orders by seed.")] = None,
    seed: Annotated[int, typer.Option(help="Which of the orders to use.")] = 42,
    arrivals: Annotated[str, typer.Option(help="sequence: the seed's order; file: the order in the CSV.")] = "sequence",
    policy: Annotated[str, typer.Option(help="fgd, best-fit, random, pack, spread or corral; several: fgd,corral.")] = (
        "corral"
    ),
    html: HtmlTo = None,
    json_to: JsonTo = None,
) -> None:
    """Packing: place whole and shared GPUs of a production trace (openb)."""
    from corral.sim.openb import Point, read_trace, replay, shipped_trace
    from corral.sim.report import beside, packing_page

    given = [path for path in (nodes, pods, order) if path is not None]
    if given and len(given) < 3:
        raise Refused(
            "--nodes, --pods and --order go together; give all of them, or none to use the trace that comes with Corral"
        )
    if nodes is not None and pods is not None and order is not None:
        trace = read_trace(nodes, pods, order, seed=seed, arrivals=arrivals)
    elif seed != 42:
        raise Refused("--seed: the trace that comes with Corral has only the order of seed 42", field="--seed")
    else:
        trace = shipped_trace(arrivals=arrivals)
    curves: dict[str, list[Point]] = {name: [] for name in _names(policy, "--policy")}
    reports = _run_each(
        curves, html, lambda name, curve, progress: replay(trace, name, seed, curve=curve, progress=progress)
    )
    if html is not None:
        _save(html, packing_page(reports, curves))
    _write(beside(reports), json_to)


@app.command(
    epilog=example(
        "corral simulate swf --trace lublin_256.swf --procs 256 \\", "    --windows 1981 --order corral --backfill easy"
    )
)
def swf(
    *,
    trace: Annotated[Path, typer.Option(help="A trace in the Standard Workload Format.")],
    procs: Annotated[int, typer.Option(help="Processors of the cluster.", min=1)] = 256,
    windows: Annotated[str, typer.Option(help="First job of each window, from 0: 0,1024,2048.")] = "0",
    jobs: Annotated[int, typer.Option(help="Jobs in each window.", min=1)] = 1024,
    order: Annotated[
        str, typer.Option(help="fcfs, priority, sjf, saf, slowdown, corral ...; several: fcfs,corral.")
    ] = "corral",
    backfill: Annotated[str, typer.Option(help="none, easy or conservative.")] = "easy",
    backfill_order: Annotated[str, typer.Option(help="queue or sjf.")] = "queue",
    commit_head: Annotated[
        bool, typer.Option("--commit-head", help="Keep the first job of the queue first until it starts.")
    ] = False,
    limit_factor: Annotated[
        float, typer.Option(help="Time limits are up to this many times the run times.", min=1)
    ] = 1.0,
    html: HtmlTo = None,
    json_to: JsonTo = None,
) -> None:
    """Queue order and backfill: waits and slowdowns on a trace of parallel jobs (SWF)."""
    from corral.sim.history import History
    from corral.sim.report import beside
    from corral.sim.swf import read_trace, simulate

    histories = {name: History() for name in _names(order, "--order")}
    recorded = read_trace(trace)
    reports = _run_each(
        histories,
        html,
        lambda name, history, progress: simulate(
            recorded,
            processors=procs,
            windows=_numbers(windows, "--windows"),
            jobs=jobs,
            order=name,
            backfill=backfill,
            backfill_order=backfill_order,
            commit_head=commit_head,
            limit_factor=limit_factor,
            history=history,
            progress=progress,
        ),
    )
    title = f"{trace.name} under {', '.join(histories)}, {backfill} backfill"
    _write_queue(title, beside(reports), histories, html, json_to, units="Processors")


@app.command(epilog=example("corral simulate gavel --jobs multi_seed0.csv --rate 1.0 --policy corral"))
def gavel(
    *,
    jobs: Annotated[Path, typer.Option(help="CSV of jobs with their speed on each model.")],
    rate: Annotated[float, typer.Option(help="Jobs per hour.", min=0.001)] = 1.0,
    cluster: Annotated[
        str, typer.Option(help="Devices of each model, the preferred model first.")
    ] = "v100=36,p100=36,k80=36",
    policy: Annotated[str, typer.Option(help="fifo, las, las-het or corral; several: las,corral.")] = "corral",
    measure: Annotated[str, typer.Option(help="Jobs to measure, FIRST-LAST from 0.")] = "4000-4999",
    html: HtmlTo = None,
    json_to: JsonTo = None,
) -> None:
    """Mixed GPU models: completion times if jobs run faster on some models (Gavel)."""
    from corral.sim.gavel import read_trace, simulate
    from corral.sim.history import History
    from corral.sim.report import beside

    histories = {name: History() for name in _names(policy, "--policy")}
    recorded = read_trace(jobs)
    reports = _run_each(
        histories,
        html,
        lambda name, history, progress: simulate(
            recorded,
            rate=rate,
            cluster=_cluster(cluster),
            policy=name,
            measure=_range(measure, "--measure"),
            history=history,
            progress=progress,
        ),
    )
    _write_queue(f"{jobs.name} under {', '.join(histories)}", beside(reports), histories, html, json_to)


@app.command(
    epilog=example(
        "corral simulate journal --policy fair-share,las --html what-if.html", "corral simulate journal --add-gpus 16"
    )
)
def journal(
    *,
    home: Annotated[
        Path | None,
        typer.Option(help="The server's home.", envvar="CORRAL_HOME", show_default="~/.corral", readable=False),
    ] = None,
    ledger: Annotated[str | None, typer.Option(help="URL of the ledger, if it is not in the home.")] = None,
    policy: Annotated[str, typer.Option(help="Policies to try: fair-share,las,corral ...")] = "corral",
    backfill: Annotated[str, typer.Option(help="none, easy or conservative.")] = "easy",
    add_gpus: Annotated[int, typer.Option(help="Add this many GPUs.", min=0)] = 0,
    mtbf: Annotated[str | None, typer.Option(help="Let GPUs fail after this time on average: 30d.")] = None,
    repair: Annotated[str, typer.Option(help="How long a failed GPU is missing.")] = "1h",
    seed: Annotated[int, typer.Option(help="Seed of the failures.")] = 42,
    html: HtmlTo = None,
    json_to: JsonTo = None,
) -> None:
    """What if: replay this server's own history under other policies or with more GPUs.

    The page and the figures show beside them how it really went.
    """
    from corral.model.home import Home
    from corral.model.units import parse_duration_s
    from corral.sim.history import History
    from corral.sim.journal import Faults, read_journal, simulate_each
    from corral.sim.past import record

    url = ledger or Home(home or Path.home() / ".corral").ledger_url
    faults = None
    if mtbf is not None:
        faults = Faults(parse_duration_s(mtbf, field="--mtbf"), parse_duration_s(repair, field="--repair"), seed)
    policies = _names(policy, "--policy")
    histories = {name: History() for name in policies}
    facts = read_journal(url)
    with ProgressLine() as line:
        report = simulate_each(
            facts,
            policies=policies,
            backfill=backfill,
            add_gpus=add_gpus,
            faults=faults,
            histories=histories,
            progress=lambda name: _shown_on(line, name, policies),
        )
    if html is not None:
        histories = {"recorded": History(), **histories}
        record(facts, histories["recorded"])
    _write_queue(f"The journal under {', '.join(policies)}", report, histories, html, json_to)


@app.command(epilog=example("corral simulate philly --jobs philly_sia.csv --gpus 300 --order corral"))
def philly(
    *,
    jobs: Annotated[Path, typer.Option(help="CSV of jobs: timestamp, duration, num_gpus, cluster.")],
    gpus: Annotated[int, typer.Option(help="GPUs of the cluster.", min=1)] = 300,
    take: Annotated[str, typer.Option(help="Jobs to run, FIRST-LAST from 0.")] = "0-9999",
    order: Annotated[str, typer.Option(help="fcfs, sjf, saf, corral ...; several: fcfs,corral.")] = "corral",
    backfill: Annotated[str, typer.Option(help="none, easy or conservative.")] = "easy",
    html: HtmlTo = None,
    json_to: JsonTo = None,
) -> None:
    """A real queue of GPU jobs whose run times are predicted from history (Philly)."""
    from corral.sim.history import History
    from corral.sim.philly import read_trace, simulate
    from corral.sim.report import beside

    first, last = _range(take, "--take")
    histories = {name: History() for name in _names(order, "--order")}
    recorded = read_trace(jobs)[first : last + 1]
    reports = _run_each(
        histories,
        html,
        lambda name, history, progress: simulate(
            recorded, gpus=gpus, order=name, backfill=backfill, history=history, progress=progress
        ),
    )
    title = f"{jobs.name} under {', '.join(histories)}, {backfill} backfill"
    _write_queue(title, beside(reports), histories, html, json_to)


@app.command(epilog=example("corral simulate kueue --config baseline.yaml --json -"))
def kueue(
    *,
    config: Annotated[Path, typer.Option(help="A generator file of Kueue's scheduling benchmark.")],
    html: HtmlTo = None,
    json_to: JsonTo = None,
) -> None:
    """Kueue's benchmark on the real server loop: real ledger and time, simulated jobs.

    "warnings" are lines that a server would have in its log; CORRAL_DEBUG=1 shows them.
    """
    from corral.sim.history import History
    from corral.sim.kueue import read_generator, simulate

    history = History()
    with ProgressLine() as line, _counted_warnings() as warnings:
        report = simulate(
            read_generator(config), history=None if html is None else history, progress=_shown_on(line, config.name)
        )
    report["warnings"] = warnings.count
    _write_queue(f"{config.name} on the server's loop", report, {"corral": history}, html, json_to, waiters="class")


@app.command(epilog=example("corral simulate faults --nodes 4 --jobs 500 --seed 7"))
def faults(
    *,
    nodes: Annotated[int, typer.Option(help="Nodes of the cluster.", min=1, max=64)] = 3,
    gpus: Annotated[int, typer.Option(help="GPUs of each node.", min=1, max=64)] = 4,
    jobs: Annotated[int, typer.Option(help="Number of jobs.", min=1)] = 200,
    seed: Annotated[int, typer.Option(help="Seed of all random events.")] = 42,
    html: HtmlTo = None,
    json_to: JsonTo = None,
) -> None:
    """Faults on the real ledger and control loop, with simulated jobs: failing GPUs, silent nodes, killed servers.

    Exits with 1 if a guarantee was broken. "warnings" are lines that the servers would have in their logs, as faults
    make them; CORRAL_DEBUG=1 shows them.
    """
    from corral.sim.history import History
    from corral.sim.life import simulate

    history = History()
    with ProgressLine() as line, _counted_warnings() as warnings:
        report = simulate(
            nodes=nodes,
            gpus=gpus,
            jobs=jobs,
            seed=seed,
            history=None if html is None else history,
            progress=_shown_on(line, f"seed {seed}"),
        )
    report["warnings"] = warnings.count
    title = f"{jobs} jobs among faults on {nodes} nodes with {gpus} GPUs each, seed {seed}"
    _write_queue(title, report, {"corral": history}, html, json_to)
    if report["guarantees_broken"]:
        raise typer.Exit(1)


@app.command(epilog=example("corral simulate scale --nodes 12500 --jobs 100000 --json -"))
def scale(
    *,
    nodes: Annotated[int, typer.Option(help="Nodes of the fleet.", min=1)] = 12500,
    gpus_per_node: Annotated[int, typer.Option(help="GPUs of each node.", min=1)] = 8,
    jobs: Annotated[int, typer.Option(help="Jobs to place once the fleet is full.", min=1)] = 100_000,
    policy: Annotated[str, typer.Option(help="Placement policy, as for openb.")] = "corral",
    html: HtmlTo = None,
    json_to: JsonTo = None,
) -> None:
    """Speed: decisions per second on a large cluster that is kept nearly full."""
    from corral.sim.scale import run_scale

    taken_s: list[float] = []
    with ProgressLine() as line:
        report = run_scale(
            nodes=nodes,
            gpus_per_node=gpus_per_node,
            jobs=jobs,
            policy=policy,
            taken_s=taken_s,
            progress=_shown_on(line, policy),
        )
    if html is not None:
        from corral.sim.report import speed_page

        _save(html, speed_page(report, taken_s))
    _write(report, json_to)


class _Warnings(logging.Handler):
    """Counts what is logged: on a terminal it would run into the progress line."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.count = 0

    def emit(self, record: logging.LogRecord) -> None:
        self.count += 1


@contextmanager
def _counted_warnings() -> Iterator[_Warnings]:
    """What the servers of a simulation warn of is counted in place of being written, unless it is asked for."""
    warnings = _Warnings()
    if os.environ.get("CORRAL_DEBUG"):
        log_to_stderr()
    logging.getLogger().addHandler(warnings)
    try:
        yield warnings
    finally:
        logging.getLogger().removeHandler(warnings)


def _run_each(
    records: Mapping[str, R], html: Path | None, run: "Callable[[str, R | None, Progress], dict[str, Any]]"
) -> dict[str, dict[str, Any]]:
    """The report of each of these names, told as far as it is; `run` gets its record only where there is a page."""
    with ProgressLine() as line:
        return {
            name: run(name, None if html is None else record, _shown_on(line, name, records))
            for name, record in records.items()
        }


def _shown_on(line: ProgressLine, name: str, names: Collection[str] = ()) -> "Progress":
    """Shows how far the simulation of this name is, and which of several it is."""
    which = f"{name} ({list(names).index(name) + 1} of {len(names)})" if len(names) > 1 else name
    return lambda done, total: line.show(done, total, f"{which}: {done} of {total} jobs")


def _names(text: str, flag: str) -> list[str]:
    """The names of a list such as fgd,corral; each once."""
    names = [name.strip() for name in text.split(",")]
    if not all(names):
        raise Refused(f"{flag}: {text!r} has an empty name in it; write one, or several as in fcfs,corral", field=flag)
    return list(dict.fromkeys(names))


def _range(text: str, flag: str) -> tuple[int, int]:
    first, _, last = text.partition("-")
    if not (is_whole(first) and is_whole(last) and int(first) <= int(last)):
        raise Refused(f"{flag}: {text!r} is not a range; write FIRST-LAST, such as 4000-4999", field=flag)
    return int(first), int(last)


def _numbers(text: str, flag: str) -> list[int]:
    try:
        return [int(part) for part in text.split(",")]
    except ValueError as error:
        raise Refused(
            f"{flag}: {text!r} is not a list of numbers; write one such as 0,1024,2048", field=flag
        ) from error


def _cluster(text: str) -> dict[str, int]:
    counts = {}
    for part in text.split(","):
        model, _, count = part.partition("=")
        if not model or not is_whole(count):
            raise Refused(
                f"--cluster: {part!r} is not MODEL=COUNT; write a list such as v100=36,k80=8", field="--cluster"
            )
        counts[model.strip()] = int(count)
    return counts


def _save(path: Path, text: str) -> None:
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise Refused(f"cannot write {path}: {error.strerror}") from error


def _write_queue(
    title: str,
    report: Mapping[str, Any],
    histories: "Mapping[str, History]",
    html: Path | None,
    json_to: str | None,
    *,
    units: str = "GPUs",
    waiters: str = "user",
) -> None:
    """Write the report, and its HTML page if one is wanted."""
    if html is not None:
        from corral.sim.report import queue_page

        _save(html, queue_page(title, report, histories, units=units, waiters=waiters))
    _write(report, json_to)


def _write(report: Mapping[str, Any], json_to: str | None) -> None:
    """Write the report as JSON to a file or standard output, else as a table."""
    if json_to == "-":
        print_json(report)
    elif json_to is not None:
        _save(Path(json_to), json.dumps(report, indent=2) + "\n")
    else:
        from corral.sim.figures import text

        write_lines(*text(report).splitlines())
