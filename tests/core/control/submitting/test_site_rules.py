"""A submission that the site's rules would never let start is refused at the door, with what would do."""

from dataclasses import replace
from typing import Any

import pytest

from corral.core.access.caller import Caller
from corral.core.control.submitting.new_jobs import spec_of
from corral.core.control.submitting.site_rules import LeastUse, obey, refuse_full
from corral.core.model.errors import Forbidden, Refused
from corral.core.model.fact import SiteArranged
from corral.core.model.jobs.job import Job, Request
from corral.core.model.jobs.submission import Submission
from corral.core.model.queues.queue import Limits, Project, Queue, Quota
from corral.core.model.view import View
from tests.core.control.strategies import box, job, with_jobs

SITE = SiteArranged(
    queues=(
        Queue("default"),
        Queue("research", quota=Quota(share_milli=6000)),
        Queue("night", parent="research", quota=Quota(share_milli=2000, borrow_milli=3000)),
        Queue("small", quota=Quota(share_milli=500, memory_mib=4096)),
        Queue("day", parent="research", quota=Quota(share_milli=4000)),
        Queue("dusk", parent="default", quota=Quota(share_milli=2000, borrow_milli=3000)),
    ),
    projects=(Project("nlp", users=("alice",), quota=Quota(devices=2)),),
    limits=Limits(of_user=Quota(share_milli=8000), max_time_limit_s=3600.0),
)
VIEW = box(16).advance([SITE])


def work(gpus: int = 1, **asked: Any) -> Submission:
    return Submission(("true",), request=Request(devices=gpus), **asked)


@pytest.mark.parametrize(
    ("submission", "error", "message"),
    [
        (work(queue="nigth"), Refused, "there is no queue 'nigth' here; did you mean 'night'?"),
        (work(project="npl"), Refused, "there is no project 'npl' here; did you mean 'nlp'?"),
        (work(project="nlp", queue="default"), Forbidden, "bob is not a member of project nlp; its members are alice"),
        (work(time_limit_s=7200.0), Refused, "a time limit of 2h is more than the 1h that this site allows"),
        (work(9), Refused, "user bob may use at most 8 GPUs at a time, but this job asks for 9"),
        (
            work(7, queue="research"),
            Refused,
            "queue research may use at most 6 GPUs at a time, but this job asks for 7",
        ),
        (work(6, queue="night"), Refused, "queue night may use at most 5 GPUs at a time, but this job asks for 6"),
        (work(3, queue="dusk"), Refused, "queue dusk may use at most 2 GPUs at a time, but this job asks for 3"),
    ],
)
def test_what_can_never_start_is_refused(submission: Submission, error: type[Refused], message: str) -> None:
    with pytest.raises(error) as refused:
        obey(VIEW, submission, "bob", LeastUse())
    assert str(refused.value).startswith(message)


def test_what_a_queue_may_borrow_is_not_refused() -> None:
    obey(VIEW, work(5, queue="night"), "bob", LeastUse())


def test_a_project_holds_its_users_to_its_quota() -> None:
    obey(VIEW, work(2, project="nlp"), "alice", LeastUse())
    with pytest.raises(Refused, match="project nlp may use at most 2 GPUs at a time, but this job asks for 3"):
        obey(VIEW, work(3, project="nlp"), "alice", LeastUse())


def test_memory_is_counted_over_all_devices() -> None:
    asked = Submission(("true",), request=Request(devices=2, share_milli=100, memory_mib=4096), queue="small")
    with pytest.raises(
        Refused, match="queue small may use at most 4G of GPU memory at a time, but this job asks for 8G"
    ):
        obey(VIEW, asked, "bob", LeastUse())


@pytest.mark.parametrize(
    ("request_", "asked"),
    [
        (Request(share_milli=10, share_of_memory=True, memory_mib=81920), "1"),
        (Request(share_milli=10, memory_mib=61440), "0.75"),
        (Request(share_milli=10, memory_percent=60), "0.6"),
        (Request(share_milli=10, cores_percent=70), "0.7"),
        (Request(share_milli=1000, split_milli=1200), "1.2"),
    ],
)
def test_a_request_counts_as_what_it_would_be_granted_in_whatever_words(request_: Request, asked: str) -> None:
    with pytest.raises(
        Refused, match=rf"queue small may use at most 0\.5 GPUs at a time, but this job asks for {asked};"
    ):
        obey(VIEW, Submission(("true",), request=request_, queue="small"), "bob", LeastUse())


def test_a_site_that_has_set_up_nothing_takes_any_queue_and_project() -> None:
    obey(View(), work(1000, queue="any", project="thing", time_limit_s=1e9), "bob", LeastUse())


def test_a_job_that_names_none_has_the_sites_limit_retries_and_priority() -> None:
    limits = Limits(max_time_limit_s=3600.0, default_retries=2, default_priority=7)
    spec = spec_of(work(), Caller("bob", 1, 1, (1,), admin=False), limits, None)
    assert (spec.time_limit_s, spec.retries, spec.priority) == (3600.0, 2, 7)
    named = spec_of(
        work(time_limit_s=60.0, retries=0, priority=1), Caller("bob", 1, 1, (1,), admin=False), limits, None
    )
    assert (named.time_limit_s, named.retries, named.priority) == (60.0, 0, 1)


def test_a_full_queue_takes_no_more_jobs() -> None:
    waiting = with_jobs(box(), job(1), job(2))
    arranged = SiteArranged(queues=(Queue("default", quota=Quota(waiting=3)),), limits=Limits(max_queue_size=4))
    view = waiting.advance([arranged])
    refuse_full(view, [job(3)])
    with pytest.raises(
        Refused, match="too many waiting jobs for queue default: 2 wait, this adds 2, and at most 3 may wait"
    ):
        refuse_full(view, [job(3), job(4)])
    with pytest.raises(Refused, match="the queue is full: it has 2 jobs, this adds 3, and the site allows 4"):
        refuse_full(view, [job(3), job(4), job(5)])


def in_queue(number: int, queue: str, user: str = "alice") -> Job:
    found = job(number, user=user)
    return replace(found, spec=replace(found.spec, queue=queue))


def test_a_queue_counts_who_waits_in_the_queues_below_it() -> None:
    queues = (Queue("research", quota=Quota(waiting=3)), Queue("night", parent="research"), Queue("other"))
    waiting = with_jobs(box(), in_queue(1, "night"), in_queue(2, "research"))
    view = waiting.advance([SiteArranged(queues=queues)])
    refuse_full(view, [in_queue(3, "night"), *(in_queue(number, "other") for number in range(4, 9))])
    with pytest.raises(
        Refused, match="too many waiting jobs for queue research: 2 wait, this adds 2, and at most 3 may wait"
    ):
        refuse_full(view, [in_queue(3, "night"), in_queue(4, "night")])


def test_a_user_has_so_many_jobs_waiting_whatever_the_queue() -> None:
    waiting = with_jobs(box(), in_queue(1, "day"), in_queue(2, "night", user="bob"))
    view = waiting.advance([SiteArranged(limits=Limits(of_user=Quota(waiting=2)))])
    refuse_full(view, [in_queue(3, "day"), in_queue(4, "day", user="bob")])
    with pytest.raises(Refused, match="too many waiting jobs for user bob: 1 wait, this adds 2"):
        refuse_full(view, [in_queue(3, "day", user="bob"), in_queue(4, "night", user="bob")])
