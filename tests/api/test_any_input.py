"""Whatever is sent, the answer is one that clients can read, and never a fault of the server's own."""

import json
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from corral.model.job import Request
from corral.model.submission import Submission
from tests.api.world import Served, World

SCALARS = (
    st.none()
    | st.booleans()
    | st.integers(-5, 5)
    | st.sampled_from([2**31, 2**63, -(2**63) - 1, 10**30, 1e308, -0.5, 0.1])
    | st.text(max_size=5)
    | st.sampled_from(["run", "reserve", "adopt", "1", "GPU", "/", "/tmp", "a\nb", "é", "x" * 300])
)
VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=2)
)
REQUESTS = st.dictionaries(st.sampled_from([f.name for f in fields(Request)]), VALUES, max_size=3)
FIELDS = [f.name for f in fields(Submission) if f.name not in ("command", "request")]
SUBMISSIONS = st.builds(
    lambda given, request, command: {"command": command, "request": request, **given},
    st.dictionaries(st.sampled_from(FIELDS), VALUES | st.lists(st.tuples(st.text(max_size=3), SCALARS)), max_size=3),
    REQUESTS,
    st.just(["true"]) | VALUES,
)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    world = World(Path(tmp_path_factory.mktemp("any")))
    served = Served(world)
    yield served
    served.stop()
    world.close()


def is_readable(served: Served, method: str, path: str, body: Any) -> None:
    answer = served.call(method, path, body)
    said = f"{method} {path} {body!r}: {answer.status} {answer.body!r}"
    assert answer.status < 500, said
    if answer.status >= 400:
        assert answer.error["message"], said
        assert sorted(answer.error) == ["field", "kind", "message"], said


@settings(max_examples=300)
@given(submission=SUBMISSIONS)
def test_any_submission_is_accepted_or_refused(server: Served, submission: Any) -> None:
    is_readable(server, "POST", "/jobs", submission)


@settings(max_examples=100)
@given(submission=SUBMISSIONS)
def test_any_dry_run_is_answered_or_refused(server: Served, submission: Any) -> None:
    is_readable(server, "POST", "/jobs/dry-run", submission)


@settings(max_examples=100)
@given(
    path=st.sampled_from(["/jobs", "/jobs/batch", "/jobs/adopt", "/devices/0/cordon", "/jobs/1/cancel"]),
    body=VALUES | st.dictionaries(st.sampled_from(["jobs", "pid", "name", "priority", "reason", "ids"]), VALUES),
)
def test_any_body_is_answered_or_refused(server: Served, path: str, body: Any) -> None:
    is_readable(server, "POST", path, body)


@settings(max_examples=100)
@given(
    name=st.sampled_from(["all", "user", "phase", "name", "array", "limit", "before", "x"]),
    value=st.sampled_from(["", "0", "1", "-1", "99999999999999999999", "PENDING", "%00", "%ff", "a,b", "%F0%9F%98%80"]),
)
def test_any_query_is_answered_or_refused(server: Served, name: str, value: str) -> None:
    is_readable(server, "GET", f"/jobs?{name}={value}", None)


@settings(max_examples=100)
@given(
    name=st.sampled_from(["0", "-1", "1_1", "%00", "%ff", "%2e%2e%2fledger.db", "x" * 3000, "9" * 40, "%F0%9F%98%80"])
)
@pytest.mark.parametrize("rest", ["", "/why", "/logs"])
def test_any_job_id_is_answered_or_not_found(server: Served, name: str, rest: str) -> None:
    is_readable(server, "GET", f"/jobs/{name}{rest}", None)


def test_json_that_is_valid_but_odd_is_refused_in_words(server: Served) -> None:
    for body in (b'"text"', b"[]", b"17", b"null", b"true", json.dumps({"jobs": {}}).encode()):
        is_readable(server, "POST", "/jobs/batch", body)
