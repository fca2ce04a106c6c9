"""The copy of a script runs as its file would have, whatever has become of that: real interpreters, real processes."""

import subprocess
import sys
from pathlib import Path

import pytest

from corral.core.model.jobs.script_copy import place_of_script
from corral.host.runtimes.process import copied_script

SHELL = 'cd /; echo "$0 $1 $#"; . "$(dirname "$0")/lib.sh"; exit 3\n'
PYTHON = "import sys, lib\nprint(sys.argv, sys.path[0], __file__, __name__, lib.x)\nsys.exit(3)\n"


class Site:
    """A script's file, and the copy of what it said."""

    def __init__(self, root: Path, text: str) -> None:
        self.text, self.copy, self.path = text, root / "home dir" / "it's", root / "work's" / "job"
        for file in (self.copy, self.path):
            file.parent.mkdir()
            file.write_text(text)
        (self.path.parent / "lib.sh").write_text("echo lib\n")
        (self.path.parent / "lib.py").write_text("x = 'lib'\n")

    def run(self, *arguments: str) -> "subprocess.CompletedProcess[str]":
        words = copied_script.program([str(self.path), *arguments], self.text, str(self.copy))
        return subprocess.run(words, capture_output=True, text=True, cwd="/", timeout=60)


@pytest.mark.parametrize(
    "interpreter",
    [
        "/bin/sh",
        "/bin/bash -e",
        "/bin/bash -l",
        "/usr/bin/env bash",
        "/usr/bin/env -S bash -euo pipefail",
        "/bin/sh -u",
    ],
)
@pytest.mark.parametrize("change", ["edit", "unlink", "none"])
def test_a_shell_has_the_name_of_the_file_and_the_text_of_the_copy(
    tmp_path: Path, interpreter: str, change: str
) -> None:
    site = Site(tmp_path, f"#!{interpreter}\n{SHELL}")
    if change == "edit":
        site.path.write_text("#!/bin/sh\necho edited\n")
    elif change == "unlink":
        site.path.unlink()
    ended = site.run("a b", "c")
    assert (ended.returncode, ended.stdout, ended.stderr) == (3, f"{site.path} a b 2\nlib\n", "")


@pytest.mark.parametrize(
    "interpreter", [sys.executable, f"{sys.executable} -u", "/usr/bin/env -S python3 -B -W ignore"]
)
@pytest.mark.parametrize("change", ["edit", "unlink"])
def test_python_imports_what_is_beside_the_file(tmp_path: Path, interpreter: str, change: str) -> None:
    site = Site(tmp_path, f"#!{interpreter}\n{PYTHON}")
    if change == "edit":
        site.path.write_text("raise SystemExit('edited')\n")
    else:
        site.path.unlink()
    ended = site.run("a b")
    said = f"{[str(site.path), 'a b']} {site.path.parent} {site.path} __main__ lib\n"
    assert (ended.returncode, ended.stdout, ended.stderr) == (3, said, "")


def test_isolated_python_imports_nothing_from_beside_the_file(tmp_path: Path) -> None:
    site = Site(tmp_path, f"#!{sys.executable} -I\nimport lib\n")
    assert "No module named 'lib'" in site.run().stderr


def test_python_tells_of_an_error_by_the_file_and_leaves_nothing_of_its_own(tmp_path: Path) -> None:
    text = f"#!{sys.executable}\nprint(sorted(set(globals()) - {{'__annotations__', '__cached__'}}))\n"
    site = Site(
        tmp_path, text + "import traceback\ntry: 1 / 0  # here\nexcept ZeroDivisionError: traceback.print_exc()\n"
    )
    site.path.write_text("\n" * 20)
    ended = site.run()
    names = ["__builtins__", "__doc__", "__file__", "__loader__", "__name__", "__package__", "__spec__"]
    assert ended.stdout == f"{names}\n"
    assert f'File "{site.path}", line 4, in <module>' in ended.stderr
    assert "# here" in ended.stderr


GUARDED = '#!/bin/bash\nif [[ "${BASH_SOURCE[0]}" == "$0" ]]; then echo "main $0 $1"; fi\n'
PERL = '#!/usr/bin/perl\nprint "main $0 $ARGV[0]\\n";\n'


@pytest.mark.parametrize("text", [GUARDED, PERL, "#!/bin/bash -x\necho main $0 $1\n"])
def test_who_learns_the_name_from_the_path_runs_the_file_while_it_is_the_same_and_else_the_copy(
    tmp_path: Path, text: str
) -> None:
    site = Site(tmp_path, text)
    assert site.run("a").stdout == f"main {site.path} a\n"
    site.path.write_text("#!/bin/sh\necho edited\n")
    changed = site.run("a")
    assert changed.stdout == f"main {site.copy} a\n"
    assert f"corral: {site.path} is not as it was submitted any more" in changed.stderr
    site.path.unlink()
    assert site.run("a").stdout == f"main {site.copy} a\n"


@pytest.mark.parametrize("text", [f"#!/bin/bash -e\n{SHELL}", f"#!{sys.executable}\n{PYTHON}", PERL])
def test_where_the_copy_is_gone_the_job_fails(tmp_path: Path, text: str) -> None:
    site = Site(tmp_path, text)
    site.copy.unlink()
    site.path.unlink()
    assert site.run("a").returncode not in (0, 3)


def test_an_edit_while_a_shell_runs_changes_nothing(tmp_path: Path) -> None:
    site = Site(tmp_path, '#!/bin/bash\necho "echo edited" > "$0"\n/bin/true\necho as it was\n')
    assert site.run().stdout == "as it was\n"


def test_a_script_of_standard_input_is_called_by_its_copy(tmp_path: Path) -> None:
    site = Site(tmp_path, "#!/bin/sh -e\necho $0 $1\n")
    words = copied_script.program(["/bin/sh", "-e", "-", "a"], site.text, str(site.copy))
    assert words == ("/bin/sh", "-e", str(site.copy), "a")


@pytest.mark.parametrize(
    ("command", "place"),
    [(["/a/b"], 0), (["/bin/sh", "-e", "/a/b", "c"], 2), (["/bin/sh", "-e"], 0), (["/a/b", "/bin/sh", "-e"], 0)],
)
def test_the_script_is_found_in_its_command(command: list[str], place: int) -> None:
    assert place_of_script(command, "#!/bin/sh -e\n") == place
