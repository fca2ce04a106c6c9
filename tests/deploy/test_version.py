"""A version says the commit that it was built from, and a release its name alone."""

import subprocess
from pathlib import Path

import pytest

import corral
from deploy.version import version, write

RELEASE = corral.RELEASE


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository of one commit, with what the version is read from."""
    for role in ("AUTHOR", "COMMITTER"):
        monkeypatch.setenv(f"GIT_{role}_NAME", "somebody")
        monkeypatch.setenv(f"GIT_{role}_EMAIL", "somebody@localhost")
    package = tmp_path / "src/corral"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text(f'RELEASE = "{RELEASE}"\n')
    (tmp_path / ".gitignore").write_text("/src/corral/version.txt\n")
    git(tmp_path, "init", "--quiet")
    git(tmp_path, "add", "-A")
    git(tmp_path, "commit", "--quiet", "-m", "first")
    return tmp_path


def git(root: Path, *words: str) -> str:
    return subprocess.run(["git", "-C", root, *words], check=True, capture_output=True, text=True).stdout.strip()


def commit_of(root: Path) -> str:
    return f"{RELEASE}+g{git(root, 'rev-parse', 'HEAD')[:7]}"


def test_it_names_the_commit_and_a_change_in_the_tree(checkout: Path) -> None:
    assert version(checkout) == commit_of(checkout)
    (checkout / "src/corral/new.py").touch()
    assert version(checkout) == f"{commit_of(checkout)}.dirty"


def test_a_tagged_release_has_no_suffix_unless_it_was_changed(checkout: Path) -> None:
    git(checkout, "tag", "v9.9.9")
    assert version(checkout) == commit_of(checkout), "that tag names another release"
    git(checkout, "tag", f"v{RELEASE}")
    assert version(checkout) == RELEASE
    (checkout / ".gitignore").write_text("")
    assert version(checkout) == f"{commit_of(checkout)}.dirty"


def test_it_is_written_anew_after_a_commit_and_the_tree_stays_clean(checkout: Path) -> None:
    write(checkout)
    git(checkout, "commit", "--quiet", "--allow-empty", "-m", "second")
    write(checkout)
    assert (checkout / "src/corral/version.txt").read_text() == f"{commit_of(checkout)}\n"
    assert git(checkout, "status", "--porcelain") == ""
    assert [path.name for path in (checkout / "src/corral").iterdir() if path.name.startswith(".")] == []


def test_what_was_unpacked_keeps_the_version_that_it_was_packed_with(checkout: Path) -> None:
    write(checkout)
    packed = version(checkout)
    (checkout / ".git").rename(checkout / "elsewhere")
    assert version(checkout) == packed
    (checkout / "src/corral/version.txt").unlink()
    assert version(checkout) == RELEASE


def test_a_repository_around_an_unpacked_source_is_not_its_own(checkout: Path) -> None:
    inner = checkout / "vendor"
    (checkout / "src").rename(inner)
    (inner / "src").mkdir()
    (inner / "corral").rename(inner / "src/corral")
    assert version(inner) == RELEASE


def test_a_checkout_without_a_commit_or_without_git_is_the_release(
    checkout: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(checkout))
    assert version(checkout) == RELEASE
    monkeypatch.undo()
    (checkout / ".git").rename(checkout / "elsewhere")
    git(checkout, "init", "--quiet")
    assert version(checkout) == RELEASE


def test_variables_of_git_around_a_hook_do_not_lead_to_another_repository(
    checkout: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = commit_of(checkout)
    monkeypatch.setenv("GIT_DIR", "/nowhere")
    assert version(checkout) == expected
