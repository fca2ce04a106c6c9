"""The facts of families of models that their configs leave out, as the classes of Transformers have them."""

from collections.abc import Mapping
from typing import Any

UNGATED = frozenset(
    {
        *("arcee", "bert", "bloom", "codegen", "electra", "falcon", "gpt2", "gpt_bigcode", "gpt_neo", "gpt_neox"),
        *("gptj", "mpnet", "mpt", "nemotron", "opt", "persimmon", "phi", "roberta", "starcoder2", "xglm"),
        "xlm-roberta",
    }
)
"""The families whose feed-forward layers have two matrices. Those of other families have a gate, and three."""

TIED = frozenset(
    {
        *("bert", "bloom", "cohere", "cohere2", "electra", "gemma", "gemma2", "gemma3", "gemma3_text", "gpt2"),
        *("gpt_bigcode", "gpt_neo", "mpnet", "mpt", "opt", "roberta", "smollm3", "starcoder2", "xglm", "xlm-roberta"),
    }
)
"""The families that use one matrix for input and output, unless their config says otherwise.

Falcon's files have both matrices, though one is used.
"""


_SIZES = (
    *("hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads", "num_key_value_heads"),
    "vocab_size",
)


def sizes(*values: int, **more: Any) -> Mapping[str, Any]:
    """The entries of a config for hidden, intermediate, layers, heads, heads of keys, and vocabulary."""
    return {**dict(zip(_SIZES, values, strict=True)), **more}


DEFAULTS: Mapping[str, Mapping[str, Any]] = {
    "gemma": sizes(3072, 24576, 28, 16, 16, 256000, head_dim=256),
    "gemma2": sizes(2304, 9216, 26, 8, 4, 256000, head_dim=256, sliding_window=4096),
    "gemma3_text": sizes(2304, 9216, 26, 8, 4, 262208, head_dim=256, sliding_window=4096),
    "llama": sizes(4096, 11008, 32, 32, 32, 32000),
    "llama4_text": sizes(
        5120, 8192, 48, 40, 8, 202048, head_dim=128, intermediate_size_mlp=16384, num_local_experts=16
    ),
    "mistral": sizes(4096, 14336, 32, 32, 8, 32000),
    "mixtral": sizes(4096, 14336, 32, 32, 8, 32000, num_local_experts=8),
    "mllama_text_model": sizes(4096, 14336, 40, 32, 8, 128256),
    "phi3": sizes(3072, 8192, 32, 32, 32, 32064),
    "qwen2": sizes(4096, 22016, 32, 32, 32, 151936),
    "qwen3": sizes(4096, 22016, 32, 32, 32, 151936, head_dim=128),
}
"""The fields that the text part of a config may leave out. Whole configs have all fields that are needed here."""
