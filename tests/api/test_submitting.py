import asyncio
import os
import threading
from collections.abc import Iterator

import pytest

from corral.access.caller import Caller
from corral.api import submitting
from corral.api.submitting import Submitter
from corral.model.submission import Submission
from tests.api.world import PATIENCE_S, Served, World

HUNG = "/hung/file/server"


class HungDirectory:
    """A directory whose file server does not answer until `answers` is set; `looks` counts who waits for it."""

    def __init__(self) -> None:
        self.answers = threading.Event()
        self.looks = threading.Semaphore(0)
        self._isdir = os.path.isdir

    def isdir(self, path: str) -> bool:
        if path != HUNG:
            return self._isdir(path)
        self.looks.release()
        return self.answers.wait(PATIENCE_S)


@pytest.fixture
def hung(monkeypatch: pytest.MonkeyPatch) -> Iterator[HungDirectory]:
    hung = HungDirectory()
    monkeypatch.setattr(os.path, "isdir", hung.isdir)
    yield hung
    hung.answers.set()


def test_a_directory_that_hangs_holds_up_nobody_else(served: Served, hung: HungDirectory) -> None:
    held_up = [threading.Thread(target=served.submit, kwargs={"workdir": HUNG}) for _ in range(30)]
    for thread in held_up:
        thread.start()
    for _ in range(submitting._THREADS):
        assert hung.looks.acquire(timeout=PATIENCE_S)
    assert served.call("GET", "/jobs").data["jobs"] == []
    assert served.call("GET", "/devices").status == 200
    assert not hung.answers.is_set()
    assert all(thread.is_alive() for thread in held_up)
    hung.answers.set()
    for thread in held_up:
        thread.join(PATIENCE_S)
    assert len(served.call("GET", "/jobs").data["jobs"]) == 30


def test_a_directory_that_has_gone_is_noticed_although_it_was_there_a_moment_ago(served: Served) -> None:
    directory = served.world.home.root / "work"
    directory.mkdir()
    served.submit(workdir=str(directory))
    served.submit(workdir=str(directory))
    directory.rmdir()
    answer = served.call("POST", "/jobs", {"command": ["true"], "workdir": str(directory)})
    assert (answer.status, answer.error["field"]) == (422, "workdir")


def test_many_directories_are_not_remembered_for_ever(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(submitting, "_REMEMBERED", 2)
    submitter = Submitter(world.service)
    for number in range(5):
        directory = world.home.root / str(number)
        directory.mkdir()
        submission = Submission(("true",), workdir=str(directory))
        asyncio.run(submitter.submit([submission], Caller("ann")))
    assert len(submitter._found_at) <= 2
