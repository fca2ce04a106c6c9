"""The history of devices, jobs, nodes, users and projects over HTTP, and by the Python client."""

import os
import pwd
import time

import pytest

from corral.client import Client
from corral.core.lifecycle.starting import start_at_once
from corral.core.model.devices.device import DeviceSample
from corral.core.model.errors import NotFound, Refused
from corral.core.model.placing.allocation import Grant, Member, Placement
from corral.core.model.view import View
from corral.core.ports.ledger import Decided
from corral.wire import to_plain
from tests.api.world import UUIDS, Served


def test_a_device_has_its_series_also_when_it_is_gone(served: Served) -> None:
    uuid, now = "GPU-gone/1", time.time()
    for second in range(10):
        served.world.samples[uuid] = DeviceSample(uuid, now - 10 + second, utilization_pct=30 + second)
        served.world.history.recorder.look()
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


def test_a_job_its_user_project_and_node_have_what_its_devices_were_like(served: Served) -> None:
    job_id = served.submit(request={"devices": 2}, project="vision")
    give(served, job_id)
    measure(served)
    user = pwd.getpwuid(os.getuid()).pw_name
    with Client(served.world.home.root) as client:
        of_job = client.jobs.history(job_id, "30m", series=["utilization_pct", "power_w"])
        assert (of_job.id, of_job.step_s) == (job_id, 2)
        assert {(point.min, point.max) for point in of_job.series["utilization_pct"]} == {(40, 60)}
        assert {point.mean for point in of_job.series["power_w"]} == {300.0}
        whole_life = client.jobs.history(job_id).series["power_w"]
        assert [point.mean for point in whole_life] == [300.0] * len(whole_life)
        groups = (
            client.nodes.history("here", "30m", series="power_w"),
            client.users.history(user, "30m", series="power_w"),
            client.projects.history("vision", "30m", series="power_w"),
        )
        assert [group.name for group in groups] == ["here", user, "vision"]
        assert [{point.mean for point in group.series["power_w"]} for group in groups] == [{300.0}] * 3


def test_each_gpu_of_a_job_has_its_own_series(served: Served) -> None:
    job_id = served.submit(request={"devices": 2})
    path = f"/history/jobs/{job_id}/gpus?series=power_w,memory_used_mib"
    assert served.call("GET", path).data["gpus"] == []
    give(served, job_id)
    measure(served)
    found = served.call("GET", path).data
    assert [(gpu["label"], gpu["name"], gpu["memory_mib"]) for gpu in found["gpus"]] == [
        ("0", "Mock GPU", 16384),
        ("1", "Mock GPU", 16384),
    ]
    assert [{point["mean"] for point in gpu["series"]["power_w"]} for gpu in found["gpus"]] == [{100.0}, {200.0}]
    assert found["series"] == {}


def test_of_too_many_gpus_the_spread_is_told(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("corral.features.history.asking.MOST_GPUS_APART", 1)
    job_id = served.submit(request={"devices": 2})
    give(served, job_id)
    measure(served)
    found = served.call("GET", f"/history/jobs/{job_id}/gpus?series=power_w").data
    spread = {(point["min"], point["mean"], point["max"]) for point in found["series"]["power_w"]}
    assert spread == {(100.0, 150.0, 200.0)}
    assert [(gpu["label"], gpu["series"]) for gpu in found["gpus"]] == [("0", {}), ("1", {})]


def test_a_jobs_row_has_what_was_measured_of_its_gpus_in_the_form_of_autotuners(served: Served) -> None:
    job_id = served.submit(request={"devices": 2})
    assert "gpu_monitoring" not in served.call("GET", f"/jobs/{job_id}").data
    give(served, job_id)
    assert "gpu_monitoring" not in served.call("GET", f"/jobs/{job_id}").data
    measure(served)
    found = served.call("GET", f"/jobs/{job_id}").data["gpu_monitoring"]
    assert found == {
        "monitoring_duration_seconds": 10.0,
        "sample_count": 10,
        "gpu_stats": {
            str(number): {
                "name": "Mock GPU",
                "utilization": {"min": used, "max": used, "mean": used, "samples": 10},
                "memory_used_mb": dict.fromkeys(("min", "max", "mean"), 4096),
                "memory_usage_percent": dict.fromkeys(("min", "max", "mean"), 25),
                "power_draw_w": dict.fromkeys(("min", "max", "mean"), power),
            }
            for number, (used, power) in enumerate([(40, 100), (60, 200)])
        },
    }
    with Client(served.world.home.root) as client:
        assert to_plain(client.jobs.get(job_id))["gpu_monitoring"] == found


def test_who_or_what_has_no_history_is_not_found(served: Served) -> None:
    with Client(served.world.home.root) as client:
        for histories, name in ((client.nodes, "gpu-99"), (client.users, "nobody/else"), (client.projects, "x")):
            with pytest.raises(NotFound, match=name):
                histories.history(name)
        with pytest.raises(NotFound, match="999"):
            client.jobs.history("999")
        with pytest.raises(Refused, match="power_w"):
            client.jobs.history(served.submit(), series="power")


def test_a_job_that_was_never_measured_has_series_without_points(served: Served) -> None:
    with Client(served.world.home.root) as client:
        assert set(client.jobs.history(served.submit()).series.values()) == {()}


def give(served: Served, job_id: str) -> None:
    """Let the job have both devices since half a minute ago."""
    at = time.time() - 30
    placement = Placement((Member("here", tuple(Grant(uuid, 1000) for uuid in UUIDS)),))

    def start(view: View) -> Decided[None]:
        return Decided(tuple(start_at_once(view, view.jobs[job_id], placement, by="test", at=at)), None)

    served.world.ledger.commit(start).result()


def measure(served: Served) -> None:
    """Ten seconds of both devices, each with a load of its own."""
    now = time.time()
    for second in range(10):
        for number, uuid in enumerate(UUIDS):
            served.world.samples[uuid] = DeviceSample(
                uuid,
                now - 10 + second,
                utilization_pct=40 + 20 * number,
                power_mw=100_000 + 100_000 * number,
                memory_used_mib=4096,
            )
        served.world.history.recorder.look()
