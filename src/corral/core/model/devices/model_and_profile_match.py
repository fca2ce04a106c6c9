"""Tests whether a device is of a requested model, and a slice of a requested profile."""

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


def profile_matches(wanted: str, profile: str) -> bool:
    """Whether a slice of `profile` matches the request: by its name ("1g.10gb") or its memory ("10g", "10gb")."""
    name = profile.lower()
    memory = name.partition(".")[2].partition("+")[0]
    return wanted.lower() in {name, memory, memory.removesuffix("b")} - {""}


def _words(name: str) -> frozenset[str]:
    return frozenset(name.lower().replace("-", " ").replace("_", " ").split())
