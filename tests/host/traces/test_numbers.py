"""The highest number that anything in a home knows."""

from pathlib import Path

import pytest

from corral.core.model.home import Home
from corral.core.model.runs.launch import job_number
from corral.core.model.runs.run_history import MeteredHour
from corral.features.channels.channel_process import Outgoing
from corral.features.channels.outbox import Outbox, Waiting
from corral.features.history.recording.file import Block, HistoryFile
from corral.features.history.recording.meter_table import MeterTable
from corral.host.traces.numbers import highest_number

NOW = 1_700_000_000.0


@pytest.mark.parametrize(
    ("name", "number"),
    [
        ("17.log", 17),
        ("17_4.2.log", 17),
        ("17.log.until-1700000000000000001", 17),
        ("container.17_4.2-1", 17),
        ("17-1700000000000.json", 17),
        (".17.1", 17),
        ("job-17-started", 17),
        ("999999999999999999999.log", 0),
        ("1000000000000.1", 0),
        ("notes", 0),
        ("", 0),
    ],
)
def test_a_name_begins_with_the_number_of_its_job(name: str, number: int) -> None:
    assert job_number(name) == number


def test_a_new_home_knows_none(tmp_path: Path) -> None:
    assert highest_number(Home(tmp_path / "none"), 0.0) == 0


def test_an_element_of_an_array_is_known_by_its_own_number_in_the_history(tmp_path: Path) -> None:
    file = HistoryFile(tmp_path / "history.db")
    file.write([Block("jobs:1", 60, 0, b"some")], 47)
    file.write([Block("jobs:1", 60, 60, b"some")], 45)
    file.close()
    assert highest_number(Home(tmp_path), NOW) == 47


def test_the_meter_knows_jobs_that_ran_after_the_ledger_was_written_last(tmp_path: Path) -> None:
    hour = int(NOW // 3600)
    file = HistoryFile(tmp_path / "history.db")
    MeterTable(file).add([MeteredHour(hour, "31_2.1", "GPU-0", 1, 1, None, None)])
    file.close()
    assert highest_number(Home(tmp_path), NOW) == 31
    assert highest_number(Home(tmp_path), NOW + 7 * 86400) == 0


def test_a_message_that_was_sent_or_waits_knows_its_job(tmp_path: Path) -> None:
    outbox = Outbox(tmp_path / "deliveries.db")
    messages = [Outgoing(id=f"job-{number}-started", title="", body="", type="info", fields={}) for number in (5, 8)]
    outbox.take("mail", [Waiting(message, NOW) for message in messages])
    outbox.sent("mail", ["job-8-started"], NOW)
    outbox.close()
    assert highest_number(Home(tmp_path), NOW) == 8


@pytest.mark.parametrize("name", ["history.db", "deliveries.db", "claims"])
def test_what_is_damaged_is_passed_over(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_bytes(b"\xff\x00 no file of ours" * 500)
    (tmp_path / "logs").mkdir()
    (tmp_path / "logs/3.log").touch()
    assert highest_number(Home(tmp_path), NOW) == 3
