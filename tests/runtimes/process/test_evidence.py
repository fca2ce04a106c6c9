"""Which process supervises which launch, by what cannot be written into a record."""

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from corral.runtimes.process import evidence
from corral.runtimes.process.procfs import LocalProcess, read_file


@contextmanager
def a_process() -> Iterator[tuple[subprocess.Popen[bytes], LocalProcess]]:
    """One that ends when its input does."""
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE) as process:
        yield process, LocalProcess.of(process.pid)


def test_a_process_that_is_no_supervisor_is_another() -> None:
    with a_process() as (_, other):
        assert evidence.is_another(other, "/launches", "1")


def test_a_supervisor_that_ends_while_it_is_looked_at_is_not_another(monkeypatch: pytest.MonkeyPatch) -> None:
    with a_process() as (process, supervisor):

        def just_too_late(path: str) -> bytes:
            process.communicate()
            return read_file(path)

        monkeypatch.setattr("corral.runtimes.process.evidence.read_file", just_too_late)
        assert not evidence.is_another(supervisor, "/launches", "1")


def test_a_process_that_has_ended_is_not_another() -> None:
    with a_process() as (_, ended):
        pass
    assert not evidence.is_another(ended, "/launches", "1")
