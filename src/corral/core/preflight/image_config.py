"""Read the configuration of an image, which is untrusted text of whoever built it. Pure.

Docker and registries show the same form: the `config` of the OCI image specification.
"""

from collections.abc import Iterator, Sequence

from corral.core.model.printable import printable
from corral.core.ports.images import ImageFacts
from corral.vendors.registry import vendors

MOST_ENTRIES = 1000
"""The most variables, and the most labels, that are looked through."""
MOST_CHARACTERS = 16 * 1024
"""The most characters of a value. Conditions on drivers have up to 3,000."""
MOST_WORDS, MOST_WORD_CHARACTERS = 64, 4096


def image_facts(config: object) -> ImageFacts:
    """Return the facts in an image's `config`. What is too long or makes no sense counts as absent."""
    read = config if isinstance(config, dict) else {}
    names = [vendor.preflight.image for vendor in vendors().values() if vendor.preflight.image is not None]
    variables = {name for one in names for name in one.variables}
    labels = {name for one in names for name in one.labels}
    return ImageFacts(
        {name: value for name, value in _variables(read.get("Env")) if name in variables},
        {name: value for name, value in _labels(read.get("Labels")) if name in labels},
        _words(read.get("Entrypoint")),
        _words(read.get("Cmd")),
    )


def _variables(written: object) -> Iterator[tuple[str, str]]:
    for line in written[:MOST_ENTRIES] if isinstance(written, list) else ():
        name, equals, value = line.partition("=") if isinstance(line, str) else ("", "", "")
        if equals and _is_plain(value):
            yield name, value


def _labels(written: object) -> Iterator[tuple[str, str]]:
    for name, value in list(written.items())[:MOST_ENTRIES] if isinstance(written, dict) else ():
        if isinstance(value, str) and _is_plain(value):
            yield str(name), value


def _is_plain(value: str) -> bool:
    return len(value) <= MOST_CHARACTERS and printable(value) == value


def _words(written: object) -> tuple[str, ...]:
    words: Sequence[object] = written if isinstance(written, list) else ()
    if len(words) > MOST_WORDS or not all(isinstance(one, str) and len(one) <= MOST_WORD_CHARACTERS for one in words):
        return ()
    return tuple(str(word) for word in words)
