"""No text that a user wrote ends a server: each reader turns any of it into a value, or into an error of Corral's own.

The first test holds where text is parsed at all, the others give every such reader what has broken readers.
"""

import ast
import os
import subprocess
import time
from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from corral.clock import SystemClock
from corral.core.diagnosis.diagnose import diagnose
from corral.core.diagnosis.failure import Failure
from corral.core.diagnosis.log_end import missing_bytes
from corral.core.model.devices.device import DeviceProcess, DeviceSample
from corral.core.model.runs.launch import Lineage, Origin
from corral.core.preflight.command_line import read_command
from corral.core.preflight.detect import detection
from corral.core.preflight.file_facts import FileFacts, file_query
from corral.engines.kubernetes.binding.pods_of_others import read as read_pod_of_others
from corral.engines.kubernetes.cluster.errors import ClusterFailed
from corral.engines.kubernetes.cluster.node_facts import read_node
from corral.engines.kubernetes.cluster.object_watch import read_event
from corral.engines.kubernetes.inventory.cluster_gpus import keep_gpu_node, keep_gpu_pod
from corral.engines.kubernetes.inventory.occupants import keep_occupant
from corral.engines.kubernetes.inventory.readings.dcgm_text import readings_of_exporter
from corral.engines.kubernetes.pods.stamped_lines import LogPosition, new_lines
from corral.engines.kubernetes.pods.state import keep as keep_pod
from corral.host.runtimes.docker.containers_of_others import called
from corral.host.runtimes.docker.records import ContainerRecords
from corral.host.runtimes.process.ending.removal import remove_tree
from corral.host.runtimes.process.output.job_input import read_answer
from corral.host.runtimes.process.output.log_marks import marks_path, written_since
from corral.host.runtimes.process.records.launch_records import LaunchRecords
from corral.host.sharing.scratch import scan
from corral.host.telemetry.attribution import Attribution
from tests.hostile import TEXTS, broken_fields

PACKAGE = Path(__file__).parents[1] / "src" / "corral"

PARSERS = frozenset({"loads", "load", "raw_decode", "literal_eval", "safe_load", "compose"})
OTHERS = (
    *("cli/", "tui/", "client/", "gpu/", "formatting/", "sim/"),
    *(f"features/tuner/{room}/" for room in ("deployments", "measuring", "run_commands", "running", "search", "tasks")),
)
"""Rooms of other processes than servers and agents: what breaks there is one user's command, replay or task."""

OWN = "what the server, its administrator or its programs wrote themselves"
GUARDED = "behind `guarded`, or `decode_record`"
REFUSED = "a request, whose sender is told what is wrong with it; the depth, the size and each field are checked"
PROCESS = "in a process of its own"
PARSED_IN = {
    "features/channels/channel_process.py": GUARDED,
    "features/channels/channel_worker.py": PROCESS,
    "features/channels/outbox.py": OWN,
    "api/requests/reading.py": REFUSED,
    "clock.py": GUARDED,
    "engines/kubernetes/extender/call_forms.py": REFUSED,
    "engines/kubernetes/agent_reports/token_reviews.py": REFUSED,
    "engines/kubernetes/agent/plugin/given_file.py": GUARDED,
    "engines/kubernetes/agent/plugin/other_plugins.py": GUARDED,
    "engines/kubernetes/agent/report_sender.py": "what a server answers, which stays text where it is no JSON",
    "features/kubernetes/run_commands.py": "a file that a user's command reads, in that user's process",
    "config/settings.py": OWN,
    "engines/hosts/host_record.py": OWN,
    "engines/hosts/installing/agent_settings.py": OWN,
    "engines/hosts/installing/host_script.py": "what a host says: each line is bounded, and none where it is no JSON",
    "host/node/connect.py": OWN,
    "host/node/installed/orders.py": OWN,
    "host/node/own_installation.py": OWN,
    "app/daemon.py": OWN,
    "declared/meanings.py": OWN,
    "features/replays/replay_process.py": OWN,
    "features/replays/replay_worker.py": PROCESS,
    "features/tuner/engines/inference_engine.py": OWN,
    "features/tuner/engines/stand_in_server.py": PROCESS,
    "features/tuner/experiment_table.py": OWN,
    "features/tuner/followed_log.py": OWN,
    "core/model/serving/presets.py": OWN,
    "core/preflight/known_models.py": OWN,
    "features/tuner/other_names/event_translation.py": OWN,
    "engines/kubernetes/cluster/credentials.py": OWN,
    "vendors/nvidia/cluster_shares.py": GUARDED,
    "engines/kubernetes/cluster/json_text.py": "cuts what is nested too deep; other text is an error of the cluster",
    "engines/kubernetes/cluster/kubeconfig.py": OWN,
    "engines/kubernetes/pods/logs.py": GUARDED,
    "engines/kubernetes/pods/template.py": OWN,
    "features/services/holds.py": "each entry alone, with every error that reading JSON has",
    "core/ledger/fold.py": OWN,
    "core/ledger/table_rows.py": OWN,
    "trees/text.py": REFUSED,
    "host/node/files/job_trees.py": GUARDED,
    "host/node/files/file_inspector.py": GUARDED,
    "host/node/files/inspection_worker.py": PROCESS,
    "host/node/launches/notification_runner.py": GUARDED,
    "host/node/agent_claim.py": "a claim, each field checked, or the agent's own record of it",
    "host/image_registry.py": "what a registry answers, of bounded size; what is no JSON object is told",
    "host/node/protocol.py": "an agent's or a server's: size, number of values and each field are checked",
    "host/node/mock/spawn.py": OWN,
    "plugins/engines.py": OWN,
    "plugins/queue_orders.py": OWN,
    "core/preflight/model_source.py": PROCESS,
    "host/runtimes/docker/daemon_calls.py": "what Docker answers, which stays text where it is no JSON",
    "host/runtimes/docker/pulling.py": PROCESS,
    "host/runtimes/docker/records.py": PROCESS,
    "host/runtimes/docker/opened_volumes.py": PROCESS,
    "host/runtimes/process/srun/command.py": PROCESS,
    "host/runtimes/process/srun/member.py": PROCESS,
    "host/runtimes/process/supervisor_orders.py": GUARDED,
    "app/server.py": OWN,
    "core/sharing/definitions.py": OWN,
    "core/sharing/resource_txt.py": GUARDED,
    "host/telemetry/toml_table.py": OWN,
    "host/telemetry/mock_power.py": OWN,
    "host/telemetry/kernel_log.py": "what journalctl writes of the journal, which is no record where it is no JSON",
    "checkpoint.py": PROCESS,
    "vendors/nvidia/compatibility.py": OWN,
    "vendors/registry.py": OWN,
}

TEXT = pytest.mark.parametrize("text", [pytest.param(text, id=name) for name, text in TEXTS.items()])


def _called_in(path: Path) -> set[str]:
    calls = (node.func for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Call))
    return {call.attr if isinstance(call, ast.Attribute) else getattr(call, "id", "") for call in calls}


def test_every_place_of_a_server_that_parses_text_is_known_with_whose_text_that_is() -> None:
    rooms = [path for path in PACKAGE.rglob("*.py") if not str(path.relative_to(PACKAGE)).startswith(OTHERS)]
    found = {str(path.relative_to(PACKAGE)) for path in rooms if PARSERS & _called_in(path)}
    named = {str(path.relative_to(PACKAGE)) for path in rooms if "json.loads" in path.read_text()}
    assert sorted((found | named) - PARSED_IN.keys()) == [], "whose text is parsed here? see decision 83"
    assert sorted(PARSED_IN.keys() - (found | named)) == []


def test_what_is_said_to_be_guarded_calls_the_guard() -> None:
    guards = {"guarded", "decode_record"}
    readers = {
        "host/runtimes/process/supervisor_orders.py": "host/runtimes/process/records/whole_files.py",
        "core/sharing/resource_txt.py": "host/sharing/scratch.py",
        "vendors/nvidia/cluster_shares.py": "engines/kubernetes/shares/served_shares.py",
    }
    for name in (name for name, whose in PARSED_IN.items() if whose == GUARDED):
        text = (PACKAGE / readers.get(name, name)).read_text()
        assert any(guard in text for guard in guards), name


def test_only_what_reads_logs_behind_the_guard_knows_their_diagnosis() -> None:
    importers = {
        str(path.relative_to(PACKAGE))
        for path in PACKAGE.rglob("*.py")
        if "from corral.core.diagnosis" in path.read_text() and "diagnosis" not in path.relative_to(PACKAGE).parts
    }
    servers = {name for name in importers if not name.startswith(OTHERS)}
    room = "core/control"
    assert servers <= {f"{room}/core.py", f"{room}/watching/failure_notes.py", f"{room}/querying/explanations.py"}


# What is read of a job


@TEXT
@pytest.mark.parametrize("before", ["", "RuntimeError: ", "corral: ", "RuntimeError: Out of memory allocating "])
def test_a_log(text: bytes, before: str) -> None:
    log = before.encode() + text
    found = diagnose(Failure(exit_code=1, devices=1), log)
    assert found is None or found.line.isprintable()
    assert missing_bytes(log) == 0


@TEXT
def test_a_resource_file(tmp_path: Path, text: bytes) -> None:
    for kernel, content in (("1", text), ("2", b"SCRATCH_SIZE=0m\nMOUNTS=\nSLOTS=" + text), ("3", text + b"=" + text)):
        (tmp_path / kernel / "config").mkdir(parents=True)
        (tmp_path / kernel / "config" / "resource.txt").write_bytes(content)
    found = scan(tmp_path)
    assert len(found.files) + len(found.bad) == 3
    assert all(str(bad).isprintable() for bad in found.bad)


@TEXT
def test_the_marks_of_a_log(tmp_path: Path, text: bytes) -> None:
    log = str(tmp_path / "1.log")
    Path(marks_path(log)).write_bytes(
        text + b"\n1.0 " + text + b"\n0000000001.000 999999999999999999\n" + text + b" 1\n"
    )
    offset = written_since(log, 1e9)
    assert offset is not None
    assert 0 <= offset <= 10**15


@TEXT
def test_the_orders_of_a_launch(tmp_path: Path, text: bytes) -> None:
    records = LaunchRecords(str(tmp_path))
    lines = [text, b'["1.1",' + text, b'["1.1", "log", "scratch", ' + text + b", 0, null, 1, 1, [], null, [], null]"]
    for line in lines:
        (tmp_path / "spec.jsonl").write_bytes(line + b"\n")
        with pytest.raises(ValueError, match="makes no sense"):
            records.read_orders()


STATE: dict[str, object] = {
    "waits_for": "", "main": None, "ended": False, "reason": "", "exit_code": 1, "fault": "job", "stopped": False,
}  # fmt: skip
PROCESS_OF: dict[str, object] = {"pid": 1, "start_ticks": 1, "boot_id": "x"}


def test_the_state_of_a_container(tmp_path: Path) -> None:
    mains = [b'{"waits_for":"","ended":false,"reason":"","main":%s}' % one for one in broken_fields(PROCESS_OF)]
    for content in (*TEXTS.values(), *broken_fields(STATE), *mains):
        (tmp_path / "state.json").write_bytes(content)
        state = ContainerRecords(tmp_path).state()
        assert state.exit_code is None or abs(state.exit_code) < 2**31
        # As a database takes it.
        assert (state.waits_for + state.reason).encode() is not None
        if state.main is not None:
            assert 0 < state.main.pid < 2**23
            assert 0 <= state.main.start_ticks < 2**63


@TEXT
def test_an_answer_of_a_supervisor(text: bytes) -> None:
    for answer in (text[:9], text[:8] + b"o"):
        try:
            taken, _ = read_answer(answer)
            assert 0 <= taken < 2**63
        except ValueError:
            continue


def test_the_environment_and_the_name_of_a_process() -> None:
    for text in TEXTS.values():
        word = text.replace(b"\0", b"")[:50_000]
        env = {b"CORRAL_JOB_ID": word, b"CORRAL_HOME": b"/h", word.replace(b"=", b"") or b"X": word}
        with subprocess.Popen(
            [b"/bin/sh", b"-c", b"echo; read x", word], env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE
        ) as child:
            assert child.stdout is not None
            child.stdout.read(1)
            joins = Attribution(SystemClock(), origins=lambda: [Origin("7", Lineage(), os.geteuid())], home="/h")
            (joined,) = joins.attribute([DeviceSample("GPU-1", 0.0, processes=(DeviceProcess(child.pid),))])
            assert joined.processes is not None
            assert [one.pid for one in joined.processes] == [child.pid]
            assert child.stdin is not None
            child.stdin.close()


def test_a_process_that_breaks_who_looks_at_it_hides_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(cgroup: str) -> str | None:
        raise MemoryError

    joins = Attribution(SystemClock())
    monkeypatch.setattr("corral.host.telemetry.attribution.container_in", broken)
    processes = (DeviceProcess(os.getpid()), DeviceProcess(2**22 - 1))
    (joined,) = joins.attribute([DeviceSample("GPU-1", 0.0, processes=processes)])
    assert joined.processes == processes


def test_a_process_whose_environment_breaks_who_reads_it_is_known_without(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(environ: str, home: str | None) -> str | None:
        raise MemoryError

    monkeypatch.setattr("corral.host.telemetry.process_memory._marked_job", broken)
    sample = DeviceSample("GPU-1", 0.0, processes=(DeviceProcess(os.getpid()),))
    (joined,) = Attribution(SystemClock()).attribute([sample])
    assert joined.processes is not None
    (own,) = joined.processes
    assert own.user is not None
    assert own.command == Path("/proc/self/comm").read_text().strip()


def test_a_process_whose_memory_is_never_read_to_its_end_holds_nobody_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = tmp_path / str(os.getpid())
    here.mkdir()
    os.mkfifo(here / "cmdline")
    monkeypatch.setattr("corral.host.telemetry.process_memory.PROC", tmp_path)
    joins, processes = Attribution(SystemClock()), (DeviceProcess(os.getpid()),)
    begun = time.monotonic()
    for _ in range(5):
        (joined,) = joins.attribute([DeviceSample("GPU-1", 0.0, processes=processes)])
        assert joined.processes is not None
        assert joined.processes[0].user is not None
    assert time.monotonic() - begun < 4.0
    # Let the thread that reads it go.
    os.close(os.open(here / "cmdline", os.O_RDWR | os.O_NONBLOCK))


@TEXT
def test_a_command_with_its_environment_and_its_files(text: bytes) -> None:
    word = text.replace(b"\0", b"").decode(errors="replace")
    for command in (
        ["vllm", "serve", word, "--gpu-memory-utilization", word, "--max-model-len", word, f"--dtype={word}"],
        ["torchrun", f"--nproc-per-node={word}", word],
        [word, word],
    ):
        line = read_command(command)
        env = {"CUDA_VISIBLE_DEVICES": word, "HF_HOME": word, "FLAGS_allocator_strategy": word}
        file_query(line, env, "/")
        detection(line, env, FileFacts())


def test_a_tree_deeper_than_any_recursion_is_removed(tmp_path: Path) -> None:
    (tmp_path / "outside").mkdir()
    top = tmp_path / "launch"
    top.mkdir()
    before = os.getcwd()
    try:
        os.chdir(top)
        for _ in range(1500):
            os.mkdir("d")
            Path("file").touch()
            os.symlink("/etc/passwd", "link")
            os.chdir("d")
        os.symlink(tmp_path / "outside", "out")
        os.chmod(".", 0o500)
    finally:
        os.chdir(before)
    remove_tree(str(top))
    assert os.listdir(tmp_path) == ["outside"]
    assert Path("/etc/passwd").exists()


def test_when_this_boot_began(tmp_path: Path) -> None:
    for content in (*TEXTS.values(), *broken_fields({"boot_id": "x", "boot_at": 1.0})):
        (tmp_path / "clock.json").write_bytes(content)
        assert SystemClock(tmp_path / "clock.json").now() > 0


# What is read of a cluster


@TEXT
def test_an_event_of_a_watch(text: bytes) -> None:
    for line in (text, b'{"type":"ADDED","object":{"metadata":' + text + b"}}"):
        try:
            assert isinstance(read_event(line), dict)
        except ClusterFailed:
            continue


ODD: tuple[Any, ...] = (
    *("9" * 5000, "9" * 40, "9e999", "-1", "\ud800", "a\0b", "\x1b[2J", 10**400, -1, 1.5, float("nan"), True, None),
    *([], {}, [None], [[]], ["x"], {"x": None}, {"x": []}, [{"name": []}]),
)
POD_PLACES = (
    ("metadata", "annotations", "corral.dev/gang-size"),
    ("metadata", "annotations", "corral.dev/priority"),
    ("metadata", "annotations", "corral.dev/launch"),
    ("metadata", "annotations"),
    ("metadata", "labels"),
    ("metadata", "creationTimestamp"),
    ("metadata", "ownerReferences"),
    ("metadata",),
    ("spec", "containers"),
    ("spec", "affinity"),
    ("spec", "affinity", "podAntiAffinity"),
    ("spec", "affinity", "podAntiAffinity", "requiredDuringSchedulingIgnoredDuringExecution"),
    ("spec", "topologySpreadConstraints"),
    ("spec", "tolerations"),
    ("spec", "nodeSelector"),
    ("spec", "overhead"),
    ("spec", "activeDeadlineSeconds"),
    ("spec", "volumes"),
    ("spec",),
    ("status", "containerStatuses"),
    ("status", "conditions"),
    ("status", "startTime"),
    ("status",),
)


def _pod(place: tuple[str, ...], value: Any, *, node: str | None) -> dict[str, Any]:
    resources = {"requests": {"cpu": "1", "nvidia.com/gpu": "1"}}
    pod: dict[str, Any] = {
        "metadata": {"name": "p", "namespace": "n", "uid": "u", "annotations": {"corral.dev/gang": "g"}},
        "spec": {"schedulerName": "corral", "containers": [{"name": "c", "image": "i", "resources": resources}]},
        "status": {"phase": "Pending"},
    }
    if node is not None:
        pod["spec"]["nodeName"] = node
    at = pod
    for name in place[:-1]:
        at = at.setdefault(name, {})
    at[place[-1]] = value
    return pod


READERS: list[Callable[[dict[str, Any]], object]] = [read_pod_of_others, keep_occupant, keep_pod, keep_gpu_pod]


@pytest.mark.parametrize("read", READERS, ids=lambda read: read.__module__.rpartition(".")[2])
def test_a_pod_of_others(read: Callable[[dict[str, Any]], object]) -> None:
    for place, value, node in product(POD_PLACES, ODD, (None, "here")):
        read(_pod(place, value, node=node))


def test_a_pod_of_which_it_cannot_be_read_what_it_takes_has_its_node_full() -> None:
    broken = keep_occupant(_pod(("spec", "overhead"), {"cpu": []}, node="here"))
    assert broken is not None
    assert broken.unreadable is not None


NODE_PLACES = (
    ("metadata",),
    ("metadata", "labels"),
    ("metadata", "labels", "nvidia.com/gpu.count"),
    ("metadata", "labels", "nvidia.com/gpu.memory"),
    ("metadata", "labels", "nvidia.com/gpu.replicas"),
    ("metadata", "labels", "nvidia.com/cuda.driver.major"),
    ("metadata", "annotations"),
    ("metadata", "creationTimestamp"),
    ("spec",),
    ("spec", "taints"),
    ("status",),
    ("status", "allocatable"),
    ("status", "allocatable", "nvidia.com/gpu"),
    ("status", "capacity", "cpu"),
    ("status", "conditions"),
    ("status", "addresses"),
    ("status", "nodeInfo"),
)


@pytest.mark.parametrize("read", [read_node, keep_gpu_node], ids=lambda read: read.__name__)
def test_a_node_of_a_cluster(read: Callable[[dict[str, Any]], object]) -> None:
    for place, value in product(NODE_PLACES, ODD):
        node: dict[str, Any] = {"metadata": {"name": "n", "labels": {"nvidia.com/gpu.product": "A100"}}, "status": {}}
        node["status"]["allocatable"] = {"nvidia.com/gpu": "8", "cpu": "8"}
        at = node
        for name in place[:-1]:
            at = at.setdefault(name, {})
        at[place[-1]] = value
        read(node)


@TEXT
def test_what_an_exporter_says(text: bytes) -> None:
    word = text.decode(errors="replace").replace('"', "")
    for said in (word, f'DCGM_FI_DEV_GPU_UTIL{{gpu="{word}"}} {word}', f'DCGM_FI_DEV_GPU_UTIL{{gpu="0"}} {word}'):
        readings_of_exporter(said)


@TEXT
def test_the_log_of_a_pod(text: bytes) -> None:
    blocks = [text, b"0001-01-01T00:00:00.1+23:59 " + text + b"\n", b"9999-12-31T23:59:59-23:59 " + text]
    list(new_lines(blocks, LogPosition(), whole=True))


def test_what_docker_says_of_a_container() -> None:
    for value in ODD:
        called({"Name": value, "Config": {"Image": value}})
        called({"Config": value})
