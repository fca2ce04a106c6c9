"""The files of the pages, as a browser gets them."""

import gzip
import http.client

from corral.features.dashboard.page_files import PageFiles
from tests.api.world import BUILT_PAGES, PATIENCE_S, Answer, Served
from tests.features.dashboard.conftest import SCRIPT


def get(served: Served, path: str, method: str = "GET", **headers: str) -> Answer:
    connection = http.client.HTTPConnection("127.0.0.1", served.port, timeout=PATIENCE_S)
    try:
        connection.request(method, path, headers={name.replace("_", "-"): value for name, value in headers.items()})
        return Answer(connection.getresponse())
    finally:
        connection.close()


def test_each_address_of_the_pages_is_the_page(served: Served) -> None:
    for path in ("/", "/devices", "/jobs/17_3?tab=log", "/queue/", "/index.html"):
        answer = get(served, path)
        assert (answer.status, answer.headers["content-type"]) == (200, "text/html; charset=utf-8")
        assert b"<title>Corral</title>" in answer.body
        assert answer.headers["cache-control"] == "no-cache"


def test_no_script_but_its_own_runs_in_the_page_and_nobody_may_frame_it(served: Served) -> None:
    policy = dict(part.split(" ", 1) for part in get(served, "/").headers["content-security-policy"].split("; "))
    assert policy["default-src"] == "'none'"
    assert policy["script-src"] == "'self'"
    assert policy["frame-ancestors"] == "'none'"
    assert get(served, "/").headers["x-content-type-options"] == "nosniff"


def test_a_file_whose_name_changes_with_its_content_is_kept_for_good(served: Served) -> None:
    answer = get(served, "/assets/index-abc123.js", accept_encoding="br, gzip")
    assert "immutable" in answer.headers["cache-control"]
    assert answer.headers["content-encoding"] == "gzip"
    assert gzip.decompress(answer.body).decode() == SCRIPT
    assert get(served, "/assets/index-abc123.js").body.decode() == SCRIPT


def test_a_page_that_has_not_changed_is_not_sent_again(served: Served) -> None:
    etag = get(served, "/").headers["etag"]
    again = get(served, "/", if_none_match=etag)
    assert (again.status, again.body) == (304, b"")


def test_a_file_that_was_not_built_is_not_there(served: Served) -> None:
    gone = ("/assets/gone.js", "/favicon.ico", "/assets/../../ledger.db", "/a.b/../token.x")
    assert [get(served, path).status for path in gone] == [404] * len(gone)


def test_an_unknown_path_of_the_api_is_an_error_and_no_page(served: Served) -> None:
    for path in ("/api/v1/nothing", "/api/", "/graphql/x", "/metrics/x"):
        answer = get(served, path)
        assert (answer.status, answer.headers["content-type"]) == (404, "application/json")


def test_a_page_takes_nothing(served: Served) -> None:
    assert get(served, "/devices", "POST").status == 405


def test_a_server_without_pages_says_how_to_make_them(served: Served) -> None:
    served.dashboard.files._files.clear()
    answer = get(served, "/")
    assert answer.status == 503
    assert b"make web" in answer.body
    assert "make web" in served.call("POST", "/dashboard").error["message"]


def test_what_the_build_packed_is_sent_as_it_packed_it(served: Served) -> None:
    built = served.world.home.root / BUILT_PAGES
    packed = gzip.compress(SCRIPT.encode(), 9)
    (built / "assets" / "index-abc123.js.gz").write_bytes(packed)
    found = PageFiles(built).find("assets/index-abc123.js")
    assert found is not None
    assert found.packed == packed
