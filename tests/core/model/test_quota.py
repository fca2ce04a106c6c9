"""What a part of a device counts as, against which quotas, and what is left of them."""

from hypothesis import given
from hypothesis import strategies as st

from corral.core.model.jobs.job import Job, JobSpec
from corral.core.model.queues.queue import Limits, Project, Queue, Quota
from corral.core.model.queues.quota import (
    SITE,
    QuotaUse,
    Scope,
    Used,
    ancestry,
    borrowable_milli,
    counted_milli,
    excess,
    is_circular,
    least_device_mib,
    lendable_milli,
    quotas_of,
)

LAB = Queue("lab", quota=Quota(share_milli=8000))
A = Queue("a", parent="lab", quota=Quota(share_milli=4000, borrow_milli=3000))
B = Queue("b", parent="lab", quota=Quota(share_milli=2000))
C = Queue("c", parent="lab", quota=Quota(share_milli=2000, borrow_milli=8000))
QUEUES = {one.name: one for one in (LAB, A, B, C)}
JOB = Job("1", 1, JobSpec("alice", queue="a", project="nlp"), 0.0)


def test_the_largest_part_counts_in_whole_hundredths_and_never_more_than_the_device() -> None:
    assert counted_milli(250) == 250
    assert counted_milli(10, memory_mib=81920, device_mib=81920) == 1000
    assert counted_milli(10, memory_mib=1, device_mib=81920) == 10
    assert counted_milli(10, memory_mib=820, device_mib=81920) == 20
    assert counted_milli(500, memory_mib=20480, device_mib=81920, cores_percent=60) == 600
    assert counted_milli(10, memory_mib=90000, device_mib=81920) == 1000


def test_memory_of_a_device_that_does_not_say_how_much_it_has_counts_nothing_more() -> None:
    assert counted_milli(10, memory_mib=81920) == 10


def test_a_slice_counts_as_what_it_is_of_its_device() -> None:
    assert counted_milli(1000, memory_mib=9728, device_mib=9728, slice_milli=142) == 142


@given(st.integers(1, 200_000), st.integers(10, 1000))
def test_on_the_least_device_it_is_within_the_room_and_on_any_smaller_it_is_not(
    memory_mib: int, room_milli: int
) -> None:
    device_mib = least_device_mib(memory_mib, room_milli)
    assert counted_milli(0, memory_mib=memory_mib, device_mib=device_mib) <= room_milli
    if room_milli < 990 and device_mib > 1:
        assert counted_milli(0, memory_mib=memory_mib, device_mib=device_mib - 1) > room_milli // 10 * 10


def test_a_job_counts_to_its_user_its_project_its_queue_and_all_queues_above() -> None:
    use = QuotaUse(QUEUES)
    use.count(JOB, Used(1, 2, 2000, 4096), 1)
    counted = {SITE, Scope("user", "alice"), Scope("project", "nlp"), Scope("queue", "a"), Scope("queue", "lab")}
    assert use.used == dict.fromkeys(counted, Used(1, 2, 2000, 4096))
    use.count(JOB, Used(1, 2, 2000, 4096), -1)
    assert use.used == {}


def test_quotas_are_those_that_the_site_has_set_up() -> None:
    limits, nlp = Limits(of_user=Quota(devices=4)), Project("nlp", quota=Quota(running=3))

    def found(project: str, queue: str) -> list[tuple[Scope, Quota]]:
        return list(quotas_of(QUEUES, {"nlp": nlp}, limits, user="alice", project=project, queue=queue))

    of_user = (Scope("user", "alice"), Quota(devices=4))
    assert found("none", "nowhere") == [of_user]
    of_queues = [(Scope("queue", "a"), A.quota), (Scope("queue", "lab"), LAB.quota)]
    assert found("nlp", "a") == [of_user, (Scope("project", "nlp"), nlp.quota), *of_queues]


def test_a_queue_that_is_its_own_ancestor_is_found_and_ends_nowhere() -> None:
    circle = {"x": Queue("x", parent="y"), "y": Queue("y", parent="x"), "z": Queue("z", parent="gone")}
    assert ancestry(circle, "x") == ("x", "y")
    assert [name for name in circle if is_circular(circle, name)] == ["x", "y"]
    assert not any(is_circular(QUEUES, name) for name in QUEUES)


def test_what_queues_beside_it_do_not_use_can_be_borrowed_once() -> None:
    used = {"b": 500, "c": 2700}

    def use(scope: Scope) -> Used:
        return Used(milli=used.get(scope.name, 0))

    assert lendable_milli(QUEUES, A) == 3000
    assert lendable_milli(QUEUES, C) == 6000
    assert borrowable_milli(QUEUES, A, use) == 1500 - 700
    assert borrowable_milli(QUEUES, B, use) == 0
    assert borrowable_milli(QUEUES, C, use) == 4000 + 1500


def test_the_excess_is_what_is_above_each_limit() -> None:
    assert excess(Used(3, 9, 5000, 10), Quota(devices=8, share_milli=4000), 500) == Used(0, 1, 500, 0)
