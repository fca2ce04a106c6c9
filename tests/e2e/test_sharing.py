"""Sharing a device as a user meets it: asking for parts, seeing them in the map, and being told what makes no sense."""

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.e2e.box import Box, described, serving

FIRST, SECOND = (f"c59395cd-ac91-4cd3-a1b0-3d2568aa2d0{n}" for n in (1, 2))
TWO_DEVICES = f"""slot_name = "cuda"
device_plugin_name = "CUDADevice"
devices = [
{{ mother_uuid = "{FIRST}", model_name = "CUDA GPU", numa_node = 0, subproc_count = 108, memory_size = "2G", is_mig_device = false }},
{{ mother_uuid = "{SECOND}", model_name = "CUDA GPU", numa_node = 1, subproc_count = 108, memory_size = "2G", is_mig_device = false }},
]
[attributes]
nvidia_driver = "550.54.15"
cuda_runtime = "12.4"
"""  # noqa: E501

GUARDED = {"memory": "guarded", "compute": "advisory", "cpus": None, "host_memory": None, "reason": None}


@pytest.fixture(scope="module")
def _pair() -> Iterator[Box]:
    with serving(TWO_DEVICES) as box:
        yield box


@pytest.fixture
def pair(_pair: Box) -> Iterator[Box]:
    """A server on two mock devices of 2 GiB, all free."""
    yield _pair
    _pair.clear()


def held(box: Box) -> dict[str, dict[str, int]]:
    """Milli-GPU by job, by device."""
    return {
        device["uuid"]: {holder["job"]: holder["share_milli"] for holder in device["holders"]}
        for device in box.json("devices", "--json")
    }


def test_shares_in_a_neighbours_words_are_split_as_its_users_know_it(pair: Box) -> None:
    small = pair.submit("--resource", "cuda.shares=0.2", "--", "sleep", "60")
    large = pair.submit("--resource", "cuda.shares=1.2", "--", "sleep", "60")
    pair.until_phase(large, "RUNNING")
    assert held(pair) == {FIRST: {large: 600}, SECOND: {small: 200, large: 600}}


def test_a_number_of_gpus_fills_whole_devices_first_unless_it_is_to_be_split_evenly(pair: Box) -> None:
    small = pair.submit("--gpus", "0.2", "--", "sleep", "60")
    pair.until_phase(small, "RUNNING")
    shown = pair.ok("submit", "--dry-run", "--gpus", "1.2", "--", "true")
    assert "2 GPUs: 0, 1 (CUDA GPU), 1 with 2G, 0.2 with 409M" in shown
    large = pair.submit("--gpus", "1.2", "--", "sh", "-c", "echo $CUDA_VISIBLE_DEVICES; sleep 60")
    pair.until_phase(large, "RUNNING")
    assert held(pair) == {FIRST: {large: 1000}, SECOND: {small: 200, large: 200}}
    told = asked(pair, MAP, agent_id=node_of(pair))["agent"]["gpu_alloc_map"]
    assert json.loads(told) == {FIRST: "1.00", SECOND: "0.40"}
    waiting = pair.submit("--gpus", "1.2", "--", "true")
    pair.until(lambda: pair.job(waiting)["wait"])
    pair.ok("cancel", large, waiting)
    pair.ended(large)
    even = pair.submit("--gpus", "1.2", "--split", "evenly", "--", "sleep", "60")
    pair.until_phase(even, "RUNNING")
    assert held(pair) == {FIRST: {even: 600}, SECOND: {small: 200, even: 600}}


def test_the_devices_that_a_job_has_whole_are_its_first_ones(pair: Box) -> None:
    small = pair.submit("--gpus", "0.2", "--device", "0", "--", "sleep", "60")
    pair.until_phase(small, "RUNNING")
    large = pair.submit("--gpus", "1.5", "--", "sh", "-c", "echo $CUDA_VISIBLE_DEVICES $CORRAL_GPU_INDICES; sleep 60")
    pair.until_phase(large, "RUNNING")
    pair.until(lambda: f"{SECOND},{FIRST} 1,0\n" in pair.ok("logs", large))
    # The half is guarded, and nothing but a fence would hold the job to the whole one.
    assert "GPU 1,0 1+0.5, 3G advisory" in pair.ok("ps")
    assert "holds GPU 1, 0.5 of GPU 0 with 1G" in pair.ok("why", large)


def test_a_share_of_a_device_meets_others_on_it_and_memory_is_granted_with_it(pair: Box) -> None:
    jobs = [pair.submit("--gpus", "0.5", "--", "sleep", "60") for _ in range(2)]
    for job in jobs:
        pair.until_phase(job, "RUNNING")
    first, second = pair.json("devices", "--json")
    assert [(holder["job"], holder["memory_mib"]) for holder in second["holders"]] == [(job, 1024) for job in jobs]
    assert (first["state"], first["holders"]) == ("free", [])


def asked(box: Box, query: str, **variables: str) -> Any:
    """The data of a GraphQL query."""
    answer = box.api("/graphql", {"query": query, "variables": variables})
    assert "errors" not in answer, answer
    return answer["data"]


MAP = "query ($agent_id: String!) { agent(agent_id: $agent_id) { gpu_alloc_map } }"


def node_of(box: Box) -> str:
    name: str = box.json("devices", "--json")[0]["node"]
    return name


def test_the_map_of_the_two_shares_is_what_its_users_expect_in_graphql(pair: Box) -> None:
    assert json.loads(asked(pair, MAP, agent_id=node_of(pair))["agent"]["gpu_alloc_map"]) == {}
    pair.submit("--resource", "cuda.shares=0.2", "--", "sleep", "60")
    large = pair.submit("--resource", "cuda.shares=1.2", "--", "sleep", "60")
    pair.until_phase(large, "RUNNING")
    told = asked(pair, MAP, agent_id=node_of(pair))["agent"]["gpu_alloc_map"]
    assert json.loads(told) == {SECOND: "0.80", FIRST: "0.60"}
    devices = pair.api("/api/v1/alloc-map")["devices"]
    assert [(device["uuid"], device["allocated_milli"]) for device in devices] == [(FIRST, 600), (SECOND, 800)]


def test_the_resource_files_of_running_jobs_say_the_same_and_go_with_them(pair: Box) -> None:
    jobs = [pair.submit("--resource", f"cuda.shares={share}", "--", "sleep", "60") for share in ("0.2", "1.2")]
    for job in jobs:
        pair.until_phase(job, "RUNNING")
    assert pair.json("alloc-map", "--scan", str(pair.home / "scratch"), "--json") == {SECOND: "0.80", FIRST: "0.60"}
    text = (pair.home / "scratch" / jobs[1] / "config" / "resource.txt").read_text()
    assert f"CUDA.SHARES_SHARES={FIRST}:0.6,{SECOND}:0.6\n" in text
    pair.clear()
    pair.until(lambda: not list((pair.home / "scratch").glob("*/config/resource.txt")))


def test_files_that_disagree_are_named_by_a_rescan_and_put_right(pair: Box) -> None:
    job = pair.submit("--resource", "cuda.shares=0.2", "--", "sleep", "60")
    pair.until_phase(job, "RUNNING")
    ours = pair.home / "scratch" / job / "config" / "resource.txt"
    right = ours.read_text()
    ours.write_text(right.replace("0.2", "0.5"))
    stale = pair.home / "scratch" / "gone" / "config" / "resource.txt"
    stale.parent.mkdir(parents=True)
    stale.write_text(right)
    torn = pair.home / "scratch" / "torn" / "config" / "resource.txt"
    torn.parent.mkdir(parents=True)
    torn.write_text(right[:40])
    mutation = "mutation ($agent_id: String!) { rescan_gpu_alloc_maps(agent_id: $agent_id) { ok disagreements } }"
    told = asked(pair, mutation, agent_id=node_of(pair))["rescan_gpu_alloc_maps"]["disagreements"]
    assert len(told) == 3
    assert "torn" in told[0]
    assert "truncated" in told[0]
    assert f"job {job} holds 0.2 of {SECOND} by the ledger and 0.5 by its resource file" in told[1]
    assert "job gone has a resource file and no allocation" in told[2]
    assert ours.read_text() == right
    assert (stale.exists(), torn.exists()) == (False, True)
    torn.unlink()


def test_devices_are_typed_and_paged_in_graphql(pair: Box) -> None:
    job = pair.submit("--gpus", "0.25", "--", "sleep", "60")
    pair.until_phase(job, "RUNNING")
    query = "{ agents { id status devices(offset: 1, limit: 1) { uuid allocated_milli jobs { job_id share_milli } } } }"
    (agent,) = asked(pair, query)["agents"]
    assert (agent["id"], agent["status"]) == (node_of(pair), "ALIVE")
    (device,) = agent["devices"]
    assert device == {"uuid": SECOND, "allocated_milli": 250, "jobs": [{"job_id": job, "share_milli": 250}]}


def test_devices_of_all_nodes_are_paged_alike(pair: Box) -> None:
    pages = [asked(pair, f"{{ devices(offset: {offset}, limit: 1) {{ uuid }} }}")["devices"] for offset in range(3)]
    assert pages == [[{"uuid": FIRST}], [{"uuid": SECOND}], []]
    assert "errors" in pair.api("/graphql", {"query": "{ devices(limit: 0) { uuid } }"})


def test_memory_that_is_asked_for_is_no_share_until_a_device_says_which(pair: Box) -> None:
    job = pair.submit("--gpu-mem", "512M", "--hold", "--", "sleep", "60")
    assert pair.job(job)["gpus_milli"] is None
    assert "part" in pair.ok("ps")
    pair.ok("release", job)
    pair.until_phase(job, "RUNNING")
    assert pair.job(job)["gpus_milli"] == 250


def test_the_map_is_a_bar_a_device_in_eighty_columns(pair: Box) -> None:
    jobs = [pair.submit("--resource", f"cuda.shares={share}", "--", "sleep", "60") for share in ("0.2", "1.2")]
    for job in jobs:
        pair.until_phase(job, "RUNNING")
    first, second, owner = pair.ok("alloc-map", COLUMNS="80").splitlines()
    assert "0.60 |AAAAAAAAAAAA........|" in first
    assert "0.80 |AAAAAAAAAAAAAAAA....|" in second
    assert owner.endswith(f"1.4 in {jobs[1]}, {jobs[0]}")
    assert max(map(len, (first, second, owner))) <= 80


SLICED = """slot_name = "cuda"
devices = [
{ mother_uuid = "GPU-whole", model_name = "NVIDIA A100-SXM4-80GB", memory_size = "80G", is_mig_device = false },
{ mother_uuid = "GPU-sliced", model_name = "CUDA GPU-1g.10gb", memory_size = "10G", is_mig_device = true },
{ mother_uuid = "GPU-sliced", model_name = "CUDA GPU-1g.10gb", memory_size = "10G", is_mig_device = true },
{ mother_uuid = "GPU-sliced", model_name = "CUDA GPU-3g.40gb", memory_size = "40G", is_mig_device = true },
]
[attributes]
nvidia_driver = "550.54.15"
cuda_runtime = "12.4"
"""


@pytest.fixture(scope="module")
def _sliced() -> Iterator[Box]:
    with serving(SLICED, 'kill_grace: 1s\nsharing:\n  "*": exclusive\n') as box:
        yield box


@pytest.fixture
def sliced(_sliced: Box) -> Iterator[Box]:
    """A server on a device that is allocated whole and one that is cut into three slices."""
    yield _sliced
    _sliced.clear()


def test_a_slice_is_handed_out_like_a_device_and_the_device_it_is_cut_from_never(sliced: Box) -> None:
    jobs = [sliced.submit("--mig", "1g.10gb", "--", "sh", "-c", "echo $CUDA_VISIBLE_DEVICES; sleep 60") for _ in "ab"]
    third = sliced.submit("--mig", "1g.10gb", "--", "true")
    whole = sliced.submit("--gpus", "1", "--", "sleep", "60")
    for job in (*jobs, whole):
        sliced.until_phase(job, "RUNNING")
    assert [sliced.job(job)["devices"] for job in (*jobs, whole)] == [
        ["MIG-GPU-sliced/1/0"],
        ["MIG-GPU-sliced/2/0"],
        ["GPU-whole"],
    ]
    sliced.until(lambda: sliced.ok("logs", jobs[0]) == "MIG-GPU-sliced/1/0\n")
    witness = (sliced.home / "scratch" / jobs[0] / "config" / "resource.txt").read_text()
    assert "CUDA.DEVICE:10G-MIG_SHARES=MIG-GPU-sliced/1/0:1" in witness.splitlines()
    assert sliced.job(third)["phase"] == "PENDING"
    assert "1 MIG slice 1g.10gb" in sliced.ok("why", third)
    sliced.ok("cancel", jobs[0])
    assert sliced.ended(third)["phase"] == "SUCCEEDED"


def test_a_slice_is_counted_by_its_profile_whatever_it_was_called(sliced: Box) -> None:
    job = sliced.submit("--hold", "--resource", "cuda.device:10g-mig=1", "--", "true")
    assert sliced.api(f"/api/v1/jobs/{job}")["spec"]["request"]["mig_profile"] == "1g.10gb"


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--mig", "2g.20gb"], "no device has a slice 2g.20gb; they offer 1g.10gb, 3g.40gb"),
        (["--mig", "1g.10gb", "--gpus", "3"], "the most you can ask for is 2"),
        (["--gpus", "0.5"], "every GPU here is allocated whole; ask for --gpus 1 or more"),
        (["--gpus", "0.5", "--share", "mps"], "no GPU here is shared by mps; they are: exclusive, mig"),
        (["--mig", "1g.10gb", "--gpu-mem", "5G"], "--gpu-mem: the profile 1g.10gb fixes memory and compute"),
        (["--resource", "cuda.device:10g-mig=1", "--resource", "cuda.shares=0.5"], "cannot be used together"),
    ],
)
def test_what_the_devices_do_not_offer_is_refused_with_what_they_do(sliced: Box, words: list[str], told: str) -> None:
    done = sliced.run("submit", *words, "--", "true")
    assert (done.returncode, told in done.stderr) == (2, True), done.stderr


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--gpus", "0.005"], "ask for 0.01"),
        (["--gpus", "-0.5"], "not above zero"),
        (["--gpus", "2.5"], "the most you can ask for is 2"),
        (["--gpu-mem", "3G"], "the most you can ask for is 2G"),
        (["--gpus", "1", "--gpu-mem", "1G"], "a whole GPU has all its memory and compute"),
        (["--gpus", "1", "--resource", "cuda.shares=0.5"], "remove one of them"),
        (["--resource", "cuda.shares=0"], "not above zero"),
        (["--resource", "cuda.shares=0.5", "--resource", "cuda.device=1"], "cannot be used together"),
        (
            ["--resource", "tencent.com/vcuda-core=150", "--resource", "tencent.com/vcuda-memory=8"],
            "ask for 100 or 200",
        ),
        (["--resource", "tencent.com/vcuda-core=50"], "no GPU here has 5G of memory"),
        (["--resource", "cuda.share=0.5"], "did you mean 'cuda.shares'?"),
        (["--share", "mps"], "no GPU here is shared by mps"),
        (["--share", "mig"], "--mig 1g.10gb"),
        (["--mig", "1g.10gb"], "no device is sliced"),
    ],
)
def test_what_makes_no_sense_is_refused_with_what_would(pair: Box, words: list[str], told: str) -> None:
    done = pair.run("submit", *words, "--", "true")
    assert (done.returncode, told in done.stderr) == (2, True), done.stderr


def test_no_gpus_is_still_a_job_without_any(pair: Box) -> None:
    assert pair.ended(pair.submit("--gpus", "0", "--", "true"))["devices"] == []


@pytest.mark.parametrize(
    ("words", "granted"),
    [
        (["--gpu-mem", "500M"], [(240, 500)]),
        (["--gpu-cores", "25"], [(250, 512)]),
        (["--resource", "tencent.com/vcuda-core=50", "--resource", "tencent.com/vcuda-memory=2"], [(500, 512)]),
        (["--resource", "nvidia.com/gpu=2", "--resource", "nvidia.com/gpumem=1024"], [(500, 1024), (500, 1024)]),
    ],
)
def test_memory_and_cores_come_to_a_share_of_the_device(
    pair: Box, words: list[str], granted: list[tuple[int, int]]
) -> None:
    job = pair.submit(*words, "--", "sleep", "60")
    pair.until_phase(job, "RUNNING")
    holders = [holder for device in pair.json("devices", "--json") for holder in device["holders"]]
    assert [(holder["share_milli"], holder["memory_mib"]) for holder in holders] == granted


def test_what_a_job_holds_and_what_stands_behind_it_is_shown_everywhere(pair: Box) -> None:
    job = pair.submit("--resource", "cuda.shares=1.2", "--", "sleep", "60")
    pair.until_phase(job, "RUNNING")
    row = pair.job(job)
    assert row["enforcement"] == GUARDED
    assert (row["gpus_milli"], [grant["share_milli"] for grant in row["grants"]]) == (1200, [600, 600])
    assert "GPU 0,1 0.6+0.6, 2.4G guarded" in pair.ok("ps")
    told = pair.ok("why", job)
    assert "holds 0.6 of GPU 0 with 1.2G, 0.6 of GPU 1 with 1.2G; memory guarded, compute advisory" in told
    assert "timeslice" in pair.ok("devices")


def test_a_whole_device_without_a_device_file_is_not_enforced_and_looks_as_it_always_did(pair: Box) -> None:
    job = pair.submit("--", "sleep", "60")
    pair.until_phase(job, "RUNNING")
    row = pair.job(job)
    assert row["gpus_milli"] == 1000
    assert [row["enforcement"][what] for what in ("memory", "compute")] == ["advisory", "advisory"]
    assert row["enforcement"]["reason"].startswith("no fence: ")
    assert f"GPU {0 if row['devices'] == [FIRST] else 1}\n" in pair.ok("ps")


def test_graphql_says_what_is_wrong_with_a_query_and_knows_no_node_that_is_not_there(pair: Box) -> None:
    answer = pair.api("/graphql", {"query": "{ agents { idd } }"})
    assert "Cannot query field 'idd'" in answer["errors"][0]["message"]
    assert asked(pair, MAP, agent_id="elsewhere") == {"agent": None}
    endless = "{ agents { " + " ".join(f"a{n}: gpu_alloc_map" for n in range(2000)) + " } }"
    assert "errors" in pair.api("/graphql", {"query": endless})


def test_a_dry_run_tells_what_would_be_granted_and_what_was_rounded(pair: Box) -> None:
    done = pair.run("submit", "--dry-run", "--resource", "cuda.shares=1.205", "--", "true")
    assert done.stdout.endswith("(CUDA GPU), 0.6 with 1.2G, 0.6 with 1.2G\n")
    assert "cuda.shares: 1.205 is rounded down to 1.2 of a GPU" in done.stderr
    pair.until_phase(pair.submit("--gpus", "2", "--", "sleep", "60"), "RUNNING")
    waits = pair.run("submit", "--dry-run", "--resource", "cuda.shares=0.205", "--", "true")
    assert waits.stdout.startswith("would wait: ")
    assert waits.stderr == "corral: cuda.shares: 0.205 is rounded down to 0.2 of a GPU\n"


def test_what_was_rounded_is_told_at_submission(pair: Box) -> None:
    done = pair.run("submit", "--hold", "--array", "0-1", "--resource", "cuda.shares=0.205", "--", "true")
    assert "corral: cuda.shares: 0.205 is rounded down to 0.2 of a GPU\n" in done.stderr
    assert done.stdout.strip().isdigit()
    held = pair.run("reserve", "--detach", "--for", "10m", "--resource", "cuda.shares=0.205")
    assert held.stderr.startswith("corral: cuda.shares: 0.205 is rounded down to 0.2 of a GPU\n")


def test_why_says_in_fields_what_stands_behind_a_share(pair: Box) -> None:
    job = pair.submit("--gpus", "0.5", "--", "sleep", "60")
    pair.until_phase(job, "RUNNING")
    told = json.loads(pair.ok("why", job, "--json"))
    assert told["enforcement"] == GUARDED


def test_shares_are_what_they_were_after_the_server_came_back(pair: Box) -> None:
    job = pair.submit("--resource", "cuda.shares=1.2", "--", "sleep", "60")
    pair.until_phase(job, "RUNNING")
    before = pair.job(job)
    pair.down()
    witness = pair.home / "scratch" / job / "config" / "resource.txt"
    witness.unlink()
    pair.up()
    after = pair.job(job)
    assert [after[key] for key in ("phase", "grants", "enforcement")] == [
        before[key] for key in ("phase", "grants", "enforcement")
    ]
    assert f"{FIRST}:0.6,{SECOND}:0.6" in witness.read_text()
    assert f"job {job} has an allocation and no resource file" in (pair.home / "server.log").read_text()
    assert pair.ok("submit", "--dry-run", "--gpus", "0.9", "--", "true").startswith("would wait")


def test_hours_say_whether_anything_held_the_job_to_its_share(pair: Box) -> None:
    for words in (["--gpus", "0.5"], ["--gpus", "1"], ["--gpus", "0"]):
        job = pair.submit(*words, "--", "sleep", "0.5")
        pair.ended(job)
    told = pair.json("usage", "--by", "queue", "--since", "1h", "--json")
    (row,) = told["rows"]
    assert (told["by"], row["name"]) == ("queue", "default")
    # Nothing but a fence, which mock devices have none of, holds a job to a whole device.
    assert row["memory_guarded_hours"] > 0
    assert row["memory_advisory_hours"] > 0
    assert row["memory_guarded_hours"] + row["memory_advisory_hours"] == pytest.approx(row["gpu_hours"])
    assert row["compute_advisory_hours"] == pytest.approx(row["gpu_hours"])
    (line,) = pair.ok("usage", "--by", "queue").splitlines()[1:]
    assert "% guarded" in line
    assert "% advisory" in line
    (header, october) = pair.ok("usage", "--from", "1h", "--by", "month,queue", "--format", "csv").splitlines()[:2]
    assert header.startswith("month,queue,from,until,gpu_hours,")
    assert october.split(",")[1] == "default"
    (month,) = pair.json("usage", "--by", "month", "--from", "1h", "--json")["months"][-1:]
    assert month["total"]["gpu_hours"] > 0
    for wrong in (["--by", "user,queue"], ["--since", "1h", "--from", "1h"], ["--from", "1h", "--until", "2h"]):
        assert pair.run("usage", *wrong).returncode == 2
    assert pair.run("usage", "--by", "team").returncode == 2
    assert pair.run("usage", "--since", "soon").returncode == 2


def test_a_process_mode_that_described_devices_have_not_fails_no_job_and_is_told(
    new_box: Callable[[str], Box],
) -> None:
    box = new_box(described(1))
    (box.home / "config.yaml").write_text("kill_grace: 1s\nexclusive_process_mode: true\nsharing: {99: mps}\n")
    box.up()
    job = box.submit("--gpus", "1", "--", "true")
    box.until_phase(job, "SUCCEEDED")
    doctor = " ".join(box.run("doctor").stdout.split())
    for said in ("described devices have no compute mode", "no GPU here is 99, by index, UUID or model"):
        assert said in (box.home / "server.log").read_text()
        assert said in doctor
