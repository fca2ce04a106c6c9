from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from corral.core.lifecycle.members import fold, ranked
from corral.core.model.devices.device import Device, Node
from corral.core.model.jobs.phase import Phase
from corral.core.model.placing.allocation import Grant, Member, Placement
from corral.core.model.runs.launch import LaunchPhase, LaunchReport, launch_id

NODES = ("gpu-06", "gpu-07", "gpu-08", "gpu-09")
OVER = (LaunchPhase.EXITED, LaunchPhase.DEAD, LaunchPhase.DECLARED_LOST)


def unknown(rank: int) -> LaunchReport:
    return LaunchReport(launch_id("4.1", rank), LaunchPhase.UNKNOWN)


def preparing(rank: int) -> LaunchReport:
    return replace(unknown(rank), phase=LaunchPhase.PREPARING)


def claimed(rank: int) -> LaunchReport:
    return replace(unknown(rank), phase=LaunchPhase.CLAIMED)


def running(rank: int, at: float = 10.0) -> LaunchReport:
    return replace(unknown(rank), phase=LaunchPhase.RUNNING, started_at=at)


def exited(rank: int, code: int = 0, at: float = 20.0, ending: Phase | None = None) -> LaunchReport:
    how = ending or (Phase.SUCCEEDED if code == 0 else Phase.FAILED)
    return replace(running(rank), phase=LaunchPhase.EXITED, ended_at=at, exit_code=code, ending=how)


def stopped(rank: int, at: float = 30.0) -> LaunchReport:
    return replace(exited(rank, 143, at, Phase.CANCELLED), signal=15)


def dead(rank: int, reason: str | None = None) -> LaunchReport:
    return replace(running(rank), phase=LaunchPhase.DEAD, reason=reason)


def lost(rank: int, reason: str | None = None) -> LaunchReport:
    return replace(unknown(rank), phase=LaunchPhase.DECLARED_LOST, reason=reason)


def test_a_job_that_is_no_gang_stands_as_its_one_launch_does() -> None:
    for report in (unknown(0), claimed(0), running(0), exited(0, 3), dead(0), lost(0)):
        told = fold([report], NODES)
        assert told.report is report
        assert told.to_stop == ()


def test_a_gang_runs_when_all_of_it_runs_and_since_the_last_of_it_began() -> None:
    assert fold([unknown(0), unknown(1)], NODES).report.phase is LaunchPhase.UNKNOWN
    assert fold([preparing(0), unknown(1)], NODES).report.phase is LaunchPhase.PREPARING
    assert fold([running(0), preparing(1)], NODES).report.phase is LaunchPhase.CLAIMED
    assert fold([running(0), unknown(1)], NODES).report.phase is LaunchPhase.CLAIMED
    assert fold([running(0), claimed(1)], NODES).report.phase is LaunchPhase.CLAIMED
    told = fold([running(0, 10.0), running(1, 12.0)], NODES)
    assert (told.report.phase, told.report.started_at, told.to_stop) == (LaunchPhase.RUNNING, 12.0, ())


def test_a_member_that_has_done_its_part_leaves_the_others_running() -> None:
    told = fold([exited(0), running(1)], NODES)
    assert (told.report.phase, told.to_stop) == (LaunchPhase.RUNNING, ())


def test_a_gang_succeeds_when_all_of_it_has_and_ended_with_the_last() -> None:
    told = fold([exited(0, at=20.0), exited(1, at=25.0)], NODES)
    assert (told.report.ending, told.report.exit_code, told.report.ended_at) == (Phase.SUCCEEDED, 0, 25.0)


@pytest.mark.parametrize("end", [exited(1, 3), dead(1), lost(1), stopped(1)])
def test_a_member_that_ends_badly_has_the_others_stopped_and_the_job_goes_on_until_they_are(end: LaunchReport) -> None:
    told = fold([running(0), end, claimed(2), unknown(3)], NODES)
    assert told.to_stop == (0, 2, 3)
    assert told.report.phase not in OVER


def test_the_exit_code_is_that_of_the_member_that_failed_first_and_the_reason_names_it() -> None:
    told = fold([exited(0, 7, at=22.0), stopped(1), exited(2, 1, at=21.0), stopped(3)], NODES)
    assert (told.report.exit_code, told.report.ending) == (1, Phase.FAILED)
    assert told.report.reason == "rank 2 on gpu-08 exited with 1"
    assert told.report.launch_id == "4.1"


def test_of_two_that_failed_at_once_the_lower_rank_counts() -> None:
    assert fold([stopped(0), exited(1, 5), exited(2, 1)], NODES).report.exit_code == 5


def test_how_a_member_failed_is_told_with_its_own_reason() -> None:
    killed = replace(exited(1, 137), signal=9, reason="the kernel killed a process of it for memory")
    told = fold([stopped(0), killed], NODES)
    assert told.report.reason == "rank 1 on gpu-07 was ended by signal 9: the kernel killed a process of it for memory"
    assert told.report.signal == 9


def test_the_time_limit_of_one_is_the_time_limit_of_all() -> None:
    told = fold([exited(0, 143, ending=Phase.TIMED_OUT), stopped(1)], NODES)
    assert (told.report.ending, told.report.reason) == (Phase.TIMED_OUT, None)


def test_a_gang_is_lost_with_the_node_of_a_member() -> None:
    told = fold([stopped(0), dead(1, "node gpu-07 has not answered for 5m")], NODES)
    assert told.report.phase is LaunchPhase.DEAD
    assert told.report.reason == "rank 1 on gpu-07: node gpu-07 has not answered for 5m"


def test_a_failure_that_is_known_says_more_than_a_member_that_is_lost() -> None:
    assert fold([exited(0, 9), dead(1)], NODES).report.exit_code == 9


def test_a_member_that_could_not_be_launched_fails_the_launch_of_all() -> None:
    told = fold([stopped(0), lost(1, "no supervisor could be forked"), exited(2, 1)], NODES)
    assert told.report.phase is LaunchPhase.DECLARED_LOST
    assert told.report.reason == "rank 1 on gpu-07: no supervisor could be forked"


def test_a_gang_of_which_some_never_ran_waits_again_and_a_failure_of_the_others_comes_first() -> None:
    told = fold([stopped(0), lost(1)], NODES).report
    assert (told.phase, told.reason) == (LaunchPhase.DECLARED_LOST, None)
    assert fold([exited(0, 127), lost(1)], NODES).report.exit_code == 127


def test_the_end_of_a_script_ends_its_job_whatever_becomes_of_those_that_wait_for_it() -> None:
    assert fold([exited(0, 4), running(1)], NODES, script=True).to_stop == (1,)
    assert fold([exited(0), running(1)], NODES, script=True).to_stop == (1,)
    assert fold([exited(0), running(1)], NODES).to_stop == ()
    told = fold([exited(0, 0), exited(1, 1, at=5.0)], NODES, script=True)
    assert (told.report.ending, told.report.exit_code) == (Phase.SUCCEEDED, 0)


def test_a_script_that_was_stopped_because_a_member_was_lost_is_lost() -> None:
    assert fold([stopped(0), dead(1)], NODES, script=True).report.phase is LaunchPhase.DEAD


def test_a_time_limit_that_one_member_outlives_is_seen() -> None:
    assert fold([replace(running(0), age_s=5.0), replace(running(1), age_s=90.0)], NODES).report.age_s == 90.0


def test_ranks_go_by_node_then_by_device() -> None:
    def node(name: str) -> Node:
        return Node(name, tuple(Device(f"{name}-{i}", i, "A100", 81920) for i in range(4)), 8000, 65536)

    def member(name: str, *devices: int) -> Member:
        return Member(name, tuple(Grant(f"{name}-{i}", 1000) for i in devices))

    chosen = Placement((member("b", 0), member("a", 3, 2), member("b", 1), member("a", 0, 1)))
    in_order = ranked(chosen, [node("a"), node("b")])
    assert in_order.members == (member("a", 0, 1), member("a", 3, 2), member("b", 0), member("b", 1))


STEPS = ("prepare", "claim", "run", "succeed", "fail", "time out", "die", "give up")
ORDER = (LaunchPhase.UNKNOWN, LaunchPhase.PREPARING, LaunchPhase.CLAIMED, LaunchPhase.RUNNING)


def stepped(report: LaunchReport, step: str, rank: int, at: float) -> LaunchReport:
    """The report after a step; as it was where a runtime could not go there."""
    if report.phase in OVER:
        return report
    live = report.phase not in (LaunchPhase.UNKNOWN, LaunchPhase.PREPARING)
    match step:
        case "prepare" if report.phase is LaunchPhase.UNKNOWN:
            return preparing(rank)
        case "claim" if not live:
            return claimed(rank)
        case "run" if report.phase is LaunchPhase.CLAIMED:
            return running(rank, at)
        case "succeed" | "fail" | "time out" if report.phase is LaunchPhase.RUNNING:
            ending = {"succeed": Phase.SUCCEEDED, "fail": Phase.FAILED, "time out": Phase.TIMED_OUT}[step]
            ended = exited(rank, 0 if step == "succeed" else 1, at, ending)
            return replace(ended, started_at=report.started_at)
        case "die" if live:
            return replace(report, phase=LaunchPhase.DEAD)
        case "give up" if not live:
            return lost(rank)
    return report


def ended_by_order(report: LaunchReport, rank: int, at: float) -> LaunchReport:
    if report.phase in (LaunchPhase.UNKNOWN, LaunchPhase.PREPARING):
        return lost(rank)
    return replace(stopped(rank, at), started_at=report.started_at)


@given(
    size=st.integers(2, 4),
    script=st.booleans(),
    steps=st.lists(st.tuples(st.integers(0, 3), st.sampled_from((*STEPS, "obey"))), max_size=40),
)
def test_a_gang_goes_one_way_ends_once_and_none_of_it_is_left_running_without_an_order_to_stop(
    size: int, script: bool, steps: list[tuple[int, str]]
) -> None:
    reports = [unknown(rank) for rank in range(size)]
    reached, outcome = 0, None
    for at, (pick, step) in enumerate(steps, start=1):
        rank = pick % size
        told = fold(reports, NODES[:size], script=script)
        if step == "obey" and rank in told.to_stop:
            reports[rank] = ended_by_order(reports[rank], rank, float(at))
        else:
            reports[rank] = stepped(reports[rank], step, rank, float(at))
        told = fold(reports, NODES[:size], script=script)
        live = {other for other in range(size) if reports[other].phase not in OVER}
        badly = any(one.phase in OVER and one.ending is not Phase.SUCCEEDED for one in reports)
        assert (told.report.phase in OVER) is (not live)
        if badly or (script and reports[0].phase in OVER):
            assert set(told.to_stop) == live
        if told.report.phase in OVER:
            assert outcome in (None, told)
            outcome = told
        else:
            assert outcome is None
            assert ORDER.index(told.report.phase) >= reached
            reached = ORDER.index(told.report.phase)


@given(ends=st.permutations([exited(0, 3, at=21.0), exited(1, 4, at=20.0), dead(2), stopped(3)]))
def test_the_outcome_does_not_depend_on_the_order_in_which_the_reports_came(ends: list[LaunchReport]) -> None:
    reports = [running(rank) for rank in range(4)]
    for end in ends:
        rank = int(end.launch_id.partition("-")[2] or 0)
        reports[rank] = end
    assert fold(reports, NODES).report.exit_code == 4
