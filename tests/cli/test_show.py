"""What `corral show` says of a job, for a person."""

from dataclasses import replace
from typing import Any

import pytest

from corral.cli.direct.show_job import LABEL_COLUMNS, detail_lines
from corral.client import (
    AttemptRow,
    Explanation,
    GpuMonitoring,
    GpuStats,
    GrantedDevice,
    JobDetail,
    JobUse,
    MeasuredRange,
    MeasuredUtilization,
    MemberRow,
)
from corral.core.model.jobs.phase import Phase
from corral.core.model.runs.attempt import AttemptEnd

NOW = 1_800_000_000.0
LOG = "/home/alice/.corral/logs/17.log"


def detail(**given: Any) -> JobDetail:
    fields: dict[str, Any] = {
        "id": "17", "name": "sft", "user": "alice", "phase": Phase.FAILED, "exit_code": 3, "command": ("python", "a b"),
        "submitted_at": NOW - 100, "started_at": NOW - 90, "ended_at": NOW - 30, "needs": "0.5 of a GPU", "gpus": 1,
        "spec": {"workdir": "/home/alice", "retries": 2, "notes": ["rounded to 0.5"], "after": []},
        "grant": (GrantedDevice("GPU-1", 3, "a", 0, 500, 40_960),),
        "members": (MemberRow(0, "a", ("GPU-1",), Phase.FAILED, 3, log=LOG),),
        "history": (
            AttemptRow(1, "a", NOW - 90, NOW - 60, "preempted for job 12: it is urgent", LOG, AttemptEnd.PREEMPTED),
            AttemptRow(2, "a", NOW - 50, NOW - 30, "failed with exit code 3", LOG, AttemptEnd.FAILED, 3),
        ),
    }  # fmt: skip
    return JobDetail(**{**fields, **given})


def lines(told: JobDetail, explanation: Explanation | None = None, columns: int | None = 80) -> list[str]:
    return list(detail_lines(told, explanation, NOW, columns))


def test_all_that_matters_of_an_ended_job_is_told() -> None:
    text = "\n".join(lines(detail()))
    for said in (
        "job 17  sft  FAILED, exit code 3, after 1m", "alice, queue default", "python 'a b'", "/home/alice",
        "0.5 of a GPU", "may be retried 2 times", "preempted for job 12", "2: ", LOG, "rounded to 0.5",
    ):  # fmt: skip
        assert said in text, said
    (had,) = [line.split() for line in lines(detail()) if "GPU-1" in line]
    assert had == ["3", "a", "0.5", "40G", "GPU-1"]


def test_a_title_that_is_too_long_for_a_line_has_what_became_of_the_job_below_it() -> None:
    name = "sweep-" * 11
    assert lines(detail(name=name))[:2] == [f"job 17  {name}", "  FAILED, exit code 3, after 1m"]
    assert lines(detail(name=name), columns=None)[0] == f"job 17  {name}  FAILED, exit code 3, after 1m"


def test_what_a_log_says_of_a_failure_is_told_to_whom_the_server_tells_it() -> None:
    found = Explanation("17", Phase.FAILED, "sft failed", diagnosis="out of GPU memory; ask for more")
    assert any("out of GPU memory" in line for line in lines(detail(), found))
    assert not any(line.startswith("diagnosis") for line in lines(detail(), replace(found, diagnosis=None)))
    cut = " " * LABEL_COLUMNS + "2 MiB of output are missing before its end, where it says so"
    assert cut not in lines(detail(), found)
    assert cut in lines(detail(), replace(found, log_missing_bytes=2**21))


def test_what_a_job_made_of_its_gpus_is_told_in_a_line() -> None:
    use = JobUse(4.0, 3.0, 0.6, 0.4, 4.0, 0.936, 8.0, "EUR")
    (told,) = [line for line in lines(detail(use=use)) if line.startswith("use ")]
    assert told.split(maxsplit=1)[1] == ("4.00 GPU-hours: 75% used, 15% idle, 10% unmetered; 4.00 wasted;")
    unmeasured = JobUse(4.0, 0.0, 0.0, 4.0, 0.0)
    assert any(line.endswith("4.00 GPU-hours: 100% unmetered") for line in lines(detail(use=unmeasured)))
    assert not any(line.startswith("use ") for line in lines(detail()))


def test_a_job_that_waits_tells_why_and_when_it_starts() -> None:
    waiting = detail(phase=Phase.PENDING, exit_code=None, started_at=None, ended_at=None, grant=(), members=())
    told = lines(waiting, Explanation("17", Phase.PENDING, "it needs 4 GPUs", position=3, expected_start=NOW))
    assert any("place in the queue: 3" in line for line in told)
    assert any(line.startswith("starts") for line in told)
    assert not any(line.startswith("had") for line in told)


def test_members_of_a_gang_are_listed_with_how_they_ended() -> None:
    members = (MemberRow(0, "a", ("x",), Phase.SUCCEEDED, 0), MemberRow(1, "b", ("y",), None, None))
    told = lines(detail(members=members))
    start = next(number for number, line in enumerate(told) if line.startswith("members"))
    assert [line.split() for line in told[start + 1 : start + 3]] == [
        ["0", "a", "1", "SUCCEEDED", "0"],
        ["1", "b", "1", "?", "-"],
    ]


def test_what_was_measured_of_its_gpus_is_a_table() -> None:
    stats = GpuStats(
        "NVIDIA A100-SXM4-80GB", MeasuredUtilization(0, 100, 87.4, 45), MeasuredRange(1024, 40_960, 20_480),
        MeasuredRange(1.25, 50, 25), MeasuredRange(40, 71, 64.2), MeasuredRange(60.5, 402, 398.4),
    )  # fmt: skip
    found = GpuMonitoring(45.2, 45, {"gpu-07:3": stats, "gpu-08:12": GpuStats(memory_used_mb=stats.memory_used_mb)})
    told = lines(detail(gpu_monitoring=found))
    start = next(number for number, line in enumerate(told) if line.startswith("measured"))
    assert told[start].split(maxsplit=1)[1] == "for 45s, 45 samples"
    assert [line.split() for line in told[start + 2 : start + 4]] == [
        ["gpu-07:3", "87%", "(0-100)", "20G", "(1G-40G)", "64C", "(40-71)", "398W", "(60-402)"],
        ["gpu-08:12", "-", "20G", "(1G-40G)", "-", "-"],
    ]
    assert max(map(len, told[start : start + 4])) <= 80
    assert not any(line.startswith("measured") for line in lines(detail()))


def test_hundreds_of_devices_do_not_fill_the_screen() -> None:
    many = tuple(GrantedDevice(f"GPU-{number}", number, "a") for number in range(500))
    told = lines(detail(grant=many))
    assert any("and 436 more" in line for line in told)
    assert len(told) < 120


@pytest.mark.parametrize("columns", [80, None])
def test_nothing_that_a_user_chose_reaches_the_terminal_as_it_is(columns: int | None) -> None:
    evil = "a\x1b[2J\nb"
    told = detail(
        name=evil, user=evil, command=(evil,), reason=evil, needs=evil, queue=evil, project=evil,
        spec={"workdir": evil, "notes": [evil], "after": [evil]},
        members=(MemberRow(0, evil, (evil,), Phase.FAILED, log=evil, output=evil), MemberRow(1, evil, error=evil)),
        grant=(GrantedDevice(evil, 1, evil),),
        history=(AttemptRow(1, evil, NOW, reason=evil, log=evil), AttemptRow(1, evil, NOW, reason=evil, log="b")),
    )  # fmt: skip
    found = lines(told, Explanation("17", Phase.FAILED, evil, diagnosis=evil), columns)
    assert all(line.isprintable() for line in found)


def test_lines_fit_the_terminal_and_paths_stay_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("corral.cli.screen.room", lambda: 80)
    words = "word " * 60
    told = lines(detail(reason=words, needs=words, command=("echo", *words.split()), spec={"workdir": "/x" * 60}))
    assert [line for line in told if len(line) > 80] == [f"directory  {'/x' * 60}"]


def test_what_an_older_server_does_not_tell_is_left_out() -> None:
    bare = JobDetail(id="17", phase=Phase.RUNNING, command=("true",))
    assert lines(bare)[0].startswith("job 17")
