"""How it really went, drawn as what is simulated is."""

from corral.sim.replays.journal import simulate_each
from corral.sim.replays.past import record
from corral.sim.reports.history import History
from corral.sim.reports.report import queue_page
from tests.core.scheduling.lab import T0
from tests.sim.test_journal import PAST


def test_the_past_has_what_was_in_use_and_who_waited_at_each_moment() -> None:
    past = History()
    record(PAST, past)
    assert list(zip(past.times, past.in_use, past.waiting, strict=True)) == [
        (T0, 1.0, 0),
        (T0 + 1000, 1.0, 0),
        (T0 + 1010, 0.0, 0),
    ]


def test_the_past_in_order_of_time_has_runs_waits_and_names_of_devices() -> None:
    past = History()
    record(sorted(PAST, key=lambda fact: fact.at), past)
    assert (past.in_use, past.waiting) == ([1.0, 1.0, 0.0], [1, 0, 0])
    assert [(run.allocation.job_id, run.start - T0, run.end - T0) for run in past.runs] == [
        ("1", 0, 1000),
        ("2", 1000, 1010),
    ]
    assert past.waits == {"alice": [0.0], "bob": [1000.0]}
    assert past.names == {"GPU-0": "GPU 0"}


def test_what_still_runs_is_shown_to_the_end_of_the_journal() -> None:
    past = History()
    record(PAST[:-1], past)
    assert past.runs[-1].end == T0 + 1010


def test_policies_stand_beside_each_other_and_beside_how_it_went() -> None:
    histories = {"fcfs": History(), "sjf": History()}
    report = simulate_each(PAST, policies=["fcfs", "sjf"], histories=histories)
    assert [report[name]["max_wait_s"] for name in ("recorded", "fcfs", "sjf")] == [1000, 1000, 10]
    assert all(history.runs for history in histories.values())


def test_one_policy_has_the_report_that_it_always_had() -> None:
    report = simulate_each(PAST, policies=["sjf"], histories={})
    assert (report["policy"], report["recorded"]["max_wait_s"], report["simulated"]["max_wait_s"]) == ("sjf", 1000, 10)


def test_the_page_of_several_runs_names_each_and_draws_them_on_one_axis() -> None:
    histories = {"recorded": History(), "sjf": History()}
    record(PAST, histories["recorded"])
    simulate_each(PAST, policies=["sjf"], histories=histories)
    text = queue_page("t", {}, histories)
    assert text.count("Timeline of jobs, recorded") == text.count("Timeline of jobs, sjf") == 1
    assert text.count(">GPU 0</text>") == 2
    assert text.count(">sjf</text>") == text.count(">recorded</text>") == 3
