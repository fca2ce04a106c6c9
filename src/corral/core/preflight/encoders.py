"""Counts the weights of encoders for images and sound, from the parts of a config for them."""

from collections.abc import Mapping

from corral.core.preflight.plain_config import PlainConfig, number_in, numbers_in

_PARTS = ("vision_config", "audio_config", "visual")
_ELSEWHERE = ("mm_vision_tower", "vision_tower", "mm_audio_tower")
"""Keys that name another model, whose config is not here."""
_GATED = ("qwen2_5_vl", "qwen2_5_omni_vision_encoder", "pixtral")
_DEFAULTS: Mapping[str, tuple[int, int, int]] = {
    # hidden, intermediate, layers
    "clip_vision_model": (768, 3072, 12),
    "pixtral": (1024, 4096, 24),
    "siglip_vision_model": (768, 3072, 12),
}


def encoder_weights(config: PlainConfig, hidden: int) -> int | str:
    """The weights of all encoders, with their projections into `hidden`; or a sentence why they cannot be counted."""
    elsewhere = next((name for name in _ELSEWHERE if isinstance(config.get(name), str)), None)
    if elsewhere is not None and not isinstance(config.get("vision_config"), dict):
        return f"its {elsewhere} is another model, whose weights are not counted here"
    total = 0
    for holder in (config, config.get("thinker_config")):
        for name in _PARTS if isinstance(holder, dict) else ():
            part = holder.get(name) if isinstance(holder, dict) else None
            if not isinstance(part, dict):
                continue
            weights = _encoder(part, hidden)
            if weights is None:
                return f"its {name} has no size that is known here"
            total += weights
    return total


def _encoder(part: PlainConfig, text_hidden: int) -> int | None:
    family = str(part.get("model_type", ""))
    usual_hidden, usual_intermediate, usual_layers = _DEFAULTS.get(family, (0, 0, 0))
    # Where both are there, hidden_size is the width of the output.
    hidden = number_in(part, "embed_dim", "hidden_size", "d_model", "width") or usual_hidden
    layers = number_in(part, "depth", "num_hidden_layers", "encoder_layers", "layers") or usual_layers
    if not hidden or not layers:
        return None
    ratio = part.get("mlp_ratio")
    wide = int(hidden * ratio) if isinstance(ratio, int | float) and 0 < ratio < 100 else 4 * hidden
    intermediate = number_in(part, "intermediate_size", "encoder_ffn_dim") or usual_intermediate or wide
    blocks = layers + (number_in(part, "num_global_layers") or 0)
    matrices = 3 if family in _GATED or part.get("hidden_act") == "silu" else 2
    return blocks * (4 * hidden**2 + matrices * hidden * intermediate) + _ends(part, hidden, text_hidden)


def _ends(part: PlainConfig, hidden: int, text_hidden: int) -> int:
    """The embedding of patches and their positions, and a projection of two layers from merged patches."""
    patch, image = number_in(part, "patch_size") or 14, number_in(part, "image_size") or 448
    patches = min((image // patch) ** 2 + 1, 16_384)
    merged = hidden * (number_in(part, "spatial_merge_size") or 2) ** 2
    wide = number_in(part, "vision_output_dim") or merged
    projections = 1 + len(numbers_in(part, "deepstack_visual_indexes") or ())
    projection = merged**2 + wide * text_hidden + text_hidden**2
    return hidden * (3 * 2 * patch**2 + patches) + projections * projection
