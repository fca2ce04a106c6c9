"""Directories that travel with jobs: real agents on a mock cluster, which get them by calls alone."""

import json
import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from corral.client import Client
from corral.client.submitting.request import submission
from corral.core.model.errors import Conflict, NotFound, Refused
from corral.core.model.files.upload import Upload
from corral.trees.text import digest_of
from tests.e2e.box import Box, described, serving
from tests.e2e.test_users import ONE, OTHER, as_user
from tests.engines.pool import SETTINGS, cluster


def states(box: Box) -> dict[str, str]:
    return {row["name"]: row["state"] for row in box.json("nodes", "--json")}


@pytest.fixture(scope="module")
def _shared() -> Iterator[Box]:
    box = Box(cluster(a="", b=""), SETTINGS.format(gone_after="10m") + "upload_max: 1M\n")
    box.up()
    box.until(lambda: set(states(box).values()) == {"ready"})
    yield box
    box.discard()


@pytest.fixture
def box(_shared: Box) -> Iterator[Box]:
    """A mock cluster with no job on it."""
    yield _shared
    _shared.clear()


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A directory with a program, data in a directory, and a link."""
    made = tmp_path / "project"
    (made / "sub").mkdir(parents=True)
    (made / "sub" / "data").write_text("of the project\n")
    (made / "run.sh").write_text("#!/bin/sh\nmkdir -p out/deep\ncat link >out/deep/copy\npwd\n")
    (made / "run.sh").chmod(0o755)
    (made / "link").symlink_to("sub/data")
    return made


def test_a_job_runs_in_its_directory_on_the_node_and_what_it_leaves_comes_back(box: Box, project: Path) -> None:
    (project / "large.pt").write_text("not needed")
    (project / ".corralignore").write_text("*.pt\n")
    words = ("--node", "b", "--upload", ".", "--upload-exclude", "secret", "--download", "out/")
    (project / "secret").write_text("not sent")
    done = box.run("run", *words, "--", "sh", "-c", "./run.sh; ls", cwd=project)
    assert done.returncode == 0, done.stderr
    where, *listed = done.stdout.split()
    assert where.startswith(str(box.home / "nodes" / "b" / "scratch"))
    assert listed == ["link", "out", "run.sh", "sub"]
    assert "1 file (15 bytes), in out" in done.stderr
    assert (project / "out" / "deep" / "copy").read_text() == "of the project\n"


def test_a_gang_has_it_on_each_of_its_nodes_and_each_rank_can_be_fetched(box: Box, project: Path) -> None:
    words = ("--gang", "2", "--spread", "--upload", str(project), "--download", "out")
    job = box.submit(*words, "--", "sh", "-c", "./run.sh; echo $RANK >out/rank")
    assert box.ended(job)["phase"] == "SUCCEEDED"
    for rank in ("0", "1"):
        box.ok("fetch", job, str(project / f"got{rank}"), "--rank", rank)
        assert (project / f"got{rank}" / "rank").read_text() == f"{rank}\n"


def test_an_array_has_it_and_each_element_leaves_its_own(box: Box, project: Path) -> None:
    job = box.submit(
        "--array",
        "0-2",
        "--upload",
        str(project),
        "--download",
        "out",
        "--",
        "sh",
        "-c",
        "./run.sh; echo $CORRAL_ARRAY_INDEX >out/i",
    )
    with Client(box.home) as client:
        client.wait(job, 60)
    box.ok("fetch", f"{job}_2", str(project / "two"))
    assert (project / "two" / "i").read_text() == "2\n"


def test_the_job_says_what_was_sent_and_a_second_job_sends_only_what_has_changed(box: Box, project: Path) -> None:
    for number in range(50):
        (project / f"f{number}").write_text(str(number))
    sent: list[int] = []
    with Client(box.home) as client:
        client.on_upload = lambda sent_bytes, all_bytes: sent.append(sent_bytes)
        job = client.submit(["true"], upload=project)
        first = sent.pop()
        (project / "f7").write_text("changed")
        client.submit(["true"], upload=project)
        assert (first, sent) != (0, [])
        assert sent == [len("changed")]
        sent.clear()
        client.submit(["true"], upload=project)
        assert sent == []
        upload = client.jobs.get(job.id).spec["upload"]
    assert (upload["files"], upload["source"]) == (52, str(project))
    assert "52 files (" in box.ok("show", job.id)


def test_newer_files_here_are_kept_and_named_unless_forced(box: Box, project: Path) -> None:
    job = box.submit(
        "--upload", str(project), "--download", "out", "--", "sh", "-c", "mkdir out; echo new >out/a; echo new >out/b"
    )
    box.ended(job)
    got = project / "got"
    got.mkdir()
    (got / "a").write_text("my own work")
    os.utime(got / "a", (time.time() + 3600, time.time() + 3600))
    (got / "b").write_text("old")
    os.utime(got / "b", (1000, 1000))
    done = box.run("fetch", job, str(got))
    assert done.returncode == 1
    assert "not replaced: a: the file here is newer" in done.stderr
    assert [(got / name).read_text() for name in "ab"] == ["my own work", "new\n"]
    again = json.loads(box.ok("fetch", job, str(got), "--force", "--json"))
    assert (again["written"], again["kept"]) == (1, [])
    assert (got / "a").read_text() == "new\n"


def test_a_directory_of_links_here_is_not_written_through(box: Box, project: Path) -> None:
    job = box.submit("--upload", str(project), "--download", "out", "--", "./run.sh")
    box.ended(job)
    (project / "elsewhere").mkdir()
    (project / "got").mkdir()
    (project / "got" / "deep").symlink_to(project / "elsewhere")
    done = box.run("fetch", job, str(project / "got"))
    assert done.returncode == 1
    assert "deep is no directory here" in done.stderr
    assert list((project / "elsewhere").iterdir()) == []


def test_what_cannot_be_sent_is_named_and_no_job_is_made(box: Box, project: Path) -> None:
    os.mkfifo(project / "pipe")
    (project / "abroad").symlink_to("/etc/hostname")
    before = len(box.json("ps", "--all", "--json"))
    done = box.run("submit", "--upload", str(project), "--", "true")
    assert done.returncode != 0
    assert "2 files in" in done.stderr
    assert "pipe: a fifo" in done.stderr
    assert "abroad: it is a link to /etc/hostname" in done.stderr
    box.ok("submit", "--upload", str(project), "--upload-exclude", "pipe", "--upload-exclude", "abroad", "--", "true")
    (project / "large").write_bytes(bytes(2 * 1024 * 1024))
    assert "more than 1 MiB" in box.run("submit", "--upload", str(project), "--", "true").stderr
    assert len(box.json("ps", "--all", "--json")) == before + 1


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--download", "out"), "--download is about the files of --upload"),
        (("--upload", ".", "--download", "../out"), "is not in the directory that is uploaded"),
        (("--upload", ".", "--workdir", "/tmp"), "--workdir: /tmp is not in"),
        (("--upload", "/nowhere-at-all"), "cannot be uploaded: No such file"),
    ],
)
def test_options_that_make_no_sense_are_refused(box: Box, project: Path, words: tuple[str, ...], said: str) -> None:
    done = box.run("submit", *words, "--", "true", cwd=project)
    assert done.returncode != 0
    assert said in done.stderr


def test_what_is_not_there_is_said(box: Box, project: Path) -> None:
    with Client(box.home) as client:
        plain = client.submit(["true"])
        nothing = client.submit(["true"], upload=project, download="out")
        runs = client.submit(["sleep", "60"], upload=project, download="out")
        client.wait([plain.id, nothing.id], 60)
        with pytest.raises(Conflict, match="without --download"):
            client.jobs.fetch(plain.id, project / "got")
        with pytest.raises(NotFound, match="has left no directory out"):
            client.jobs.fetch(nothing.id, project / "got")
        with pytest.raises(Conflict, match="has not ended"):
            client.jobs.fetch(runs.id, project / "got")
        with pytest.raises(Refused, match=r"rank: job .* has the ranks 0 to 0"):
            client.jobs.fetch(nothing.id, project / "got", rank=3)


def test_a_directory_that_was_never_sent_is_refused(box: Box, project: Path) -> None:
    answer = box.api(
        "/api/v1/jobs", {"command": ["true"], "workdir": "/p", "upload": {"source": "/p", "tree": "0" * 64}}
    )
    assert "you have sent no such directory" in answer["error"]["message"]
    hostile = {"entries": [{"path": "../../etc/cron.d/x", "mode": 420, "chunks": []}]}
    assert "cannot be in a directory of files" in box.api("/api/v1/uploads", hostile)["error"]["message"]


def test_a_failed_attempt_finds_what_it_has_left_when_it_is_tried_again(box: Box, project: Path) -> None:
    words = ("--node", "a", "--retries", "1", "--upload", str(project), "--download", "out")
    job = box.submit(
        *words, "--", "sh", "-c", "mkdir -p out; echo $CORRAL_ATTEMPT >>out/attempts; test $CORRAL_ATTEMPT = 2"
    )
    assert box.ended(job)["phase"] == "SUCCEEDED"
    box.ok("fetch", job, str(project / "got"))
    assert (project / "got" / "attempts").read_text() == "1\n2\n"


def test_an_agent_that_was_killed_while_the_job_ran_still_keeps_what_it_leaves(box: Box, project: Path) -> None:
    gate = project / "gate"
    words = ("--node", "a", "--upload", str(project), "--upload-exclude", "gate", "--download", "out")
    job = box.submit(*words, "--", "sh", "-c", f"./run.sh; until [ -e {gate} ]; do sleep 0.05; done")
    box.until_phase(job, "RUNNING")
    pid = int((box.home / "nodes" / "a" / "corral.pid").read_text())
    os.kill(pid, 9)
    gate.write_text("")
    assert box.ended(job)["phase"] == "SUCCEEDED"
    box.until(lambda: set(states(box).values()) == {"ready"})
    box.until(lambda: box.run("fetch", job, str(project / "got")).returncode == 0)
    assert (project / "got" / "deep" / "copy").exists()


@pytest.fixture
def of_nobody() -> Iterator[Path]:
    """A directory of a user who is not root."""
    made = Path(tempfile.mkdtemp(prefix="files-"))
    (made / "data").write_text("of nobody")
    for path in (made, made / "data"):
        os.chown(path, ONE.pw_uid, ONE.pw_gid)
    yield made
    shutil.rmtree(made)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may act as two other users")
def test_on_one_machine_each_user_has_their_own_files_and_nobody_gets_those_of_another(of_nobody: Path) -> None:
    def work(client: Client) -> Any:
        script = "mkdir out; id -u >out/uid; stat -c %u . data >>out/uid; cat data >>out/uid"
        job = client.submit(["sh", "-c", script], upload=of_nobody, download="out", gpus=0)
        job.wait()
        fetched = client.jobs.fetch(job, of_nobody / "out")
        return [job.id, fetched.files, client.jobs.get(job.id).spec["upload"]["tree"]]

    with serving(described(1)) as box:
        box.home.chmod(0o755)
        job, files, tree = as_user(ONE, box, work)
        uid = str(ONE.pw_uid)
        assert files == 1
        assert (of_nobody / "out" / "uid").read_text().split() == [uid, uid, uid, "of", "nobody"]

        def steal(client: Client) -> Any:
            own = replace(submission(["true"], {"gpus": 0}), workdir="/p", upload=Upload("/p", tree=tree))
            return client.submit(own).id

        assert "you have sent no such directory" in as_user(OTHER, box, steal)
        assert "may fetch the files" in as_user(OTHER, box, lambda client: client.jobs.fetch(job, "/tmp").files)
        kept = [path for part in ("uploads", "trees") for path in (box.home / part).rglob("*")]
        assert kept
        assert all(path.stat().st_mode & 0o077 == 0 for path in kept)


def test_files_that_the_server_has_lost_end_the_job_and_its_reason_says_so(box: Box, project: Path) -> None:
    (project / "unique").write_text(f"of {project}")
    job = box.submit("--hold", "--upload", str(project), "--", "true")
    (lost,) = (box.home / "uploads").rglob(digest_of(f"of {project}".encode()))
    lost.unlink()
    box.ok("release", job)
    row = box.ended(job)
    assert row["phase"] == "FAILED"
    assert "the server no longer has its files" in row["reason"]
    assert set(states(box).values()) == {"ready"}


def test_a_directory_that_is_being_sent_to_a_node_that_dies_arrives_when_it_is_back(box: Box, project: Path) -> None:
    for number in range(300):
        (project / f"f{number}").write_text(f"{number} of {project}")
    job = box.submit("--hold", "--node", "b", "--upload", str(project), "--", "sh", "-c", "ls | wc -l")
    box.ok("release", job)
    os.kill(int((box.home / "nodes" / "b" / "corral.pid").read_text()), 9)
    assert box.ended(job)["phase"] == "SUCCEEDED"
    assert box.ok("logs", job).split()[-1] == "303"
