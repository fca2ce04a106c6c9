"""A tokenizer that needs no hub: every word of the text is a token."""

import json
from collections.abc import Iterable
from pathlib import Path

UNKNOWN = "[UNK]"


def write_tokenizer(directory: Path, words: Iterable[str] = ("the", "of", "and", "to")) -> Path:
    """Write one that splits at blanks and marks; words that it does not know are one token each, too."""
    directory.mkdir(parents=True, exist_ok=True)
    vocabulary = {word: number for number, word in enumerate((UNKNOWN, *words))}
    tokenizer = {
        "version": "1.0",
        "added_tokens": [],
        "pre_tokenizer": {"type": "Whitespace"},
        "model": {"type": "WordLevel", "vocab": vocabulary, "unk_token": UNKNOWN},
    }
    (directory / "tokenizer.json").write_text(json.dumps(tokenizer))
    settings = {"tokenizer_class": "PreTrainedTokenizerFast", "unk_token": UNKNOWN}
    (directory / "tokenizer_config.json").write_text(json.dumps(settings))
    return directory
