"""Recorded traces, too large to come with Corral."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

Recorded = Callable[[str], Path]


@pytest.fixture(scope="session")
def recorded() -> Recorded:
    """The path of a recorded file, by its name below CORRAL_BENCH_DATA; a test is skipped where it is not at hand."""

    def find(name: str) -> Path:
        data = os.environ.get("CORRAL_BENCH_DATA")
        if data is None:
            pytest.skip(f"needs {name}: set CORRAL_BENCH_DATA to the directory that has it")
        return Path(data) / name

    return find
