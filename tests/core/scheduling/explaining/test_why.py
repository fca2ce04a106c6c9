"""What a waiting user is told."""

from dataclasses import replace
from typing import Any

import pytest

from corral.core.model.audience import Audience
from corral.core.model.devices.device import DeviceCondition, DeviceProcess, HeldPart, HoldingPod, HostUse
from corral.core.model.devices.means import Means
from corral.core.model.fact import ConditionObserved, Delta, JobUpdated, NodeObserved
from corral.core.model.jobs.job import Job, JobKind, Request
from corral.core.model.jobs.job_update import SpecPatch
from corral.core.model.jobs.phase import Phase
from corral.core.model.jobs.pod_ref import PodRef
from corral.core.model.jobs.submission import Submission
from corral.core.model.placing.plan import WaitReason
from corral.core.model.queues.queue import Limits, Pool, Queue
from corral.core.model.view import View
from corral.core.scheduling.explaining.phrases import flags_of, need_of
from corral.core.scheduling.explaining.submission_forecast import forecast_submission
from corral.core.scheduling.explaining.why import WaitExplanation, WaitIndex, ended_sentence, explain
from corral.core.scheduling.outlook import Outlook
from corral.core.scheduling.planner import Planner
from corral.core.scheduling.policy import POLICIES, Policy
from corral.core.scheduling.queueing.order import Order
from tests.core.scheduling.lab import T0, box, job, observed, started, submitted, view_of


def told(view: View, number: int, now: float = T0) -> WaitExplanation:
    plan = Planner(view).plan(now)
    one = view.jobs[str(number)]
    return explain(view, one, WaitIndex(plan, view).of(one), now, plan=plan)


def running(*jobs: Job, gpus: int = 8) -> View:
    """A box on which these jobs run."""
    view = view_of(observed(box(gpus=gpus)) + submitted(*jobs))
    for start in Planner(view).plan(T0).starts:
        view = view.advance(started(start, user=view.jobs[start.job_id].spec.user))
    return view


def test_the_sentence_names_the_need_the_rest_the_holders_and_what_starts_now() -> None:
    view = running(job(1, 5, name="bert", time_limit_s=7200), job(2, 1, user="bob"))
    view = view.advance(submitted(job(3, 4, name="sft")))
    answer = told(view, 3, T0 + 600)
    assert answer.sentence == (
        "sft waits: it needs 4 GPUs; box has 2 free, 6 allocated to jobs 1 and 2 (alice, bob); "
        "bert (job 1) frees 5 within 1h 50m (its time limit). "
        "It starts in 1h 50m at the latest: that start is reserved for it. "
        "With --gpus 2 it would start now."
    )
    assert (answer.expected_start, answer.depends_on) == (T0 + 7200, None)
    assert (answer.position, answer.starts_now_with) == (1, "--gpus 2")


def test_a_device_with_too_little_left_beside_its_users_is_counted_with_what_is_left() -> None:
    stranger = DeviceProcess(4213, user="bob", command="python")
    used = DeviceCondition("GPU-box-0", strangers=(stranger,), strangers_since=T0 - 60, memory_free_mib=6 * 1024)
    asking = replace(job(1, 1), spec=replace(job(1, 1).spec, request=Request(devices=1, accept_in_use=7 * 1024)))
    view = running(gpus=1).advance([ConditionObserved(used), *submitted(asking)])
    assert "1 in use by bob for 1m, not started by Corral (6G left of it, less than 7G)" in told(view, 1).sentence


def test_a_device_that_will_do_beside_its_users_is_not_what_is_in_the_way() -> None:
    used = DeviceCondition("GPU-box-0", strangers=(DeviceProcess(4213, user="bob"),), memory_free_mib=6 * 1024)
    asking = replace(job(2, 1), spec=replace(job(2, 1).spec, request=Request(devices=2, accept_in_use=5 * 1024)))
    view = running(job(1, 1), gpus=2)
    (held,) = view.holders
    used = replace(used, uuid=next(device.uuid for device in view.nodes["box"].devices if device.uuid != held))
    view = view.advance([ConditionObserved(used), *submitted(asking)])
    assert "box has 1 free, 1 allocated to job 1 (alice)" in told(view, 2).sentence


def test_every_state_of_a_device_is_counted_with_its_reason() -> None:
    view = running(gpus=5)
    stranger = DeviceProcess(4213, user="bob", command="python")
    conditions = [
        DeviceCondition("GPU-box-0", strangers=(stranger,), strangers_since=T0 - 7500, memory_free_mib=1),
        DeviceCondition("GPU-box-1", unhealthy="Xid 79"),
        DeviceCondition("GPU-box-2", unreadable="the driver does not answer"),
        DeviceCondition("GPU-box-3", strangers=(stranger,), stale=True),
    ]
    deltas: list[Delta] = [ConditionObserved(condition) for condition in conditions]
    view = view.advance(deltas + submitted(job(1, 5)))
    assert told(view, 1).sentence == (
        "job 1 waits: it needs 5 GPUs; box has 1 free, 1 in use by bob for 2h 5m, not started by Corral, "
        "1 unhealthy (Xid 79), 1 unreadable (the driver does not answer), "
        "1 unused, but with memory held by bob, not started by Corral. With --gpus 1 it would start now."
    )


def test_a_pod_that_has_devices_is_named_with_what_made_it() -> None:
    pod = HoldingPod("ml", "train-x7k", "Job/train")
    taken = [ConditionObserved(DeviceCondition(f"GPU-box-{n}", pod=pod, strangers_since=T0 - 7500)) for n in range(3)]
    view = running(gpus=4).advance([*taken, *submitted(job(1, 4))])
    assert "box has 1 free, 3 in use by pod ml/train-x7k (Job/train) for 2h 5m, not started by Corral" in (
        told(view, 1).sentence
    )


def test_pods_that_have_parts_of_a_device_are_named_with_their_shares() -> None:
    parts = tuple(HeldPart(HoldingPod("ml", name), milli, 0) for name, milli in (("a", 200), ("b", 500), ("c", 100)))
    half = replace(job(1, 1), spec=replace(job(1, 1).spec, request=Request(share_milli=500)))
    view = running(gpus=1).advance([ConditionObserved(DeviceCondition("GPU-box-0", parts=parts)), *submitted(half)])
    assert (
        "box has 0 free, 1 in use in part by pod ml/b (0.5), pod ml/a (0.2), pod ml/c (0.1), not started by Corral"
        in told(view, 1).sentence
    )


def test_what_others_take_of_a_host_is_not_free() -> None:
    node = replace(box(gpus=4, cpus=8), taken=HostUse(cpu_milli=6000, memory_mib=1024))
    view = view_of(observed(node) + submitted(job(1, 1, cpu_milli=4000)))
    assert "box has 2 CPUs of 8 CPUs free" in told(view, 1).sentence


def test_nothing_starts_on_a_node_that_its_cluster_has_cordoned() -> None:
    node = replace(box(), cordoned="cordoned in Kubernetes")
    view = view_of(observed(node) + submitted(job(1, 1)))
    assert Planner(view).plan(T0).starts == ()
    assert "nothing starts on box (cordoned)" in told(view, 1).sentence
    planner = Planner(view)
    planner.advance([NodeObserved(replace(node, cordoned=None))])
    assert len(planner.plan(T0).starts) == 1


def test_a_job_behind_another_is_told_which_and_what_for() -> None:
    view = running(job(1, 6)).advance(submitted(job(2, 4, name="big", priority=1), job(3, 1)))
    answer = told(view, 3)
    assert answer.reason is WaitReason.PRIORITY
    assert answer.position == 2
    assert answer.sentence == (
        "job 3 waits: 1 GPU would be free, but big (job 2) goes first with priority 1 and waits for 4 GPUs. "
        f"Its start time is unknown: it depends on job 1, which has no time limit. {SITE}"
    )


def test_a_job_that_no_node_could_ever_hold_depends_on_no_other_job() -> None:
    view = running(job(1, 8, name="bert"))
    view = view.advance(submitted(job(2, 12, name="huge"), job(3, 8, name="whole")))
    answer = told(view, 2)
    assert "It cannot start on the nodes that are here: this machine has 8 GPUs; the most" in answer.sentence
    assert (answer.expected_start, answer.depends_on, answer.certainty) == (None, None, None)
    assert "bert" not in answer.sentence.split("It cannot")[1]
    assert "cannot start" not in told(view, 3).sentence


def test_those_of_one_shape_share_their_reason_and_have_places_of_their_own() -> None:
    view = running(job(1, 8)).advance(submitted(job(2), job(3), job(4)))
    assert [told(view, n).position for n in (2, 3, 4)] == [1, 2, 3]
    assert {told(view, n).reason for n in (2, 3, 4)} == {WaitReason.RESOURCES}


def test_a_reservation_is_called_one() -> None:
    view = running(job(1, 8, kind=JobKind.RESERVE)).advance(submitted(job(2)))
    assert "8 reserved by job 1 (alice)" in told(view, 2).sentence


def test_shared_devices_say_how_much_of_them_is_in_use() -> None:
    view = running(job(1, 1, share_milli=400), job(2, 1, share_milli=700), gpus=2).advance(submitted(job(3, 2)))
    assert "0 free, 2 allocated to jobs 1 and 2 (alice) (2 shared: 0.4, 0.7 in use)" in told(view, 3).sentence


def test_a_device_that_serves_another_user_or_has_not_the_memory_left_is_not_called_free() -> None:
    by_mps = tuple(replace(one, means=Means.MPS, one_user=True) for one in box(gpus=1).devices)
    half: dict[str, Any] = {"share_milli": 300, "tenant": "alice"}
    view = view_of(observed(replace(box(gpus=1), devices=by_mps)) + submitted(job(1, **half)))
    for start in Planner(view).plan(T0).starts:
        view = view.advance(started(start))
    view = view.advance(submitted(job(2, **{**half, "tenant": "bob"}, user="bob")))
    assert "box has 0 free, 1 serving alice through MPS (one user at a time)." in told(view, 2).sentence
    view = running(job(1, share_milli=100, memory_mib=60 * 1024), gpus=1)
    view = view.advance(submitted(job(2, share_milli=100, memory_mib=30 * 1024)))
    assert "box has 0 free, 1 with 20G of memory not granted to others." in told(view, 2).sentence


def test_who_made_a_pod_is_told_what_its_manifest_can_ask_for() -> None:
    view = running(job(1, 6)).advance(submitted(job(2, 4, gang_size=1)))
    waiting = view.jobs["2"]
    of_pod = replace(waiting, spec=replace(waiting.spec, pods=(PodRef("team", "train", "uid"),)))
    view = replace(view, jobs={**view.jobs, "2": of_pod})
    answer = told(view, 2)
    assert answer.starts_now_with == "nvidia.com/gpu: 2"
    assert answer.sentence.endswith("A pod with nvidia.com/gpu: 2 would start now.")
    assert "--" not in answer.sentence


def test_on_a_page_a_form_is_told_of_and_its_buttons() -> None:
    view = running(job(1, 6)).advance(submitted(job(2, 4, models=("A100",)), job(3, held=True)))
    plan = Planner(view).plan(T0)
    sentences = [
        explain(view, one, WaitIndex(plan, view).of(one), T0, plan=plan, audience=Audience.PAGE).sentence
        for one in (view.jobs["2"], view.jobs["3"])
    ]
    assert sentences[0].endswith("With GPUs: 2, GPU model: A100 it would start now.")
    assert sentences[1] == "job 3 waits: it is on hold; Release lets it start."


def test_holds_dependencies_pauses_and_limits_are_said_in_words() -> None:
    waits = [
        job(1, held=True),
        job(2, waits_for=("1",)),
        job(3, eligible_at=T0 + 90, launches=1, attempts=1, reason="the launcher died"),
        job(4, array_id="4", array_index=0, array_limit=0, time_limit_s=60),
    ]
    view = running().advance(submitted(*waits))
    assert [told(view, n).sentence for n in (1, 2, 3, 4)] == [
        "job 1 waits: it is on hold; `corral release 1` lets it start.",
        "job 2 waits for job 1, which is waiting; it starts after that job succeeds.",
        "job 3 waits: its last start failed (the launcher died); it is tried again in 1m 30s.",
        "job 4 waits: 0 of at most 0 elements run; it starts when one of them ends.",
    ]


@pytest.mark.parametrize(
    ("after", "said"),
    [
        (("1",), "job 1, which is waiting; it starts after that job succeeds."),
        (("any:1",), "job 1, which is waiting; it starts after that job ends."),
        (("notok:1",), "job 1, which is waiting; it starts after that job ends without success."),
        (
            ("any:1", "singleton", "any:2"),
            "job 1, which is waiting; job 2, which is waiting; it starts after those jobs end.",
        ),
        (
            ("1", "start:2"),
            "job 1, which is waiting; job 2, which is waiting; it starts after 1 succeeds and 2 starts.",
        ),
        (
            ("1?any:2",),
            "job 1, which is waiting; job 2, which is waiting; it starts after 1 succeeds or 2 ends.",
        ),
    ],
)
def test_what_has_to_become_of_other_jobs_is_said_in_words(after: tuple[str, ...], said: str) -> None:
    parents = tuple(n for n in "12" if n in " ".join(after))
    view = running().advance(submitted(job(1, 9), job(2, 9), job(3, after=after, waits_for=parents)))
    assert told(view, 3).sentence == f"job 3 waits for {said}"


def test_a_begin_time_is_told_with_what_is_left_until_it_and_what_comes_then() -> None:
    begins = job(2, begin_at=T0 + 90, eligible_at=T0 + 90)
    free = view_of(observed(box()) + submitted(begins))
    assert told(free, 2).sentence == "job 2 waits: its begin time is in 1m 30s. It is expected to start in 1m 30s."
    assert (told(free, 2).reason, told(free, 2).expected_start) == (WaitReason.BEGIN_TIME, T0 + 90)
    taken = running(job(1, time_limit_s=3600), gpus=1).advance(submitted(begins))
    assert told(taken, 2).sentence == "job 2 waits: its begin time is in 1m 30s. It is expected to start in 1h."


def test_a_forecast_knows_the_begin_time() -> None:
    view = view_of(observed(box()))
    later = forecast_submission(view, Submission(("true",), begin_at=T0 + 90), "alice", T0)
    assert later.sentence == "it would wait: its begin time is in 1m 30s. It is expected to start in 1m 30s."
    assert (later.placement, later.expected_start, later.nearest) == (None, T0 + 90, None)
    past = forecast_submission(view, Submission(("true",), begin_at=T0 - 90), "alice", T0)
    assert (past.sentence, past.expected_start) == ("it would start now", T0)


def test_a_cpu_job_is_told_of_cpus() -> None:
    view = running(job(1, 0, cpu_milli=60_000)).advance(submitted(job(2, 0, cpu_milli=8_000)))
    assert told(view, 2).sentence == (
        "job 2 waits: it needs 8 CPUs; box has 4 CPUs of 64 CPUs free. "
        "Its start time is unknown: it depends on job 1, which has no time limit."
    )


def test_slices_are_counted_before_their_profile_is_named() -> None:
    needs = [need_of(Request(devices=count, mig_profile="1g.10gb")) for count in (1, 2)]
    assert needs == ["1 MIG slice 1g.10gb", "2 MIG slices 1g.10gb"]


def test_a_forecast_says_where_or_why_not() -> None:
    view = running(job(1, 6))
    now = forecast_submission(view, Submission(request=job(9, 2).spec.request), "alice", T0)
    assert now.placement is not None
    assert now.placement.uuids == ("GPU-box-6", "GPU-box-7")
    later = forecast_submission(view, Submission(request=job(9, 3).spec.request), "alice", T0)
    assert (later.placement, later.nearest) == (None, "--gpus 2")
    assert later.sentence == (
        "it would wait: it needs 3 GPUs; box has 2 free, 6 allocated to job 1 (alice). "
        "Its start time is unknown: it depends on job 1, which has no time limit."
    )
    never = forecast_submission(view, Submission(request=job(9, 9).spec.request), "alice", T0)
    assert never.sentence == "it can never start here: this machine has 8 GPUs; the most you can ask for is 8 GPUs"
    assert (later.possible, never.possible, never.nearest) == (True, False, "--gpus 2")


def test_a_forecast_starts_nothing_that_is_to_be_held_or_to_follow() -> None:
    view = running(job(1, 6, name="sft"))
    held = forecast_submission(view, Submission(held=True), "alice", T0)
    assert (held.placement, held.sentence) == (None, "it would wait: on hold until `corral release`")
    after = forecast_submission(view, Submission(after=("1",)), "alice", T0, waits_for=("1",))
    assert (after.placement, after.sentence) == (
        None,
        "it would wait: for sft (job 1), which is running; it starts after that job succeeds",
    )


def test_the_condition_that_stands_in_the_way_is_named() -> None:
    view = running(job(1, 4)).advance(submitted(job(2, device_uuids=("GPU-box-0",))))
    answer = told(view, 2)
    assert answer.starts_now_with == "--gpus 1 without --device"
    assert answer.sentence.endswith(" With --gpus 1 without --device it would start now.")
    models = forecast_submission(
        view, Submission(request=job(9, 4, models=("H100",), min_memory_mib=81_920).spec.request), "a", T0
    )
    assert models.nearest == "--gpus 4 --min-memory 80G without --gpu-model"


def test_what_has_just_come_is_not_said_to_be_behind_nobody() -> None:
    view = running(job(1, 8)).advance(submitted(job(2), job(3)))
    assert [explain(view, view.jobs[n], None, T0).sentence.partition(".")[0] for n in ("2", "3")] == [
        "job 2 waits: the scheduler has not considered it yet",
        "job 3 waits: 1 job ahead of it in the queue",
    ]


def test_a_long_name_does_not_fill_the_sentence() -> None:
    view = running(job(1, 8)).advance(submitted(job(2, name="x" * 200)))
    assert told(view, 2).sentence.startswith("x" * 39 + "… waits: it needs 1 GPU; ")


def test_a_job_that_would_delay_another_is_told_which_and_what_limit_would_do() -> None:
    view = running(job(1, 6, time_limit_s=3600)).advance(submitted(job(2, 8, time_limit_s=60), job(3, 2)))
    assert told(view, 3).sentence == (
        "job 3 waits: 2 GPUs would be free, but starting it would delay job 2, whose start is reserved; with a "
        "time limit of 59m or less it could run first. It is expected to start in 1h 1m."
    )
    limit: SpecPatch = {"time_limit_s": 59 * 60.0}
    view = view.advance([JobUpdated("3", limit, {"time_limit_s": None}, at=T0, by="alice")])
    assert [start.job_id for start in Planner(view).plan(T0).starts] == ["3"]


def test_a_forecast_comes_after_those_who_wait_already() -> None:
    view = running(job(1, 6)).advance(submitted(job(2, 4)))
    assert forecast_submission(view, Submission(request=job(9, 1).spec.request), "bob", T0).placement is None


def test_a_forecast_names_the_job_ahead_where_enough_is_free_but_for_it() -> None:
    stranger = DeviceProcess(7, 2048, user="root", command="train")
    in_use = DeviceCondition("GPU-box-1", memory_free_mib=79_872, strangers=(stranger,))
    view = view_of([*observed(box(gpus=2)), ConditionObserved(in_use), *submitted(job(1, 2))])
    asked = job(2, 2, accept_in_use=10_240)
    told_before = forecast_submission(view, Submission(request=asked.spec.request), "alice", T0)
    assert told_before.sentence.startswith(
        "it would wait: 2 GPUs would be free, but job 1 goes first and waits for 2 GPUs"
    )
    waiting = told(view.advance(submitted(asked)), 2).sentence
    assert waiting.startswith("job 2 waits: 2 GPUs would be free, but job 1 goes first and waits for 2 GPUs")


def test_every_phase_has_its_sentence() -> None:
    one = replace(job(1, name="sft"), started_at=T0, ended_at=T0 + 65, exit_code=3)
    assert {phase: ended_sentence(replace(one, phase=phase), T0 + 65) for phase in Phase} == {
        Phase.PENDING: "sft waits",
        Phase.STARTING: "sft has its devices and is being started",
        Phase.RUNNING: "sft has been running for 1m 5s",
        Phase.STOPPING: "sft is being stopped",
        Phase.SUCCEEDED: "sft succeeded after 1m 5s",
        Phase.FAILED: "sft failed with exit code 3 after 1m 5s",
        Phase.CANCELLED: "sft was cancelled after 1m 5s",
        Phase.TIMED_OUT: "sft reached its time limit after 1m 5s",
        Phase.LOST: "sft was lost after 1m 5s",
    }
    cancelled = replace(one, phase=Phase.CANCELLED, reason="cancelled by bob")
    assert ended_sentence(cancelled, T0 + 65) == "sft was cancelled by bob after 1m 5s"
    released = replace(one, phase=Phase.SUCCEEDED, reason="released by bob")
    assert ended_sentence(released, T0 + 65) == "sft succeeded after 1m 5s: released by bob"
    late = replace(one, phase=Phase.TIMED_OUT, reason="its time limit of 1m")
    assert ended_sentence(late, T0 + 65) == "sft reached its time limit of 1m after 1m 5s"


def test_devices_of_a_pool_that_is_shut_are_named_as_such() -> None:
    pool = Pool("nlp's", ("GPU-box-0", "GPU-box-1"), projects=("nlp",))
    view = View(pools={pool.name: pool}).advance(observed(box(gpus=3)) + submitted(job(1, 2)))
    assert told(view, 1).sentence == (
        "job 1 waits: it needs 2 GPUs; box has 1 free, 2 in pool nlp's, which is not for this job. With --gpus 1 "
        "it would start now."
    )


def test_the_place_in_a_queue_is_by_the_order_of_that_queue() -> None:
    short_first = {"default": Queue("default", policy="sjf")}
    jobs = [job(1, 9, time_limit_s=50), job(2, 9, time_limit_s=5), job(3, 9, held=True, time_limit_s=20)]
    view = View(queues=short_first).advance(observed(box()) + submitted(*jobs))
    assert [told(view, n).position for n in (1, 2, 3)] == [2, 1, 2]


def test_a_submission_that_may_pass_those_that_wait_would_start_now() -> None:
    view = running(job(1, 6, time_limit_s=100)).advance(submitted(job(2, 4, time_limit_s=10)))
    short = Submission(request=job(9, 2).spec.request, time_limit_s=60.0)
    assert forecast_submission(view, short, "bob", T0).sentence == "it would start now"
    long = Submission(request=job(9, 4).spec.request, time_limit_s=1000.0)
    assert forecast_submission(view, long, "bob", T0).expected_start == T0 + 100


def test_an_easier_form_of_a_gang_says_how_many_members_it_has() -> None:
    assert flags_of(Request(gang_size=2), Request(gang_size=3)) == "--gpus 1 --gang 2"
    assert flags_of(Request(), Request(gang_size=3)) == "--gpus 1 without --gang"


def test_a_job_in_a_queue_whose_order_has_failed_is_told_so() -> None:
    policies = {**POLICIES, "site": Policy(Order("site", lambda _job, _context: ("soon",)))}  # type: ignore[arg-type,return-value]
    queues = {"bad": Queue("bad", "site"), "good": Queue("good")}
    view = replace(running(job(1, 8)), queues=queues).advance(submitted(job(2, queue="bad"), job(3, queue="good")))
    planner = Planner(view, policies=policies)
    plan = planner.plan(T0)
    bad, good = (
        explain(view, one, WaitIndex(plan, view).of(one), T0, plan=plan, outlook=Outlook(view, T0, planner.with_view))
        for one in (view.jobs["2"], view.jobs["3"])
    )
    assert bad.sentence.endswith(
        "Queue bad: site returned ('soon',), which is no tuple of numbers; "
        "it is served first come, first served until the server is restarted."
    )
    assert "first come" not in good.sentence


SITE = (
    "An administrator can change that: a default time limit (policies.max_job_duration_hours) makes start times "
    "known; `backfill: any` for queue default lets every job that fits start, even if others then wait longer."
)


@pytest.mark.parametrize(
    ("audience", "admin", "waited_s", "said"),
    [
        (
            Audience.COMMAND_LINE,
            False,
            1200,
            "With --time 1h or less it may start before job 2 within the next 3h 40m: ",
        ),
        (Audience.PAGE, False, 1200, "With time limit: 1h or less it may start before job 2 within the next 3h 40m."),
        (
            Audience.POD,
            False,
            1200,
            "With activeDeadlineSeconds: 3600 or less it may start before job 2 within the next 3h 40m",
        ),
        (Audience.COMMAND_LINE, True, 1200, f"within the next 3h 40m: `corral update 3 --time 1h`. {SITE}"),
        (Audience.COMMAND_LINE, False, 4 * 3600, f"no time limit. {SITE}"),
    ],
)
def test_who_waits_behind_a_start_that_nobody_knows_is_told_what_they_can_do_about_it(
    audience: Audience, admin: bool, waited_s: float, said: str
) -> None:
    passing = Limits(pass_unknown_limit_s=3600.0, pass_unknown_until_s=4 * 3600.0)
    view = replace(running(job(1, 6)), limits=passing)
    view = view.advance(submitted(job(2, 4, submitted_at=T0), job(3, 1)))
    now = T0 + waited_s
    plan, one = Planner(view).plan(now), view.jobs["3"]
    answer = explain(view, one, WaitIndex(plan, view).of(one), now, plan=plan, audience=audience, admin=admin)
    assert said in answer.sentence
    head = view.jobs["2"]
    of_head = explain(view, head, WaitIndex(plan, view).of(head), now, plan=plan, admin=admin).sentence
    assert (SITE in of_head) is admin


def test_a_dry_run_says_which_time_limit_would_let_it_start_now() -> None:
    passing = Limits(pass_unknown_limit_s=3600.0, pass_unknown_until_s=4 * 3600.0)
    view = replace(running(job(1, 6)), limits=passing).advance(submitted(job(2, 4, submitted_at=T0)))
    without = forecast_submission(view, Submission(request=Request(devices=1)), "bob", T0)
    assert without.sentence.endswith("With --time 1h or less it may start before job 2 within the next 4h.")
    with_limit = forecast_submission(view, Submission(request=Request(devices=1), time_limit_s=3600.0), "bob", T0)
    assert with_limit.sentence == "it would start now"
