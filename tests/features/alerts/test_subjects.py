"""What alert rules see of devices, nodes, jobs, queues and quotas."""

from dataclasses import replace

from corral.core.model.devices.device import Device, DeviceCondition, DeviceSample, Node, Silence
from corral.core.model.devices.health import DeviceHealth, Health, SignKind
from corral.core.model.fact import (
    AllocationEnded,
    AllocationMade,
    ConditionObserved,
    Delta,
    DeviceHealthChanged,
    JobSubmitted,
    NodeObserved,
    SilenceObserved,
)
from corral.core.model.jobs.job import Job, JobSpec
from corral.core.model.placing.allocation import Allocation, Grant, Member, Placement
from corral.core.model.queues.queue import Limits, Queue, Quota
from corral.core.model.view import View
from corral.core.ports.telemetry import Contact, NodeContact
from corral.features.alerts.device_subjects import JOINING_S, DeviceSubjects, node_subjects
from corral.features.alerts.firing import Subject
from corral.features.alerts.work_subjects import job_subjects, queue_subjects, quota_subjects

NOW = 100_000.0
A, B = "GPU-a", "GPU-b"


def sample(uuid: str = A, **readings: int | str | None) -> DeviceSample:
    return DeviceSample(uuid, NOW, **readings)  # type: ignore[arg-type]


def job(number: int, *, queue: str = "default", at: float = NOW, name: str = "") -> Job:
    return Job(str(number), number, JobSpec("alice", name=name, queue=queue), at)


def allocation(of: Job, uuid: str, at: float = NOW) -> Allocation:
    placement = Placement((Member("one", (Grant(uuid, 1000),)),))
    return Allocation(f"{of.id}.1", of.id, of.spec.user, placement, at)


def view() -> View:
    devices = (Device(A, 0, "H100", 80_000), Device(B, 1, "H100", 80_000))
    return View(queues={"default": Queue("default"), "night": Queue("night")}).advance(
        [NodeObserved(Node("one", devices, 8000, 8000)), *(ConditionObserved(DeviceCondition(u)) for u in (A, B))]
    )


def readings(subjects: list[Subject], name: str) -> dict[str, float | str | None]:
    (found,) = [subject for subject in subjects if subject.name == name]
    return dict(found.readings)


def test_a_device_that_nothing_reads_has_one_subject_as_long_as_nothing_changes() -> None:
    device = Device(A, 0, "A100", 81920)
    view, subjects = View().advance([NodeObserved(Node("n", (device,), 1000, 1024))]), DeviceSubjects({})
    unmetered = {device.uuid: DeviceSample(device.uuid, 1.0, metered=False)}
    view = view.advance([ConditionObserved(DeviceCondition(device.uuid))])
    (first,), (second,) = subjects.subjects(view, unmetered, 0.0), subjects.subjects(view, unmetered, 0.0)
    assert second is first
    assert first.readings == {"model": device.model, "node": "n", "jobs": 0, "unreadable": 0, "unhealthy": 0}
    view = view.advance([ConditionObserved(DeviceCondition(device.uuid, unreadable="away"))])
    (third,) = subjects.subjects(view, unmetered, 0.0)
    assert third.readings["unreadable"] == 1


def test_a_device_is_seen_as_it_was_sampled_and_what_was_not_read_is_not_known() -> None:
    samples = {
        A: sample(memory_used_mib=20_000, memory_total_mib=80_000, power_mw=300_500, temperature_c=85, throttle=0x4)
    }
    seen = DeviceSubjects({}).subjects(view(), samples, NOW - 10)
    first = readings(seen, f"device {A}")
    assert (first["memory_used_pct"], first["power_w"], first["temperature_c"]) == (25, 300.5, 85)
    assert (first["throttled"], first["ecc_errors"], first["unreadable"]) == (0, None, 0)
    assert "temperature_c" not in readings(seen, f"device {B}")
    assert "temperature_c" not in readings(DeviceSubjects({}).subjects(view(), samples, NOW + 1), f"device {A}")


def test_heat_throttles_a_device_and_its_power_limit_does_not() -> None:
    for bits, throttled in ((0x40, 1), (0x44, 1), (0x5, 0), (0, 0)):
        seen = DeviceSubjects({}).subjects(view(), {A: sample(throttle=bits)}, 0)
        assert readings(seen, f"device {A}")["throttled"] == throttled


def test_an_xid_is_new_once_and_one_that_was_told_before_a_restart_is_not() -> None:
    devices = DeviceSubjects({B: 31})
    found = []
    for xid in (0, 31, 31, 79, None, 79, 0, 79):
        samples = {A: sample(A, xid=xid), B: sample(B, xid=31)}
        seen = devices.subjects(view(), samples, 0)
        assert readings(seen, f"device {B}")["new_xid"] == 0
        found.append(readings(seen, f"device {A}")["new_xid"])
    assert found == [0, 31, 0, 79, None, 0, 0, 79]


def test_a_device_cannot_be_read_where_its_node_answers() -> None:
    ill = view().advance([ConditionObserved(DeviceCondition(A, unreadable="it is lost", ill_since=NOW - 90))])
    seen = DeviceSubjects({}).subjects(ill, {}, 0)
    assert readings(seen, f"device {A}")["unreadable"] == 1
    silent = ill.advance([SilenceObserved("one", Silence(NOW - 60, "no answer"))])
    assert readings(DeviceSubjects({}).subjects(silent, {}, 0), f"device {A}")["unreadable"] is None
    assert readings(list(node_subjects(silent, (), {"one": "full"}, NOW)), "node one") == {
        "node": "one", "silent": 1, "gone": 0, "starts_blocked": 1,
    }  # fmt: skip


def test_a_device_is_unhealthy_by_its_recorded_health_by_its_readings_or_by_its_cluster() -> None:
    def unhealthy(*deltas: Delta) -> object:
        return readings(DeviceSubjects({}).subjects(view().advance(deltas), {}, 0), f"device {A}")["unhealthy"]

    ill = ConditionObserved(DeviceCondition(A, unhealthy="1 of 8 is unhealthy"))
    hot = ConditionObserved(DeviceCondition(A, unhealthy="134°C", ill_by=(SignKind.TEMPERATURE,)))
    trusted = DeviceHealth(Health.HEALTHY, "root trusts it", NOW, trusted=(SignKind.TEMPERATURE,), noted=NOW)
    assert unhealthy() == 0
    assert (
        unhealthy(ill)
        == unhealthy(hot)
        == unhealthy(sick(Health.QUARANTINED))
        == unhealthy(sick(Health.PROBATION))
        == 1
    )
    assert unhealthy(sick(Health.SUSPECT)) == 0
    assert unhealthy(hot, DeviceHealthChanged(A, trusted, at=NOW, by="root")) == 0
    silence = SilenceObserved("one", Silence(NOW, "away"))
    assert unhealthy(silence) is None
    assert unhealthy(sick(Health.QUARANTINED), silence) == 1


def sick(state: Health) -> DeviceHealthChanged:
    return DeviceHealthChanged(A, DeviceHealth(state, "Xid 79", NOW, noted=NOW), at=NOW, by="corral:health-watch")


def test_a_node_that_a_new_server_has_not_heard_yet_is_not_known_to_be_silent() -> None:
    unheard = [NodeContact("two", Contact.SILENT, None)]
    seen = []
    for since, gone in ((20, False), (JOINING_S, False), (300, True)):
        there = view().advance([SilenceObserved("two", Silence(NOW - since, "not yet", gone=gone))])
        node = readings(list(node_subjects(there, unheard, {}, NOW)), "node two")
        seen.append((node["silent"], node["gone"]))
    assert seen == [(None, None), (1, None), (1, 1)]


def test_jobs_are_seen_to_wait_and_to_use_their_devices() -> None:
    waits, held, runs = job(1, at=NOW - 500), replace(job(2, at=NOW - 900), held=True), job(3)
    there = view().advance([JobSubmitted(one, by="u", at=NOW) for one in (waits, held, runs)])
    there = there.advance([AllocationMade(allocation(runs, A, NOW - 60), by="u", at=NOW)])
    seen = job_subjects(there, {A: sample(utilization_pct=3)}, 0, NOW)
    assert readings([seen[0]], "job 1")["waiting_s"] == 500
    assert readings([seen[1]], "job 2")["waiting_s"] == 0
    running = readings([seen[-1]], "job 3")
    assert (running["running_s"], running["busiest_gpu_pct"], running["others_waiting"]) == (60, 3, 1)
    assert seen[0].owner == "alice"
    assert readings([job_subjects(there, {}, 0, NOW)[-1]], "job 3")["busiest_gpu_pct"] is None


def test_what_a_job_is_named_is_shown_escaped_and_cut() -> None:
    there = view().advance([JobSubmitted(job(1, name="\x1b[2J\n" + "x" * 200), by="u", at=NOW)])
    (seen,) = job_subjects(there, {}, 0, NOW)
    assert seen.called.isprintable()
    assert len(seen.called) < 100
    assert all(value.isprintable() for _, value in seen.labels)


def test_a_queue_is_seen_by_what_waits_and_when_something_started_there() -> None:
    there = view().advance([JobSubmitted(job(1, queue="night", at=NOW - 7200), by="u", at=NOW)])
    starts: dict[str, float] = {}
    night = readings(list(queue_subjects(there, starts, NOW - 8000, NOW)), "queue night")
    assert (night["waiting_jobs"], night["running_jobs"], night["since_start_s"]) == (1, 0, 7200)
    other = job(2, queue="night")
    there = there.advance(
        [JobSubmitted(other, by="u", at=NOW), AllocationMade(allocation(other, A, NOW - 600), by="u", at=NOW)]
    )
    list(queue_subjects(there, starts, NOW - 8000, NOW))
    there = there.advance([AllocationEnded("2.1", "2", by="u", at=NOW)])
    night = readings(list(queue_subjects(there, starts, NOW - 8000, NOW)), "queue night")
    assert (night["longest_wait_s"], night["since_start_s"]) == (7200, 600)
    night = readings(list(queue_subjects(there, {}, NOW - 60, NOW)), "queue night")
    assert night["since_start_s"] is None, "nobody knows what started before"


def test_gpu_hours_count_what_was_used_and_what_runs() -> None:
    quota = Quota(gpu_hours=10, period_s=86400)
    there = replace(view(), limits=Limits(of_user=quota), queues={"default": Queue("default", quota=quota)})
    done, runs = job(1), job(2)
    there = there.advance([JobSubmitted(one, by="u", at=NOW) for one in (done, runs)])
    there = there.advance(
        [
            AllocationMade(allocation(done, A, NOW - 4 * 3600), by="u", at=NOW),
            AllocationMade(allocation(runs, B, NOW - 2 * 3600), by="u", at=NOW),
            AllocationEnded("1.1", "1", by="u", at=NOW),
        ]
    )
    seen = list(quota_subjects(there, NOW))
    assert {one.name: one.readings["gpu_hours_used_pct"] for one in seen} == {
        "quota of user alice": 60,
        "quota of queue default": 60,
    }
