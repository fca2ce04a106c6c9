import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest

from corral.cli.local.reserved_run import Choice, _refuse_elsewhere, choose, take
from corral.client import Client, DeviceRow, JobRow
from corral.core.model.answers.jobs import GrantRow
from corral.core.model.answers.site import NodeRow
from corral.core.model.errors import Refused
from corral.core.model.jobs.job import JobKind
from corral.core.model.jobs.phase import Phase
from corral.gpu import lock_files, reading
from tests.vendors.nvidia.nvml_stub import NvmlStub, stub_uuid

PAIR = JobRow(
    "12",
    kind=JobKind.RESERVE,
    phase=Phase.RUNNING,
    devices=("GPU-a", "GPU-b"),
    grants=(GrantRow("GPU-a"), GrantRow("GPU-b")),
)
HALF = JobRow("13", kind=JobKind.RESERVE, phase=Phase.RUNNING, devices=("GPU-a",), grants=(GrantRow("GPU-a", 500),))
BOTH = "GPU-a,GPU-b"


class OneNode:
    """A server whose one node has GPU 0 of this host; any of its rows."""

    def __init__(self, node: NodeRow) -> None:
        self.nodes: Any = type("Nodes", (), {"list": lambda _: (node,)})()
        self.devices: Any = self

    def list(self) -> tuple[DeviceRow, ...]:
        return (DeviceRow(stub_uuid(0), node="gpu-07"),)

    def server(self) -> Any:
        return type("Server", (), {"mock": False})()


@pytest.fixture(autouse=True)
def _locks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lock_files, "DIRECTORY", tmp_path / "leases")
    monkeypatch.delenv(lock_files.DEPTH, raising=False)


def test_a_command_gets_all_of_the_reservation_or_as_many_as_it_asks_for() -> None:
    assert choose(PAIR, {}, visible=BOTH) == Choice(("GPU-a", "GPU-b"), 2)
    assert choose(PAIR, {"gpus": 1}, visible=BOTH) == Choice(("GPU-a", "GPU-b"), 1)
    assert choose(PAIR, {"gpus": 0}, visible=BOTH).wanted == 0


def test_more_than_is_reserved_is_refused_with_how_many_there_are() -> None:
    with pytest.raises(Refused, match="3 are asked for, and reservation 12 has 2 here") as refused:
        choose(PAIR, {"gpus": 3}, visible=BOTH)
    assert "--no-reservation" in str(refused.value)
    with pytest.raises(Refused, match=r"1 are asked for, and reservation 13 has 0\.5 here"):
        choose(HALF, {"gpus": 1}, visible="GPU-a")


def test_of_a_reserved_part_a_command_may_have_the_part_or_less() -> None:
    assert choose(HALF, {}, visible="GPU-a").wanted == 1
    assert choose(HALF, {"gpus": "0.5"}, visible="GPU-a").wanted == 1
    assert choose(HALF, {"gpus": "0.2"}, visible="GPU-a").wanted == 1
    with pytest.raises(Refused, match=r"0\.6 are asked for"):
        choose(HALF, {"gpus": "0.6"}, visible="GPU-a")


def test_a_command_within_a_command_divides_what_that_got() -> None:
    assert choose(PAIR, {}, visible="GPU-b") == Choice(("GPU-b",), 1)
    with pytest.raises(Refused, match="2 are asked for, and reservation 12 has 1 here"):
        choose(PAIR, {"gpus": 2}, visible="GPU-b")


def test_a_gpu_of_another_job_is_refused() -> None:
    with pytest.raises(Refused, match="GPU-c is not in reservation 12; take one of GPU-a, GPU-b"):
        choose(PAIR, {"device": ["GPU-c"]}, visible=BOTH)


def test_what_only_a_job_can_have_is_refused_and_not_ignored() -> None:
    for option in ("retries", "time", "gang", "min_memory", "cpus"):
        with pytest.raises(Refused, match=f"--{option.replace('_', '-')}: a command in reservation 12 is no job"):
            choose(PAIR, {option: 1}, visible=BOTH)  # type: ignore[misc]


def test_gpus_of_this_host_are_known_by_their_uuids_where_the_boot_says_nothing(
    stubbed_nvml: NvmlStub, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A node of an older version, or a container that shows no boot."""
    monkeypatch.setattr(reading, "_ANSWER_TIMEOUT_S", 60.0)  # no driver hangs here, however busy the machine
    here = replace(PAIR, devices=(stub_uuid(0),))
    told = OneNode(NodeRow("gpu-07", boot_id="0b5e7a9c-0000-4000-8000-000000000000"))
    untold = OneNode(NodeRow("gpu-07"))
    _refuse_elsewhere(cast(Client, untold), here, untold.list())
    with pytest.raises(Refused, match="the GPUs of reservation 12 are on gpu-07, and this is"):
        _refuse_elsewhere(cast(Client, told), here, told.list())
    monkeypatch.setattr("corral.gpu.this_host.known_boot_id", lambda: None)
    _refuse_elsewhere(cast(Client, told), here, told.list())


def test_no_gpu_is_given_to_two_commands_unless_both_name_it() -> None:
    assert take(Choice(("GPU-a", "GPU-b"), 1)) == (("GPU-a",), ())
    assert take(Choice(("GPU-a", "GPU-b"), 1)) == (("GPU-b",), ("GPU-a",))
    assert take(Choice(("GPU-a", "GPU-b"), 2)) == ((), ("GPU-a", "GPU-b"))
    assert take(Choice(("GPU-a",), 1, shared=True)) == ((), ("GPU-a",))
    assert take(Choice(("GPU-c",), 1, shared=True)) == (("GPU-c",), ())
    assert take(Choice(("GPU-c",), 1, shared=True)) == (("GPU-c",), ())
    assert take(Choice(("GPU-c",), 1)) == ((), ("GPU-c",))


def test_too_few_free_gpus_leave_none_locked() -> None:
    assert take(Choice(("GPU-b",), 1)) == (("GPU-b",), ())
    assert take(Choice(("GPU-a", "GPU-b"), 2)) == ((), ("GPU-b",))
    assert not lock_files.is_leased("GPU-a")


def test_a_gpu_is_free_again_when_the_last_process_of_its_command_has_ended() -> None:
    held = (
        "import subprocess, sys; from pathlib import Path; from corral.gpu import lock_files; "
        "from corral.cli.local.reserved_run import Choice, take; lock_files.DIRECTORY = Path(sys.argv[1]); "
        "take(Choice(('GPU-a',), 1)); subprocess.Popen(['cat'], close_fds=False, stdout=subprocess.DEVNULL)"
    )
    with subprocess.Popen([sys.executable, "-c", held, str(lock_files.DIRECTORY)], stdin=subprocess.PIPE) as command:
        assert command.stdin is not None
        assert command.wait(60) == 0
        assert lock_files.is_leased("GPU-a")
        command.stdin.close()
        for _ in range(2000):
            if not lock_files.is_leased("GPU-a"):
                break
            subprocess.run(["sleep", "0.01"], check=True)
        assert not lock_files.is_leased("GPU-a")


def test_what_runs_within_a_command_is_not_kept_out_by_the_command_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    assert take(Choice(("GPU-a",), 1))[0]
    monkeypatch.setenv(lock_files.DEPTH, "1")
    assert take(Choice(("GPU-a",), 1))[0]
    assert take(Choice(("GPU-a",), 1)) == ((), ("GPU-a",))
    monkeypatch.setenv(lock_files.DEPTH, "../../x")
    assert take(Choice(("GPU-a",), 1)) == ((), ("GPU-a",))
