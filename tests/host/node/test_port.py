"""What every node agent does, in the process of its server and in one of its own."""

import base64
import contextlib
import os
import signal
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from corral.core.model.devices.device import DeviceSample
from corral.core.model.devices.vitals import ReadFailure
from corral.core.model.errors import NodeUnreachable
from corral.core.model.jobs.input import TerminalSize
from corral.core.model.jobs.phase import Phase
from corral.core.model.runs.launch import Launch, LaunchPhase, log_mark, with_time_limit
from corral.core.ports.host import Credentials, FileQuery
from corral.core.ports.node import InputTaken, Keep, LogChunk
from tests.host.node.conftest import MOCK, OVER, Host, a_launch, finished, until

NOBODY = 65534
TOLD = (
    "trap 'echo shell told' USR1; sh -c 'echo up; exec sleep 600' & wait; "
    "if kill -0 $! 2>&-; then echo child lives; kill $!; else echo child died; fi"
)
"""A shell that says whether it was signalled, and whether its child has survived that."""


def test_a_launch_runs_and_its_report_tells_how_it_ended(host: Host) -> None:
    host.node.launches.launch(a_launch(1, "sh", "-c", "exit 3"))
    report = host.wait("1.1", LaunchPhase.EXITED)
    assert (report.exit_code, report.ending) == (3, Phase.FAILED)


def test_a_launch_that_is_asked_for_twice_runs_once(host: Host) -> None:
    launch = a_launch(1, "sh", "-c", "echo ran")
    host.node.launches.launch(launch)
    host.node.launches.launch(launch)
    host.wait("1.1", LaunchPhase.EXITED)
    assert host.log("1").count("ran\n") == 1


def test_nothing_starts_on_a_node_before_it_was_reconciled(host: Host) -> None:
    host.end()
    host.start()
    with pytest.raises(NodeUnreachable, match="not reconciled with the ledger yet"):
        host.node.launches.ready(())
    with pytest.raises(NodeUnreachable, match="not reconciled with the ledger yet"):
        host.node.launches.launch(a_launch(1, "true"))
    host.node.launches.reconcile((), ())
    host.node.launches.ready(())
    host.node.launches.launch(a_launch(2, "true"))
    host.wait("2.1", LaunchPhase.EXITED)
    assert host.phase("1.1") is LaunchPhase.UNKNOWN


def test_a_job_finds_what_only_its_node_knows(host: Host) -> None:
    host.node.launches.launch(a_launch(1, "sh", "-c", 'echo "$CORRAL_HOME $CORRAL_SCRATCH"', uuid="GPU-0"))
    host.wait("1.1", LaunchPhase.EXITED)
    assert f"{host.home.root} {host.home.scratch_of('1')}\n" in host.log("1")


def test_what_is_stopped_ends_with_all_its_processes(host: Host) -> None:
    host.node.launches.launch(a_launch(1, "sh", "-c", "trap '' TERM; echo up; sleep 600 & wait; sleep 600"))
    until(lambda: "up\n" in host.log("1"), "the job says that it is up")
    host.node.launches.stop("1.1")
    report = host.wait("1.1", LaunchPhase.EXITED)
    assert report.ending is Phase.CANCELLED


def test_what_is_stopped_before_it_started_never_runs(host: Host) -> None:
    host.node.launches.stop("1.1")
    host.node.launches.launch(a_launch(1, "sh", "-c", "echo ran"))
    assert host.wait("1.1", *OVER).phase is LaunchPhase.DECLARED_LOST
    assert host.log("1") == ""


def test_a_signal_reaches_the_job_by_its_name(host: Host) -> None:
    host.node.launches.launch(
        a_launch(1, "sh", "-c", "trap 'echo told; exit 0' USR1; echo up; while :; do sleep 0.02; done")
    )
    until(lambda: "up\n" in host.log("1"), "the job says that it is up")
    host.node.launches.signal("1.1", "USR1")
    host.wait("1.1", LaunchPhase.EXITED)
    assert "told\n" in host.log("1")


@pytest.mark.parametrize("of_a_gang", [False, True])
@pytest.mark.parametrize(
    ("word", "told"), [("B:USR1", "up\nshell told\nchild lives\n"), ("S:USR1", "up\nchild died\n")]
)
def test_a_signal_goes_to_the_shell_of_a_script_alone_or_to_all_that_it_has_started(
    host: Host, word: str, told: str, of_a_gang: bool
) -> None:
    launch = a_launch(1, "sh", "-c", TOLD)
    if of_a_gang:
        place = host.node.launches.rendezvous("1.1")
        env = {"CORRAL_SRUN_SECRET": place.secret, "CORRAL_SRUN_ADDRESS": f"127.0.0.1:{place.srun_port}"}
        job = replace(launch.job, spec=replace(launch.job.spec, script=True))
        launch = replace(launch, job=job, members=2, env=(*launch.env, *env.items()))
    host.node.launches.launch(launch)
    until(lambda: "up\n" in host.log("1"), "the job says that it is up")
    host.end()
    host.start()
    host.node.launches.reconcile((launch,), ())
    host.node.launches.signal("1.1", word)
    host.wait("1.1", LaunchPhase.EXITED)
    assert told in host.log("1")
    assert ("shell told" in host.log("1")) is word.startswith("B")


def test_a_launch_on_a_device_that_is_gone_is_declared_lost_for_that_reason(host: Host) -> None:
    host.node.launches.launch(a_launch(1, "true", uuid="GPU-7"))
    report = host.wait("1.1", *OVER)
    assert report.phase is LaunchPhase.DECLARED_LOST
    assert report.reason == "GPU-7 is gone; the job will be placed on another device"


def test_what_is_forgotten_leaves_nothing_but_its_log(host: Host) -> None:
    host.node.launches.launch(a_launch(1, "sh", "-c", 'echo kept; touch "$CORRAL_SCRATCH/left"', uuid="GPU-0"))
    host.wait("1.1", LaunchPhase.EXITED)
    host.node.launches.forget("1.1", keep=Keep.NOTHING)
    until(lambda: not host.home.scratch_of("1").exists(), "the scratch directory is removed")
    until(lambda: not any(host.home.launches.iterdir()), "the record is removed")
    assert host.phase("1.1") is LaunchPhase.UNKNOWN
    assert "kept\n" in host.log("1")


def test_scratch_is_kept_for_the_next_attempt(host: Host) -> None:
    host.node.launches.launch(a_launch(1, "sh", "-c", 'touch "$CORRAL_SCRATCH/left"'))
    host.wait("1.1", LaunchPhase.EXITED)
    host.node.launches.forget("1.1", keep=Keep.ALL)
    until(lambda: not any(host.home.launches.iterdir()), "the record is removed")
    assert (host.home.scratch_of("1") / "left").exists()
    assert not (host.home.scratch_of("1") / "config" / "resource.txt").exists()


def test_members_of_a_gang_on_one_node_share_the_file_of_what_their_job_holds(host: Host) -> None:
    for rank in (0, 1):
        host.node.launches.launch(a_launch(1, "sleep", "600", rank=rank, uuid=f"GPU-{rank}"))
    for launch_id in ("1.1", "1.1-1"):
        host.wait(launch_id, LaunchPhase.RUNNING)
    resource_file = host.home.scratch_of("1") / "config" / "resource.txt"
    assert "CUDA.DEVICE_SHARES=GPU-0:1,GPU-1:1" in resource_file.read_text()
    host.node.launches.stop("1.1-1")
    host.wait("1.1-1", LaunchPhase.EXITED)
    host.node.launches.forget("1.1-1", keep=Keep.ALL)
    assert "CUDA.DEVICE_SHARES=GPU-0:1\n" in resource_file.read_text()


def test_news_wait_for_what_is_new_and_number_it(host: Host) -> None:
    first = host.node.news.since(0, 10.0)
    assert first.node is not None
    assert (first.node.name, [device.uuid for device in first.node.devices]) == ("here", ["GPU-0", "GPU-1"])
    assert first.node.disk_mib > 0
    assert [sample.uuid for sample in first.samples] == ["GPU-0", "GPU-1"]
    later = host.node.news.since(first.sequence, 10.0)
    assert (later.node, later.epoch) == (None, first.epoch)
    assert later.sequence > first.sequence


def test_news_name_the_launches_whose_reports_are_new(host: Host) -> None:
    launched = host.node.news.since(0, 0.0).sequence
    host.node.launches.launch(a_launch(1, "true"))
    host.wait("1.1", LaunchPhase.EXITED)
    assert host.node.news.since(launched, 10.0).launches == ("1.1",)


def test_a_device_that_is_not_there_is_sampled_with_a_fault(host: Host) -> None:
    readiness = host.node.launches.ready(("GPU-1", "GPU-7"))
    assert readiness.obstacle is None
    assert [(sample.uuid, sample.fault is None) for sample in readiness.samples] == [("GPU-1", True), ("GPU-7", False)]


def described(host: Host, lines: str) -> None:
    """Describe the first mock device by more lines."""
    draft = host.mock.with_suffix(".draft")
    draft.write_text(MOCK.replace('"GPU-0"', f'"GPU-0"\n{lines}'))
    draft.replace(host.mock)


def test_an_error_of_a_driver_is_told_for_a_while_with_the_job_of_its_process(host: Host) -> None:
    host.node.launches.launch(a_launch(1, "sh", "-c", "echo $$; exec sleep 600"))
    until(lambda: host.log("1").endswith("\n"), "the process says its number")
    pid = int(host.log("1"))
    described(host, f"xid = 31\nxid_pid = {pid}\nremap_pending = true")

    def told() -> DeviceSample:
        return host.node.news.since(0, 0.0).samples[0]

    until(lambda: told().errors, "an error")
    described(host, "")
    until(lambda: told().vitals is not None and not told().vitals.remap_pending, "later readings")  # type: ignore[union-attr]
    (error,) = told().errors
    assert (error.code, error.pid, error.job_id) == (31, pid, "1")


def test_a_device_whose_driver_hangs_is_unreadable_alone(host: Host) -> None:
    described(host, "hang = true")

    def failures() -> list[ReadFailure | None]:
        return [sample.failure for sample in host.node.news.since(0, 0.0).samples]

    until(lambda: failures() == [ReadFailure.HUNG, None], "one device hangs")
    assert [sample.fault is None for sample in host.node.launches.ready(("GPU-0", "GPU-1")).samples] == [False, True]
    described(host, "")
    until(lambda: failures() == [None, None], "it answers again")


def limited(launch: Launch, time_limit_s: float) -> Launch:
    return with_time_limit(launch, time_limit_s)


def test_a_launch_ends_at_the_time_limit_that_it_was_given_since(host: Host) -> None:
    host.node.launches.launch(limited(a_launch(1, "sleep", "600"), 3600.0))
    host.wait("1.1", LaunchPhase.RUNNING)
    host.node.launches.set_time_limit("1.1", 0.1)
    assert host.wait("1.1", LaunchPhase.EXITED).ending is Phase.TIMED_OUT
    host.node.launches.set_time_limit("1.1", 0.2)
    host.node.launches.set_time_limit("9.1", 0.2)


def test_a_new_agent_holds_what_runs_to_the_time_limits_of_the_ledger(host: Host) -> None:
    launch = limited(a_launch(1, "sleep", "600"), 3600.0)
    host.node.launches.launch(launch)
    host.wait("1.1", LaunchPhase.RUNNING)
    host.end()
    host.start()
    host.node.launches.reconcile((finished(limited(launch, 0.1)),), ())
    assert host.wait("1.1", LaunchPhase.EXITED).ending is Phase.TIMED_OUT


def test_an_agent_that_stayed_is_told_of_time_limits_by_a_server_that_comes(host: Host) -> None:
    launch = limited(a_launch(1, "sleep", "600"), 3600.0)
    host.node.launches.launch(launch)
    host.wait("1.1", LaunchPhase.RUNNING)
    host.node.launches.reconcile((finished(limited(launch, 0.1)),), ())
    assert host.wait("1.1", LaunchPhase.EXITED).ending is Phase.TIMED_OUT


def test_a_new_agent_has_another_epoch_and_finds_what_runs(host: Host) -> None:
    launch = a_launch(1, "sleep", "600", uuid="GPU-0")
    host.node.launches.launch(launch)
    host.wait("1.1", LaunchPhase.RUNNING)
    epoch = host.node.news.since(0, 10.0).epoch
    host.end()
    host.start()
    assert host.node.news.since(0, 10.0).epoch != epoch
    assert host.node.launches.reconcile((finished(launch),), ()).unknown == ()
    assert host.phase("1.1") is LaunchPhase.RUNNING


def test_what_the_ledger_does_not_know_is_ended_before_its_devices_are_used(host: Host) -> None:
    host.node.launches.launch(
        a_launch(1, "sh", "-c", "trap '' TERM; echo up; sleep 600 & wait; sleep 600", uuid="GPU-0")
    )
    until(lambda: "up\n" in host.log("1"), "the job says that it is up")
    host.end()
    host.start()
    assert host.node.launches.reconcile((), ()).unknown == ("1.1",)
    host.node.launches.launch(a_launch(2, "sh", "-c", "sleep 0.1; echo second", uuid="GPU-0"))
    assert host.phase("2.1") is LaunchPhase.PREPARING
    host.wait("2.1", LaunchPhase.EXITED)
    assert host.phase("1.1") not in (LaunchPhase.CLAIMED, LaunchPhase.RUNNING)


def test_what_is_held_and_was_never_claimed_is_declared_lost(host: Host) -> None:
    host.node.launches.reconcile((a_launch(1, "true"),), ())
    report = host.report("1.1")
    assert (report.phase, report.reason) == (LaunchPhase.DECLARED_LOST, None)


def test_reconciling_tidies_up_after_jobs_that_are_over_and_after_no_other(host: Host) -> None:
    running = a_launch(3, "sleep", "600")
    host.node.launches.launch(running)
    host.wait("3.1", LaunchPhase.RUNNING)
    for job_id in ("1", "2", "3"):
        host.home.scratch_of(job_id).mkdir(exist_ok=True)
    host.node.launches.reconcile((finished(running),), ("2",))
    until(lambda: not host.home.scratch_of("1").exists(), "the scratch of a job that is over is removed")
    assert host.home.scratch_of("2").exists()
    assert host.home.scratch_of("3").exists()


def test_a_resource_file_that_is_missing_is_told_and_written_again(host: Host) -> None:
    launch = a_launch(1, "sleep", "600", uuid="GPU-0")
    host.node.launches.launch(launch)
    host.wait("1.1", LaunchPhase.RUNNING)
    resource_file = host.home.scratch_of("1") / "config" / "resource.txt"
    resource_file.unlink()
    assert host.node.host.rescan((launch,)) == ("job 1 has an allocation and no resource file; the ledger counts",)
    assert resource_file.exists()
    assert host.node.host.rescan((launch,)) == ()


def test_a_log_is_read_from_any_byte_on(host: Host) -> None:
    launch = a_launch(1, "echo", "hello")
    host.node.launches.launch(launch)
    host.wait("1.1", LaunchPhase.EXITED)
    mark = log_mark(launch.job)
    whole = host.node.logs.read("1", 0, 0, 1000, mark)
    assert whole.size_bytes == len(base64.b64decode(whole.data))
    start = base64.b64decode(whole.data).index(b"hello")
    assert base64.b64decode(host.node.logs.read("1", 0, start, 4, mark).data) == b"hell"
    assert host.node.logs.read("2", 0, 0, 1000, mark).size_bytes is None


def test_a_log_is_not_given_to_another_job_of_the_same_id(host: Host) -> None:
    launch = a_launch(1, "echo", "hello")
    host.node.launches.launch(launch)
    host.wait("1.1", LaunchPhase.EXITED)
    (host.home.logs / "1.log.times").write_text("0000000050.000 000000000000004\n")
    assert host.node.logs.written_since("1", 0, 1e6, log_mark(launch.job)) == 4
    another = log_mark(replace(launch.job, spec=replace(launch.job.spec, uid=12345)))
    assert host.node.logs.read("1", 0, 0, 1000, another) == LogChunk("", None)
    assert host.node.logs.written_since("1", 0, 1e6, another) is None


def test_a_note_stands_in_the_log_of_its_job(host: Host) -> None:
    host.node.launches.launch(a_launch(1, "true"))
    host.wait("1.1", LaunchPhase.EXITED)
    host.node.logs.note("1", 0, "a word for its user")
    host.node.logs.note("1", 1, "there is no such member")
    assert "corral: a word for its user\n" in host.log("1")


def test_a_meeting_place_stays_the_same_for_a_launch_and_differs_for_another(host: Host) -> None:
    place = host.node.launches.rendezvous("1.1")
    assert host.node.launches.rendezvous("1.1") == place
    assert host.node.launches.rendezvous("2.1") != place


def test_a_process_is_told_with_its_user_and_all_that_descend_from_it(host: Host) -> None:
    with subprocess.Popen(["sh", "-c", "sleep 600 & echo up; wait"], stdout=subprocess.PIPE) as parent:
        assert parent.stdout is not None
        parent.stdout.readline()
        found = host.node.host.process(parent.pid)
        for pid in (parent.pid, *(() if found is None else found.family)):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
    assert found is not None
    assert (found.identity.pid, found.uid) == (parent.pid, os.geteuid())
    assert parent.pid in found.family
    assert len(found.family) == 2
    assert host.node.host.process(parent.pid) is None


def test_files_are_looked_at_with_the_rights_of_their_user(host: Host, open_directory: Path) -> None:
    shut = open_directory / "shut"
    shut.mkdir(mode=0o700)
    queries = tuple(FileQuery(directory=str(path)) for path in (open_directory, shut))
    of_agent = {each.query: each.facts["enterable"] for each in host.node.host.inspect(queries, None)}
    assert of_agent == dict.fromkeys(queries, True)
    of_user = {
        each.query: each.facts["enterable"] for each in host.node.host.inspect(queries, Credentials(NOBODY, NOBODY))
    }
    assert of_user == {queries[0]: True, queries[1]: os.geteuid() != 0}


def with_input(launch: Launch, **spec: Any) -> Launch:
    return replace(launch, job=replace(launch.job, spec=replace(launch.job.spec, **spec)))


def give(host: Host, offset: int, data: bytes, *, end: bool = False) -> InputTaken | None:
    return host.node.inputs.write("1.1", offset, base64.b64encode(data).decode(), end=end)


def test_a_program_reads_its_input_to_the_end(host: Host) -> None:
    host.node.launches.launch(with_input(a_launch(1, "cat"), stdin=True))
    until(lambda: give(host, 0, b""), "it takes input")
    assert give(host, 0, b"one\n") == InputTaken(4, True)
    assert give(host, 4, b"two\n", end=True) == InputTaken(8, False)
    assert host.wait("1.1", LaunchPhase.EXITED).exit_code == 0
    assert host.log("1") == "one\ntwo\n"
    assert give(host, 8, b"") is None


def test_input_goes_on_under_the_next_agent(host: Host) -> None:
    launch = with_input(a_launch(1, "cat"), stdin=True)
    host.node.launches.launch(launch)
    until(lambda: give(host, 0, b""), "it takes input")
    give(host, 0, b"one\n")
    host.end()
    host.start()
    host.node.launches.reconcile((launch,), ())
    assert give(host, 0, b"one\ntwo\n", end=True) == InputTaken(8, False)
    host.wait("1.1", LaunchPhase.EXITED)
    assert host.log("1") == "one\ntwo\n"


def test_a_launch_without_input_takes_none_and_finds_its_end(host: Host) -> None:
    host.node.launches.launch(a_launch(1, "sh", "-c", "cat; echo done; sleep 600"))
    until(lambda: "done\n" in host.log("1"), "it has found the end of its input")
    assert give(host, 0, b"abc") is None


def test_a_program_at_a_terminal_leads_its_session_and_sees_its_size_change(host: Host) -> None:
    script = "trap 'stty size; exit' WINCH; tty >/dev/tty; stty size; while :; do sleep 0.02; done"
    host.node.launches.launch(with_input(a_launch(1, "sh", "-c", script), terminal=TerminalSize(10, 20)))
    until(lambda: "10 20\n" in host.log("1"), "it has its size")
    host.node.inputs.resize("1.1", TerminalSize(33, 99))
    assert host.wait("1.1", LaunchPhase.EXITED).exit_code == 0
    first, *rest = host.log("1").split("\n")
    assert (first.startswith("/dev/pts/"), rest) == (True, ["10 20", "33 99", ""])
    host.node.inputs.resize("1.1", TerminalSize(33, 99))


def test_keys_are_echoed_and_edited_by_the_terminal(host: Host) -> None:
    host.node.launches.launch(with_input(a_launch(1, "cat"), terminal=TerminalSize()))
    until(lambda: give(host, 0, b""), "it takes input")
    assert give(host, 0, b"a\xc3\xa4\x7fb\r", end=True) == InputTaken(6, True)
    assert give(host, 6, b"\x04") == InputTaken(7, True)
    host.wait("1.1", LaunchPhase.EXITED)
    assert host.log("1").endswith("b\nab\n")


def test_a_shell_at_a_terminal_that_is_stopped_ends_before_it_is_killed(host: Host) -> None:
    host.node.launches.launch(with_input(a_launch(1, "bash", "--norc", "-i"), terminal=TerminalSize()))
    until(lambda: "bash-" in host.log("1"), "its prompt")
    host.node.launches.stop("1.1")
    assert host.wait("1.1", LaunchPhase.EXITED).ending is Phase.CANCELLED


def test_the_rest_of_a_gang_has_no_terminal(host: Host) -> None:
    launch = a_launch(1, "sh", "-c", "tty; cat", rank=1)
    host.node.launches.launch(with_input(launch, terminal=TerminalSize()))
    host.wait("1.1-1", LaunchPhase.EXITED)
    assert host.home.log_of("1", 1).read_text() == "not a tty\n"
