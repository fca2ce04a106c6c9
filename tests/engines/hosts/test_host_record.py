"""The list of hosts on disk."""

import stat
from pathlib import Path

import pytest

from corral.core.model.devices.joined_host import HostEntry
from corral.core.model.errors import BackendFailed, Refused
from corral.engines.hosts.host_record import MOST_HOSTS, HostRecord, HostRecords


def records(directory: Path) -> HostRecords:
    return HostRecords(directory / "hosts.json")


def test_what_is_put_is_there_after_a_restart_and_for_its_owner_alone(tmp_path: Path) -> None:
    record = HostRecord(HostEntry("gpu-05", "admin@10.0.0.5", "10.1.0.5"), joined=True)
    records(tmp_path).put(record)
    assert records(tmp_path).all() == {"gpu-05": record}
    assert stat.S_IMODE((tmp_path / "hosts.json").stat().st_mode) == 0o600


def test_hosts_of_the_settings_come_and_go_with_the_settings(tmp_path: Path) -> None:
    first = records(tmp_path)
    first.put(HostRecord(HostEntry("added"), joined=True))
    first.settle((HostEntry("listed"), HostEntry("other")))
    assert set(first.all()) == {"added", "listed", "other"}
    again = records(tmp_path)
    again.settle((HostEntry("listed", ssh="admin@listed"),))
    assert set(again.all()) == {"added", "listed"}
    assert again.all()["listed"].entry.ssh == "admin@listed"


def test_what_was_learned_of_a_host_of_the_settings_is_kept(tmp_path: Path) -> None:
    first = records(tmp_path)
    first.settle((HostEntry("listed"),))
    first.put(HostRecord(HostEntry("listed"), joined=True, from_settings=True))
    first.settle((HostEntry("listed"),))
    assert records(tmp_path).all()["listed"].joined


@pytest.mark.parametrize("text", ["", "{", "[1]", '[{"entry": {"name": "../x"}}]', "[" * 5000])
def test_a_damaged_list_is_named_and_nothing_is_lost_in_silence(tmp_path: Path, text: str) -> None:
    (tmp_path / "hosts.json").write_text(text)
    with pytest.raises(BackendFailed, match=r"hosts\.json cannot be read.*mend or remove it"):
        records(tmp_path)


def test_there_are_at_most_so_many_hosts(tmp_path: Path) -> None:
    full = records(tmp_path)
    full.settle(tuple(HostEntry(f"h{number}") for number in range(MOST_HOSTS)))
    with pytest.raises(Refused, match="the most that are joined"):
        full.put(HostRecord(HostEntry("one-more")))


@pytest.mark.parametrize("name", ["", "../x", "-o", "a b", "x" * 64, "a\n"])
def test_a_name_can_name_a_directory_and_a_node(name: str) -> None:
    with pytest.raises(Refused, match="cannot be the name"):
        HostEntry(name)


@pytest.mark.parametrize("destination", ["-oProxyCommand=sh", "a b", "a;b", "$(x)", "", "a\n"])
def test_a_destination_is_no_option_and_no_command(destination: str) -> None:
    with pytest.raises(Refused, match="no destination of ssh"):
        HostEntry("gpu-05", ssh=destination)
