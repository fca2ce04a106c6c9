"""What a user does to files that a submission names reaches nobody else: not the server, not another's secrets."""

import os
import signal
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from corral.client import Client
from corral.core.model.jobs.job import ProcessIdentity
from corral.host.telemetry.processes import HostProcesses
from tests.e2e.box import PATIENCE_S, Box, described
from tests.e2e.test_users import ONE, OTHER, as_user
from tests.hung_mount import hung_mount

PROCESSES = HostProcesses()

by_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root may act as two other users")


@pytest.fixture
def shared(new_box: Callable[[str], Box]) -> Box:
    box = new_box(described(2))
    box.home.chmod(0o755)
    box.up()
    return box


def server_of(box: Box) -> ProcessIdentity:
    found = PROCESSES.identify(int((box.home / "corral.pid").read_text()))
    assert found is not None
    return found


def inspection_worker_of(box: Box) -> ProcessIdentity:
    pid = server_of(box).pid
    threads = Path(f"/proc/{pid}/task").iterdir()
    children = [child for thread in threads for child in (thread / "children").read_text().split()]
    (worker,) = [child for child in children if b"inspection_worker" in Path(f"/proc/{child}/cmdline").read_bytes()]
    found = PROCESSES.identify(int(worker))
    assert found is not None
    return found


def submitted(box: Box, command: list[str], workdir: Path) -> dict[str, Any]:
    """The server's answer to the submission of a job that will not start."""
    body = {"command": command, "workdir": str(workdir), "held": True, "force": True, "env": {"PATH": "/usr/bin:/bin"}}
    answer: dict[str, Any] = box.api("/api/v1/jobs", body)
    return answer


def test_a_program_that_is_cut_while_it_is_looked_at_ends_no_server(box: Box, open_directory: Path) -> None:
    program = open_directory / "program"
    program.write_bytes(b"\x7fELF")
    program.chmod(0o755)
    stop = threading.Event()

    def cut_and_grow() -> None:
        while not stop.is_set():
            os.truncate(program, 1 << 24)
            os.truncate(program, 4)

    cutting = threading.Thread(target=cut_and_grow)
    cutting.start()
    try:
        server = server_of(box)
        for number in range(8):
            (open_directory / str(number)).symlink_to("program")
            assert "id" in submitted(box, [f"{open_directory}/{number}"], open_directory)
    finally:
        stop.set()
        cutting.join()
    assert server_of(box) == server


def test_pipes_in_the_place_of_files_hang_neither_a_submission_nor_the_end_of_the_server(
    new_box: Callable[[str], Box], open_directory: Path
) -> None:
    box = new_box(described(2))
    box.up()
    for name in ("a", "b", "c"):
        (open_directory / name).mkdir()
        os.mkfifo(open_directory / name / "config.json")
        os.mkfifo(open_directory / name / "python")
    with ThreadPoolExecutor(24) as threads:
        for name in ("a", "b", "c"):
            for command in (["vllm", "serve", name], ["./python", "train.py"]):
                for _ in range(4):
                    threads.submit(
                        submitted, box, command, open_directory / name if "/" in command[0] else open_directory
                    )
    begun = time.monotonic()
    assert len(box.json("ps", "--json")) == 24
    box.down()
    assert time.monotonic() - begun < PATIENCE_S


def test_whoever_stops_the_process_that_looks_holds_up_neither_submissions_nor_the_end_of_the_server(
    new_box: Callable[[str], Box], open_directory: Path
) -> None:
    box = new_box(described(2))
    box.up()
    assert "id" in submitted(box, ["true"], open_directory)
    worker = inspection_worker_of(box)
    os.kill(worker.pid, signal.SIGSTOP)
    (open_directory / "new").mkdir()
    answer = submitted(box, ["true"], open_directory / "new")
    assert "notes" not in answer, "it was looked at by another process"
    assert not PROCESSES.alive(worker)
    os.kill(inspection_worker_of(box).pid, signal.SIGSTOP)
    box.down()


@by_root
def test_nobody_learns_from_an_answer_whether_anothers_private_directory_exists(
    shared: Box, open_directory: Path
) -> None:
    private = open_directory / "private"
    (private / "there").mkdir(parents=True)
    os.chown(private, ONE.pw_uid, ONE.pw_gid)
    private.chmod(0o700)

    def submit(name: str) -> Callable[[Client], str]:
        return lambda client: client.submit(["true"], workdir=f"{private}/{name}", hold=True).id

    def try_out(name: str) -> Callable[[Client], str]:
        return lambda client: client.dry_run(["true"], workdir=f"{private}/{name}").reason

    for ask in (submit, try_out):
        there, nowhere = (as_user(OTHER, shared, ask(name)) for name in ("there", "nowhere"))
        assert there.replace("there", "nowhere") == nowhere
        assert f"is not a directory on this machine that {OTHER.pw_name} can use" in there
        assert "Refused" not in as_user(ONE, shared, ask("there"))


@by_root
def test_a_user_whose_files_never_answer_is_told_and_holds_up_no_other(shared: Box, open_directory: Path) -> None:
    (open_directory / "hung").mkdir()

    def submit(client: Client) -> list[str]:
        return list(client.submit(["true"], workdir=f"{open_directory}/hung", hold=True).notes)

    with hung_mount(open_directory / "hung", uid=ONE.pw_uid), ThreadPoolExecutor(12) as threads:
        hanging = [threads.submit(as_user, ONE, shared, submit) for _ in range(12)]
        other = as_user(OTHER, shared, lambda client: client.submit(["true"], workdir="/", hold=True).id)
        assert other.isdecimal()
        for done in hanging:
            assert done.result(PATIENCE_S)[0].startswith(
                f"the working directory '{open_directory}/hung' could not be checked in time"
            )
        shared.down()


PRINTS = """
echo 'RuntimeError: Out of memory allocating ,,, bytes (allocated so far: 1 bytes).'
head -c 3000 /dev/zero; printf '\\377\\376\\n'
exit 3
"""

LEAVES = """
cd "$CORRAL_SCRATCH" && mv config moved && mkdir config
{ printf 'SCRATCH_SIZE=0m\\nMOUNTS=\\nSLOTS='; head -c 100000 /dev/zero | tr '\\0' '['; } > config/resource.txt
chmod 500 config
touch done
sleep 600
"""


@by_root
def test_what_jobs_print_and_leave_ends_no_server_and_keeps_none_from_starting(shared: Box) -> None:
    server = server_of(shared)

    def submit(client: Client) -> list[str]:
        prints = client.submit(["/bin/sh", "-c", PRINTS], gpus=0, workdir="/").id
        again = client.submit(["/bin/sh", "-c", PRINTS], gpus=0, workdir="/", retries=2).id
        return [prints, again, client.submit(["/bin/sh", "-c", LEAVES], gpus=1, workdir="/").id]

    prints, again, leaves = as_user(ONE, shared, submit)
    for job_id in (prints, again):
        assert shared.ended(job_id)["exit_code"] == 3
        assert shared.api(f"/api/v1/jobs/{job_id}/why")["phase"] == "FAILED"
    scratch = shared.home / "scratch" / leaves
    shared.until((scratch / "done").exists)
    assert server_of(shared) == server
    shared.kill()
    shared.up()
    shared.until_phase(leaves, "RUNNING")
    assert shared.run("cancel", leaves).returncode == 0
    shared.ended(leaves)
    shared.until(lambda: not list((shared.home / "scratch").iterdir()))
