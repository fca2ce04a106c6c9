"""The ways of inference servers to run on several nodes, as shell lines that a real shell executes."""

import json
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from corral.features.tuner.engines.inference_engine import find_inference_engine
from corral.features.tuner.engines.over_nodes import OverNodes, version_in, way_over_nodes, why_not_over_nodes

SHOW = "import json, os, sys; print(json.dumps([sys.argv[1:], os.environ.get('RAY_ADDRESS')]))"
MEETING = {"WORLD_SIZE": "2", "MASTER_ADDR": "10.0.0.7", "MASTER_PORT": "4711", "CORRAL_GPUS": "8"}
RAY = {"distributed-executor-backend": "ray"}


def executed(way: OverNodes, rank: int, *words: str, **env: str) -> list[Any]:
    """The arguments and RAY_ADDRESS of the server that a member executes."""
    line = way.line((sys.executable, "-c", SHOW, *words), {"{host}": '"$1"', "{port}": '"$2"'})
    done = subprocess.run(
        ["sh", "-c", line, "sh", "127.0.0.1", "8000"],
        env={"PATH": "/usr/bin:/bin", **MEETING, "RANK": str(rank), **env},
        capture_output=True,
        text=True,
        check=True,
    )
    found: list[Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def way_of(engine: str, parameters: dict[str, Any], version: str = "") -> OverNodes:
    way = way_over_nodes(find_inference_engine(engine), parameters, version_in(version))
    assert isinstance(way, OverNodes), way
    return way


def test_members_of_sglang_are_told_their_rank_and_where_the_first_one_is() -> None:
    way = way_of("sglang", {"tp": 16})
    of_nodes = ["--nnodes", "2", "--node-rank", "1", "--dist-init-addr", "10.0.0.7:4711"]
    assert executed(way, 1, "--port", "{port}")[0] == ["--port", "8000", *of_nodes]


def test_all_members_of_vllm_except_the_first_are_headless() -> None:
    way = way_of("vllm", {"tp": 16})
    of_nodes = ["--nnodes", "2", "--node-rank", "{}", "--master-addr", "10.0.0.7", "--master-port", "4711"]
    first, second = ([word.format(rank) for word in of_nodes] for rank in (0, 1))
    assert executed(way, 0, more="--x")[0] == first
    assert executed(way, 1, more="--x")[0] == [*second, "--headless"]


@pytest.mark.parametrize(
    ("parameters", "version", "on_ray"),
    [
        ({}, "", False),
        ({}, "v0.12.0-cu126", False),
        ({}, "v0.9.2", True),
        (RAY, "v0.33.0", True),
        ({"distributed_executor_backend": "ray"}, "", True),
        ({"distributed-executor-backend": "mp"}, "", False),
    ],
)
def test_vllm_runs_on_ray_if_it_is_old_or_the_task_says_so(
    parameters: dict[str, Any], version: str, on_ray: bool
) -> None:
    assert (way_of("vllm", parameters, version).options == RAY) == on_ray


def test_on_ray_the_first_member_starts_the_cluster_and_its_server_and_the_others_join(tmp_path: Path) -> None:
    ray = tmp_path / "ray"
    ray.write_text(f'#!/bin/sh\n[ "$1" != health-check ] || exit 0\nexec {sys.executable} -c "{SHOW}" "$@"\n')
    ray.chmod(0o755)
    way, path = way_of("vllm", RAY), f"{tmp_path}:/usr/bin:/bin"
    assert executed(way, 0, "serve", PATH=path) == [["serve"], "10.0.0.7:4711"]
    assert executed(way, 1, "serve", PATH=path)[0] == [
        "start",
        "--address",
        "10.0.0.7:4711",
        "--num-gpus",
        "8",
        "--block",
    ]
    ray.write_text("#!/bin/sh\nexit 3\n")
    with pytest.raises(subprocess.CalledProcessError) as failed:
        executed(way, 0, "serve", PATH=path)
    assert failed.value.returncode == 3


def test_words_of_users_stay_words() -> None:
    hostile = ["$(exit 3)", "a'b", '"', "`x`", "{rank}", "$RANK; exit", "two\nlines", "\x03", "", "-n"]
    for engine in ("sglang", "vllm"):
        assert executed(way_of(engine, {}), 0, *hostile)[0][: len(hostile)] == hostile


@pytest.mark.skipif(shutil.which("bash") is None, reason="there is no bash here")
def test_a_shell_of_an_image_may_be_another() -> None:
    line = way_of("vllm", {}).line(("echo", "x"), {})
    done = subprocess.run(
        ["bash", "--posix", "-c", line],
        env={"PATH": "/usr/bin:/bin", **MEETING, "RANK": "1"},
        capture_output=True,
        text=True,
    )
    assert done.stdout.endswith("--headless\n")


@pytest.mark.parametrize(
    ("engine", "parameters", "members", "version", "why"),
    [
        ("sglang", {"tp": 16}, 2, "", None),
        ("sglang", {"tp": 16, "dp": 2}, 2, "", "sglang does not support data-parallel-size over several nodes"),
        ("sglang", {"tp": 16, "dp": 2, "enable-dp-attention": True}, 2, "", None),
        ("sglang", {"tp": 8, "pp": 2}, 2, "", None),
        ("sglang", {"tp": 4, "pp": 3}, 2, "", "sglang does not divide 3 stages"),
        ("sglang", {"tp": 8, "pp": "2"}, 4, "", None),
        ("vllm", {"tp": 4, "pp": 3}, 2, "", None),
        ("vllm", {"tp": 8, "dp": 2}, 2, "", None),
        (
            "vllm",
            {"tp": 8, "dp": 2, **RAY},
            2,
            "",
            "vllm does not support data-parallel-size over several nodes; leave",
        ),
        (
            "vllm",
            {"tp": 16, "distributed-executor-backend": "mp"},
            2,
            "v0.9.2",
            "vllm 0.9.2 runs over several nodes only with distributed-executor-backend ray",
        ),
    ],
)
def test_what_an_engine_cannot_do_over_nodes_is_said(
    engine: str, parameters: dict[str, Any], members: int, version: str, why: str | None
) -> None:
    found = why_not_over_nodes(find_inference_engine(engine), parameters, members, version_in(version))
    assert found is None if why is None else (found or "").startswith(why)


def test_an_engine_without_a_way_runs_on_one_node() -> None:
    engine = replace(find_inference_engine("sglang"), over_nodes=())
    assert why_not_over_nodes(engine, {}, 2) == "sglang 0.5.23 runs on one node only"


def test_a_version_is_found_in_a_tag_that_has_one() -> None:
    tags = ("v0.9.2", "0.33.0-cu130", "latest", "nightly", "v0.5.23-cu126")
    assert [version_in(tag) for tag in tags] == [(0, 9, 2), (0, 33, 0), None, None, (0, 5, 23)]
