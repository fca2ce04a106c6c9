import os
import resource
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from corral.client.submitting.calling_process import environment, soft_limits
from corral.client.submitting.options import RequestOptions
from corral.client.submitting.request import parse_checkpoint_signal, submission
from corral.core.model.errors import Refused
from corral.core.model.jobs.array_indices import MAX_ARRAY_SIZE, parse_array
from corral.core.model.jobs.notification import NotifyOn
from corral.core.model.jobs.submission import ArraySpec


@pytest.mark.parametrize("given", ["done,failed", ["done", "failed", "done"], "done , failed"])
def test_of_what_a_user_is_told_may_be_words_or_a_list(given: str | list[str]) -> None:
    assert submission(["true"], {"notify_on": given}).notify_on == (NotifyOn.DONE, NotifyOn.FAILED)


def test_a_word_of_which_nobody_can_be_told_is_refused_with_the_nearest() -> None:
    with pytest.raises(Refused, match=r"notify_on: 'fail' is not allowed; did you mean 'failed'\?"):
        submission(["true"], {"notify_on": "done,fail"})


def flag(name: str) -> str:
    return "--" + name.replace("_", "-")


@pytest.mark.parametrize(
    ("text", "indices", "limit"),
    [
        ("0-9%2", tuple(range(10)), 2),
        ("0,3,5-7", (0, 3, 5, 6, 7), None),
        ("0-10:2", (0, 2, 4, 6, 8, 10), None),
        ("7", (7,), None),
        ("5-7,0-5", (0, 1, 2, 3, 4, 5, 6, 7), None),
    ],
)
def test_an_array_is_read_as_sbatch_reads_it(text: str, indices: tuple[int, ...], limit: int | None) -> None:
    assert parse_array(text) == ArraySpec(indices, limit)


@pytest.mark.parametrize("text", ["", "a", "1-", "3-1", "0-9%", "0-9%0", "0-9%x", "-1", "0-9:0", "0--3", "1,,2"])
def test_what_is_no_array_is_refused_by_name(text: str) -> None:
    with pytest.raises(Refused, match="--array"):
        parse_array(text, field="--array")


@pytest.mark.parametrize("text", [f"0-{MAX_ARRAY_SIZE}", "0-99999999999999", "0-6000,10000-16000"])
def test_an_array_has_a_largest_size_and_no_memory_is_spent_on_a_larger(text: str) -> None:
    with pytest.raises(Refused, match="at most 10,000"):
        parse_array(text)


@given(st.sets(st.integers(0, 5000), min_size=1, max_size=50))
def test_any_set_of_indices_can_be_written_and_read(indices: set[int]) -> None:
    assert parse_array(",".join(map(str, indices))).indices == tuple(sorted(indices))


def test_one_gpu_is_asked_for_unless_something_else_is_said() -> None:
    assert submission(["true"], {}).request.devices == 1
    assert submission(["true"], {"gpus": 0}).request.devices == 0
    assert submission(["true"], {"device": ["GPU-a", "GPU-b"]}).request.devices == 2


def test_an_option_of_the_library_is_refused_by_its_own_name() -> None:
    with pytest.raises(Refused, match=r"^gpu_mem: '20' is not") as refused:
        submission(["true"], {"gpu_mem": "20"})
    assert refused.value.field == "gpu_mem"


def test_parts_of_a_gpu_can_be_asked_for_as_numbers_and_as_words() -> None:
    half = submission(["true"], {"gpus": 0.5, "gpu_mem": "20G", "gpu_cores": 30}).request
    assert (half.devices, half.share_milli, half.split_milli) == (1, 500, 500)
    assert (half.memory_mib, half.cores_percent) == (20480, 30)
    assert submission(["true"], {"gpus": "1.2"}).request.split_milli == 1200
    assert submission(["true"], {"resource": {"cuda.shares": 0.2}}).resources == {"cuda.shares": "0.2"}
    of_host = submission(["true"], {"gpus": 2, "resource": {"cpu": 2, "mem": "4g"}})
    asked = of_host.request
    assert (of_host.resources, asked.devices, asked.cpu_milli, asked.host_memory_mib) == ({}, 2, 2000, 4096)


def test_every_option_finds_its_place(tmp_path: Path) -> None:
    read = submission(
        ["true"],
        {
            "gpus": 2, "min_memory": "20G", "gpu_model": "A100,H100", "min_compute": "8.0", "accept_in_use": "512M",
            "cpus": 1.5, "host_memory": "1G", "name": "n", "priority": 3, "time": 90.0, "retries": 2,
            "after": ["7", "9"], "workdir": tmp_path, "hold": True,
        },
    )  # fmt: skip
    request = read.request
    assert (request.min_memory_mib, request.models, request.min_compute) == (20480, ("A100", "H100"), (8, 0))
    assert (request.accept_in_use, request.cpu_milli, request.host_memory_mib) == (512, 1500, 1024)
    assert (read.name, read.priority, read.time_limit_s, read.retries) == ("n", 3, 90.0, 2)
    assert (read.after, read.workdir, read.held) == (("7", "9"), str(tmp_path), True)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"gpus": -1}, r"--gpus: -1 is not above zero"),
        ({"device": ["GPU-a", "GPU-a"]}, r"--device names the same GPU twice"),
        ({"gpus": 1, "device": ["GPU-a", "GPU-b"]}, r"--device names 2 GPUs and --gpus asks for 1"),
        ({"gpus": True}, r"--gpus: True is not a number of GPUs"),
        ({"gpus": 0.005}, r"--gpus: 0.005 is not a share"),
        ({"gpu_mem": "20"}, r"--gpu-mem: '20' is not a memory size"),
        ({"gpus": 1, "gpu_cores": 50}, r"--gpu-cores 50: a whole GPU"),
        ({"mig": "1g.10gb", "gpu_mem": "5G"}, r"--gpu-mem: the profile 1g.10gb fixes"),
        ({"gpus": 0.5, "share": "exclusive"}, r"--share exclusive: an exclusive GPU is allocated whole"),
        ({"gpus": 1, "resource": {"cuda.shares": "0.5"}}, r"--resource cuda.shares and --gpus both"),
        ({"gpus": 1, "cpus": 1, "resource": {"cpu": 2}}, r"--resource and --cpus both"),
        ({"min_memory": "20"}, r"--min-memory: '20' is not a memory size"),
        ({"min_compute": "8"}, r"--min-compute: '8' is not a compute capability"),
        ({"time": "90"}, r"--time: '90' is not a duration"),
        ({"retries": -1}, r"--retries: -1 is too small"),
        ({"cpus": 0}, r"--cpus: 0 is too small"),
        ({"cpus": float("inf")}, r"--cpus: inf is not a number"),
        ({"cpus": float("nan")}, r"--cpus: nan is not a number"),
        ({"gpus": "9" * 5000}, r"--gpus: '9+\.* ?is not a number"),
        ({"gpu_mem": "9" * 400 + "G"}, r"--gpu-mem: .* is not a memory size"),
        ({"gpu_cores": "9" * 5000}, r"--gpu-cores: .* is not a number"),
        ({"time": "9" * 400 + "h"}, r"--time: .* is not a duration"),
        ({"min_compute": "9" * 5000 + ".0"}, r"--min-compute: .* is not a compute capability"),
        ({"array": "0-" + "9" * 5000}, r"--array: .* is not an index or range"),
        ({"array": "0-3%²"}, r"--array: '²' after % is not a number"),
        ({"env": {"A=B": "c"}}, r"--env: 'A=B' is not a variable name"),
        ({"env": {"A": "\0"}}, r"--env: .* zero byte"),
        ({"name": "\udcff"}, r"--name: .* not valid UTF-8"),
    ],
)
def test_values_that_make_no_sense_are_refused_as_their_user_wrote_them(options: RequestOptions, message: str) -> None:
    with pytest.raises(Refused, match=message):
        submission(["true"], options, spell=flag)


@pytest.mark.parametrize("command", [[], [""]])
def test_a_missing_command_is_refused_with_how_to_write_one(command: list[str]) -> None:
    with pytest.raises(Refused, match=r"-- python train\.py"):
        submission(command, {})


def test_a_command_in_one_string_is_refused_with_the_way_to_run_it() -> None:
    with pytest.raises(Refused, match=r"\['sh', '-c', 'echo hi'\]"):
        submission("echo hi", {})


def test_a_word_that_json_cannot_carry_is_refused() -> None:
    with pytest.raises(Refused, match="not valid UTF-8"):
        submission(["cat", os.fsdecode(b"\xff")], {})


def test_the_environment_is_the_callers_with_overrides_and_without_the_way_to_the_server(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for own in ("CORRAL_URL", "CORRAL_CA_FILE", "CORRAL_INSECURE"):
        monkeypatch.setenv(own, "x")
    monkeypatch.setenv("KEPT", "1")
    monkeypatch.setenv("DROPPED", "1")
    monkeypatch.setenv("CORRAL_TOKEN", "secret")
    monkeypatch.setenv("NOT_TEXT", os.fsdecode(b"\xff"))
    sent = environment({"NEW": "2", "DROPPED": None})
    assert (sent["KEPT"], sent["NEW"]) == ("1", "2")
    assert not {"DROPPED", "CORRAL_TOKEN", "CORRAL_URL", "CORRAL_CA_FILE", "CORRAL_INSECURE", "NOT_TEXT"} & set(sent)


def test_the_umask_and_the_soft_limits_of_the_caller_are_sent() -> None:
    before = os.umask(0o027)
    try:
        assert submission(["true"], {}).umask == 0o027
    finally:
        os.umask(before)
    soft = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    assert ("NOFILE", soft) in soft_limits() or soft == resource.RLIM_INFINITY


def test_a_directory_that_was_removed_is_told_apart(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    with pytest.raises(Refused, match="no longer exists"):
        submission(["true"], {})


@pytest.mark.parametrize(
    ("given", "read"),
    [
        (None, (None, 60.0)),
        ("USR1", ("USR1", 60.0)),
        ("SIGUSR2@90s", ("USR2", 90.0)),
        ("hup@2m", ("HUP", 120.0)),
        ("b:sigusr1@9s", ("B:USR1", 9.0)),
    ],
)
def test_a_checkpoint_signal_has_a_name_and_a_time(given: str | None, read: tuple[str | None, float]) -> None:
    assert parse_checkpoint_signal(given) == read


@pytest.mark.parametrize("given", ["", "@60s", "B:", "B:@60s", "USR1@60", "USR1@0s"])
def test_a_checkpoint_signal_without_name_or_unit_is_refused(given: str) -> None:
    with pytest.raises(Refused):
        parse_checkpoint_signal(given)
