"""What a node runs for jobs that have ended: once each, as their users, a few at a time."""

import os
from dataclasses import replace
from pathlib import Path

import pytest

from corral.core.model.errors import Refused
from corral.core.model.jobs.notification import Notification
from corral.core.model.runs.launch import LaunchPhase
from corral.host.node.launches import notification_runner
from tests.host.node.conftest import Host, a_launch, until

NOBODY = 65534


def told(number: int, command: str, **given: object) -> Notification:
    one = Notification(f"{number}-1000", str(number), "alice", command, (("PATH", "/usr/bin:/bin"),))
    return replace(one, **given)  # type: ignore[arg-type]


def said(host: Host, number: int, text: str) -> None:
    until(lambda: f"corral: notify: {text}\n" in host.log(str(number)), f"notification {number} says {text!r}")


def is_done(host: Host, name: str) -> bool:
    return (host.home.notifications / f"{name}.done").exists()


def test_what_it_says_and_how_it_ended_is_in_the_log_of_its_job(host: Host) -> None:
    host.node.launches.launch(a_launch(1, "echo", "output"))
    host.wait("1.1", LaunchPhase.EXITED)
    assert host.node.host.notify(
        told(1, 'echo "log $CORRAL_LOG"; echo to stderr >&2; printf "\\033[31mno end"; exit 4')
    )
    said(host, 1, "failed with exit code 4")
    lines = host.log("1").splitlines()
    assert lines == [
        "output",
        f"corral: notify: log {host.home.log_of('1')}",
        "corral: notify: to stderr",
        "corral: notify: \\x1b[31mno end",
        "corral: notify: failed with exit code 4",
    ]


def test_a_job_that_never_ran_gets_a_log_for_it(host: Host) -> None:
    assert host.node.host.notify(told(7, "echo hello"))
    said(host, 7, "done")
    assert "corral: notify: hello\n" in host.log("7")


def test_it_is_run_once_however_often_it_is_asked_for_also_by_the_next_agent(host: Host) -> None:
    ran = host.home.root / "ran"
    one = told(1, f"echo x >> {ran}")
    for _ in range(3):
        assert host.node.host.notify(one)
    until(lambda: is_done(host, "1-1000"), "it is over")
    assert host.node.host.notify(one)
    host.end()
    host.start()
    assert host.node.host.notify(one)
    assert host.node.host.notify(replace(one, id="1-2000", command=f"echo again >> {ran}"))
    until(lambda: is_done(host, "1-2000"), "the next is over")
    assert ran.read_text() == "x\nagain\n"


def test_what_runs_as_its_agent_ends_runs_on_and_the_next_agent_tells_how_it_ended(host: Host) -> None:
    gate, ran = host.home.root / "gate", host.home.root / "ran"
    assert host.node.host.notify(told(1, f"echo x >> {ran}; until [ -e {gate} ]; do sleep 0.02; done; echo through"))
    until(ran.exists, "it runs")
    host.end()
    host.start()
    host.node.launches.reconcile((), ())
    gate.touch()
    said(host, 1, "done")
    assert "corral: notify: through\n" in host.log("1")
    assert ran.read_text() == "x\n"


def test_one_that_takes_too_long_is_stopped_with_all_that_it_started(host: Host) -> None:
    pids = host.home.root / "pids"
    assert host.node.host.notify(told(1, f"setsid sleep 600 & echo $! > {pids}; wait", time_limit_s=0.3))
    said(host, 1, "stopped after its 0.3 s")
    assert not Path(f"/proc/{pids.read_text().strip()}").exists()


def test_what_it_left_running_ends_with_it(host: Host) -> None:
    pids = host.home.root / "pids"
    assert host.node.host.notify(told(1, f"setsid sleep 600 & echo $! > {pids}"))
    said(host, 1, "done")
    assert not Path(f"/proc/{pids.read_text().strip()}").exists()


def test_of_much_output_the_end_is_kept(host: Host) -> None:
    assert host.node.host.notify(told(1, "seq 100000; echo last"))
    said(host, 1, "done")
    log = host.log("1")
    assert "corral: notify: last\n" in log
    assert "corral: notify: 99999\n" in log
    assert len(log) < 4 * notification_runner.OUTPUT_BYTES


def test_few_run_at_once_and_of_one_user_fewer_and_the_rest_waits_its_turn(host: Host) -> None:
    ran, gate = host.home.root / "ran", host.home.root / "gate"
    ran.mkdir()
    wait = f"touch {ran}/$$; until [ -e {gate} ]; do sleep 0.02; done"
    taken = [host.node.host.notify(told(number, wait)) for number in range(1, 30)]
    at_once, waiting = notification_runner.AT_ONCE_OF_USER, notification_runner.WAITING_OF_USER
    # The first ones may have begun meanwhile, and made room.
    assert waiting <= sum(taken) <= at_once + waiting
    until(lambda: len(os.listdir(ran)) == at_once, "some run")
    assert host.node.host.notify(told(40, f"touch {ran}/other", user="bob"))
    until((ran / "other").exists, "another user's has not to wait for them")
    assert len(os.listdir(ran)) == at_once + 1
    gate.touch()
    until(lambda: all(is_done(host, f"{i}-1000") for i, one in enumerate(taken, 1) if one), "all are over")


def test_where_it_cannot_begin_the_log_says_why(host: Host) -> None:
    assert host.node.host.notify(told(1, "true", workdir="/no/such/directory"))
    until(lambda: "corral: notify: not run:" in host.log("1"), "it says so")
    assert "/no/such/directory" in host.log("1")


def test_a_name_that_would_leave_the_directory_is_refused(host: Host) -> None:
    for name in ("../../etc/x", "1", "1-", "", "1-1.done"):
        with pytest.raises(Refused, match="is not the id of a notification"):
            host.node.host.notify(told(1, "true", id=name))


def test_files_that_make_no_sense_harm_nothing(host: Host) -> None:
    host.end()
    directory = host.home.notifications
    (directory / "1-1.json").write_text('{"id": "1-2"')
    (directory / "2-1.json").write_text('{"id": "9-9", "job_id": "1", "user": "a", "command": "true", "env": []}')
    (directory / "3-1.json.7.7").write_text("half")
    os.mkfifo(directory / "4-1.json")
    for name in ("6-1.json", "stray", "6-2.done"):
        (directory / name / "within").mkdir(parents=True)
    (directory / "gone").symlink_to("/no/such/file")
    (directory / "8-1.json").write_text('{"id": "8-1", "job_id": "../x", "user": "a", "command": "true", "env": []}')
    host.start()
    assert host.node.host.notify(told(5, "true"))
    said(host, 5, "done")
    until(lambda: not any(directory.glob("*.json*")), "they are gone")
    assert not (directory / "stray").exists()


def test_what_it_says_may_have_been_made_something_else_than_a_file(host: Host) -> None:
    for number, command in ((1, "mkfifo $F"), (2, "mkdir $F"), (3, "ln -s /etc/passwd $F")):
        at = host.home.notifications / f"{number}-1000.log"
        assert host.node.host.notify(told(number, f"F={at}; rm $F; {command}"))
        said(host, number, "done")
        assert len(host.log(str(number)).splitlines()) == 1


def test_no_file_of_one_that_is_over_is_left_but_that_it_was_run(host: Host) -> None:
    times = host.home.notifications / "1-1000.log.times"
    assert host.node.host.notify(told(1, f"echo > {times}"))
    said(host, 1, "done")
    until(lambda: [path.name for path in host.home.notifications.iterdir()] == ["1-1000.done"], "it is tidied")


@pytest.mark.skipif(os.getuid() != 0, reason="only root can run it as somebody else")
def test_it_runs_as_its_user(host: Host) -> None:
    host.home.root.chmod(0o755)
    assert host.node.host.notify(told(1, "id -u; id -g; id -G", uid=NOBODY, gid=NOBODY, groups=(NOBODY,)))
    said(host, 1, "done")
    assert host.log("1").count(f"corral: notify: {NOBODY}\n") == 3
    assert host.home.log_of("1").stat().st_uid == NOBODY


def test_its_launch_is_none_that_the_ledger_should_know(host: Host) -> None:
    gate = host.home.root / "gate"
    assert host.node.host.notify(told(1, f"until [ -e {gate} ]; do sleep 0.02; done"))
    until(lambda: any(host.home.launches.iterdir()), "it is launched")
    assert host.node.launches.reconcile((), ()).unknown == ()
    gate.touch()
    said(host, 1, "done")
    until(lambda: not any(host.home.launches.iterdir()), "its record is removed")
