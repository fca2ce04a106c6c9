"""Which readings of a device are a job's own."""

from dataclasses import replace

import pytest

from corral.core.model.devices.device import SERVICE, Device, DeviceProcess, DeviceSample, Node
from corral.core.model.jobs.job import Job, JobSpec
from corral.core.model.jobs.job_samples import JobSample, job_samples
from corral.core.model.jobs.phase import Phase
from corral.core.model.placing.allocation import Allocation, Grant, Member, Placement
from corral.core.model.view import View, ViewDraft

BUSY = DeviceSample(
    "a", 100.0, utilization_pct=80, memory_used_mib=30_000, memory_total_mib=81_920, power_mw=300_000, temperature_c=60
)


def view_of(*held: tuple[str, *tuple[Grant, ...]], created_at: float = 50.0) -> View:
    """A view in which each job, by its id, holds these grants."""
    draft = ViewDraft(View(nodes={"n": Node("n", (Device("a", 0, "A100", 81_920),), 8000, 1000)}))
    for number, (job_id, *grants) in enumerate(held):
        draft.set_job(Job(job_id, number, JobSpec("ann"), 0.0, Phase.RUNNING))
        placement = Placement((Member("n", tuple(grants)),))
        draft.allocate(Allocation(f"{job_id}.1", job_id, "ann", placement, created_at))
    return draft.freeze()


SHARED = view_of(("1", Grant("a", 500)), ("2", Grant("a", 250)))


def found(view: View, *samples: DeviceSample) -> dict[str, JobSample]:
    return {one.job.id: one for one in job_samples(view, {sample.uuid: sample for sample in samples})}


def used(job_id: str | None, memory_mib: int | None, pct: int | None, user: str | None = "ann") -> DeviceProcess:
    return DeviceProcess(7, memory_mib, user=user, job_id=job_id, utilization_pct=pct)


def own(job_id: str, *processes: DeviceProcess) -> tuple[int | None, int | None]:
    """Utilisation and memory of a job on the shared device with these processes."""
    sample = found(SHARED, replace(BUSY, processes=processes))[job_id].sample
    return sample.utilization_pct, sample.memory_used_mib


@pytest.mark.parametrize(
    "processes", [None, (), (used("1", 9, 9),), (used(SERVICE, 30, None),), (used(None, 9, None, user=None),)]
)
def test_alone_on_its_device_a_job_has_the_devices_readings(processes: tuple[DeviceProcess, ...] | None) -> None:
    sample = replace(BUSY, processes=processes)
    one = found(view_of(("1", Grant("a", 1000))), sample)["1"]
    assert one.alone
    assert one.sample == sample


def test_on_a_shared_device_each_has_what_its_own_processes_have() -> None:
    processes = (used("1", 2000, 30), used("1", 500, 5), used("2", 4000, 40), used(SERVICE, 30, None))
    assert own("1", *processes) == (35, 2500)
    assert own("2", *processes) == (40, 4000)


def test_of_a_shared_device_nothing_that_is_the_devices_is_told() -> None:
    one = found(SHARED, replace(BUSY, processes=(used("1", 2000, 30),)))["1"]
    assert (one.alone, one.share_milli) == (False, 500)
    assert one.sample == DeviceSample("a", 100.0, 30, 2000, None, 81_920)


def test_a_job_without_a_process_on_a_shared_device_uses_nothing_of_it() -> None:
    assert own("1", used("2", 4000, 40)) == (0, 0)
    idle = replace(BUSY, utilization_pct=0, processes=())
    assert found(SHARED, idle)["1"].sample.utilization_pct == 0


@pytest.mark.parametrize(
    "processes",
    [
        (),  # and yet the device is busy
        (used("1", 2000, 30), used(None, 100, 10, user=None)),
    ],
)
def test_where_it_is_not_known_whose_processes_are_there_nothing_is_told(processes: tuple[DeviceProcess, ...]) -> None:
    assert own("1", *processes) == (None, None)


def test_where_the_driver_does_not_list_processes_nothing_is_told() -> None:
    assert found(SHARED, BUSY)["1"].sample.utilization_pct is None


def test_a_part_that_the_driver_does_not_tell_leaves_no_sum() -> None:
    assert own("1", used("1", 2000, None), used("1", None, 30)) == (None, None)
    assert own("1", used("1", 2000, None), used("2", None, 30)) == (None, 2000)


def test_a_stranger_on_the_device_makes_it_shared() -> None:
    processes = (used("1", 2000, 30), used(None, 9000, 50, user="eve"))
    one = found(view_of(("1", Grant("a", 1000))), replace(BUSY, processes=processes))["1"]
    assert not one.alone
    assert (one.sample.utilization_pct, one.sample.memory_used_mib) == (30, 2000)


def test_what_was_measured_before_the_job_got_the_device_is_not_its_own() -> None:
    assert found(view_of(("1", Grant("a", 1000)), created_at=100.5), BUSY) == {}


def test_a_device_at_fault_or_not_sampled_is_left_out() -> None:
    view = view_of(("1", Grant("a", 1000), Grant("b", 1000)))
    assert found(view, DeviceSample("a", 100.0, fault="lost")) == {}
    assert [one.number for one in job_samples(view, {"b": replace(BUSY, uuid="b")})] == [1]


def test_a_device_that_several_members_of_a_job_have_parts_of_is_told_once() -> None:
    (one,) = job_samples(view_of(("1", Grant("a", 500), Grant("a", 250))), {"a": BUSY})
    assert (one.share_milli, one.alone) == (750, True)
