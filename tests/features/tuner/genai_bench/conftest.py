"""The real genai-bench where `make genai-bench` has installed it, and programs in its place that misbehave."""

import stat
from collections.abc import Callable
from pathlib import Path

import pytest

from corral.features.tuner.measuring.genai_bench import installed_program
from tests.features.tuner.genai_bench.tokenizer import write_tokenizer


@pytest.fixture
def program() -> Path:
    """The one that is installed; tests that need it are skipped without."""
    found = installed_program()
    if found is None:
        pytest.skip("genai-bench is not installed: make genai-bench (1.3 GB), or make test-genai-bench")
    return found


@pytest.fixture(scope="session")
def tokenizer(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_tokenizer(tmp_path_factory.mktemp("tokenizer"))


@pytest.fixture
def faulty(tmp_path: Path) -> Callable[[str], Path]:
    """Makes a program of a shell script, for faults that the real one has once in a while. $RUN is its directory."""

    def made(script: str) -> Path:
        path = tmp_path / "genai-bench"
        # The directory of a run is where it is started.
        path.write_text(f"#!/bin/sh\nRUN=$PWD/run\nmkdir $RUN\n{script}\n")
        path.chmod(path.stat().st_mode | stat.S_IXUSR)
        return path

    return made
