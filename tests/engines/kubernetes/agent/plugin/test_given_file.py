"""The file of what was given survives its writer, and damage to it costs nothing but itself."""

import json
from dataclasses import asdict
from pathlib import Path

import pytest

from corral.core.model.errors import BackendFailed
from corral.engines.kubernetes.agent.plugin.given_file import read_given, write_given
from corral.engines.kubernetes.agent.plugin.plugin_core import GivenToContainer

ONE = GivenToContainer("team", "p", "u", "main", "nvidia.com/gpu", ("GPU-1", "GPU-2"))


def test_what_was_written_is_read(tmp_path: Path) -> None:
    write_given(tmp_path / "home" / "given.json", (ONE,))
    assert read_given(tmp_path / "home" / "given.json") == (ONE,)


WRONG: list[dict[str, object]] = [
    {"a": 1},
    {"pod": 1},
    {"device_ids": []},
    {"device_ids": [1]},
    {"device_ids": "GPU-1"},
    {"memory_mib": "1"},
]


@pytest.mark.parametrize(
    "text",
    [
        *("", "[]", "{", '{"version": 2, "given": []}'),
        *(json.dumps({"version": 1, "given": [{**asdict(ONE), **wrong}]}) for wrong in WRONG),
    ],
)
def test_a_damaged_file_says_nothing(tmp_path: Path, text: str) -> None:
    (tmp_path / "given.json").write_text(text)
    assert read_given(tmp_path / "given.json") == ()


def test_a_disk_that_fails_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(BackendFailed, match="cannot be noted"):
        write_given(tmp_path / "file" / "given.json", (ONE,))
