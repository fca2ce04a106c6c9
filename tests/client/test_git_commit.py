"""The commit of a directory is read without executing anything that a repository says."""

import os
import signal
import subprocess
import threading
import time
from pathlib import Path

import pytest

from corral.client.submitting import git_commit as module
from corral.client.submitting.git_commit import git_commit

ENV = {
    **{name: value for name, value in os.environ.items() if not name.startswith("GIT_")},
    **{f"GIT_{who}_{what}": "a@b" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")},
    "GIT_CONFIG_GLOBAL": os.devnull,
}


def git(repository: Path, *words: str) -> str:
    return subprocess.run(
        ["git", "-C", repository, *words], env=ENV, check=True, capture_output=True, text=True
    ).stdout.strip()


@pytest.fixture(autouse=True)
def _asked_anew_and_with_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "TRUST_S", 0.0)
    monkeypatch.setattr(module, "WITHIN_S", 30.0)


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    path = tmp_path / "repository"
    path.mkdir()
    git(path, "init", "-q")
    (path / "train.py").write_text("1\n")
    (path / "sub").mkdir()
    git(path, "add", ".")
    git(path, "commit", "-q", "-m", "first")
    return path


def test_a_directory_has_the_commit_of_its_repository(repository: Path) -> None:
    head = git(repository, "rev-parse", "HEAD")
    assert git_commit(str(repository)) == git_commit(str(repository / "sub")) == (head, False)
    (repository / "new.txt").touch()
    assert git_commit(str(repository)) == (head, False)
    (repository / "train.py").write_text("2\n")
    assert git_commit(str(repository)) == (head, True)


def test_what_is_staged_differs_from_the_commit(repository: Path) -> None:
    (repository / "new.txt").touch()
    git(repository, "add", "new.txt")
    assert git_commit(str(repository)) == (git(repository, "rev-parse", "HEAD"), True)


def test_where_there_is_no_repository_no_commit_or_no_git_nothing_is_said(
    tmp_path: Path, repository: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert git_commit("/") is None
    (tmp_path / "empty").mkdir()
    git(tmp_path / "empty", "init", "-q")
    assert git_commit(str(tmp_path / "empty")) is None
    monkeypatch.setenv("PATH", str(tmp_path))
    assert git_commit(str(repository)) is None


def test_nothing_that_a_repository_names_is_executed(repository: Path, tmp_path: Path) -> None:
    mark, trap = tmp_path / "executed", tmp_path / "trap"
    trap.write_text(f"#!/bin/sh\ntouch {mark}\ncat\n")
    trap.chmod(0o755)
    for name in ("core.fsmonitor", "core.pager", "diff.external", "filter.evil one.clean", "filter.evil one.process"):
        git(repository, "config", name, str(trap))
    git(repository, "config", "filter.evil one.required", "true")
    (repository / ".gitattributes").write_text("* filter=evil\\ one\n")
    git(repository, "config", "filter.evil.clean", str(trap))
    (repository / ".git" / "info" / "attributes").write_text("* filter=evil\n")
    for hook in ("post-index-change", "fsmonitor-watchman", "post-checkout"):
        (repository / ".git" / "hooks").mkdir(exist_ok=True)
        (repository / ".git" / "hooks" / hook).symlink_to(trap)
    (repository / "train.py").write_text("3\n")
    mark.unlink(missing_ok=True)
    index = (repository / ".git" / "index").stat().st_mtime_ns
    found = git_commit(str(repository))
    assert found is not None
    assert found[1]
    assert not mark.exists()
    assert (repository / ".git" / "index").stat().st_mtime_ns == index
    git(repository, "status")
    assert mark.exists()  # so the trap works


def test_a_git_that_is_slow_is_given_up_and_killed(
    repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "git").write_text(f"#!/bin/sh\necho $$ > {tmp_path}/pid\nsleep 60\n")
    (tmp_path / "bin" / "git").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}/bin:{os.environ['PATH']}")
    monkeypatch.setattr(module, "WITHIN_S", 0.3)
    began = time.monotonic()
    assert git_commit(str(repository)) is None
    assert time.monotonic() - began < 10
    pid = int((tmp_path / "pid").read_text())
    until = time.monotonic() + 30
    while Path(f"/proc/{pid}").exists():
        assert time.monotonic() < until, "it is killed"
        time.sleep(0.01)


def test_a_directory_on_a_file_server_that_is_away_is_waited_for_no_longer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers = threading.Event()

    def never(directory: str) -> bool:
        return answers.wait(60)

    monkeypatch.setattr(module, "_in_work_tree", never)
    monkeypatch.setattr(module, "WITHIN_S", 0.1)
    began = time.monotonic()
    assert git_commit(str(tmp_path)) is None
    assert time.monotonic() - began < 10
    answers.set()


def test_a_filter_that_appears_while_git_is_asked_is_not_run(repository: Path, tmp_path: Path) -> None:
    """Its configuration includes a pipe, of which each reading may be another."""
    (repository / ".gitattributes").write_text("* filter=evil\n")
    git(repository, "add", ".")
    git(repository, "commit", "-q", "-m", "attributes")
    (repository / "train.py").write_text("2\n")
    (tmp_path / "evil").write_text(f"#!/bin/sh\ntouch {tmp_path}/ran\ncat\n")
    (tmp_path / "evil").chmod(0o755)
    for key in ("clean", "process"):
        git(repository, "config", f"filter.evil.{key}", f"{tmp_path}/evil")
    found = git_commit(str(repository))
    assert found is not None
    assert found[1]
    assert not (tmp_path / "ran").exists()


def test_a_file_that_was_only_touched_does_not_differ(repository: Path) -> None:
    os.utime(repository / "train.py", (1, 1))
    assert git_commit(str(repository)) == (git(repository, "rev-parse", "HEAD"), False)
    (repository / "train.py").unlink()
    os.mkfifo(repository / "train.py")
    assert git_commit(str(repository)) == (git(repository, "rev-parse", "HEAD"), True)


def test_a_program_whose_children_nobody_waits_for_may_ask(repository: Path) -> None:
    before = signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    try:
        git_commit(str(repository))
    finally:
        signal.signal(signal.SIGCHLD, before)
