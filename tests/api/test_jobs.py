import os
import threading
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from corral.api.answers.waiting import LONGEST_WAIT_S
from corral.api.requests.gpu_number import with_gpus_read
from corral.api.requests.shapes import JobBatch
from corral.api.routes import jobs
from corral.core.access.caller import Caller
from corral.core.control.changing.job_changes import Verb
from corral.core.control.querying.queries import Queries
from corral.core.model.answers.jobs import JobRow
from corral.core.model.errors import Refused
from corral.core.model.fact import SiteArranged
from corral.core.model.jobs.job import Job, JobKind, Request
from corral.core.model.jobs.submission import Submission
from corral.core.model.queues.queue import Limits, Queue
from corral.core.model.runs.launch import log_mark
from corral.core.ports.ledger import Decided
from corral.core.scheduling.forecast import Foresight
from corral.host.runtimes.process.output.log_marks import marks_path
from corral.wire import from_plain
from tests.api.event_clients import SocketClient
from tests.api.world import Answer, Served, World


def test_a_job_is_accepted_with_an_id_and_can_be_seen(served: Served) -> None:
    answer = served.call("POST", "/jobs", {"command": ["true"], "name": "first"})
    assert answer.status == 201
    job_id = answer.data["id"]
    assert isinstance(job_id, str)
    assert served.call("GET", f"/jobs/{job_id}").data["name"] == "first"


def test_a_row_has_just_the_keys_that_the_description_promises(served: Served) -> None:
    served.submit()
    (row,) = served.call("GET", "/jobs").data["jobs"]
    assert sorted(row) == sorted(JobRow.__dataclass_fields__)


@pytest.mark.parametrize(
    ("request_", "same"),
    [
        ({"gpus": 2}, Request(devices=2)),
        ({"gpus": 0}, Request(devices=0)),
        ({"gpus": "2", "gang_size": 2}, Request(devices=2, gang_size=2)),
        ({"gpus": 0.5}, Request(share_milli=500, split_milli=500)),
        ({"gpus": "1.2"}, Request(share_milli=1000, split_milli=1200)),
        ({"gpus": 1.0, "mig_profile": "1g.10gb"}, Request(devices=1, mig_profile="1g.10gb")),
    ],
)
def test_a_number_of_gpus_is_read_as_on_the_command_line(request_: dict[str, Any], same: Request) -> None:
    one = {"command": ["true"], "request": request_}
    read = from_plain(Submission, with_gpus_read(dict(one)))
    assert read.request == same
    (in_batch,) = from_plain(JobBatch, with_gpus_read({"jobs": [dict(one)]})).jobs
    assert in_batch == read


@pytest.mark.parametrize(
    ("body", "field", "told"),
    [
        ({"request": {"gpus": 2, "devices": 2}}, "request.gpus", "request.devices"),
        ({"request": {"gpus": -1}}, "request.gpus", "above zero"),
        ({"request": {"gpus": 0.333}}, "request.gpus", "multiples of 0.01"),
        ({"request": {"gpus": True}}, "request.gpus", "not a number of GPUs"),
        ({"request": {"gpus": 10**30}}, "request.gpus", ""),
        ({"request": {"gpus": [2]}}, "request.gpus", "not a number of GPUs"),
        ({"request": {"gpus": 0.5, "mig_profile": "1g.10gb"}}, "request.gpus", "slices"),
        ({"gpus": 2}, "gpus", "request"),
    ],
)
def test_another_number_of_gpus_is_refused_by_name(served: Served, body: dict[str, Any], field: str, told: str) -> None:
    answer = served.call("POST", "/jobs", {"command": ["true"], **body})
    error = answer.data["error"]
    assert (answer.status, error["field"]) == (422, field)
    assert told in error["message"]


def test_a_job_that_asks_for_a_number_of_gpus_waits_for_so_many(served: Served) -> None:
    job_id = served.call("POST", "/jobs", {"command": ["true"], "request": {"gpus": 2}}).data["id"]
    assert served.call("GET", f"/jobs/{job_id}").data["gpus"] == 2


def test_an_array_answers_with_its_parent_and_its_size(served: Served) -> None:
    answer = served.call("POST", "/jobs", {"command": ["true"], "array": {"indices": [0, 1, 4]}})
    parent = answer.data["id"]
    assert answer.data == {"id": parent, "array_size": 3}
    listed = served.call("GET", f"/jobs?array={parent}").data["jobs"]
    assert sorted(row["id"] for row in listed) == [f"{parent}_0", f"{parent}_1", f"{parent}_4"]


def test_a_batch_is_accepted_whole_in_its_order(served: Served) -> None:
    batch = [{"command": ["true"], "name": f"n{i}"} for i in range(300)]
    answer = served.call("POST", "/jobs/batch", {"jobs": batch})
    assert answer.status == 201
    assert len(set(answer.data["ids"])) == 300
    rows = served.call("GET", "/jobs?limit=0").data["jobs"]
    assert {row["id"]: row["name"] for row in rows} == dict(
        zip(answer.data["ids"], (j["name"] for j in batch), strict=True)
    )


def test_of_a_batch_with_one_bad_job_none_is_accepted(served: Served) -> None:
    answer = served.call("POST", "/jobs/batch", {"jobs": [{"command": ["true"]}, {"command": []}]})
    assert answer.status == 422
    assert served.call("GET", "/jobs?all=1").data["jobs"] == []


@pytest.mark.parametrize(
    ("body", "field", "said"),
    [
        ({"command": ["true"], "comand": 1}, "comand", "did you mean 'command'"),
        ({"command": "true"}, "command", "must be a list"),
        ({"command": []}, "command", "command is missing"),
        ({"command": ["true"], "env": {"SEED": 1}}, "env.SEED", "must be a string, not 1"),
        ({"command": ["true"], "request": {"devices": -1}}, "gpus", "-1"),
        ({"command": ["true"], "workdir": "/no/such"}, "workdir", "/no/such"),
        (b"{", None, "not JSON"),
        ([], None, "must be an object"),
    ],
)
def test_a_bad_submission_names_the_field_and_what_would_do(served: Served, body: Any, field: str, said: str) -> None:
    answer = served.call("POST", "/jobs", body)
    assert (answer.status, answer.error["kind"], answer.error["field"]) == (422, "refused", field)
    assert said in answer.error["message"]


def test_pages_follow_each_other_newest_first_without_gap_or_repeat(served: Served) -> None:
    ids = served.call("POST", "/jobs/batch", {"jobs": [{"command": ["true"]}] * 25}).data["ids"]
    seen: list[str] = []
    query = "limit=10"
    while True:
        page = served.call("GET", f"/jobs?{query}").data
        seen += [row["id"] for row in page["jobs"]]
        if page["next"] is None:
            break
        query = f"limit=10&before={page['next']}"
    assert seen == ids[::-1]


def test_an_unpaged_listing_is_complete_although_it_is_sent_in_pieces(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(jobs, "_STREAMED_PAGE", 10)
    ids = served.call("POST", "/jobs/batch", {"jobs": [{"command": ["true"]}] * 30}).data["ids"]
    for query in ("limit=0", "all=1&limit=0"):
        page = served.call("GET", f"/jobs?{query}").data
        assert [row["id"] for row in page["jobs"]] == ids[::-1]
        assert page["next"] is None


def test_a_listing_can_be_narrowed(served: Served) -> None:
    served.submit(name="a")
    kept = served.submit(name="b")
    served.call("POST", f"/jobs/{served.submit(name='b')}/cancel")
    assert [row["id"] for row in served.call("GET", "/jobs?name=b").data["jobs"]] == [kept]
    assert [row["phase"] for row in served.call("GET", "/jobs?phase=CANCELLED").data["jobs"]] == ["CANCELLED"]
    assert len(served.call("GET", "/jobs?all=1").data["jobs"]) == 3
    assert served.call("GET", "/jobs?user=nobody-such").data["jobs"] == []


def test_a_listing_is_narrowed_and_ordered_by_the_server(served: Served) -> None:
    first, second, third = (served.submit(name=name, priority=p) for name, p in (("a-1", 6), ("b-1", 7), ("a-2", 5)))

    def listed(query: str) -> list[str]:
        return [row["id"] for row in served.call("GET", f"/jobs?{query}").data["jobs"]]

    assert listed("name=a-*") == listed("name=a-1,a-2") == [third, first]
    assert listed("user=me&sort=-priority&limit=2") == [second, first]
    assert listed("user=nobody,me&queue=default,night&all=1&limit=0") == [third, second, first]
    assert listed("queue=night&all=1") == []
    assert listed("project=default") == [third, second, first]
    assert listed("project=sft,nlp") == listed("means=mps&all=1") == []
    assert listed("namespace=default&all=1") == []
    assert served.call("GET", "/jobs?namespace=" + ",".join(["a"] * 1_001)).error["field"] == "namespace"
    assert listed("since=4000000000&all=1") == listed("since=4000000000") == []
    assert len(listed("since=1000&all=1&sort=started")) == 3


@pytest.mark.parametrize(
    "query",
    [
        "sort=nothing",
        "sort=started&limit=0",
        "sort=id&before=3",
        f"user={'u,' * 200}u",
        f"name={'n,' * 1000}n",
        f"name={'n' * 2001}",
        "limit=-1",
        "limit=1000000",
        "bogus=1",
        "means=gpu",
        "phase=NOPE",
    ],
)
def test_a_bad_listing_is_refused(served: Served, query: str) -> None:
    assert served.call("GET", f"/jobs?{query}").status == 422


@pytest.mark.parametrize(
    "path", ["/jobs/999", "/jobs/999/why", "/jobs/999/logs", "/jobs/999/logs?follow=1", "/jobs/%00"]
)
def test_what_does_not_exist_is_not_found(served: Served, path: str) -> None:
    answer = served.call("GET", path)
    assert (answer.status, answer.error["kind"]) == (404, "not_found")


def test_a_job_says_why_it_waits(served: Served) -> None:
    why = served.call("GET", f"/jobs/{served.submit()}/why").data
    assert why["phase"] == "PENDING"
    assert why["position"] == 1
    assert why["reason"]


def test_hold_release_and_cancel_name_the_jobs_they_touch(served: Served) -> None:
    job_id = served.submit()
    for verb in ("hold", "release", "cancel"):
        assert served.call("POST", f"/jobs/{job_id}/{verb}").data == {"ids": [job_id]}
    assert served.call("GET", f"/jobs/{job_id}").data["phase"] == "CANCELLED"


def test_what_the_phase_does_not_allow_is_a_conflict(served: Served) -> None:
    job_id = served.submit()
    served.call("POST", f"/jobs/{job_id}/cancel")
    answer = served.call("POST", f"/jobs/{job_id}/cancel")
    assert (answer.status, answer.error["kind"]) == (409, "conflict")


def test_a_cancellation_may_say_why(served: Served) -> None:
    job_id = served.submit()
    assert served.call("POST", f"/jobs/{job_id}/cancel", {"reason": "x" * 201}).status == 422
    served.call("POST", f"/jobs/{job_id}/cancel", {"reason": "out of budget"})
    assert served.call("GET", f"/jobs/{job_id}").data["reason"].endswith(": out of budget")
    assert ": out of budget" in served.call("GET", f"/jobs/{job_id}/why").data["reason"]


def test_a_sweep_answers_with_its_parent_and_its_size_and_lists_the_parameters_of_its_jobs(served: Served) -> None:
    sweep = {"params": {"lr": ["0.1", "0.01"], "seed": ["0", "1"]}, "limit": 1}
    answer = served.call("POST", "/jobs", {"command": ["echo", "{lr}"], "sweep": sweep, "held": True})
    parent = answer.data["id"]
    assert answer.data == {"id": parent, "array_size": 4}
    first = served.call("GET", f"/jobs/{parent}_0").data
    assert (first["params"], first["command"]) == ({"lr": "0.1", "seed": "0"}, ["echo", "0.1"])
    dry = served.call("POST", "/jobs/dry-run", {"command": ["echo", "{lr}"], "sweep": sweep}).data
    assert (dry["jobs"], dry["command"]) == (4, ["echo", "0.1"])
    wrong: tuple[Any, ...] = ({"a": "1"}, {"a": [1]}, {"a": None}, {"a": []}, {}, [], {"a": [""]}, {"": ["1"]})
    for params in wrong:
        refused = served.call("POST", "/jobs", {"command": ["{}"], "sweep": {"params": params}})
        assert (refused.status, refused.error["field"].split(".")[-1].split("[")[0]) in ((422, "a"), (422, "params"))
    huge = {"params": {name: [str(n) for n in range(9999)] for name in "abcdefgh"}}
    for path in ("/jobs", "/jobs/dry-run"):
        refused = served.call("POST", path, {"command": ["true"], "sweep": huge})
        assert (refused.status, refused.error["field"]) == (422, "params")


def test_a_dry_run_submits_nothing(served: Served) -> None:
    answer = served.call("POST", "/jobs/dry-run", {"command": ["true"]})
    assert answer.status == 200
    assert sorted(answer.data) == [
        *("command", "devices", "expected_start", "expected_start_is", "grants", "jobs", "nearest", "notes"),
        *("params", "possible", "predicted", "reason", "starts_now"),
    ]
    assert served.call("GET", "/jobs?all=1").data["jobs"] == []


def test_a_process_that_uses_no_gpu_cannot_be_adopted(served: Served) -> None:
    answer = served.call("POST", "/jobs/adopt", {"pid": 1})
    assert (answer.status, answer.error["field"]) == (422, "pid")


def test_a_wait_answers_when_the_last_of_the_jobs_ends(served: Served) -> None:
    ids = [served.submit(), served.submit()]
    timer = threading.Timer(0.1, lambda: [served.call("POST", f"/jobs/{job_id}/cancel") for job_id in ids])
    began = time.monotonic()
    timer.start()
    answer = served.call("POST", "/jobs/wait", {"ids": ids, "timeout_s": LONGEST_WAIT_S})
    took_s = time.monotonic() - began
    timer.join()
    assert answer.data["done"]
    assert [row["phase"] for row in answer.data["jobs"]] == ["CANCELLED", "CANCELLED"]
    assert 0.1 <= took_s < LONGEST_WAIT_S


def test_a_wait_makes_rows_only_for_its_answer(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    job_id = served.submit()
    made: list[int] = []
    usual = Queries._rows

    def counted(queries: Queries, jobs: Sequence[Job], foresight: Foresight | None = None) -> list[JobRow]:
        made.append(len(jobs))
        return usual(queries, jobs, foresight)

    monkeypatch.setattr(Queries, "_rows", counted)
    timer = threading.Timer(0.1, lambda: served.call("POST", f"/jobs/{job_id}/cancel"))
    timer.start()
    answer = served.call("POST", "/jobs/wait", {"ids": [job_id], "timeout_s": LONGEST_WAIT_S})
    timer.join()
    assert answer.data["done"]
    assert made == [1]


def test_a_wait_for_an_array_is_one_for_its_elements(served: Served) -> None:
    parent = served.submit(array={"indices": [0, 1]})
    answer = served.call("POST", "/jobs/wait", {"ids": [parent], "timeout_s": 0})
    assert not answer.data["done"]
    served.call("POST", f"/jobs/{parent}/cancel")
    answer = served.call("POST", "/jobs/wait", {"ids": [parent], "timeout_s": LONGEST_WAIT_S})
    assert answer.data["done"]
    assert [row["id"] for row in answer.data["jobs"]] == [f"{parent}_0", f"{parent}_1"]


def test_a_job_that_comes_after_one_that_has_failed_already_is_cancelled_and_says_so(served: Served) -> None:
    parent = served.submit()
    served.call("POST", f"/jobs/{parent}/cancel")
    child = served.submit(after=[parent])
    grandchild = served.submit(after=[child])
    rows = [served.call("GET", f"/jobs/{job_id}").data for job_id in (child, grandchild)]
    assert [row["phase"] for row in rows] == ["CANCELLED", "CANCELLED"]
    assert rows[0]["reason"] == f"job {parent}, which it was to follow, was cancelled"


def test_a_job_that_ends_just_before_it_is_cancelled_is_a_conflict_like_any_that_has_ended(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    ledger, job_id = served.world.ledger, served.submit()
    commit = ledger.commit

    def commit_just_after_its_end(decide: Any, **about: Any) -> Any:
        monkeypatch.setattr(ledger, "commit", commit)
        served.world.service.changes.one(Verb.CANCEL, job_id, Caller("root", admin=True))
        return commit(decide, **about)

    monkeypatch.setattr(ledger, "commit", commit_just_after_its_end)
    answer = served.call("POST", f"/jobs/{job_id}/cancel")
    assert (answer.status, answer.error["kind"]) == (409, "conflict")


def test_many_jobs_are_changed_by_one_request_that_tells_what_was_not(served: Served) -> None:
    ids = [served.submit(name=f"sweep-{number}", held=True) for number in range(3)]
    told = served.call("POST", "/jobs/release", {"name": "sweep-[12]", "dry_run": True}).data
    assert (told["ids"], told["phases"], told["next"]) == ([ids[2], ids[1]], {"PENDING": 2}, None)
    assert served.call("POST", "/jobs/release", {"ids": [ids[0], "999"]}).data["unchanged"] == [
        {"id": "999", "reason": "there is no job 999; `corral ps --all` lists all jobs"}
    ]
    assert served.call("POST", "/jobs/cancel", {"user": "me", "phase": ["PENDING"]}).data["ids"] == ids[::-1]
    for body in ({}, {"phase": ["GONE"]}, {"ids": [str(number) for number in range(10_001)]}):
        assert served.call("POST", "/jobs/hold", body).status == 422


def test_whoever_waits_for_the_end_of_an_array_goes_on_once_all_of_it_is_cancelled(served: Served) -> None:
    parent = served.submit(array={"indices": list(range(100))}, held=True)
    child, hopeless = (served.submit(after=[f"{what}:{parent}"], held=True) for what in ("any", "ok"))
    assert len(served.call("GET", f"/jobs/{child}").data["waits_for"]) == 100
    assert len(served.call("POST", f"/jobs/{parent}/cancel").data["ids"]) == 100
    row = served.call("GET", f"/jobs/{child}").data
    assert (row["phase"], row["waits_for"]) == ("PENDING", [])
    assert served.call("GET", f"/jobs/{hopeless}").data["phase"] == "CANCELLED"


@pytest.mark.parametrize("after", ["soon:1", "any:", "1:2", "", "any:1?", "any", "singleton:1"])
def test_a_dependency_that_makes_no_sense_is_refused_by_name(served: Served, after: str) -> None:
    answer = served.call("POST", "/jobs", {"command": ["true"], "workdir": "/", "after": [after]})
    assert (answer.status, answer.error["field"]) == (422, "after")


@pytest.mark.parametrize("timeout_s", [-1, "soon"])
def test_a_wait_for_no_sensible_time_is_refused(served: Served, timeout_s: Any) -> None:
    assert served.call("POST", "/jobs/wait", {"ids": ["1"], "timeout_s": timeout_s}).status == 422


def test_a_wait_for_a_job_that_does_not_exist_is_not_found(served: Served) -> None:
    assert served.call("POST", "/jobs/wait", {"ids": ["999"]}).status == 404


def test_a_log_is_sent_byte_by_byte_as_it_was_written(served: Served) -> None:
    job_id = served.submit()
    written = bytes(range(256)) * 4000
    served.world.log_of(job_id).write_bytes(written)
    answer = served.call("GET", f"/jobs/{job_id}/logs")
    assert answer.headers["content-type"] == "application/octet-stream"
    assert answer.body == written
    assert served.call("GET", f"/jobs/{job_id}/logs?offset=1000000").body == written[1000000:]
    assert served.call("GET", f"/jobs/{job_id}/logs?offset=-1").status == 422


def test_the_log_of_another_job_that_had_the_same_id_is_not_sent(served: Served) -> None:
    job_id = served.submit()
    log = served.world.log_of(job_id)
    log.write_bytes(b"the secret of another\n")
    own = log_mark(served.world.ledger.view().jobs[job_id])
    for mark, shown in ((f"{job_id} 12346 1.5", b""), (own, log.read_bytes())):
        link = log.with_name(f"{log.name}.of")
        link.unlink(missing_ok=True)
        link.symlink_to(mark)
        for query in ("", "?tail=1"):
            assert served.call("GET", f"/jobs/{job_id}/logs{query}").body == shown


def test_who_may_not_follow_a_log_over_a_websocket_is_told_why(served: Served) -> None:
    def refused(job_id: str, query: str = "", **headers: str) -> tuple[int, str]:
        kind = type("LogSocket", (SocketClient,), {"path": f"/api/v1/jobs/{job_id}/logs"})
        with served.raw_connection() as raw:
            client = kind(raw, query, **headers)
            return client.status, client.error()

    job_id = served.submit()
    status, why = refused("999")
    assert (status, why.partition(";")[0]) == (404, "there is no job 999")
    assert refused(job_id, "rank=7") == (422, f"rank: job {job_id} has rank 0 alone, not 7")
    assert refused(job_id, origin="https://elsewhere.example")[0] == 403


def test_of_a_log_its_last_lines_are_sent_alone_or_of_each_rank(served: Served) -> None:
    body = {"command": ["true"], "workdir": "/", "request": {"gang_size": 2, "devices": 1}}
    job_id = served.call("POST", "/jobs", body).data["id"]
    for rank in range(2):
        served.world.log_of(job_id, rank).write_text(f"old\nlong {rank}\nnew {rank}\n")
    path = f"/jobs/{job_id}/logs"
    assert served.call("GET", f"{path}?tail=1").body == b"new 0\n"
    assert served.call("GET", f"{path}?tail=0").body == b""
    assert served.call("GET", f"{path}?tail=99&rank=1").body == b"old\nlong 1\nnew 1\n"
    assert served.call("GET", f"{path}?tail=1&rank=all").body == b"[0] new 0\n[1] new 1\n"
    for wrong in ("tail=-1", "tail=x", "tail=1&offset=3"):
        assert served.call("GET", f"{path}?{wrong}").status == 422


def test_a_log_is_sent_from_a_moment_on_of_which_it_is_known_where_it_is(served: Served) -> None:
    job_id = served.submit()
    path, now = f"/jobs/{job_id}/logs", int(time.time())
    log = served.world.log_of(job_id)
    log.write_text("old\nolder line\nnew\nnewest\n")
    mark = Path(marks_path(str(log)))
    mark.write_text(f"{now - 100:014.3f} {4:015d}\n{now - 50:014.3f} {10:015d}\n")
    assert served.call("GET", f"{path}?since={now - 200}").body == log.read_bytes()
    assert served.call("GET", f"{path}?since={now - 99}").body == b"older line\nnew\nnewest\n"
    assert served.call("GET", f"{path}?since={now - 10}").body == b"older line\nnew\nnewest\n"
    assert served.call("GET", f"{path}?since={now - 10}&tail=1").body == b"newest\n"
    assert served.call("GET", f"{path}?since={now}&offset=1").status == 422
    mark.unlink()
    assert served.call("GET", f"{path}?since={now - 10}").body == log.read_bytes(), "it has not even started"


@pytest.mark.parametrize("query", ["", "?follow=1"])
def test_what_a_job_put_in_the_place_of_its_log_is_told_and_not_read(served: Served, query: str) -> None:
    job_id = served.submit()
    log = served.world.log_of(job_id)
    for put in (os.mkfifo, os.mkdir, lambda path: os.symlink("/etc/passwd", path)):
        put(log)
        answer = served.call("GET", f"/jobs/{job_id}/logs{query}")
        assert answer.status == 503
        assert f"cannot read the log {log}" in answer.error["message"]
        log.rmdir() if put is os.mkdir else log.unlink()


def test_a_followed_log_comes_as_it_grows_and_ends_with_the_job(served: Served) -> None:
    job_id = served.submit()
    log = served.world.log_of(job_id)
    log.write_bytes(b"one\n")
    with served.connection() as connection:
        connection.request("GET", f"/api/v1/jobs/{job_id}/logs?follow=1")
        response = connection.getresponse()
        assert response.read1() == b"one\n"
        with log.open("ab") as more:
            more.write(b"two\n")
        assert response.read1() == b"two\n"
        served.call("POST", f"/jobs/{job_id}/cancel")
        assert response.read() == b""


def test_expected_starts_of_all_that_wait_are_told_on_request(served: Served) -> None:
    for _ in range(2):
        served.call("POST", "/jobs", {"command": ["true"], "request": {"devices": 2}, "time_limit_s": 60})
    plain = served.call("GET", "/jobs").data["jobs"]
    told = served.call("GET", "/jobs?starts=true").data["jobs"]
    assert [row["expected_start"] for row in plain] == [None, None]
    second, first = (row["expected_start"] for row in told)
    assert first is not None
    assert 59 <= second - first <= 61


def test_a_dry_run_goes_by_the_jobs_it_is_to_follow(served: Served) -> None:
    parent = served.submit()

    def dry_run(after: str) -> Answer:
        return served.call("POST", "/jobs/dry-run", {"command": ["true"], "after": [after]})

    assert (dry_run(parent).data["starts_now"], dry_run(parent).data["possible"]) == (False, True)
    served.call("POST", f"/jobs/{parent}/cancel")
    gone = dry_run(parent).data
    assert (gone["starts_now"], gone["possible"]) == (False, False)
    assert gone["reason"] == f"it would be cancelled at once: job {parent}, which it was to follow, was cancelled"
    assert (dry_run("999").status, dry_run("999").error["field"]) == (422, "after")


def test_a_dry_run_goes_by_the_sites_rules(served: Served) -> None:
    served.world.ledger.observe([SiteArranged(queues=(Queue("default"),), limits=Limits(max_time_limit_s=60.0))])
    served.world.ledger.commit(lambda _: Decided((), None)).result()
    served.call("POST", "/jobs", {"command": ["true"], "request": {"devices": 2}})
    answer = served.call("POST", "/jobs/dry-run", {"command": ["true"], "request": {"devices": 2}})
    assert answer.data["starts_now"] is False
    assert answer.data["expected_start"] is not None, "the job before it has the site's limit"
    nowhere = served.call("POST", "/jobs/dry-run", {"command": ["true"], "queue": "defualt"})
    assert (nowhere.status, "did you mean 'default'?" in str(nowhere.data)) == (422, True)


def test_the_sites_range_of_priorities_holds_wherever_a_job_is_made_or_run_again(world: World) -> None:
    bob = Caller("bob", 1, 1, (1,))

    def allow(least: int, most: int) -> None:
        world.ledger.observe([SiteArranged((), (), (), Limits(default_priority=5, priority_range=(least, most)))])
        world.ledger.commit(lambda _: Decided((), None)).result()

    allow(0, 10)
    asked = Submission(("true",), priority=0, request=Request(devices=0))
    (job_id,) = world.service.submit([asked], bob)
    with pytest.raises(Refused, match=r"priority -5 is not allowed: users may choose 0 to 10"):
        world.service.submit([replace(asked, priority=-5)], bob)
    with pytest.raises(Refused, match="priority -5 is not allowed"):
        world.service.adopting.adopt(os.getpid(), bob, Submission(kind=JobKind.ADOPT, priority=-5))
    allow(5, 10)
    with pytest.raises(Refused, match=rf"priority 0 of job {job_id} is not allowed: .* 5 to 10"):
        world.service.changes.one(Verb.REQUEUE, job_id, bob)


def test_a_job_is_given_other_values_by_a_patch(served: Served) -> None:
    job_id = served.submit()
    answer = served.call("PATCH", f"/jobs/{job_id}", {"priority": 2, "time_limit_s": 60, "name": "new"})
    assert (answer.status, answer.data) == (200, {"ids": [job_id]})
    row = served.call("GET", f"/jobs/{job_id}").data
    assert (row["priority"], row["time_limit_s"], row["name"]) == (2, 60.0, "new")


@pytest.mark.parametrize(
    ("body", "status", "field", "said"),
    [
        ({}, 422, None, "nothing to change"),
        ({"command": ["true"]}, 422, "command", "not a known field"),
        ({"name": "new", "user": "root"}, 422, "user", "not a known field"),
        ({"name": "new", "priority": "high"}, 422, "priority", "must be"),
        ({"name": "new", "time_limit_s": -1}, 422, "time_limit_s", "above 0"),
        ({"name": "new", "queue": ["a"]}, 422, "queue", "must be"),
    ],
)
def test_a_patch_of_anything_else_changes_nothing(
    served: Served, body: Any, status: int, field: str | None, said: str
) -> None:
    job_id = served.submit()
    before = _as_submitted(served, job_id)
    answer = served.call("PATCH", f"/jobs/{job_id}", body)
    assert (answer.status, answer.data["error"]["field"]) == (status, field)
    assert said in answer.data["error"]["message"]
    assert _as_submitted(served, job_id) == before


def _as_submitted(served: Served, job_id: str) -> dict[str, Any]:
    """What a patch could have changed; the rest of a row, such as its phase, changes as the server comes to it."""
    row = served.call("GET", f"/jobs/{job_id}").data
    return {name: row[name] for name in ("name", "user", "queue", "priority", "time_limit_s", "command")}
