"""Sessions of browsers: how one begins and ends, and whose requests count."""

import os
import pwd
from typing import Any
from urllib.parse import urlsplit

import pytest

from corral.api.requests.request_turns import whose_request
from corral.core.control.token_issuer import TokenIssuer
from tests.api.world import TOKEN, Served
from tests.features.dashboard.browser import OWN, Browser, link_of

ME = pwd.getpwuid(os.geteuid()).pw_name


def test_a_link_opens_a_session_of_whoever_asked_for_it(served: Served) -> None:
    browser = Browser.opened(served)
    told = browser.call("GET", "/session").data
    assert (told["user"], told["admin"], told["scope"]) == (ME, True, "admin")
    job_id = browser.call("POST", "/jobs", {"command": ["true"]}).data["id"]
    assert browser.call("POST", f"/jobs/{job_id}/cancel").status == 200


def test_a_link_works_once(served: Served) -> None:
    link = urlsplit(link_of(served))
    browser = Browser(f"http://{link.netloc}")
    assert browser.call("POST", "/session", {"code": link.fragment}).status == 200
    again = Browser(browser.url).call("POST", "/session", {"code": link.fragment})
    assert again.status == 401
    assert "corral dashboard" in again.error["message"]


def test_the_cookie_is_out_of_reach_of_scripts_and_of_other_sites(served: Served) -> None:
    link = urlsplit(link_of(served))
    answer = Browser(f"http://{link.netloc}").call("POST", "/session", {"code": link.fragment})
    assert {"HttpOnly", "SameSite=Strict", "Path=/"} <= set(answer.headers["set-cookie"].split("; "))
    assert answer.headers["cache-control"] == "no-store"


def test_a_token_opens_a_session_too_and_is_not_told_again(served: Served) -> None:
    browser = Browser(f"http://127.0.0.1:{served.port}")
    answer = browser.call("POST", "/session", {"token": TOKEN})
    assert (answer.status, answer.data["user"]) == (200, ME)
    assert TOKEN not in answer.body.decode()
    assert browser.call("GET", "/jobs").status == 200


@pytest.mark.parametrize(
    ("body", "status"),
    [({"token": "wrong" * 5}, 401), ({"code": "wrong"}, 401), ({}, 422), ({"code": "a", "token": "b"}, 422)],
)
def test_what_opens_no_session_gives_no_cookie(served: Served, body: dict[str, str], status: int) -> None:
    answer = Browser(f"http://127.0.0.1:{served.port}").call("POST", "/session", body)
    assert (answer.status, answer.headers["set-cookie"]) == (status, None)


def test_a_long_body_opens_no_session(served: Served) -> None:
    answer = Browser(f"http://127.0.0.1:{served.port}").call("POST", "/session", {"token": "a" * 5000})
    assert answer.status == 413


def test_who_signs_out_ends_the_token_of_the_link(served: Served) -> None:
    browser = Browser.opened(served)
    kept = browser.cookie
    assert browser.call("DELETE", "/session").status == 204
    assert browser.cookie is None
    browser.cookie = kept
    assert browser.call("GET", "/session").status == 401


def test_who_signs_in_and_out_waits_for_the_ledger_in_their_own_turn(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    turns_of: list[tuple[str, str]] = []
    make, revoke = TokenIssuer.make, TokenIssuer.revoke

    def made(*args: Any, **more: Any) -> Any:
        turns_of.append(("make", whose_request.get()))
        return make(*args, **more)

    def revoked(*args: Any) -> Any:
        turns_of.append(("revoke", whose_request.get()))
        return revoke(*args)

    browser = Browser(f"http://127.0.0.1:{served.port}")
    monkeypatch.setattr(TokenIssuer, "make", made)
    monkeypatch.setattr(TokenIssuer, "revoke", revoked)
    assert browser.call("POST", "/session", {"token": TOKEN}).status == 200
    assert browser.call("DELETE", "/session").status == 204
    assert turns_of == [("make", ME), ("revoke", ME)]


def test_who_signs_out_keeps_the_token_that_was_pasted(served: Served) -> None:
    browser = Browser(f"http://127.0.0.1:{served.port}")
    browser.call("POST", "/session", {"token": TOKEN})
    assert browser.call("DELETE", "/session").status == 204
    assert served.call_tcp("GET", "/jobs").status == 200


def test_over_the_unix_socket_nobody_signs_in_and_the_link_stays_good(served: Served) -> None:
    link = urlsplit(link_of(served))
    own = {**OWN, "host": link.netloc, "origin": f"http://{link.netloc}"}
    for body in ({"code": link.fragment}, {"token": TOKEN}):
        answer = served.call("POST", "/session", body, headers=own)
        assert (answer.status, answer.headers["set-cookie"]) == (403, None)
        assert "Unix socket" in answer.error["message"]
    assert served.call("GET", "/session", headers=own).data["user"] == ME
    assert Browser(f"http://{link.netloc}").call("POST", "/session", {"code": link.fragment}).status == 200


def test_over_the_unix_socket_a_cookie_is_taken_back_and_its_session_lasts(served: Served) -> None:
    browser = Browser.opened(served)
    host = urlsplit(browser.url).netloc
    own = {**OWN, "host": host, "origin": browser.url, "cookie": browser.cookie or ""}
    answer = served.call("DELETE", "/session", headers=own)
    assert (answer.status, "Max-Age=0" in answer.headers["set-cookie"]) == (204, True)
    assert browser.call("GET", "/session").status == 200


def test_signing_out_without_a_session_is_no_error(served: Served) -> None:
    assert Browser(f"http://127.0.0.1:{served.port}").call("DELETE", "/session").status == 204


FROM_ELSEWHERE = (
    {"sec-fetch-site": "cross-site"},
    {"sec-fetch-site": "same-site"},  # another port of this machine
    {"origin": "http://127.0.0.1:1"},
    {"origin": "null"},
    {"origin": "https://evil.example"},
    {"host": "evil.example:PORT"},  # a name that was made to mean this machine
)


def test_a_cookie_does_not_count_where_another_page_made_the_request(served: Served) -> None:
    browser = Browser.opened(served)
    port = str(urlsplit(browser.url).port)
    for headers in FROM_ELSEWHERE:
        sent = {name: value.replace("PORT", port) for name, value in headers.items()}
        for method, path in (("GET", "/jobs"), ("POST", "/jobs"), ("DELETE", "/session")):
            assert browser.call(method, path, None, sent).status == 403
    assert browser.call("GET", "/session").status == 200


def test_a_change_must_say_which_page_made_it(served: Served) -> None:
    browser = Browser.opened(served)
    assert browser.call("POST", "/jobs", {"command": ["true"]}, {"origin": ""}).status == 403


def test_another_page_cannot_begin_a_session_with_its_own_token(served: Served) -> None:
    browser = Browser(f"http://127.0.0.1:{served.port}")
    answer = browser.call("POST", "/session", {"token": TOKEN}, {"origin": "http://evil.example"})
    assert (answer.status, answer.headers["set-cookie"]) == (403, None)


def test_a_header_with_a_token_goes_before_the_cookie(served: Served) -> None:
    browser = Browser.opened(served)
    assert browser.call("GET", "/jobs", headers={"authorization": "Bearer wrong-token-of-some-length"}).status == 401


def test_a_broken_cookie_is_no_session(served: Served) -> None:
    browser = Browser(f"http://127.0.0.1:{served.port}")
    for value in ("", "link.", "other.x", '"a', ";;=", "\t"):
        browser.cookie = f"corral_session_{served.port}={value}"
        assert browser.call("GET", "/jobs").status == 401


def test_cookies_of_other_programs_of_this_machine_do_no_harm(served: Served) -> None:
    """A browser sends them to each of its ports."""
    browser = Browser.opened(served)
    own = browser.cookie
    for others in ('{"a":[1]}', "a b=c; =; ;;", '_xsrf="2|\\', "corral_session=link.x", "corral_session_1=token.x"):
        browser.cookie = f"{others}; {own}"
        assert browser.call("GET", "/jobs").status == 200, others


def test_of_two_sessions_none_counts(served: Served) -> None:
    """A page of another port can add a session of its own, and not take this one's place."""
    browser = Browser.opened(served)
    other = Browser.opened(served)
    for cookies in (f"{other.cookie}; {browser.cookie}", f"{browser.cookie}; {other.cookie}"):
        browser.cookie = cookies
        assert browser.call("GET", "/jobs").status == 401


def test_servers_of_one_machine_keep_their_own_sessions(served: Served) -> None:
    browser = Browser.opened(served)
    assert browser.cookie is not None
    assert browser.cookie.startswith(f"corral_session_{urlsplit(browser.url).port}=")


def test_who_signs_in_again_ends_the_session_before(served: Served) -> None:
    browser = Browser.opened(served)
    before = browser.cookie
    assert browser.call("POST", "/session", {"code": urlsplit(link_of(served)).fragment}).status == 200
    assert browser.call("GET", "/jobs").status == 200
    browser.cookie = before
    assert browser.call("GET", "/jobs").status == 401


def test_a_link_of_a_token_that_was_revoked_opens_nothing(served: Served) -> None:
    made = served.call("POST", "/tokens", {"scope": "submit"}).data
    link = urlsplit(served.call_tcp("POST", "/dashboard", token=made["token"]).data["url"])
    assert served.call("POST", f"/tokens/{made['id']}/revoke").status == 200
    assert Browser(f"http://{link.netloc}").call("POST", "/session", {"code": link.fragment}).status == 401


def test_only_pages_of_its_own_reach_the_unix_socket_through_a_tunnel(served: Served) -> None:
    """A browser at the other end has the rights of whoever dug it, without any cookie."""
    own = {"host": "localhost:8000", "origin": "http://localhost:8000", "sec-fetch-site": "same-origin"}
    assert served.call("GET", "/jobs", headers=own).status == 200
    for headers in FROM_ELSEWHERE:
        assert served.call("GET", "/jobs", headers=own | headers).status == 403


def test_no_answer_is_kept_framed_or_taken_for_a_page(served: Served) -> None:
    browser = Browser.opened(served)
    for path in ("/jobs", "/devices", "/session", "/nothing"):
        headers = browser.call("GET", path).headers
        assert (headers["cache-control"], headers["x-content-type-options"]) == ("no-store", "nosniff")
        assert "sandbox" in headers["content-security-policy"]


def test_an_expired_session_says_so(served: Served) -> None:
    browser = Browser.opened(served)
    served.clock.advance(13 * 3600)
    answer = browser.call("GET", "/jobs")
    assert answer.status == 401
    assert "expired" in answer.error["message"]


def test_who_makes_links_and_opens_none_is_stopped(served: Served) -> None:
    statuses = [served.call("POST", "/dashboard").status for _ in range(25)]
    assert statuses == [201] * 20 + [409] * 5
