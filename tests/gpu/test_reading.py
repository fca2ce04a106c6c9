"""What the library sees through a server of devices that are hard to see, or were just allocated."""

from collections.abc import Iterator

import pytest

from corral.gpu import GPUMonitor, lease
from tests.e2e.box import Box, described, serving, uuid


@pytest.fixture
def box(monkeypatch: pytest.MonkeyPatch) -> Iterator[Box]:
    dim = described(2).replace('load = "follow-jobs"', 'memory_used = "8G"\nunreadable = ["utilization_pct"]', 1)
    with serving(dim, "stale_sample: 1h\n") as box:
        monkeypatch.setenv("CORRAL_HOME", str(box.home))
        yield box


def test_only_what_cannot_be_read_is_none_and_such_a_gpu_is_never_available(box: Box) -> None:
    monitor = GPUMonitor()
    seen = monitor.get_gpu_info(0)
    assert seen is not None
    assert (seen.memory_used_mb, seen.memory_total_mb, seen.utilization_percent) == (8192, 81920, None)
    assert seen.score == 0.0
    assert monitor.get_available_gpus(max_utilization=100) == [1]
    with lease(gpus=1) as held:
        assert held.uuids == (uuid(1),)
        # What this very monitor saw a moment ago is no answer any more.
        assert monitor.get_available_gpus(max_utilization=100) == []
