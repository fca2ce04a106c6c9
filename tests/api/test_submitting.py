import asyncio
import os
import threading
import time
from collections.abc import Iterator

import pytest

from corral.api import submitting
from corral.api.submitting import Submitter
from corral.control.caller import Caller
from corral.model.submission import Submission
from tests.api.world import Served, World

HUNG = "/hung/file/server"


@pytest.fixture
def hang(monkeypatch: pytest.MonkeyPatch) -> Iterator[threading.Event]:
    """A directory whose file server does not answer until the event is set."""
    answers = threading.Event()
    isdir = os.path.isdir

    def look(path: str) -> bool:
        return answers.wait(20) if path == HUNG else isdir(path)

    monkeypatch.setattr(os.path, "isdir", look)
    yield answers
    answers.set()


def test_a_directory_that_hangs_holds_up_nobody_else(served: Served, hang: threading.Event) -> None:
    held_up = [threading.Thread(target=served.submit, kwargs={"workdir": HUNG}) for _ in range(30)]
    for thread in held_up:
        thread.start()
    time.sleep(0.3)
    began = time.monotonic()
    assert served.call("GET", "/jobs").data["jobs"] == []
    assert served.call("GET", "/devices").status == 200
    assert time.monotonic() - began < 10
    hang.set()
    for thread in held_up:
        thread.join(20)
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
