"""The loopback port of the pages."""

import os
import socket
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from corral.features.dashboard import listener
from corral.features.dashboard.listener import LoopbackListener
from tests.api.world import Served, World
from tests.features.dashboard.browser import Browser, link_of

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root may listen on low ports")


async def nowhere(listener: socket.socket) -> None:
    """No server answers there."""


def test_a_server_that_did_not_listen_does_when_a_link_is_wanted(served: Served) -> None:
    first, second = link_of(served), link_of(served)
    assert first.startswith("http://127.0.0.1:")
    assert first.partition("/login#")[0] == second.partition("/login#")[0]


@needs_root
def test_the_next_server_has_the_same_port_and_knows_the_session(world: World) -> None:
    served = Served(world)
    browser = Browser.opened(served)
    served.stop()
    (again,) = LoopbackListener(world.home.page_port_file, None, nowhere).reopened()
    assert f":{again.getsockname()[1]}" in browser.url
    again.close()
    other = Served(world)
    try:
        browser.cookie = (browser.cookie or "").replace(browser.url.rpartition(":")[2], str(other.port))
        browser.url = f"http://127.0.0.1:{other.port}"
        assert browser.call("GET", "/session").status == 200
    finally:
        other.stop()


@needs_root
def test_a_port_that_somebody_took_is_not_waited_for(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with LoopbackListener(tmp_path / "other-port", None, nowhere)._bound_anywhere() as taken:
        (tmp_path / "page-port").write_text(f"{taken.getsockname()[1]}\n")
        assert LoopbackListener(tmp_path / "page-port", None, nowhere).reopened() == ()
    assert "lost their server" in caplog.text


def test_a_port_that_any_user_could_have_taken_meanwhile_is_not_opened_again(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    (tmp_path / "page-port").write_text(f"{port}\n")
    assert LoopbackListener(tmp_path / "page-port", None, nowhere).reopened() == ()


@needs_root
def test_roots_server_opens_a_port_that_no_other_user_can_take(served: Served) -> None:
    port = urlsplit(link_of(served)).port
    assert port is not None
    assert port < 1024


def test_where_any_user_may_take_low_ports_they_are_not_safer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first_open = tmp_path / "first-open"
    first_open.write_text("0\n")
    monkeypatch.setattr(listener, "_FIRST_OPEN_PORT", first_open)
    with LoopbackListener(tmp_path / "page-port", None, nowhere)._bound_anywhere() as bound:
        (tmp_path / "page-port").write_text(f"{bound.getsockname()[1]}\n")
    assert LoopbackListener(tmp_path / "page-port", None, nowhere).reopened() == ()


@pytest.mark.parametrize("content", ["", "x", "-1", "0", "99999", "1" * 100])
def test_a_broken_record_of_the_port_is_none(tmp_path: Path, content: str) -> None:
    (tmp_path / "page-port").write_text(content)
    assert LoopbackListener(tmp_path / "page-port", None, nowhere).reopened() == ()


def test_a_server_that_listens_on_loopback_opens_no_other_port(tmp_path: Path) -> None:
    pages = LoopbackListener(tmp_path / "page-port", "http://127.0.0.1:7070", nowhere)
    assert pages.reopened() == ()
    with pytest.raises(StopIteration) as told:
        pages.url().send(None)
    assert told.value.value == "http://127.0.0.1:7070"
