"""`corral health`: list sick GPUs, trust and test them, and print the evidence for a vendor."""

from collections.abc import Iterator
from pathlib import Path

from corral.cli.screen import print_json, write_lines, write_painted
from corral.cli.tables.text_table import TextTable
from corral.client import Client
from corral.core.model.errors import Refused
from corral.core.model.printable import printable
from corral.core.model.units import MILLI_PER_DEVICE, count_of
from corral.features.health import commands
from corral.features.health.answers import Evidence, HealthList, HealthRow
from corral.formatting.times import clock_time, full_time


def health(given: commands.HealthCommand) -> None:
    """Run `corral health`."""
    with Client() as client:
        found = client.health.list()
    if given.json:
        print_json(found)
    else:
        write_painted(*health_lines(found))


def trust(given: commands.HealthTrustCommand) -> None:
    """Run `corral health trust`."""
    with Client() as client:
        _print_row(client.health.trust(given.gpu), json=given.json)


def probe(given: commands.HealthProbeCommand) -> None:
    """Run `corral health probe`."""
    with Client() as client:
        _print_row(client.health.probe(given.gpu), json=given.json)


def evidence(given: commands.HealthEvidenceCommand) -> None:
    """Run `corral health evidence`."""
    with Client() as client:
        found = client.health.evidence(given.gpu)
    if given.json and given.out is None:
        print_json(found)
    elif given.out is None:
        write_lines(*evidence_lines(found))
    else:
        _write(given.out, found)


def _write(path: Path, found: Evidence) -> None:
    text = "".join(f"{printable(line)}\n" for line in evidence_lines(found))
    try:
        path.write_text(text)
    except OSError as error:
        raise Refused(f"--out: {path} cannot be written: {error.strerror}", field="out") from None
    write_lines(f"the evidence about GPU {_called(found.device)} is in {path}")


def health_lines(found: HealthList) -> Iterator[str]:
    """The table of sick devices."""
    if not found.devices:
        yield f"all {count_of(found.total, 'GPU')} are healthy, and were so of late"
        return
    table = TextTable(
        ("GPU", "HEALTH", "SINCE", "WATCHED UNTIL", "FELL SICK", "JOBS", "REASON"), numeric=("FELL SICK",)
    )
    for row in found.devices:
        table.add(
            _called(row),
            row.health,
            "" if row.since is None else clock_time(row.since),
            "" if row.until is None else clock_time(row.until),
            str(row.relapses),
            ",".join(row.jobs),
            row.reason or "",
        )
    yield from table.lines()


def evidence_lines(found: Evidence) -> Iterator[str]:
    """The evidence in sections, for a person."""
    row = found.device
    yield f"GPU {_called(row)}: {row.name or 'no node has it any more'}"
    yield f"UUID {row.uuid}, PCI {found.pci_bus_id or 'unknown'}, driver {found.driver or 'unknown'}"
    yield row.health + (f" since {full_time(row.since)}" if row.since else "") + _because(row.reason)
    yield f"collected {full_time(found.taken_at)}"
    yield from _section("Signs of a fault, and errors of the last minutes", found.errors)
    yield from _section("Readings", (f"{counter.name}: {counter.value}" for counter in found.counters))
    yield from _section("Changes of its health", _changes(found))
    yield from _section(
        "Lines of the driver in the kernel's log", found.driver_log or (found.driver_log_missing or "none",)
    )
    yield from _section("Jobs that had it in the last 7 days", _runs(found))


def _section(title: str, lines: "Iterator[str] | tuple[str, ...]") -> Iterator[str]:
    yield ""
    yield f"{title}:"
    found = [f"  {line}" for line in lines]
    yield from found or ["  none"]


def _changes(found: Evidence) -> Iterator[str]:
    for change in found.changes:
        yield f"{full_time(change.changed_at)} {change.health}{_because(change.reason)} (by {change.by})"
        yield from (f"  {line}" for line in change.evidence)


def _runs(found: Evidence) -> Iterator[str]:
    for run in found.runs:
        end = "now" if run.ended_at is None else full_time(run.ended_at)
        share = "all of it" if run.share_milli >= MILLI_PER_DEVICE else f"{run.share_milli / 10:g} % of it"
        yield f"job {run.job} of {run.user}, {share}, {full_time(run.began_at)} to {end}"


def _print_row(row: HealthRow, *, json: bool) -> None:
    if json:
        print_json(row)
    else:
        write_lines(f"GPU {_called(row)} is {row.health}{_because(row.reason)}")


def _because(reason: str | None) -> str:
    return f": {reason}" if reason else ""


def _called(row: HealthRow) -> str:
    return row.uuid if row.node is None else f"{row.node}:{row.index}"
