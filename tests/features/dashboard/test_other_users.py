"""Another user of the machine has got the cookie of a session, and is no further for it."""

import http.client
import json
import os
import pwd
import ssl
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from corral.api.connections.tls import Certificate
from tests.api.world import PATIENCE_S, TOKEN, Served, World, exchange
from tests.certificates import make_certificate, needs_openssl
from tests.features.dashboard.browser import Browser, link_of

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root can be two users")

PLAIN = pwd.getpwuid(1)
"""Some user who is not root. It has an account on every machine, for sessions are of users who have."""

ASK = """
import encodings.idna, http.client, json, os, socket, sys
asked = json.loads(sys.argv[1])
os.setgroups([]); os.setgid(asked["uid"]); os.setuid(asked["uid"])
if asked["path_of_socket"]:
    connection = http.client.HTTPConnection("localhost")
    connection.sock = socket.socket(socket.AF_UNIX)
    connection.sock.connect(asked["path_of_socket"])
else:
    connection = http.client.HTTPConnection(asked["host"], asked["port"])
connection.request(asked["method"], "/api/v1" + asked["path"], asked["body"], asked["headers"])
if asked["leave_at_once"]:
    sys.exit(print(json.dumps([0, None, ""])))
answer = connection.getresponse()
print(json.dumps([answer.status, answer.headers["set-cookie"], answer.read().decode()]))
"""


def ask(
    uid: int,
    url: str,
    method: str,
    path: str,
    headers: Mapping[str, str],
    *,
    body: str | None = None,
    path_of_socket: str = "",
    leave_at_once: bool = False,
) -> tuple[int, str | None, str]:
    """Status, cookie and body of what a process of this user is answered."""
    host, port = urlsplit(url).hostname, urlsplit(url).port
    asked = json.dumps(
        {"uid": uid, "host": host, "port": port, "method": method, "path": path, "body": body}
        | {"headers": headers, "path_of_socket": path_of_socket, "leave_at_once": leave_at_once}
    )
    command = [sys.executable, "-I", "-c", ASK, asked]
    said = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S, check=True).stdout
    status, cookie, content = json.loads(said)
    return status, cookie, content


def own(url: str, **more: str) -> dict[str, str]:
    """Headers as a page of the server sends them."""
    return {"sec-fetch-site": "same-origin", "origin": url, **more}


def session_of_plain(served: Served) -> Browser:
    """A browser whose cookie is of a session of the plain user."""
    status, _, said = ask(PLAIN.pw_uid, "http://x", "POST", "/dashboard", {}, path_of_socket=os.fspath(served.path))
    assert status == 201, said
    link = urlsplit(json.loads(said)["url"])
    browser = Browser(f"http://{link.netloc}")
    code = json.dumps({"code": link.fragment})
    status, cookie, said = ask(PLAIN.pw_uid, browser.url, "POST", "/session", own(browser.url), body=code)
    assert (status, json.loads(said)["user"]) == (200, PLAIN.pw_name)
    browser.cookie = (cookie or "").partition(";")[0]
    return browser


def test_the_cookie_of_roots_session_is_worth_nothing_to_a_plain_user(served: Served) -> None:
    browser = Browser.opened(served)
    sent = own(browser.url, cookie=browser.cookie or "")
    for method, path, body in (
        ("GET", "/jobs", None),
        ("POST", "/jobs", '{"command": ["id"]}'),
    ):
        status, _, said = ask(PLAIN.pw_uid, browser.url, method, path, sent, body=body)
        assert status == 403, said
    assert browser.call("GET", "/session").status == 200


def test_the_cookie_of_a_plain_users_session_is_worth_nothing_to_root_or_a_third(served: Served) -> None:
    browser = session_of_plain(served)
    sent = own(browser.url, cookie=browser.cookie or "")
    assert ask(PLAIN.pw_uid, browser.url, "GET", "/jobs", sent)[0] == 200
    for uid in (0, 12345):
        assert ask(uid, browser.url, "GET", "/jobs", sent)[0] == 403


def test_the_cookie_of_another_users_session_is_in_nobodys_way(served: Served) -> None:
    """Two users have had the pages at the same address of one browser, as through `ssh -L` with one port."""
    browser = Browser.opened(served)
    sent = own(browser.url, cookie=browser.cookie or "")
    status, cookie, said = ask(PLAIN.pw_uid, browser.url, "DELETE", "/session", sent)
    assert (status, "Max-Age=0" in (cookie or "")) == (204, True), said

    _, _, made = ask(PLAIN.pw_uid, "http://x", "POST", "/dashboard", {}, path_of_socket=os.fspath(served.path))
    code = json.dumps({"code": urlsplit(json.loads(made)["url"]).fragment})
    status, cookie, said = ask(PLAIN.pw_uid, browser.url, "POST", "/session", sent, body=code)
    assert (status, json.loads(said).get("user")) == (200, PLAIN.pw_name)
    theirs = own(browser.url, cookie=(cookie or "").partition(";")[0])
    assert ask(PLAIN.pw_uid, browser.url, "GET", "/jobs", theirs)[0] == 200
    # Whose it is keeps it.
    assert browser.call("GET", "/session").status == 200


def test_a_stolen_cookie_is_no_token(served: Served) -> None:
    browser = Browser.opened(served)
    secret = (browser.cookie or "").partition("=")[2]
    for uid in (0, PLAIN.pw_uid):
        assert ask(uid, browser.url, "GET", "/jobs", {"authorization": f"Bearer {secret}"})[0] == 401
        body = json.dumps({"token": secret})
        assert ask(uid, browser.url, "POST", "/session", own(browser.url), body=body)[0] == 401


def test_a_token_that_was_pasted_is_not_in_the_cookie(served: Served) -> None:
    browser = Browser(f"http://127.0.0.1:{served.port}")
    assert browser.call("POST", "/session", {"token": TOKEN}).status == 200
    assert TOKEN not in (browser.cookie or "")
    assert ask(PLAIN.pw_uid, browser.url, "GET", "/jobs", own(browser.url, cookie=browser.cookie or ""))[0] == 403


def test_who_hangs_up_at_once_is_not_taken_for_root(served: Served) -> None:
    """The kernel shows a socket that nobody has open any more as root's."""
    browser = Browser.opened(served)
    sent = own(browser.url, cookie=browser.cookie or "")
    body = '{"command": ["id"], "name": "stolen"}'
    for _ in range(20):
        ask(PLAIN.pw_uid, browser.url, "POST", "/jobs", sent, body=body, leave_at_once=True)
    assert served.call("GET", "/jobs?all=1").data["jobs"] == []


def test_a_link_is_opened_by_its_own_user_and_used_up_by_another(served: Served) -> None:
    link = urlsplit(link_of(served))
    url, code = f"http://{link.netloc}", json.dumps({"code": link.fragment})
    status, cookie, _ = ask(PLAIN.pw_uid, url, "POST", "/session", own(url), body=code)
    assert (status, cookie) == (403, None)
    assert Browser(url).call("POST", "/session", {"code": link.fragment}).status == 401


def over_tls(served: Served, method: str, path: str, headers: Mapping[str, str], body: object = None) -> int:
    """The status of a request to the server's address with TLS."""
    context = ssl._create_unverified_context()
    connection = http.client.HTTPSConnection("127.0.0.1", served.port, timeout=PATIENCE_S, context=context)
    try:
        return exchange(connection, method, path, body, headers).status
    finally:
        connection.close()


@needs_openssl
def test_a_session_of_this_machine_does_not_count_over_tls(world: World, tmp_path: Path) -> None:
    """Cookies that are sent without TLS can be taken, and connections with TLS are of no user."""
    served = Served(world, certificate=Certificate(*make_certificate(tmp_path)))
    try:
        secret = (Browser.opened(served).cookie or "").partition("=")[2]
        url, name = f"https://127.0.0.1:{served.port}", f"__Host-corral_session_{served.port}"
        assert over_tls(served, "GET", "/jobs", own(url, cookie=f"{name}={secret}")) == 401
        assert over_tls(served, "POST", "/session", own(url), {"token": TOKEN}) == 200
    finally:
        served.stop()


@needs_openssl
def test_a_reverse_proxy_speaks_tls_and_its_name_is_known(world: World, tmp_path: Path) -> None:
    proxied, other = "gpus.example.org", "evil.example"
    served = Served(world, certificate=Certificate(*make_certificate(tmp_path)), proxied_host=proxied)
    try:
        for host, status in ((proxied, 200), (other, 403)):
            sent = own(f"https://{host}", host=host)
            assert over_tls(served, "POST", "/session", sent, {"token": TOKEN}) == status
        browser = Browser.opened(served)
        plain = {"host": proxied, "origin": f"http://{proxied}"}
        assert browser.call("POST", "/session", {"token": TOKEN}, plain).status == 403
    finally:
        served.stop()
