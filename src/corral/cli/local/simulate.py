"""`corral simulate`: replay recorded or generated jobs with the scheduler's own code, without a server."""

import json
import logging
import os
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from corral.cli.commands import simulating
from corral.cli.screen import print_json, write_lines
from corral.cli.tables.progress import ProgressLine
from corral.core.model.errors import Refused
from corral.core.model.units import is_whole
from corral.event_log import log_to_stderr

if TYPE_CHECKING:
    from corral.sim.engine import Progress
    from corral.sim.reports.history import History

R = TypeVar("R")


def openb(given: simulating.SimulateOpenbCommand) -> None:
    """Run `corral simulate openb`."""
    from corral.sim.benchmarks.openb import Point, read_trace, replay, shipped_trace
    from corral.sim.reports.report import beside, packing_page

    files = [path for path in (given.nodes, given.pods, given.order) if path is not None]
    if files and len(files) < 3:
        raise Refused(
            "--nodes, --pods and --order go together; give all of them, or none to use the trace that comes with Corral"
        )
    if given.nodes is not None and given.pods is not None and given.order is not None:
        trace = read_trace(given.nodes, given.pods, given.order, seed=given.seed, arrivals=given.arrivals)
    elif given.seed != 42:
        raise Refused("--seed: the trace that comes with Corral has only the order of seed 42", field="--seed")
    else:
        trace = shipped_trace(arrivals=given.arrivals)
    curves: dict[str, list[Point]] = {name: [] for name in _names(given.policy, "--policy")}
    reports = _run_each(
        curves,
        given.html,
        lambda name, curve, progress: replay(trace, name, given.seed, curve=curve, progress=progress),
    )
    if given.html is not None:
        _save(given.html, packing_page(reports, curves))
    _write(beside(reports), given.json_to)


def swf(given: simulating.SimulateSwfCommand) -> None:
    """Run `corral simulate swf`."""
    from corral.sim.benchmarks.swf import read_trace, simulate
    from corral.sim.reports.history import History
    from corral.sim.reports.report import beside

    histories = {name: History() for name in _names(given.order, "--order")}
    recorded = read_trace(given.trace)
    reports = _run_each(
        histories,
        given.html,
        lambda name, history, progress: simulate(
            recorded,
            processors=given.procs,
            windows=_numbers(given.windows, "--windows"),
            jobs=given.jobs,
            order=name,
            backfill=given.backfill,
            backfill_order=given.backfill_order,
            commit_head=given.commit_head,
            limit_factor=given.limit_factor,
            history=history,
            progress=progress,
        ),
    )
    title = f"{given.trace.name} under {', '.join(histories)}, {given.backfill} backfill"
    _write_queue(title, beside(reports), histories, given.html, given.json_to, units="Processors")


def gavel(given: simulating.SimulateGavelCommand) -> None:
    """Run `corral simulate gavel`."""
    from corral.sim.benchmarks.gavel import read_trace, simulate
    from corral.sim.reports.history import History
    from corral.sim.reports.report import beside

    histories = {name: History() for name in _names(given.policy, "--policy")}
    recorded = read_trace(given.jobs)
    reports = _run_each(
        histories,
        given.html,
        lambda name, history, progress: simulate(
            recorded,
            rate=given.rate,
            cluster=_cluster(given.cluster),
            policy=name,
            measure=_range(given.measure, "--measure"),
            history=history,
            progress=progress,
        ),
    )
    _write_queue(
        f"{given.jobs.name} under {', '.join(histories)}", beside(reports), histories, given.html, given.json_to
    )


def journal(given: simulating.SimulateJournalCommand) -> None:
    """Run `corral simulate journal`."""
    from corral.core.model.home import Home
    from corral.core.model.units import parse_duration_s
    from corral.sim.replays.journal import Faults, read_journal, simulate_each
    from corral.sim.replays.past import record
    from corral.sim.reports.history import History

    url = given.ledger or Home(Path(given.home) if given.home else Path.home() / ".corral").ledger_url
    faults = None
    if given.mtbf is not None:
        faults = Faults(
            parse_duration_s(given.mtbf, field="--mtbf"), parse_duration_s(given.repair, field="--repair"), given.seed
        )
    policies = _names(given.policy, "--policy")
    histories = {name: History() for name in policies}
    facts = read_journal(url)
    with ProgressLine() as line:
        report = simulate_each(
            facts,
            policies=policies,
            backfill=given.backfill,
            add_gpus=given.add_gpus,
            faults=faults,
            histories=histories,
            progress=lambda name: _shown_on(line, name, policies),
        )
    if given.html is not None:
        histories = {"recorded": History(), **histories}
        record(facts, histories["recorded"])
    _write_queue(f"The journal under {', '.join(policies)}", report, histories, given.html, given.json_to)


def philly(given: simulating.SimulatePhillyCommand) -> None:
    """Run `corral simulate philly`."""
    from corral.sim.benchmarks.philly import read_trace, simulate
    from corral.sim.reports.history import History
    from corral.sim.reports.report import beside

    first, last = _range(given.take, "--take")
    histories = {name: History() for name in _names(given.order, "--order")}
    recorded = read_trace(given.jobs)[first : last + 1]
    reports = _run_each(
        histories,
        given.html,
        lambda name, history, progress: simulate(
            recorded, gpus=given.gpus, order=name, backfill=given.backfill, history=history, progress=progress
        ),
    )
    title = f"{given.jobs.name} under {', '.join(histories)}, {given.backfill} backfill"
    _write_queue(title, beside(reports), histories, given.html, given.json_to)


def kueue(given: simulating.SimulateKueueCommand) -> None:
    """Run `corral simulate kueue`."""
    from corral.sim.benchmarks.kueue import read_generator, simulate
    from corral.sim.reports.history import History

    history = History()
    with ProgressLine() as line, _counted_warnings() as warnings:
        report = simulate(
            read_generator(given.config),
            history=None if given.html is None else history,
            progress=_shown_on(line, given.config.name),
        )
    report["warnings"] = warnings.count
    _write_queue(
        f"{given.config.name} on the server's loop",
        report,
        {"corral": history},
        given.html,
        given.json_to,
        waiters="class",
    )


def faults(given: simulating.SimulateFaultsCommand) -> int:
    """Run `corral simulate faults`."""
    from corral.sim.faults.life import simulate
    from corral.sim.reports.history import History

    history = History()
    with ProgressLine() as line, _counted_warnings() as warnings:
        report = simulate(
            nodes=given.nodes,
            gpus=given.gpus,
            jobs=given.jobs,
            seed=given.seed,
            history=None if given.html is None else history,
            progress=_shown_on(line, f"seed {given.seed}"),
        )
    report["warnings"] = warnings.count
    title = f"{given.jobs} jobs among faults on {given.nodes} nodes with {given.gpus} GPUs each, seed {given.seed}"
    _write_queue(title, report, {"corral": history}, given.html, given.json_to)
    if report["guarantees_broken"]:
        return 1
    return 0


def scale(given: simulating.SimulateScaleCommand) -> None:
    """Run `corral simulate scale`."""
    from corral.sim.benchmarks.scale import run_scale

    taken_s: list[float] = []
    with ProgressLine() as line:
        report = run_scale(
            nodes=given.nodes,
            gpus_per_node=given.gpus_per_node,
            jobs=given.jobs,
            policy=given.policy,
            taken_s=taken_s,
            progress=_shown_on(line, given.policy),
        )
    if given.html is not None:
        from corral.sim.reports.report import speed_page

        _save(given.html, speed_page(report, taken_s))
    _write(report, given.json_to)


class _Warnings(logging.Handler):
    """Counts log records in place of printing them, which would disturb the progress line on a terminal."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.count = 0

    def emit(self, record: logging.LogRecord) -> None:
        self.count += 1


@contextmanager
def _counted_warnings() -> Iterator[_Warnings]:
    """Count the warnings of simulated servers. They are printed only if CORRAL_DEBUG is set."""
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
    """The report for each of these names, with a progress line. `run` gets its record only if there will be a page."""
    with ProgressLine() as line:
        return {
            name: run(name, None if html is None else record, _shown_on(line, name, records))
            for name, record in records.items()
        }


def _shown_on(line: ProgressLine, name: str, names: Collection[str] = ()) -> "Progress":
    """A function that shows the progress of the named simulation, and its number among several."""
    which = f"{name} ({list(names).index(name) + 1} of {len(names)})" if len(names) > 1 else name
    return lambda done, total: line.show(done, total, f"{which}: {done} of {total} jobs")


def _names(text: str, flag: str) -> list[str]:
    """The names in a list such as fgd,corral; each once. Raises Refused for an empty name."""
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
    """Write the report, and its HTML page if requested."""
    if html is not None:
        from corral.sim.reports.report import queue_page

        _save(html, queue_page(title, report, histories, units=units, waiters=waiters))
    _write(report, json_to)


def _write(report: Mapping[str, Any], json_to: str | None) -> None:
    """Write the report as JSON to a file or standard output, else as a table."""
    if json_to == "-":
        print_json(report)
    elif json_to is not None:
        _save(Path(json_to), json.dumps(report, indent=2) + "\n")
    else:
        from corral.sim.reports.figures import text

        write_lines(*text(report).splitlines())
