"""The published sizes of models with what counts of their published configs.

Sizes in bytes are those that the index of a model's weight files states (`total_size`), or else the published number of
its weights at two bytes, or the size of its files in GB.
"""

from typing import Any, NamedTuple


class Published(NamedTuple):
    """A model's name, its weights in bytes and where that figure is from, and its config."""

    name: str
    weight_bytes: int
    source: str
    config: dict[str, Any]


INDEX, COUNT, FILES = "the index of its files", "the number of its weights, at two bytes", "the size of its files"
AWQ: dict[str, Any] = {"quantization_config": {"quant_method": "awq", "bits": 4, "group_size": 128, "zero_point": True}}
MXFP4: dict[str, Any] = {
    "quantization_config": {
        "quant_method": "mxfp4",
        "modules_to_not_convert": [
            *("model.layers.*.self_attn", "model.layers.*.mlp.router", "model.embed_tokens", "lm_head"),
        ],
    }
}


def sized(family: str, *sizes: int | tuple[int, int], **more: Any) -> dict[str, Any]:
    """The config with these sizes: hidden, intermediate, layers, heads of queries and of keys, vocabulary."""
    hidden, intermediate, layers, heads, vocab = sizes
    assert isinstance(heads, tuple)
    return {
        "model_type": family,
        "hidden_size": hidden,
        "intermediate_size": intermediate,
        "num_hidden_layers": layers,
        "num_attention_heads": heads[0],
        "num_key_value_heads": heads[1],
        "vocab_size": vocab,
        "torch_dtype": "bfloat16",
        **more,
    }


PUBLISHED = (
    Published(
        "meta-llama/Llama-3.1-8B-Instruct",
        16_060_522_496,
        INDEX,
        sized("llama", 4096, 14336, 32, (32, 8), 128256, tie_word_embeddings=False, max_position_embeddings=131072),
    ),
    Published("meta-llama/Meta-Llama-3-70B", 141_107_412_992, INDEX, sized("llama", 8192, 28672, 80, (64, 8), 128256)),
    Published("meta-llama/Llama-3.1-405B", 811_706_777_600, COUNT, sized("llama", 16384, 53248, 126, (128, 8), 128256)),
    Published(
        "meta-llama/Llama-3.1-405B-Instruct-FP8",
        487_100_000_000,
        "its published recipe: the feed-forward layers, without the first and the last, in 8 bits, and all else in 16",
        sized(
            *("llama", 16384, 53248, 126, (128, 8), 128256),
            quantization_config={
                "quant_method": "fbgemm_fp8",
                "modules_to_not_convert": [
                    *(f"model.layers.{layer}.self_attn.{part}_proj" for layer in range(126) for part in "qkvo"),
                    *(f"model.layers.{layer}.mlp.{part}_proj" for layer in (0, 125) for part in ("up", "gate", "down")),
                ],
            },
        ),
    ),
    Published(
        "nvidia/Llama-3.1-405B-Instruct-FP8",
        410_100_000_000,
        "half of what it has in 16 bits, without the tables of tokens",
        sized(
            *("llama", 16384, 53248, 126, (128, 8), 128256),
            quantization_config={"quant_method": "modelopt", "quant_algo": "FP8", "exclude_modules": ["lm_head"]},
        ),
    ),
    Published(
        "meta-llama/Llama-3.2-3B",
        6_425_499_648,
        COUNT,
        sized("llama", 3072, 8192, 28, (24, 8), 128256, head_dim=128, tie_word_embeddings=True),
    ),
    Published(
        "hugging-quants/Meta-Llama-3.1-70B-Instruct-AWQ-INT4",
        39_770_000_000,
        FILES,
        sized("llama", 8192, 28672, 80, (64, 8), 128256, **AWQ),
    ),
    Published(
        "meta-llama/Llama-3.2-11B-Vision-Instruct",
        21_340_441_670,
        COUNT,
        {
            "model_type": "mllama",
            "text_config": sized("mllama_text_model", 4096, 14336, 40, (32, 8), 128256, cross_attention_layers=[3, 8]),
            "vision_config": {
                "model_type": "mllama_vision_model",
                "hidden_size": 1280,
                "intermediate_size": 5120,
                "num_hidden_layers": 32,
                "num_global_layers": 8,
                "vision_output_dim": 7680,
                "image_size": 560,
                "patch_size": 14,
            },
        },
    ),
    Published(
        "meta-llama/Llama-4-Scout-17B-16E-Instruct",
        217_283_587_072,
        COUNT,
        {
            "model_type": "llama4",
            "text_config": sized(
                "llama4_text",
                5120,
                8192,
                48,
                (40, 8),
                202048,
                head_dim=128,
                intermediate_size_mlp=16384,
                num_local_experts=16,
                interleave_moe_layer_step=1,
                attention_chunk_size=8192,
            ),
            "vision_config": {
                "model_type": "llama4_vision_model",
                "hidden_size": 1408,
                "intermediate_size": 5632,
                "num_hidden_layers": 34,
                "vision_output_dim": 4096,
                "image_size": 336,
                "patch_size": 14,
            },
        },
    ),
    Published(
        "mistralai/Mistral-7B-v0.1",
        14_483_464_192,
        INDEX,
        sized("mistral", 4096, 14336, 32, (32, 8), 32000, sliding_window=4096),
    ),
    Published(
        "mistralai/Mixtral-8x7B-Instruct-v0.1",
        93_405_585_408,
        INDEX,
        sized("mixtral", 4096, 14336, 32, (32, 8), 32000, num_local_experts=8),
    ),
    Published(
        "mistralai/Mixtral-8x22B-v0.1",
        281_241_268_224,
        COUNT,
        sized("mixtral", 6144, 16384, 56, (48, 8), 32000, num_local_experts=8),
    ),
    Published(
        "Qwen/Qwen2.5-7B-Instruct",
        15_231_233_024,
        INDEX,
        sized("qwen2", 3584, 18944, 28, (28, 4), 152064, use_sliding_window=False, sliding_window=131072),
    ),
    Published(
        "Qwen/Qwen2.5-72B-Instruct-AWQ", 41_600_000_000, FILES, sized("qwen2", 8192, 29696, 80, (64, 8), 152064, **AWQ)
    ),
    Published(
        "Qwen/Qwen2.5-VL-7B-Instruct",
        16_584_333_312,
        INDEX,
        sized(
            *("qwen2_5_vl", 3584, 18944, 28, (28, 4), 152064),
            vision_start_token_id=151652,
            vision_config={
                "depth": 32,
                "hidden_act": "silu",
                "hidden_size": 1280,
                "intermediate_size": 3420,
                "out_hidden_size": 3584,
                "patch_size": 14,
                "spatial_merge_size": 2,
            },
        ),
    ),
    Published(
        "Qwen/Qwen3-30B-A3B",
        61_064_245_248,
        INDEX,
        sized(
            *("qwen3_moe", 2048, 6144, 48, (32, 4), 151936),
            head_dim=128,
            num_experts=128,
            moe_intermediate_size=768,
            decoder_sparse_step=1,
            mlp_only_layers=[],
        ),
    ),
    Published(
        "deepseek-ai/DeepSeek-V3",
        688_586_727_753,
        INDEX,
        sized(
            *("deepseek_v3", 7168, 18432, 61, (128, 128), 129280),
            n_routed_experts=256,
            n_shared_experts=1,
            moe_intermediate_size=2048,
            first_k_dense_replace=3,
            moe_layer_freq=1,
            q_lora_rank=1536,
            kv_lora_rank=512,
            qk_nope_head_dim=128,
            qk_rope_head_dim=64,
            v_head_dim=128,
            num_nextn_predict_layers=1,
            quantization_config={"quant_method": "fp8", "weight_block_size": [128, 128]},
        ),
    ),
    Published(
        "nvidia/DeepSeek-R1-NVFP4",
        423_700_000_000,
        "the number of its stored values, two of four bits being one",
        sized(
            *("deepseek_v3", 7168, 18432, 61, (128, 128), 129280),
            n_routed_experts=256,
            n_shared_experts=1,
            moe_intermediate_size=2048,
            first_k_dense_replace=3,
            moe_layer_freq=1,
            q_lora_rank=1536,
            kv_lora_rank=512,
            qk_nope_head_dim=128,
            qk_rope_head_dim=64,
            v_head_dim=128,
            num_nextn_predict_layers=1,
            quantization_config={
                "quant_method": "modelopt",
                "quant_algo": "NVFP4",
                "ignore": ["lm_head", *(f"model.layers.{layer}.self_attn*" for layer in range(61)), "model.layers.61*"],
            },
        ),
    ),
    Published(
        "deepseek-ai/DeepSeek-V2-Lite-Chat",
        31_412_968_448,
        INDEX,
        sized(
            *("deepseek_v2", 2048, 10944, 27, (16, 16), 102400),
            n_routed_experts=64,
            n_shared_experts=2,
            moe_intermediate_size=1408,
            first_k_dense_replace=1,
            moe_layer_freq=1,
            q_lora_rank=None,
            kv_lora_rank=512,
            qk_nope_head_dim=128,
            qk_rope_head_dim=64,
            v_head_dim=128,
        ),
    ),
    Published(
        "openai/gpt-oss-20b",
        13_761_264_768,
        INDEX,
        sized(
            *("gpt_oss", 2880, 2880, 24, (64, 8), 201088),
            head_dim=64,
            num_local_experts=32,
            sliding_window=128,
            layer_types=["sliding_attention", "full_attention"] * 12,
            **MXFP4,
        ),
    ),
    Published(
        "openai/gpt-oss-120b",
        65_248_815_744,
        INDEX,
        sized("gpt_oss", 2880, 2880, 36, (64, 8), 201088, head_dim=64, num_local_experts=128, **MXFP4),
    ),
    Published(
        "google/gemma-2-9b-it",
        18_483_411_968,
        INDEX,
        sized("gemma2", 3584, 14336, 42, (16, 8), 256000, head_dim=256, sliding_window=4096),
    ),
    Published(
        "google/gemma-3-27b-it",
        54_864_813_280,
        COUNT,
        {
            "model_type": "gemma3",
            "torch_dtype": "bfloat16",
            # The vocabulary is left out there.
            "text_config": {
                "model_type": "gemma3_text",
                "hidden_size": 5376,
                "intermediate_size": 21504,
                "num_hidden_layers": 62,
                "num_attention_heads": 32,
                "num_key_value_heads": 16,
                "head_dim": 128,
                "sliding_window": 1024,
            },
            "vision_config": {
                "model_type": "siglip_vision_model",
                "hidden_size": 1152,
                "intermediate_size": 4304,
                "num_hidden_layers": 27,
                "image_size": 896,
                "patch_size": 14,
            },
        },
    ),
    Published("microsoft/phi-4", 29_319_014_400, INDEX, sized("phi3", 5120, 17920, 40, (40, 10), 100352)),
    Published(
        "CohereForAI/c4ai-command-r-plus", 207_621_349_376, COUNT, sized("cohere", 12288, 33792, 64, (96, 8), 256000)
    ),
)
