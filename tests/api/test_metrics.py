import http.client
import threading
from dataclasses import replace

from corral.core.control.metrics.exposition import CONTENT_TYPE
from corral.core.model.fact import SiteArranged
from corral.core.model.queues.queue import Queue
from tests.api.world import PATIENCE_S, TOKEN, Served, World
from tests.core.control.metrics.reading import Rows, named, rows_of


def scraped(served: Served) -> Rows:
    with served.connection() as connection:
        connection.request("GET", "/metrics")
        answer = connection.getresponse()
        assert (answer.status, answer.headers["content-type"]) == (200, CONTENT_TYPE)
        return rows_of(answer.read())


def over_tcp(served: Served, token: str | None) -> int:
    connection = http.client.HTTPConnection("127.0.0.1", served.port, timeout=PATIENCE_S)
    try:
        connection.request("GET", "/metrics", headers={"Authorization": f"Bearer {token}"} if token else {})
        return connection.getresponse().status
    finally:
        connection.close()


def test_metrics_need_no_token_on_the_unix_socket_and_one_of_scope_read_over_tcp(served: Served) -> None:
    served.submit()
    jobs = named(scraped(served), "corral_jobs")
    assert ({"phase": "PENDING", "queue": "default"}, 1.0) in jobs
    assert over_tcp(served, None) == 401
    assert over_tcp(served, "wrong-but-long-enough") == 401
    assert over_tcp(served, TOKEN) == 200
    reader = served.call("POST", "/tokens", {"scope": "read"}).data["token"]
    assert over_tcp(served, reader) == 200


def test_counts_of_a_queue_begin_at_zero_so_that_the_first_end_is_an_increase(served: Served) -> None:
    served.world.ledger.observe([SiteArranged(queues=(Queue("default"),))])
    served.submit()
    rows = scraped(served)
    ends = [labels["phase"] for labels, value in named(rows, "corral_jobs_ended_total") if value == 0.0]
    assert sorted(ends) == ["CANCELLED", "FAILED", "LOST", "SUCCEEDED", "TIMED_OUT"]
    assert named(rows, "corral_queue_wait_seconds_count") == [({"queue": "default"}, 0.0)]


def test_requests_are_counted_by_route_and_not_by_what_clients_make_up(served: Served) -> None:
    for job_id in ("1", "2", "3"):
        assert served.call("GET", f"/jobs/{job_id}").status == 404
    assert served.call("GET", "/made/up/1").status == 404
    assert served.call("GET", "/made/up/2").status == 404
    assert served.call("PATCH", "/queues").status == 405
    rows = scraped(served)
    counts = {tuple(labels.values()): value for labels, value in named(rows, "corral_api_requests_total")}
    by_label = {
        (labels["route"], labels["method"], labels["status"]): value
        for labels, value in named(rows, "corral_api_requests_total")
    }
    assert len(counts) == len(by_label)
    assert by_label["/api/v1/jobs/{job_id}", "GET", "4xx"] == 3
    assert by_label["other", "GET", "4xx"] == 2
    assert by_label["/api/v1/queues", "PATCH", "4xx"] == 1
    assert ({"route": "/api/v1/jobs/{job_id}"}, 3.0) in named(rows, "corral_api_request_seconds_count")
    # A scrape is counted once it is answered.
    assert ({"route": "/metrics", "method": "GET", "status": "2xx"}, 1.0) in named(
        scraped(served), "corral_api_requests_total"
    )


def test_the_name_of_the_cluster_is_a_label_of_its_own_series_where_it_has_one(served: Served) -> None:
    assert named(scraped(served), "corral_cluster_info") == []
    served.world.cluster_name = 'GPU-Cluster "01"'
    assert named(scraped(served), "corral_cluster_info") == [({"cluster": 'GPU-Cluster "01"'}, 1.0)]


def test_commits_of_the_ledger_are_counted(served: Served) -> None:
    before = dict_of(scraped(served))
    served.submit()
    after = dict_of(scraped(served))
    assert after["corral_ledger_commit_seconds_count"] == before["corral_ledger_commit_seconds_count"] + 1
    assert after["corral_ledger_commit_facts_sum"] == before["corral_ledger_commit_facts_sum"] + 1
    assert after["corral_ledger_failures_total"] == 0


def dict_of(rows: Rows) -> dict[str, float]:
    return {name: value for (name, labels), value in rows.items() if not labels}


def test_others_are_answered_while_the_metrics_are_written(world: World) -> None:
    writing, go_on = threading.Event(), threading.Event()

    def obstacles() -> dict[str, str]:
        writing.set()
        assert go_on.wait(PATIENCE_S)
        return {}

    world.metrics = replace(world.metrics, obstacles=obstacles)
    served = Served(world)
    found: list[Rows] = []
    scrape = threading.Thread(target=lambda: found.append(scraped(served)))
    try:
        scrape.start()
        assert writing.wait(PATIENCE_S)
        assert served.call("GET", "/health").status == 200
        assert found == []
    finally:
        go_on.set()
        scrape.join(PATIENCE_S)
        served.stop()
    assert len(found) == 1


def test_a_history_that_is_not_written_is_told(served: Served) -> None:
    assert named(scraped(served), "corral_history_stopped") == [({}, 0.0)]
    served.world.home.history_file.mkdir()
    served.world.history.recorder.write()
    assert named(scraped(served), "corral_history_stopped") == [({}, 1.0)]
    served.world.home.history_file.rmdir()
    served.world.history.recorder.write()
    assert named(scraped(served), "corral_history_stopped") == [({}, 0.0)]


def test_watches_that_broke_and_went_on_are_counted(served: Served) -> None:
    assert named(scraped(served), "corral_watch_failures_total") == [({"watch": "alerts"}, 2.0)]
