"""Engines that bring nodes are loaded by name."""

from importlib.metadata import EntryPoint

import pytest

from corral.clock import SystemClock
from corral.config import Settings
from corral.core.model.errors import BackendFailed, Refused
from corral.core.model.home import Home
from corral.core.ports.engine import NodeEngine
from corral.plugins import engines
from corral.plugins.engines import load_engine

HERE = "tests.plugins.test_engines"


def an_engine(home: Home, settings: Settings, clock: SystemClock) -> NodeEngine:
    raise BackendFailed("there is no such cluster")


@pytest.fixture(autouse=True)
def installed(monkeypatch: pytest.MonkeyPatch) -> None:
    entries = (("ours", f"{HERE}:an_engine"), ("broken", "tests.nowhere:engine"), ("constant", f"{HERE}:HERE"))
    points = [EntryPoint(name, value, engines.GROUP) for name, value in entries]
    monkeypatch.setattr(engines, "entry_points", lambda group: [one for one in points if one.group == group])


def test_an_engine_is_found_by_its_name() -> None:
    assert load_engine("ours") is an_engine


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("our", "did you mean 'ours'"),
        ("nomad", "'nomad' is not an engine; known: broken, constant, ours"),
        ("broken", "cannot be loaded"),
        ("constant", "is not a function"),
    ],
)
def test_one_that_cannot_be_used_is_refused(name: str, words: str) -> None:
    with pytest.raises(Refused, match=words):
        load_engine(name)
