from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from corral.core.control.submitting.submission_checks import check
from corral.core.model.devices.means import Means
from corral.core.model.errors import Refused
from corral.core.model.jobs.job import MAX_DEVICES, JobKind, Request
from corral.core.model.jobs.submission import MAX_INDEX, ArraySpec, Submission

GOOD = Submission(command=("true",))


def refusal(submission: Submission) -> tuple[str | None, str]:
    with pytest.raises(Refused) as refused:
        check(submission)
    return refused.value.field, str(refused.value)


def test_a_plain_command_is_accepted() -> None:
    check(GOOD)


def test_everything_that_can_be_asked_for_at_once_is_accepted(tmp_path: Path) -> None:
    request = Request(
        devices=0,
        memory_mib=1,
        min_memory_mib=1,
        min_compute=(8, 0),
        min_driver=(535, 1),
        min_cuda=(12, 4),
        models=("A",),
    )
    check(
        Submission(
            command=("python", ""),
            name="ünï code",
            request=request,
            priority=-5,
            time_limit_s=0.1,
            retries=1000,
            env={"A": "", "B": "="},
            workdir=str(tmp_path),
            umask=0o777,
            rlimits=(("NOFILE", 10), ("CORE", -1)),
            array=ArraySpec((0, MAX_INDEX), 1),
        )
    )


def test_a_gang_and_speeds_are_accepted_and_zero_is_a_speed() -> None:
    check(replace(GOOD, request=Request(gang_size=2, spread=True, labels=(("zone", "a"),))))
    check(replace(GOOD, speeds=(("V100", 1.0), ("K80", 0.0))))


def test_a_checkpoint_signal_needs_a_limit_that_is_longer_than_its_notice() -> None:
    check(replace(GOOD, checkpoint_signal="USR1", checkpoint_grace_s=60.0, time_limit_s=61.0))
    check(replace(GOOD, checkpoint_grace_s=60.0, time_limit_s=30.0))
    field, said = refusal(replace(GOOD, checkpoint_signal="USR1", checkpoint_grace_s=60.0, time_limit_s=30.0))
    assert field == "checkpoint_signal"
    assert "USR1 is sent 1m before the time limit, and that is only 30s" in said
    assert "USR1@15s" in said


@pytest.mark.parametrize("word", ["X:USR1", ":USR1", "B:KILL", "B:", "B:B:USR1", "b:USR1"])
def test_a_checkpoint_signal_is_for_all_processes_or_the_main_one_or_all_others(word: str) -> None:
    for good in ("USR1", "B:USR1", "S:TERM"):
        check(replace(GOOD, checkpoint_signal=good, time_limit_s=61.0))
    field, said = refusal(replace(GOOD, checkpoint_signal=word))
    assert field == "checkpoint_signal"
    assert "use one of USR1, USR2, HUP, INT, TERM, with B: before it for the main process alone" in said


def test_an_interval_between_checkpoints_needs_a_signal_that_a_program_survives() -> None:
    check(replace(GOOD, checkpoint_signal="B:USR1", checkpoint_every_s=600.0))
    for word, said in ((None, "add --checkpoint-signal USR1@60s"), ("S:TERM", "commonly ends a program")):
        field, words = refusal(replace(GOOD, checkpoint_signal=word, checkpoint_every_s=600.0))
        assert field == "checkpoint_every_s"
        assert said in words
    assert refusal(replace(GOOD, checkpoint_signal="USR1", checkpoint_every_s=0.5))[0] == "checkpoint_every_s"


def test_the_jobs_of_an_array_have_directories_of_their_own() -> None:
    array = ArraySpec((0, 1))
    check(replace(GOOD, checkpoint_dir="saved/%j"))
    check(replace(GOOD, checkpoint_dir="saved/%A_%a", array=array))
    field, said = refusal(replace(GOOD, checkpoint_dir="saved/", array=array))
    assert (field, "as in saved/%a" in said) == ("checkpoint_dir", True)
    assert "%q is not a placeholder" in refusal(replace(GOOD, checkpoint_dir="%q"))[1]


def test_a_reservation_needs_no_command_and_no_directory() -> None:
    check(Submission(kind=JobKind.RESERVE, workdir="/no/such"))


@pytest.mark.parametrize(
    ("change", "field", "said"),
    [
        ({"command": ()}, "command", "the command is missing"),
        ({"kind": JobKind.RESERVE, "command": (), "request": Request(devices=0)}, "gpus", "at least 1 GPU"),
        ({"kind": JobKind.RESERVE}, "command", "runs no command"),
        ({"retries": -1}, "retries", "from 0 to 1000, not -1"),
        ({"priority": 10**30}, "priority", "a lower number runs first"),
        ({"umask": 0o1000}, "umask", "from 0 to 511"),
        ({"owner_pid": 0}, "owner_pid", "from 1"),
        ({"name": "x" * 201}, "name", "at most 200 printable characters"),
        ({"name": "two\nlines"}, "name", "use at most"),
        ({"queue": "\x1b[31m"}, "queue", "printable"),
        ({"time_limit_s": 0.0}, "time_limit_s", "must be above 0"),
        ({"time_limit_s": float("nan")}, "time_limit_s", "is not a time limit"),
        ({"output": "%q.out"}, "output", "%q is not a placeholder"),
        ({"error": ""}, "error", "is not a file path"),
        ({"open_mode": "w"}, "open_mode", "use append or truncate"),
        ({"after": ("soon:7",)}, "after", "'soon' is not a condition"),
        ({"after": ("7,8",)}, "after", "names several jobs in one"),
        ({"begin_at": -1.0}, "begin_at", "is not a begin time"),
        ({"begin_at": float("nan")}, "begin_at", "is not a begin time"),
        ({"begin_at": 1e300}, "begin_at", "give Unix seconds"),
        ({"env": {"A=B": "1"}}, "env", "'A=B' is not a variable name"),
        ({"env": {"": "1"}}, "env", "is not a variable name"),
        ({"rlimits": (("NOFILES", 1),)}, "rlimits", "did you mean 'NOFILE'?"),
        ({"rlimits": (("NOFILE", -2),)}, "rlimits", "-1 is no limit"),
        ({"workdir": "src"}, "workdir", "'src' is not an absolute path"),
        ({"array": ArraySpec(())}, "array", "how many elements it has"),
        ({"array": ArraySpec((1, 1))}, "array", "an index is given twice"),
        ({"array": ArraySpec((-1, 2))}, "array", "-1 is not an index"),
        ({"array": ArraySpec((2**31,))}, "array", "indices are from 0 to 2147483647"),
        ({"array": ArraySpec((1,), 0)}, "array", "run at a time"),
        ({"speeds": (("V100", -0.5),)}, "speeds", "-0.5 is not a speed for V100; 1 is normal"),
        ({"speeds": (("V100", float("nan")),)}, "speeds", "nan is not a speed"),
        ({"speeds": (("V100", float("inf")),)}, "speeds", "inf is not a speed"),
        ({"speeds": ((" - ", 1.0),)}, "speeds", "' - ' is not a GPU model"),
        ({"speeds": (("V100", 1.0), ("v100", 0.5))}, "speeds", "v100 is given 2 times"),
        ({"speeds": tuple((f"X{i}", 1.0) for i in range(101))}, "speeds", "from 0 to 100, not 101"),
        ({"request": Request(labels=(("zone", ""),))}, "labels", "write KEY=VALUE"),
        ({"request": Request(labels=(("zone", "a\nb"),))}, "labels", "cannot be part of a label"),
        ({"request": Request(labels=(("zone", "a"), ("zone", "b")))}, "labels", "zone is given 2 times"),
        ({"request": Request(labels=tuple((str(i), "x") for i in range(101)))}, "labels", "from 0 to 100"),
        ({"request": Request(devices=0, gang_size=2)}, "gang_size", "this job asks for no GPU"),
        ({"request": Request(gang_size=2, device_uuids=("GPU-1",))}, "gang_size", "this job names its GPUs"),
        ({"request": Request(gang_size=2, share_milli=500)}, "gang_size", "this job asks for parts of GPUs"),
        ({"request": Request(gang_size=2, one_node=True, spread=True)}, "spread", "contradict each other"),
        ({"request": Request(one_node=True)}, "one_node", "this job is not a gang; add --gang"),
        ({"request": Request(spread=True)}, "spread", "this job is not a gang; add --gang"),
    ],
)
def test_what_makes_no_sense_is_refused_by_name(change: dict[str, Any], field: str, said: str) -> None:
    named, message = refusal(replace(GOOD, **change))
    assert named == field
    assert said in message


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"devices": -1}, "gpus"),
        ({"devices": MAX_DEVICES + 1}, "gpus"),
        ({"gang_size": 0}, "gang_size"),
        ({"share_milli": 0}, "share_milli"),
        ({"share_milli": 1001}, "share_milli"),
        ({"memory_mib": 0}, "memory_mib"),
        ({"memory_mib": 1024}, "memory_mib"),
        ({"memory_percent": 50}, "memory_percent"),
        ({"cores_percent": 50}, "cores_percent"),
        ({"share_of_memory": True, "share_milli": 10}, "memory_mib"),
        ({"mig_profile": "1g.10gb", "share_milli": 500}, "share_milli"),
        ({"means": Means.EXCLUSIVE, "share_milli": 500}, "means"),
        ({"split_milli": 10**12}, "split_milli"),
        ({"min_memory_mib": 2**63}, "min_memory_mib"),
        ({"accept_in_use": -1}, "accept_in_use"),
        ({"cpu_milli": -1}, "cpu_milli"),
        ({"host_memory_mib": -1}, "host_memory_mib"),
        ({"min_compute": (8, -1)}, "min_compute"),
        ({"min_driver": ()}, "min_driver"),
        ({"min_cuda": (10**9, 0)}, "min_cuda"),
        ({"models": ("",)}, "models"),
        ({"device_uuids": ("GPU-1", "")}, "device_uuids"),
        ({"avoid_jobs": ("",)}, "avoid_jobs"),
    ],
)
def test_a_request_that_no_cluster_could_serve_is_refused_by_name(change: dict[str, Any], field: str) -> None:
    assert refusal(replace(GOOD, request=replace(Request(), **change)))[0] == field


PART_BY_MEMORY = Request(share_milli=10, share_of_memory=True, memory_mib=8192)


@pytest.mark.parametrize("request_", [Request(), PART_BY_MEMORY])
def test_a_packable_job_has_one_gpu_and_may_say_its_memory(request_: Request) -> None:
    check(replace(GOOD, packable=True, request=request_))


@pytest.mark.parametrize(
    "asked",
    [
        {"request": Request(devices=2)},
        {"request": Request(devices=0)},
        {"request": Request(gang_size=2)},
        {"request": Request(share_milli=500, split_milli=500)},
        {"request": Request(share_milli=500)},
        {"request": Request(mig_profile="1g.10gb")},
        {"request": Request(power_limit_w=300)},
        {"request": Request(means=Means.EXCLUSIVE)},
        {"request": replace(PART_BY_MEMORY, cores_percent=20)},
        {"resources": {"cuda.shares": "0.2"}},
        {"exclusive": True},
        {"kind": JobKind.RESERVE, "command": ()},
    ],
)
def test_whatever_else_a_packable_job_asks_for_is_refused(asked: dict[str, Any]) -> None:
    assert refusal(replace(GOOD, packable=True, **asked))[0] == "packable"
