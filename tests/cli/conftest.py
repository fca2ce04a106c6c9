"""A server for commands that need one, whose jobs each test ends."""

from collections.abc import Iterator

import pytest

from tests.e2e.box import Box, described, serving


@pytest.fixture(scope="session")
def _running_box() -> Iterator[Box]:
    with serving(described(1)) as box:
        yield box


@pytest.fixture
def box(_running_box: Box) -> Iterator[Box]:
    """A box of one GPU, which is free."""
    yield _running_box
    _running_box.clear()
