"""Parameters of a deployment become GPUs and arguments, or are refused in words."""

import shlex
from typing import Any

import pytest

from corral.core.model.errors import Refused
from corral.features.services.parameters import (
    gpus_in_parameters,
    merged_arguments,
    parameters_from,
    runtime_arguments,
)

RUNTIME = "of-our-own"


@pytest.mark.parametrize("key", ["tp-size", "tp_size", "tpsize"])
def test_each_spelling_of_tensor_parallelism_says_how_many_gpus(key: str) -> None:
    assert gpus_in_parameters({key: 4}, RUNTIME) == gpus_in_parameters({key: "4"}, RUNTIME) == 4


def test_without_one_no_number_is_asked_for() -> None:
    assert gpus_in_parameters({"mem-fraction-static": 0.8, "tp-size": None, "tp-sizes": 3}, RUNTIME) is None


@pytest.mark.parametrize(
    ("parameters", "gpus"),
    [
        ({"tp-size": 2, "pp-size": 2}, 4),
        ({"tensor_parallel_size": "2", "--pipeline-parallel-size": "3"}, 6),
        ({"pp": 2}, 2),
        ({"tp": 2, "dp": 4}, 8),
        ({"tpsize": 4, "dp-size": 2}, 8),
    ],
)
def test_every_axis_says_how_many_gpus(parameters: dict[str, Any], gpus: int) -> None:
    assert gpus_in_parameters(parameters, RUNTIME) == gpus


@pytest.mark.parametrize("value", [0, -1, "two", "1.5", 2.5, True, "٣", 10**9, [2], ""])
def test_what_is_no_number_of_gpus_is_refused(value: Any) -> None:
    with pytest.raises(Refused, match="no size of parallelism"):
        gpus_in_parameters({"tp-size": value}, RUNTIME)


def test_spellings_that_contradict_each_other_are_refused() -> None:
    with pytest.raises(Refused, match="tp-size=2 and tpsize=4 contradict"):
        gpus_in_parameters({"tp-size": 2, "tpsize": "4"}, RUNTIME)
    assert gpus_in_parameters({"tp-size": 2, "tp_size": "2"}, RUNTIME) == 2


def test_parameters_become_arguments_as_they_are_spelled() -> None:
    given = {"tp-size": 2, "mem_frac": 0.8, "--trust-remote-code": True, "off": False, "none": None, "list": [1, 2]}
    assert runtime_arguments(given) == ["--tp-size=2", "--mem_frac=0.8", "--trust-remote-code", "--list=[1, 2]"]


def test_a_value_is_never_taken_for_a_variable_of_kubernetes() -> None:
    assert runtime_arguments({"chat": "$(TOKEN) $HOME"}) == ["--chat=$$(TOKEN) $HOME"]


@pytest.mark.parametrize("parameters", [{"a b": 1}, {"": 1}, {"-x": 1}, {"a=b": 1}, {"a": "x\0y"}, {"a": "\x1b[1m"}])
def test_what_is_no_option_is_refused(parameters: dict[str, Any]) -> None:
    with pytest.raises(Refused):
        runtime_arguments(parameters)


def test_words_of_a_command_line_become_parameters() -> None:
    assert parameters_from(["tp-size=2", "x=a=b", "fast"]) == {"tp-size": "2", "x": "a=b", "fast": True}
    with pytest.raises(Refused, match="twice"):
        parameters_from(["a=1", "a=2"])


def test_the_arguments_of_a_runtime_are_kept_before_those_of_a_service() -> None:
    assert merged_arguments(["python3", "-m", "server"], ["--port=8080"], ["--tp-size=2"]) == [
        "--port=8080",
        "--tp-size=2",
    ]
    assert merged_arguments([], [], ["--tp-size=2"]) == ["--tp-size=2"]


def test_the_script_of_a_shell_gets_them_after_its_last_command() -> None:
    script = 'python3 -m server \\\n  --model "$MODEL_PATH" \\\n  --tp-size 1\n'
    (merged,) = merged_arguments(["/bin/bash", "-lc"], [script], ["--tp-size=2", "--chat=a'; rm -rf /"])
    assert merged.startswith(script.rstrip())
    assert shlex.split(merged)[-2:] == ["--tp-size=2", "--chat=a'; rm -rf /"]


@pytest.mark.parametrize(
    "script", ["", "server &", "server |", "if x; then\n server\nfi", "server # it serves", "exit 0"]
)
def test_a_script_that_does_not_end_with_the_server_is_refused(script: str) -> None:
    with pytest.raises(Refused, match="--param"):
        merged_arguments(["sh", "-c"], [script], ["--tp-size=2"])
    assert merged_arguments(["sh", "-c"], [script], []) == [script]
