from pathlib import Path

import pytest

from corral.host.runtimes.process.records import claimed_list
from tests.host.runtimes.process.supervisor_parts import list_as_claimed


def test_launches_are_on_the_roll_in_the_order_they_were_entered(tmp_path: Path) -> None:
    path = str(tmp_path / "claims")
    for name in ("2.1", "1.1", "1.2"):
        list_as_claimed(f"{tmp_path}/launches/{name}")
    assert claimed_list.names(path) == ["2.1", "1.1", "1.2"]


def test_a_roll_that_is_not_there_names_nobody_and_needs_no_shortening(tmp_path: Path) -> None:
    claimed_list.shorten(str(tmp_path / "claims"))
    assert claimed_list.names(str(tmp_path / "claims")) == []
    assert not (tmp_path / "claims").exists()


def test_a_long_roll_keeps_its_newest_launches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(claimed_list, "_LINES_KEPT", 2)
    path = str(tmp_path / "claims")
    for name in ("1.1", "2.1", "3.1"):
        list_as_claimed(f"{tmp_path}/launches/{name}")
    claimed_list.shorten(path)
    assert claimed_list.names(path) == ["2.1", "3.1"]
    assert [entry.name for entry in tmp_path.iterdir()] == ["claims"]
