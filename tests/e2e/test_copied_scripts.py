"""A script is copied when it is submitted: what its user edits later is for later jobs."""

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.e2e.box import Box, described, serving
from tests.engines.pool import cluster

IN_BASH = '#!/bin/bash\n. "$(dirname "$0")/lib.sh"\necho "{} $0 $*"\n'
IN_PYTHON = "#!/usr/bin/env python3\nimport sys\nimport sib\nprint('{}', *sys.argv)\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "lib.sh").touch()
    (tmp_path / "sib.py").touch()
    return tmp_path


def ended(box: Box, job_id: str) -> str:
    box.ended(job_id)
    return box.ok("logs", job_id)


@pytest.mark.parametrize("mode", [0o755, 0o644])
@pytest.mark.parametrize("text", [IN_BASH, IN_PYTHON])
def test_a_job_runs_what_its_script_said_at_submission(box: Box, folder: Path, text: str, mode: int) -> None:
    script = folder / "job"
    script.write_text(text.format("first"))
    script.chmod(mode)
    first = box.submit("--hold", str(script), "a b")
    script.write_text(text.format("second"))
    second = box.submit("--hold", str(script))
    script.unlink()
    box.ok("release", first, second)
    assert ended(box, first) == f"first {script} a b\n"
    assert ended(box, second) == f"second {script}{' ' if text is IN_BASH else ''}\n"
    assert not (box.home / "scratch" / first).exists()


def test_a_job_that_runs_does_not_see_an_edit_either(box: Box, folder: Path) -> None:
    script = folder / "job.sh"
    script.write_text(f"#!/bin/sh\nuntil [ -e {folder}/go ]; do sleep 0.05; done\necho first\n")
    job_id = box.submit(str(script))
    box.until_phase(job_id, "RUNNING")
    script.write_text(script.read_text().replace("first", "second"))
    (folder / "go").touch()
    assert ended(box, job_id) == "first\n"


def test_elements_of_an_array_and_later_attempts_run_the_one_copy(box: Box, folder: Path) -> None:
    script = folder / "job.sh"
    script.write_text('#!/bin/sh\n#CORRAL --retries 1\necho "first $CORRAL_ATTEMPT $CORRAL_ARRAY_INDEX"\nexit 1\n')
    array = box.submit("--hold", "--array", "0-1", str(script))
    script.write_text("#!/bin/sh\necho second\n")
    box.ok("release", f"{array}_0", f"{array}_1")
    for index in (0, 1):
        said = ended(box, f"{array}_{index}")
        assert f"first 1 {index}\n" in said
        assert f"first 2 {index}\n" in said
        assert "second" not in said


def test_a_server_that_is_killed_has_the_copy_of_what_it_acknowledged(
    new_box: Callable[[str], Box], folder: Path
) -> None:
    box = new_box(described(1))
    box.up()
    script = folder / "job.sh"
    script.write_text(IN_BASH.format("first"))
    job_id = box.submit("--hold", str(script))
    box.kill()
    script.unlink()
    box.up()
    box.ok("release", job_id)
    assert ended(box, job_id) == f"first {script} \n"


@pytest.mark.parametrize("size", [200_000, 4 * 1024 * 1024])
def test_a_long_script_is_copied_and_one_that_is_too_long_runs_as_its_file(box: Box, folder: Path, size: int) -> None:
    script = folder / "job.sh"
    start = "#!/bin/bash\necho first; exit\n"
    script.write_text(start + "x" * (size - len(start)))
    job_id = box.submit("--hold", str(script))
    with script.open("a") as file:
        file.write("x" * 4 * 1024 * 1024)
    script.write_text(script.read_text().replace("first", "second"))
    said = box.run("submit", str(script))
    assert "is not copied, because it has more than 4 MiB" in said.stderr
    box.ok("release", job_id)
    assert ended(box, job_id) == "first\n"
    assert ended(box, said.stdout.strip()) == "second\n"


def test_the_script_of_a_gang_is_copied_for_another_node(folder: Path) -> None:
    with serving(cluster(a="", b="")) as box:
        script = folder / "job.sh"
        script.write_text('#!/bin/bash\n#CORRAL --gang 2 --gpus 1 --spread\necho "first $0"\nsrun echo task\n')
        job_id = box.submit("--hold", str(script))
        script.write_text("#!/bin/sh\necho second\n")
        box.ok("release", job_id)
        assert ended(box, job_id) == f"first {script}\ntask\ntask\n"


def test_the_commit_of_the_directory_is_shown(box: Box, folder: Path) -> None:
    env = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    env |= {f"GIT_{who}_{what}": "a@b" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
    for words in (["init", "-q"], ["add", "."], ["commit", "-qm", "x"]):
        subprocess.run(["git", *words], cwd=folder, env=env, check=True)
    (folder / "lib.sh").write_text("true\n")
    job_id = box.submit("--workdir", str(folder), "--", "true")
    spec = box.json("show", "--json", job_id)["spec"]
    assert len(spec["git_commit"]) == 40
    assert spec["git_dirty"] is True
    assert f"{spec['git_commit']}, and tracked files differed from it" in box.ok("show", job_id)


def test_a_command_whose_interpreter_would_find_no_file_is_refused(box: Box, folder: Path) -> None:
    box.submit("--workdir", str(folder), "--", "python3", "sib.py")
    refused = box.run("submit", "--workdir", str(folder), "--", "python3", "-u", "sip.py")
    assert refused.returncode == 2
    assert f"'python3' is to run 'sip.py', and there is no such file, seen from '{folder}'" in refused.stderr
    assert box.run("submit", "--dry-run", "--", "python3", "sip.py").returncode == 2
    for later in (["--begin", "now+1hours"], ["--after", "any:1"], ["--force"]):
        noted = box.run("submit", *later, "--hold", "--", "python3", "sip.py")
        assert (noted.returncode, "there is no such file" in noted.stderr) == (0, True), noted.stderr


@pytest.mark.parametrize(("line", "lacks"), [("#!/no/such/sh -e", "/no/such/sh"), ("#!/usr/bin/env nosuch", "nosuch")])
def test_a_script_without_its_interpreter_is_refused(box: Box, folder: Path, line: str, lacks: str) -> None:
    script = folder / "job"
    script.write_text(f"{line}\n")
    said = f"cannot run {script}: its first line names an interpreter that does not exist, {lacks}"
    assert said in box.run("submit", str(script)).stderr
