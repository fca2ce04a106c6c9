"""A command line is read as its framework reads it."""

import shlex
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from corral.core.preflight.command_line import read_command


@pytest.mark.parametrize(
    ("command", "fields"),
    [
        ("vllm serve org/m-7b", {"framework": "vllm", "model": "org/m-7b", "world_size": 1}),
        (
            "vllm serve /m -tp 4 --dtype=half --max-model-len 32k --gpu-memory-utilization 0.45",
            {"model": "/m", "tensor": 4, "world_size": 4, "dtype": "half", "context": 32000, "fraction": 0.45},
        ),
        ("vllm serve --model /m --max_model_len 32K", {"model": "/m", "context": 32768}),
        (
            "python3 -m vllm.entrypoints.openai.api_server --model m -tp 2 --pipeline-parallel-size 2",
            {"framework": "vllm", "model": "m", "world_size": 4},
        ),
        ("vllm serve m -q awq --kv-cache-dtype fp8", {"quantization": "awq", "cache_dtype": "fp8"}),
        (
            "python -m sglang.launch_server --tp 2 --dp-size 2 --mem-fraction-static 0.7 --context-length 8192",
            {"framework": "sglang", "world_size": 4, "fraction": 0.7, "context": 8192},
        ),
        ("sglang serve --model-path m --tp 8 --dp 8 --enable-dp-attention", {"framework": "sglang", "world_size": 8}),
        ("sglang serve --model-path m --tp 16 --nnodes 2 --node-rank 0", {"world_size": 8}),
        ("vllm serve m -tp 8 -pp 2 --nnodes=2 --headless", {"world_size": 8}),
        ("vllm serve m -tp 16 --nnodes $WORLD_SIZE", {"tensor": 16, "world_size": None}),
        ("vllm serve m -tp 2 --nnodes 4", {"world_size": None}),
        ("vllm serve m -tp 16 --distributed-executor-backend ray", {"tensor": 16, "world_size": None}),
        ("sglang serve --model-path m --tp 8 --dp 8 --enable_dp_attention", {"world_size": 8}),
        ("vllm serve m -tp 2 -dp 2 --prefill-context-parallel-size 2", {"world_size": 8}),
        ("vllm serve m -tp 99999", {"tensor": None, "world_size": 1}),
        ("torchrun --nproc-per-node 4 train.py --bf16", {"framework": "torchrun", "world_size": 4, "dtype": "bf16"}),
        ("torchrun --nproc_per_node=8 train.py --fp16 True", {"world_size": 8, "dtype": "fp16"}),
        ("torchrun --nproc-per-node gpu train.py --bf16 False", {"world_size": None, "dtype": None}),
        ("python -m torch.distributed.run --nproc_per_node 2 t.py", {"framework": "torchrun", "world_size": 2}),
        ("python -m torch.utils.collect_env", {"framework": None}),
        ("python -m paddle.distributed.launch t.py", {"framework": "paddle"}),
        ("bash -lc 'exec vllm serve m -tp 2'", {"framework": "vllm", "world_size": 2}),
        ("env HF_HOME=/c vllm serve m", {"framework": "vllm", "model": "m"}),
        ("CUDA_LAUNCH_BLOCKING=1 /opt/v/bin/vllm serve m", {"framework": "vllm", "model": "m"}),
        ("/opt/v/bin/python /opt/v/bin/torchrun --nproc-per-node 2 t.py", {"framework": "torchrun", "world_size": 2}),
        ("python train.py --model vllm", {"framework": None, "model": None, "world_size": None}),
        ("bash -c 'unbalanced \"'", {"framework": None}),
        ("vllm serve m -tp many --gpu-memory-utilization 7", {"tensor": None, "world_size": 1, "fraction": None}),
        ("vllm serve m --dtype", {"dtype": None}),
    ],
)
def test_a_command_is_understood(command: str, fields: dict[str, Any]) -> None:
    line = read_command(shlex.split(command) if "unbalanced" not in command else ["bash", "-c", 'unbalanced "'])
    assert {name: getattr(line, name) for name in fields} == fields


@given(
    st.lists(
        st.sampled_from(["vllm", "serve", "-m", "--model", "-tp", "=", "--dtype=", "bash", "-c", "", "env", "A=B", "2"])
    )
)
def test_no_command_at_all_raises(command: list[str]) -> None:
    read_command(command)


@pytest.mark.parametrize("number", ["9" * 5000, "9" * 5000 + "k", "0", "-1", "1.5"])
def test_a_number_that_is_none_for_a_flag_is_not_known(number: str) -> None:
    line = read_command(["vllm", "serve", "m", "-tp", number, "--max-model-len", number])
    assert (line.tensor, line.context) == (None, None)
