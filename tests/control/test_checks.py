from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from corral.control.checks import MAX_DEVICES, MAX_INDEX, check
from corral.model.errors import Refused
from corral.model.job import JobKind, Request
from corral.model.submission import ArraySpec, Submission

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


def test_a_reservation_needs_no_command_and_no_directory() -> None:
    check(Submission(kind=JobKind.RESERVE, workdir="/no/such"))


@pytest.mark.parametrize(
    ("change", "field", "said"),
    [
        ({"command": ()}, "command", "there is no command to run"),
        ({"kind": JobKind.RESERVE, "command": (), "request": Request(devices=0)}, "gpus", "at least 1 GPU"),
        ({"kind": JobKind.RESERVE}, "command", "runs no command"),
        ({"retries": -1}, "retries", "from 0 to 1000, not -1"),
        ({"priority": 10**30}, "priority", "a lower number runs first"),
        ({"umask": 0o1000}, "umask", "from 0 to 511"),
        ({"owner_pid": 0}, "owner_pid", "from 1"),
        ({"name": "x" * 201}, "name", "at most 200 printable characters"),
        ({"name": "two\nlines"}, "name", "a line of at most"),
        ({"queue": "\x1b[31m"}, "queue", "printable"),
        ({"time_limit_s": 0.0}, "time_limit_s", "must be above 0"),
        ({"time_limit_s": float("nan")}, "time_limit_s", "is no time limit"),
        ({"env": {"A=B": "1"}}, "env", "'A=B' is no name of a variable"),
        ({"env": {"": "1"}}, "env", "is no name of a variable"),
        ({"rlimits": (("NOFILES", 1),)}, "rlimits", "did you mean 'NOFILE'?"),
        ({"rlimits": (("NOFILE", -2),)}, "rlimits", "-1 is no limit"),
        ({"workdir": "/no/such"}, "workdir", "'/no/such' does not exist on this machine"),
        ({"workdir": "src"}, "workdir", "'src' does not exist"),
        ({"array": ArraySpec(())}, "array", "how many elements it has"),
        ({"array": ArraySpec((1, 1))}, "array", "an index is named twice"),
        ({"array": ArraySpec((-1, 2))}, "array", "-1 is no index"),
        ({"array": ArraySpec((2**31,))}, "array", "indices are from 0 to 2147483647"),
        ({"array": ArraySpec((1,), 0)}, "array", "run at once"),
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
