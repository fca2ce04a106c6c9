"""Who writes a value by hand with a name that it does not have is told which it has."""

import pickle
from dataclasses import replace
from typing import Any

import pytest

from corral.core.model.errors import Refused
from corral.core.model.jobs.job import Request
from corral.core.model.jobs.submission import Submission

REQUEST: Any = Request


@pytest.mark.parametrize(
    ("name", "write"),
    [
        ("gpus", "; write devices=2, share_milli=500"),
        ("gang", "; write gang_size"),
        ("min_memory_mb", "; write min_memory_mib"),
    ],
)
def test_a_name_that_a_request_does_not_have_is_refused_with_what_to_write(name: str, write: str) -> None:
    with pytest.raises(Refused, match=f"{name} is not a field of Request{write}") as refused:
        REQUEST(**{name: 2})
    assert refused.value.field == name
    assert "client.submit(command, gpus=2)" in str(refused.value)


def test_a_submission_is_told_where_its_gpus_are_written() -> None:
    with pytest.raises(Refused, match=r"gpus is not a field of Submission; write request=Request\(devices=2\)"):
        Submission(("true",), gpus=2)  # type: ignore[call-arg]


def test_what_it_has_is_taken_as_ever() -> None:
    request = Request(2, gang_size=3)
    assert replace(request, devices=1) == Request(devices=1, gang_size=3)
    assert pickle.loads(pickle.dumps(request)) == request
    with pytest.raises(TypeError, match="multiple values"):
        Request(2, devices=2)  # type: ignore[misc]
