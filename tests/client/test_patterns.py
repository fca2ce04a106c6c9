"""Patterns of files that are left out of an upload."""

from pathlib import Path

import pytest

from corral.client.files.patterns import IGNORE_FILE, leaving_out, patterns_in
from corral.core.model.errors import Refused


@pytest.mark.parametrize(
    ("pattern", "path", "is_directory", "left_out"),
    [
        ("*.pt", "a.pt", False, True),
        ("*.pt", "deep/in/a.pt", False, True),
        ("*.pt", "a.ptx", False, False),
        ("data/", "data", True, True),
        ("data/", "data", False, False),
        ("data/", "sub/data", True, True),
        ("data", "data", False, True),
        ("data", "data", True, True),
        ("/data", "data", True, True),
        ("/data", "sub/data", True, False),
        ("out/*", "out/a", False, True),
        ("out/*", "out/sub", True, True),
        ("out/*", "out", True, False),
        ("sub/*.log", "sub/a.log", False, True),
        ("sub/*.log", "other/sub/a.log", False, False),
        ("./x", "x", False, True),
        ("[ab]", "a", False, True),
        ("a.b", "axb", False, False),
        ("line\nend", "line\nend", False, True),
    ],
)
def test_a_pattern_leaves_out_names_anywhere_or_paths_from_the_top(
    pattern: str, path: str, is_directory: bool, left_out: bool
) -> None:
    assert leaving_out([pattern])(path, is_directory) is left_out


def test_without_patterns_nothing_is_left_out() -> None:
    assert not leaving_out([])("a", False)


@pytest.mark.parametrize("pattern", ["!keep", "/", "//", "./"])
def test_a_pattern_that_means_nothing_here_is_refused(pattern: str) -> None:
    with pytest.raises(Refused, match="the pattern"):
        leaving_out([pattern])


def test_a_file_of_patterns_has_comments_and_empty_lines(tmp_path: Path) -> None:
    assert patterns_in(str(tmp_path)) == ()
    (tmp_path / IGNORE_FILE).write_text("# data\n\n  *.pt  \ncache/\n")
    assert patterns_in(str(tmp_path)) == ("*.pt", "cache/")
    (tmp_path / IGNORE_FILE).write_bytes(b"\xff\xfe")
    with pytest.raises(Refused, match="cannot be read"):
        patterns_in(str(tmp_path))
