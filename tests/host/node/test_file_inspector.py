"""Files of users are looked at by a process of its own, as the user, and for no longer than a deadline."""

import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from corral.core.ports.host import Credentials, FileQuery
from corral.host.node.files import file_inspector
from corral.host.node.files.file_inspector import HostFileInspector
from tests.hung_mount import hung_mount

PATIENCE_S = 60.0
ROOT = os.geteuid() == 0
NOBODY = Credentials(65534, 65534, (65534,))
by_root = pytest.mark.skipif(not ROOT, reason="only root can read as somebody else")


@pytest.fixture
def inspector() -> Iterator[HostFileInspector]:
    inspector = HostFileInspector(deadline_s=PATIENCE_S)
    yield inspector
    inspector.close()


def until(holds: Callable[[], object]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not holds():
        assert time.monotonic() < deadline, "it did not come about"
        time.sleep(0.005)


def children(pid: int | None) -> list[int]:
    return [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def slow_queries(directory: Path) -> list[FileQuery]:
    """Queries that take a minute of a processor: a program that is all holes is searched over and over."""
    program = directory / "program"
    program.write_bytes(b"\x7fELF")
    os.truncate(program, 1 << 24)
    return [FileQuery(program=str(program), variables=(("PATH", f"/{number}"),)) for number in range(400)]


def test_many_queries_are_answered_each_for_itself(inspector: HostFileInspector, tmp_path: Path) -> None:
    directories = [tmp_path / str(number) for number in range(250)]
    for directory in directories[::2]:
        directory.mkdir()
    found = inspector.inspect([FileQuery(directory=str(directory)) for directory in directories], None)
    assert [found[FileQuery(directory=str(directory))].enterable for directory in directories] == [True, False] * 125


def test_what_a_program_brings_is_found_with_its_model(inspector: HostFileInspector, tmp_path: Path) -> None:
    site = tmp_path / "lib" / "python3.11" / "site-packages" / "torch"
    site.mkdir(parents=True)
    (site / "version.py").write_text("cuda: Optional[str] = '12.1'\n")
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "python").symlink_to(sys.executable)
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "config.json").write_text("{}")
    asked = FileQuery(program=f"{tmp_path}/bin/python", model="model", workdir=str(tmp_path))
    facts = inspector.inspect([asked], None)[asked]
    assert facts.runtime is not None
    assert facts.runtime.version == (12, 1)
    assert "no hidden_size" in (facts.model_trouble or "")


@by_root
def test_a_query_has_the_rights_of_the_user_and_of_their_groups_alone(
    inspector: HostFileInspector, open_directory: Path
) -> None:
    (open_directory / "mine").mkdir(mode=0o700)
    (open_directory / "groups").mkdir()
    os.chown(open_directory / "groups", 0, 44)
    (open_directory / "groups").chmod(0o710)
    mine, groups = (FileQuery(directory=str(open_directory / name)) for name in ("mine", "groups"))

    def seen(who: Credentials | None) -> list[bool | None]:
        found = inspector.inspect([mine, groups], who)
        return [found[mine].enterable, found[groups].enterable]

    assert seen(None) == [True, True]
    assert seen(NOBODY) == [False, False]
    assert seen(NOBODY._replace(groups=(65534, 44))) == [False, True]


@by_root
def test_nobody_learns_whether_a_private_directory_exists(inspector: HostFileInspector, open_directory: Path) -> None:
    (open_directory / "private" / "there").mkdir(parents=True)
    (open_directory / "private").chmod(0o700)
    asked = [FileQuery(directory=f"{open_directory}/private/{name}") for name in ("there", "nowhere")]
    assert len(set(inspector.inspect(asked, NOBODY).values())) == 1


def test_a_query_that_takes_too_long_is_given_up_and_its_process_ended(tmp_path: Path) -> None:
    inspector = HostFileInspector(deadline_s=0.5)
    quick = FileQuery(directory=str(tmp_path))
    try:
        until(lambda: inspector.inspect([quick], None))
        begun = time.monotonic()
        found = inspector.inspect([quick, *slow_queries(tmp_path)], None)
        assert time.monotonic() - begun < 30
        assert quick in found
        assert len(found) < 400
        until(lambda: not children(inspector.pid))
    finally:
        inspector.close()


def test_a_child_that_reads_and_is_stopped_is_ended_at_the_deadline(open_directory: Path) -> None:
    inspector = HostFileInspector(deadline_s=2.0)
    found: list[object] = []
    slow, who = slow_queries(open_directory), NOBODY if ROOT else None
    asking = threading.Thread(target=lambda: found.append(inspector.inspect(slow, who)))
    try:
        until(lambda: inspector.inspect([FileQuery(directory="/")], None))
        asking.start()
        until(lambda: children(inspector.pid))
        (child,) = children(inspector.pid)
        os.kill(child, signal.SIGSTOP)
        asking.join(PATIENCE_S)
        assert len(found) == 1
        until(lambda: child not in children(inspector.pid))
    finally:
        inspector.close()


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSTOP])
def test_a_worker_that_is_killed_or_stopped_is_replaced(inspector: HostFileInspector, number: signal.Signals) -> None:
    here = FileQuery(directory="/")
    assert inspector.inspect([here], None)
    first = inspector.pid
    assert first is not None
    os.kill(first, number)
    assert inspector.inspect([here], None)[here].enterable
    assert inspector.pid != first
    assert not Path(f"/proc/{first}").exists()


def test_a_worker_that_still_starts_is_not_replaced(
    inspector: HostFileInspector, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(file_inspector, "TAKEN_WITHIN_S", 0.001)
    inspector.start()
    first = inspector.pid
    assert inspector.inspect([FileQuery(directory="/")], None)
    assert inspector.pid == first


def test_it_ends_when_its_server_does() -> None:
    script = (
        "from corral.host.node.files.file_inspector import HostFileInspector; "
        "inspector = HostFileInspector(); inspector.start(); print(inspector.pid, flush=True)"
    )
    read_fd, write_fd = os.pipe()
    with os.fdopen(read_fd) as said:
        pid = os.posix_spawn(
            sys.executable,
            [sys.executable, "-c", f"{script}; import os; os.kill(os.getpid(), 9)"],
            os.environ,
            file_actions=[(os.POSIX_SPAWN_DUP2, write_fd, 1)],
        )
        os.close(write_fd)
        worker = int(said.readline())
    os.waitpid(pid, 0)
    until(lambda: not Path(f"/proc/{worker}").exists())


def test_a_question_that_is_too_long_is_not_known(inspector: HostFileInspector) -> None:
    long, short = FileQuery(directory="/" + "x" * 200_000), FileQuery(directory="/")
    assert list(inspector.inspect([long, short], None)) == [short]


@by_root
def test_a_file_system_that_never_answers_is_given_up_and_nothing_waits_for_it(open_directory: Path) -> None:
    inspector = HostFileInspector(deadline_s=0.5)
    hung, fine = (FileQuery(directory=str(open_directory / name)) for name in ("hung", "fine"))
    for asked in (hung, fine):
        Path(asked.directory or "").mkdir()
    try:
        until(lambda: inspector.inspect([fine], None))
        with hung_mount(open_directory / "hung", uid=NOBODY.uid):
            for _ in range(3):
                assert inspector.inspect([hung], NOBODY) == {}
            until(lambda: not children(inspector.pid))
            assert inspector.inspect([fine], NOBODY)[fine].enterable
    finally:
        inspector.close()
