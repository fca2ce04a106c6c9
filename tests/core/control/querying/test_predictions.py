"""What earlier jobs say of one: an offer only of what would start now, and nothing of jobs that were not alike."""

from dataclasses import replace
from typing import Any

import pytest

from corral.core.control.querying.predictions import MOST_NODES, Predictions, offer
from corral.core.model.jobs.job import Job, JobSpec
from corral.core.model.queues.queue import Limits, Quota
from corral.core.model.runs.prediction import Alike, Prediction
from corral.core.model.view import View
from corral.core.ports.monitoring import UseOfAlike
from corral.core.scheduling.planner import Planner
from tests.core.scheduling.lab import T0, box, job, observed, ran, started, submitted, view_of

GIB = 1024


def used(most_mib: float, alike: Alike = Alike.COMMAND) -> UseOfAlike:
    return UseOfAlike(Prediction(alike, 9, most_mib, most_mib, most_mib), Prediction(alike, 9, 40.0, 60.0, 61.0))


def asking(use: UseOfAlike) -> Predictions:
    return Predictions(lambda spec: use, Planner)


def halved(**options: Any) -> View:
    """Two GPUs of 80G on gpu-03; of each another job has 40G, and there is none that is whole."""
    view = view_of(observed(box("gpu-03", 2)))
    for number in (1, 2):
        holder = job(
            number, user="bob", share_milli=500, memory_mib=40 * GIB, device_uuids=(f"GPU-gpu-03-{number - 1}",)
        )
        view = view.advance(submitted(holder))
        view = view.advance(started(Planner(view).plan(T0).starts[0]))
    return replace(view, **options)


def waiting(view: View, waits: Job) -> View:
    return view.advance(submitted(waits))


def test_a_job_that_waits_for_a_whole_gpu_is_told_what_would_start_and_where() -> None:
    train = job(3, name="train")
    view = waiting(halved(), train)
    told = asking(used(30 * GIB)).offered(view, train, T0)
    assert told is not None
    assert (told.starts_now_with, told.node) == ("--gpu-mem 36G", "gpu-03")
    assert told.used_pct is not None
    assert told.used_pct.median == 40.0
    assert offer(told, train) == (
        "It asks for a whole GPU; the last 9 jobs of this command used at most 30G: "
        "--gpu-mem 36G would start now on gpu-03."
    )
    assert asking(used(30 * GIB)).notes(view, train, T0) == (offer(told, train),)


def test_nothing_is_offered_that_would_not_start_now() -> None:
    train = job(3, name="train")
    told = asking(used(40 * GIB)).offered(waiting(halved(), train), train, T0)
    assert told is not None
    assert (told.starts_now_with, offer(told, train)) == (None, None)
    assert told.memory_mib is not None
    assert told.memory_mib.most == 40 * GIB


def test_a_limit_of_its_user_counts_as_much_as_room() -> None:
    train = job(3, name="train")
    for devices, offered in ((0, None), (2, "--gpu-mem 36G")):
        view = waiting(halved(limits=Limits(of_user=Quota(devices=devices))), train)
        told = asking(used(30 * GIB)).offered(view, train, T0)
        assert told is not None
        assert told.starts_now_with == offered


def test_a_job_that_starts_by_itself_is_offered_nothing_as_it_is_submitted() -> None:
    train = job(3, name="train")
    view = waiting(view_of(observed(box("gpu-03", 2))), train)
    assert asking(used(30 * GIB)).notes(view, train, T0) == ()


@pytest.mark.parametrize(
    "request_",
    [
        {"gpus": 2},
        {"gang_size": 2},
        {"share_milli": 500},
        {"memory_mib": 36 * GIB, "share_milli": 10, "share_of_memory": True},
        {"memory_mib": 20 * GIB, "share_milli": 10, "share_of_memory": True},
    ],
)
def test_parts_several_gpus_and_less_memory_are_left_as_they_are(request_: dict[str, Any]) -> None:
    train = job(3, request_.pop("gpus", 1), name="train", **request_)
    told = asking(used(30 * GIB)).offered(waiting(halved(), train), train, T0)
    assert told is not None
    assert told.starts_now_with is None


@pytest.mark.parametrize("alike", [Alike.NAME, Alike.USER])
def test_jobs_of_another_command_are_no_ground_for_an_offer(alike: Alike) -> None:
    train = job(3, name="train")
    view = waiting(halved(), train)
    assert asking(used(30 * GIB, alike)).offered(view, train, T0) is None
    assert asking(used(30 * GIB, alike)).notes(view, train, T0) == ()


def test_a_run_time_is_told_of_nine_jobs_and_of_no_other_user() -> None:
    train = job(3, name="train")
    past = ran(train, *(100.0 + n for n in range(9)))
    told = asking(UseOfAlike()).of(replace(halved(), durations=past), train.spec)
    assert told is not None
    assert told.run_s is not None
    assert (told.run_s.jobs, told.run_s.median, told.run_s.most) == (9, 104.0, 108.0)
    assert asking(UseOfAlike()).of(replace(halved(), durations=past), JobSpec("bob", ("true",), name="train")) is None


def test_at_a_submission_nothing_is_offered_that_others_who_wait_might_get_and_no_plan_is_made() -> None:
    train = job(3, name="train")
    alone = waiting(halved(), train)
    asked = asking(used(30 * GIB))
    assert len(asked.notes(alone, train, T0)) == 1
    assert asked.notes(alone.advance(submitted(job(4, user="carol"))), train, T0) == ()
    held = replace(alone, limits=Limits(of_user=Quota(devices=0)))
    assert asked.notes(held, train, T0) == ()


def test_on_a_large_site_no_submission_pays_for_an_offer() -> None:
    train = job(3, name="train")
    nodes = [box(f"other-{n}", 0) for n in range(MOST_NODES)]

    def unasked(view: View) -> Planner:
        raise AssertionError("no plan may be made")

    view = waiting(halved().advance(observed(*nodes)), train)
    assert Predictions(lambda spec: used(30 * GIB), unasked).notes(view, train, T0) == ()
