"""Boxes for end-to-end tests: one to share, whose jobs each test ends, and fresh ones for what concerns the server."""

from collections.abc import Callable, Iterator

import pytest

from tests.e2e.box import Box, described, serving


@pytest.fixture(scope="session")
def _shared_box() -> Iterator[Box]:
    with serving(described(4)) as box:
        yield box


@pytest.fixture
def box(_shared_box: Box) -> Iterator[Box]:
    """A box of four GPUs, all free."""
    yield _shared_box
    _shared_box.clear()


@pytest.fixture
def new_box() -> Iterator[Callable[[str], Box]]:
    """Makes boxes of one's own; their servers are not up yet."""
    boxes: list[Box] = []

    def make(devices: str) -> Box:
        boxes.append(Box(devices))
        return boxes[-1]

    yield make
    for made in boxes:
        made.discard()
