"""Whatever is sent, the answer is one that clients can read: what was asked for was done as it was asked, or refused.

Each refusal names the field, and none is a fault of the server's own.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import fields
from enum import Enum
from pathlib import Path
from typing import Any, get_args, get_origin, get_type_hints

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from corral.api.requests.shapes import JobsQuery, LogQuery
from corral.core.model.jobs.job import Request
from corral.core.model.jobs.submission import ArraySpec, Submission
from corral.features.accounting.bodies import UsageQuery
from tests.api.world import Answer, Served, World, exchange

HUGE = [10**400, -(10**400), 2**63, -(2**63) - 1, 10**30]
DEEP: Any = []
for _ in range(40):
    DEEP = [DEEP]

SCALARS = (
    st.none()
    | st.booleans()
    | st.integers(-5, 5)
    | st.sampled_from([*HUGE, 2**31, 1e308, -0.5, 0.1])
    | st.text(max_size=5)
    | st.sampled_from(["run", "reserve", "adopt", "1", "GPU", "/", "/tmp", "a\nb", "é", "x" * 300, "9" * 400, "a\0b"])
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

WRONG: dict[Any, list[Any]] = {
    int: [*HUGE, 1.5, "1", True, [], {}, DEEP],
    float: [10**400, -(10**400), 1e309, "1", True, [], DEEP],
    bool: [0, 1, "true", [], 10**400, DEEP],
    str: [0, 10**400, True, [], {}, DEEP, "a\0b", "\ud800", ["a"]],
    tuple: [0, "text", True, {}, DEEP, [DEEP], [{}], [10**400], [None]],
    Mapping: [0, "text", [], DEEP, {"a": 1}, {"a": None}, {"a\0": "b"}, {"a": "b\0"}, {"a": "\udfff"}],
    Enum: [0, "", "no such thing", [], {}, 10**400, DEEP],
    object: [0, "text", [], DEEP, {"no such field": 1}],
}
"""What no field of a kind can be, whichever it is; `object` is a group of fields."""


def kind_of(hint: Any) -> Any:
    (kind,) = [arg for arg in get_args(hint) if arg is not type(None)] if type(None) in get_args(hint) else [hint]
    kind = get_origin(kind) or kind
    return kind if kind in WRONG else Enum if issubclass(kind, Enum) else object


PLACES = [
    (path, wrong)
    for cls, above in ((Submission, ()), (Request, ("request",)), (ArraySpec, ("array",)))
    for name, hint in get_type_hints(cls).items()
    for path in [(*above, name)]
    for wrong in WRONG[kind_of(hint)]
]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    world = World(Path(tmp_path_factory.mktemp("any")))
    served = Served(world)
    yield served
    served.stop()
    world.close()


def posted(served: Served, path: str, body: Any) -> Answer:
    """The answer to a body, which every client can read: what is wrong, or what was made."""
    answer = served.call("POST", path, body)
    said = f"POST {path} {body!r:.400}: {answer.status} {answer.body!r:.400}"
    assert answer.status in (200, 201, 422, 413, 404, 409, 405), said
    if answer.status >= 400:
        assert sorted(answer.error) == ["field", "kind", "message"], said
        assert 0 < len(answer.error["message"]) < 2000, said
    return answer


@settings(max_examples=300)
@given(submission=SUBMISSIONS)
@example({"command": [""]})
@example({"command": ["true"], "request": {"devices": 0}})
def test_any_submission_is_accepted_as_it_was_meant_or_refused_by_field(server: Served, submission: Any) -> None:
    answer = posted(server, "/jobs", submission)
    if answer.status != 201:
        assert answer.status == 422
        return
    job = server.call("GET", f"/jobs/{answer.data['id']}")
    if submission.get("array") is None:
        kept = job.data["spec"]
        for name in ("command", "queue", "project", "time_limit_s", "workdir", "umask", "priority"):
            if submission.get(name) is not None:
                assert kept[name] == submission[name], name
        assert kept["command"][:1] != [""]
        for name in ("devices", "cpu_milli", "host_memory_mib", "min_memory_mib", "gang_size", "may_fragment"):
            if submission["request"].get(name) is not None:
                assert kept["request"][name] == submission["request"][name], name


@settings(max_examples=100)
@given(submission=SUBMISSIONS)
def test_a_dry_run_refuses_just_what_a_submission_would_be_refused_for(server: Served, submission: Any) -> None:
    told, done = posted(server, "/jobs/dry-run", submission), posted(server, "/jobs", submission)
    if told.status == 422:
        assert done.status == 422
    elif told.data["possible"]:
        assert done.status == 201 or submission.get("kind") == "adopt" or submission.get("owner_pid") is not None


@pytest.mark.parametrize("at_once", ["/jobs", "/jobs/batch"])
def test_what_no_field_can_be_is_refused_and_the_field_is_named(server: Served, at_once: str) -> None:
    with server.connection() as connection:
        for path, wrong in PLACES:
            group = {"indices": [0]} if path[0] == "array" and path[1:] else {}
            asked = {path[0]: {**group, path[1]: wrong} if path[1:] else wrong}
            body: Any = {"command": ["true"], **asked}
            sent = body if at_once == "/jobs" else {"jobs": [body]}
            answer = exchange(connection, "POST", at_once, sent, {})
            assert answer.status == 422, (path, wrong, answer.data)
            if "nested too deeply" not in answer.error["message"] and not isinstance(wrong, float):
                prefix = "" if at_once == "/jobs" else "jobs[0]."
                assert answer.error["field"].startswith(prefix + ".".join(path)), (path, wrong, answer.data)


@settings(max_examples=100)
@given(
    path=st.sampled_from(["/jobs/batch", "/jobs/adopt", "/jobs/wait", "/devices/0/cordon", "/devices/0/slices"]),
    body=VALUES | st.dictionaries(st.sampled_from(["jobs", "pid", "name", "priority", "reason", "ids"]), VALUES),
)
def test_any_body_is_refused_unless_it_is_meant_for_the_path(server: Served, path: str, body: Any) -> None:
    known = {"/jobs/wait": {"ids", "timeout_s"}, "/devices/0/cordon": {"reason"}, "/jobs/batch": {"jobs"}}
    answer = posted(server, path, json.dumps(body).encode())
    if not isinstance(body, dict) or not set(body) <= known.get(path, set(body)):
        assert answer.status == 422, answer.data


@pytest.mark.parametrize("path", ["/jobs", "/jobs/batch", "/jobs/wait", "/jobs/adopt", "/devices/0/cordon"])
@pytest.mark.parametrize("raw", [b'"text"', b"[]", b"17", b"null", b"true", b"{", b"\xff", b"[" * 10_000, b"1" * 5000])
def test_what_is_no_object_is_refused(server: Served, path: str, raw: bytes) -> None:
    assert posted(server, path, raw).status == 422


@settings(max_examples=200)
@given(
    path=st.sampled_from([("/jobs", JobsQuery), ("/usage", UsageQuery), ("/jobs/none/logs", LogQuery)]),
    name=st.sampled_from(sorted({f.name for cls in (JobsQuery, UsageQuery, LogQuery) for f in fields(cls)} | {"x"})),
    value=st.sampled_from(
        [
            "",
            ",",
            "PENDING,",
            "0",
            "1",
            "-1",
            "9" * 20,
            "9" * 400,
            "PENDING",
            "%00",
            "%ff",
            "a,b",
            "%F0%9F%98%80",
            "1e400",
        ]
    ),
)
def test_any_query_is_answered_or_refused_by_its_name(server: Served, path: Any, name: str, value: str) -> None:
    where, cls = path
    answer = server.call("GET", f"{where}?{name}={value}")
    hints = get_type_hints(cls)
    number = kind_of(hints[name]) in (int, bool) if name in hints else False
    if name not in hints or not value or (number and not value.removeprefix("-").isdecimal()) or len(value) > 18:
        text = name in hints and (kind_of(hints[name]) is str or hints[name] == tuple[str, ...])
        known_by_text = text and value
        assert known_by_text or (answer.status, answer.error["field"].partition("[")[0]) == (422, name), answer.data
    else:
        assert answer.status in (200, 404, 422), answer.data


@settings(max_examples=100)
@given(
    name=st.sampled_from(["0", "-1", "1_1", "%00", "%ff", "%2e%2e%2fledger.db", "x" * 3000, "9" * 400, "%F0%9F%98%80"])
)
@pytest.mark.parametrize("rest", ["", "/why", "/logs"])
def test_an_id_of_no_job_is_not_found(server: Served, name: str, rest: str) -> None:
    assert server.call("GET", f"/jobs/{name}{rest}").status == 404


QUERIES = st.sampled_from(
    [
        "", " ", "{", "}", "{agents{id}}", "query A{agents{id}}", "query A{agents{id}} query B{agents{id}}", "{" * 300,
        "{a" * 300 + "}" * 300, "fragment F on Query{agents{id}}", "type A{b:Int}", "subscription{x}", "{nope}", "#",
        "query($a:String!){agent(agent_id:$a){id}}", "query($a:Int!){devices(limit:$a){uuid}}", "mutation{x}",
        "{devices(limit:" + "9" * 400 + "){uuid}}", "{devices(offset:-1){uuid}}", "{...F} fragment F on Query{...F}",
    ]
)  # fmt: skip


@settings(max_examples=200, deadline=None)
@given(
    query=QUERIES | st.text(max_size=20) | st.none(),
    variables=st.none()
    | st.dictionaries(st.sampled_from(["a", "b"]), VALUES, max_size=2)
    | st.lists(VALUES, max_size=1),
    operation=st.sampled_from([None, "", "A", "X", "9" * 400]),
)
def test_any_graphql_is_answered_with_data_or_errors(
    server: Served, query: str | None, variables: Any, operation: str | None
) -> None:
    body = {"query": query, "variables": variables, "operationName": operation, "extensions": {}}
    with server.connection() as connection:
        connection.request("POST", "/graphql", json.dumps(body))
        answer = Answer(connection.getresponse())
    assert answer.status == 200, answer.data
    if answer.data["data"] is None:
        assert answer.data["errors"]
        assert all(error["message"] for error in answer.data["errors"])


@pytest.mark.parametrize(
    ("query", "variables", "operation"),
    [
        ("", None, None),
        ("query($a:String!){agent(agent_id:$a){id}}", None, None),
        ("query($a:String!){agent(agent_id:$a){id}}", {"a": 7}, None),
        ("query($a:Int!){devices(limit:$a){uuid}}", {"a": 10**400}, None),
        ("query A{agents{id}}", None, "B"),
        ("{agents{id}}", [], None),
        (None, None, None),
        ("fragment F on Query{agents{id}}", None, None),
    ],
)
def test_what_graphql_cannot_do_is_told_as_errors(
    server: Served, query: str | None, variables: Any, operation: str | None
) -> None:
    with server.connection() as connection:
        connection.request(
            "POST", "/graphql", json.dumps({"query": query, "variables": variables, "operationName": operation})
        )
        answer = Answer(connection.getresponse())
    assert (answer.status, answer.data["data"]) == (200, None)
    assert answer.data["errors"][0]["extensions"] == {"kind": "Refused"}
