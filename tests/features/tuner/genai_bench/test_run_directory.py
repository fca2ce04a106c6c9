"""Directories of runs, and those of tuners that were killed."""

import os
import tempfile
import time
from pathlib import Path

import pytest

from corral.features.tuner.measuring.run_directory import private_directory


def test_it_is_private_and_goes_with_the_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with private_directory() as directory:
        assert directory.stat().st_mode & 0o777 == 0o700
        (directory / "log").write_text("key")
    assert list(tmp_path.iterdir()) == []


def test_one_that_was_left_is_removed_and_one_that_is_used_is_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    left, young, other = (tmp_path / f"{name}" for name in ("corral-genai-bench-1", "corral-genai-bench-2", "mine"))
    for path in (left, young, other):
        path.mkdir()
        (path / "log").write_text("key")
    long_ago = time.time() - 3600
    with private_directory() as used:
        for path in (left, other, used):
            os.utime(path, (long_ago, long_ago))
        with private_directory() as second:
            assert set(tmp_path.iterdir()) == {used, second, young, other}
