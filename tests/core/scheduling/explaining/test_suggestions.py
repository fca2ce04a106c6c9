"""Smaller requests that would start now."""

from dataclasses import replace

from corral.core.model.fact import SiteArranged
from corral.core.model.jobs.job import JobSpec, Request
from corral.core.model.placing.split import Strategy
from corral.core.model.queues.queue import Pool
from corral.core.scheduling.explaining.phrases import flags_of
from corral.core.scheduling.explaining.suggestions import nearest_that_starts
from corral.core.scheduling.planner import Planner
from tests.core.scheduling.lab import H100, T0, box, job, observed, started, submitted, view_of

HERE = view_of(observed(box()))
FLEET = view_of(observed(box("a", 4), box("b", 2, model=H100, memory_mib=95_830)))
POOLED = HERE.advance([SiteArranged(pools=(Pool("own", ("GPU-box-0", "GPU-box-1"), users=("eve",)),))])


def test_the_nearest_that_starts_keeps_as_much_of_the_request_as_it_can() -> None:
    view = FLEET.advance(submitted(job(1, 3, models=("A100",))))
    view = view.advance(started(Planner(view).plan(T0).starts[0]))
    wish = Request(devices=2, models=("A100",))
    assert nearest_that_starts(view, JobSpec("alice", request=wish)) == replace(wish, devices=1)
    both = Request(devices=2, models=("A100",), min_memory_mib=81_920)
    full = view.advance(submitted(job(2, 1, models=("A100",))))
    full = full.advance(started(Planner(full).plan(T0).starts[0]))
    assert nearest_that_starts(full, JobSpec("alice", request=both)) == Request(devices=2, min_memory_mib=81_920)


def test_whole_devices_are_the_nearest_to_a_share_of_more_than_are_free() -> None:
    view = HERE.advance(submitted(job(1, 6)))
    view = view.advance(started(Planner(view).plan(T0).starts[0]))
    wish = Request(share_milli=1000, split_milli=2500, split=Strategy.FILL, memory_mib=4096, tenant="alice")
    nearest = nearest_that_starts(view, JobSpec("alice", request=wish))
    assert nearest == Request(devices=2)
    assert flags_of(nearest, wish) == "--gpus 2"
    assert flags_of(wish) == "--gpus 2.5 --gpu-mem 4G"
    assert flags_of(replace(wish, split=Strategy.EVENLY)) == "--gpus 2.5 --split evenly --gpu-mem 4G"


def test_what_the_site_asks_of_every_device_is_no_condition_that_a_job_could_leave_out() -> None:
    view = FLEET.advance(submitted(job(1, 3, models=("A100",))))
    view = view.advance(started(Planner(view).plan(T0).starts[0]))
    by_site = Request(devices=2, models=("A100",), min_compute=(8, 0), site_min_compute=(8, 0))
    nearest = nearest_that_starts(view, JobSpec("alice", request=by_site))
    assert nearest is None or nearest.min_compute == (8, 0)
    assert flags_of(replace(by_site, devices=1), by_site) == "--gpus 1 --gpu-model A100"
    stricter = replace(by_site, min_compute=(9, 0))
    assert flags_of(by_site, stricter) == "--gpus 2 --gpu-model A100 without --min-compute"


def test_the_nearest_that_starts_is_none_on_a_model_that_the_job_does_not_run_on() -> None:
    view = FLEET.advance(submitted(job(1, 2, models=("H100",))))
    view = view.advance(started(Planner(view).plan(T0).starts[0]))
    two = JobSpec("alice", request=Request(devices=2))
    assert nearest_that_starts(view, two) == Request(devices=1)
    assert nearest_that_starts(view, replace(two, speeds=(("A100", 0.0),))) is None


def test_what_would_start_now_is_not_on_a_pool_of_others() -> None:
    alices, eves = (JobSpec(user, request=Request(devices=9)) for user in ("alice", "eve"))
    assert nearest_that_starts(POOLED, alices) == Request(devices=6)
    assert nearest_that_starts(POOLED, eves) == Request(devices=8)
