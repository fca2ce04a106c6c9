"""A server with two mock GPUs for the tasks of a module's tests, and a ledger."""

from collections.abc import Iterator

import pytest

from tests.core.ledger.conftest import ledger
from tests.e2e.box import Box, described, serving
from tests.vendors.nvidia.nvml_stub import nvml_library, nvml_stub, stubbed_nvml

__all__ = ["box", "ledger", "nvml_library", "nvml_stub", "stubbed_nvml"]


@pytest.fixture(scope="module")
def box() -> Iterator[Box]:
    with serving(described(2)) as serving_box:
        yield serving_box
