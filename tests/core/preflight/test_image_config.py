"""The configuration of an image is text of whoever built it: what preflight reads of it is bounded."""

import pytest

from corral.core.ports.images import ContainerProgram, ImageFacts
from corral.core.preflight.detect import detection_in_container
from corral.core.preflight.image_config import MOST_CHARACTERS, MOST_WORDS, image_facts

CONFIG = {
    "Env": ["PATH=/usr/bin", "CUDA_VERSION=12.4.1", "HF_TOKEN=secret"],
    "Labels": {"com.nvidia.cuda.version": "12.4.1", "maintainer": "them"},
    "Entrypoint": ["vllm", "serve"],
    "Cmd": ["Qwen/Qwen2.5-7B"],
}
FACTS = image_facts(CONFIG)


def test_of_variables_and_labels_only_those_that_a_vendor_reads_are_kept() -> None:
    assert FACTS.variables == {"CUDA_VERSION": "12.4.1"}
    assert FACTS.labels == {"com.nvidia.cuda.version": "12.4.1"}


@pytest.mark.parametrize(
    "config",
    [
        None,
        [],
        {"Env": "CUDA_VERSION=1", "Labels": ["a"], "Entrypoint": "sh", "Cmd": 5},
        {"Env": [7, None, "CUDA_VERSION"], "Labels": {"com.nvidia.cuda.version": 12}},
        {"Env": ["CUDA_VERSION=" + "1" * (MOST_CHARACTERS + 1)], "Cmd": ["a"] * (MOST_WORDS + 1)},
        {"Env": ["CUDA_VERSION=\x1b[2J"], "Entrypoint": [["sh"]]},
    ],
)
def test_what_makes_no_sense_counts_as_absent(config: object) -> None:
    assert image_facts(config) == ImageFacts({}, {})


def test_a_pod_without_a_command_runs_the_entry_point_of_its_image() -> None:
    args = ("--model", "Qwen/Qwen2.5-7B", "--tensor-parallel-size", "4")
    found = detection_in_container(ContainerProgram("vllm:1", args=args), FACTS)
    assert (found.work.framework, found.work.world_size, found.work.runtime) == ("vllm", 4, (12, 4))
    assert detection_in_container(ContainerProgram("vllm:1", args=args), None).work.world_size is None
    assert detection_in_container(ContainerProgram("vllm:1", ("sleep", "1")), FACTS).work.framework is None


def test_variables_of_the_job_replace_those_of_the_image() -> None:
    program = ContainerProgram("a:1", ("true",), env={"CUDA_VERSION": "11.8"})
    assert detection_in_container(program, FACTS).work.runtime == (11, 8)


def test_a_version_that_the_user_names_counts_where_the_image_names_none() -> None:
    program = ContainerProgram("a:1", ("true",))
    assert detection_in_container(program, None, (12, 1)).work.runtime == (12, 1)
    assert detection_in_container(program, FACTS, (12, 1)).work.runtime == (12, 4)
