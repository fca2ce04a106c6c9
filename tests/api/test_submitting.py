"""Submitting looks at the files that a submission names."""

import pytest

from corral.control.submitting import file_findings
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
