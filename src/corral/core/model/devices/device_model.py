"""A test whether a device is of a requested model."""

from functools import lru_cache


@lru_cache(maxsize=4096)
def model_matches(wanted: tuple[str, ...], model: str) -> bool:
    """Whether the device model matches one of those wanted: all words of "A100-80GB" must be in the model's name.

    Words are split at spaces, hyphens and underscores, and compared without case. "A100" matches "NVIDIA
    A100-SXM4-80GB", and never "NVIDIA A1000". With () every model matches.
    """
    if not wanted:
        return True
    words = _words(model)
    return any(_words(wish) <= words for wish in wanted)


def _words(name: str) -> frozenset[str]:
    return frozenset(name.lower().replace("-", " ").replace("_", " ").split())
