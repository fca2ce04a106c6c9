"""The loopback port of the pages."""

import socket
from pathlib import Path

import pytest

from corral.api.pages.listener import LoopbackListener
from tests.api.pages.browser import Browser, link_of
from tests.api.world import Served, World


def test_a_server_that_did_not_listen_does_when_a_link_is_wanted(served: Served) -> None:
    first, second = link_of(served), link_of(served)
    assert first.startswith("http://127.0.0.1:")
    assert first.partition("/login#")[0] == second.partition("/login#")[0]


def test_the_next_server_has_the_same_port_and_knows_the_session(world: World) -> None:
    served = Served(world)
    browser = Browser.opened(served)
    served.stop()
    listener = LoopbackListener(world.home.page_port_file, None)
    (again,) = listener.reopened()
    assert f":{again.getsockname()[1]}" in browser.url
    again.close()
    other = Served(world)
    try:
        browser.cookie = (browser.cookie or "").replace(browser.url.rpartition(":")[2], str(other.port))
        browser.url = f"http://127.0.0.1:{other.port}"
        assert browser.call("GET", "/session").status == 200
    finally:
        other.stop()


def test_a_port_that_somebody_took_is_not_waited_for(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        (tmp_path / "page-port").write_text(f"{taken.getsockname()[1]}\n")
        assert LoopbackListener(tmp_path / "page-port", None).reopened() == ()


@pytest.mark.parametrize("content", ["", "x", "-1", "0", "99999", "1" * 100])
def test_a_broken_record_of_the_port_is_none(tmp_path: Path, content: str) -> None:
    (tmp_path / "page-port").write_text(content)
    assert LoopbackListener(tmp_path / "page-port", None).reopened() == ()


def test_a_server_that_listens_on_loopback_opens_no_other_port(tmp_path: Path) -> None:
    listener = LoopbackListener(tmp_path / "page-port", "http://127.0.0.1:7070")
    assert listener.reopened() == ()
    with pytest.raises(StopIteration) as told:
        listener.url().send(None)
    assert told.value.value == "http://127.0.0.1:7070"
