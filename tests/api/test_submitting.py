"""Submitting looks at the files that a submission names."""

import threading
from typing import Any

import pytest

from corral.core.control.submitting import file_findings
from tests.api.world import Served


def test_a_directory_that_has_gone_is_noticed_once_what_was_seen_is_old(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    directory = served.world.home.root / "work"
    directory.mkdir()
    served.submit(workdir=str(directory))
    directory.rmdir()
    monkeypatch.setattr(file_findings, "TRUST_S", 0.0)
    answer = served.call("POST", "/jobs", {"command": ["true"], "workdir": str(directory)})
    assert (answer.status, answer.error["field"]) == (422, "workdir")


def test_a_single_job_is_made_on_the_event_loop_and_an_array_beside_it(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    threads: list[threading.Thread] = []
    submit = served.world.service.submit_inspected

    def noted(*args: Any) -> Any:
        threads.append(threading.current_thread())
        return submit(*args)

    monkeypatch.setattr(served.world.service, "submit_inspected", noted)
    served.submit(workdir="/")
    served.submit(workdir="/")
    served.submit(workdir="/", array={"indices": [0, 1]})
    assert threads[1] is served.thread
    assert threads[2] is not served.thread
