"""The history of a device over HTTP, and by the Python client."""

import time

import pytest

from corral.client import Client
from corral.model.device import DeviceSample
from corral.model.errors import NotFound, Refused
from tests.api.world import Served


def test_a_device_has_its_series_also_when_it_is_gone(served: Served) -> None:
    uuid, now = "GPU-gone/1", time.time()
    for second in range(10):
        served.world.samples[uuid] = DeviceSample(uuid, now - 10 + second, utilization_pct=30 + second)
        served.world.recorder.look()
    with Client(served.world.home.root) as client:
        found = client.devices.history(uuid, "30m", series=["utilization_pct", "power_w"])
        assert (found.uuid, found.step_s, found.to - found.from_) == (uuid, 2, 1800)
        assert found.series["power_w"] == ()
        points = found.series["utilization_pct"]
        assert (points[0].min, points[-1].max) == (30, 39)
        seconds = client.devices.history(uuid, since=now - 60, until=now + 60).series["utilization_pct"]
        assert [point.mean for point in seconds] == [30 + second for second in range(10)]
        with pytest.raises(Refused, match="utilization_pct"):
            client.devices.history(uuid, series=["utilisation_pct"])
        with pytest.raises(NotFound):
            client.devices.history("GPU-never")
