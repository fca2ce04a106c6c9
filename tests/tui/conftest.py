"""A server with jobs for `corral top`, and a way to live in it with keys alone."""

from collections.abc import Iterator

import pytest

from tests.e2e.box import Box, described, serving


@pytest.fixture(scope="session")
def _tui_box() -> Iterator[Box]:
    with serving(described(2)) as box:
        yield box


@pytest.fixture
def box(_tui_box: Box) -> Iterator[Box]:
    """A box of two GPUs, which are free."""
    yield _tui_box
    _tui_box.clear()
