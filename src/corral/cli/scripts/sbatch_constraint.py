"""Translate --constraint of sbatch(1) into GPU models and labels of nodes.

In Slurm, one word names a feature of nodes. Here the word is a part of a GPU model, or a label of a node by its key or
its value. The site's data decide which.
"""

import re

from corral.cli.scripts.sbatch_said import Said
from corral.cli.site.site import Site
from corral.core.model.devices.model_and_profile_match import model_matches
from corral.core.model.errors import Refused

_WORD = re.compile(r"[\w.-]+(?:=[\w.-]+)?")
_TRUE = ("true", "yes", "1", "on")
_MOST_SHOWN = 8


def constraint_flags(one: Said, model: str | None, site: Site) -> list[str]:
    """Flags for a constraint: alternative models, and labels. `model` is the model that another option asks for.

    As in sbatch, & and | are read from left to right. Raises Refused for an unsupported constraint, with the supported
    forms.
    """
    bare = re.sub(r"^\[([^\[\]]*)\]", r"\1", (one.value or "").replace(" ", ""))
    parts = re.split(r"([&|])", bare)
    models: list[list[str]] = [[]]
    labels: list[str] = []
    words_of_models: list[str] = []
    for joint, word in zip(["&", *parts[1::2]], parts[::2], strict=True):
        if not _WORD.fullmatch(word):
            raise Refused(
                f"{one.where}: {one.value!r} is not supported; write GPU models and labels, such as a100|h100 or "
                "a100&zone=b"
            )
        label = _label(word, one, site)
        if joint == "|" and (label is not None or labels):
            raise Refused(
                f"{one.where}: {label or labels[-1]} is a label of nodes, and labels cannot be alternatives; write & "
                f"instead of |, or #CORRAL --prefer {label or labels[-1]} to have such nodes first"
            )
        if label is not None:
            labels.append(label)
            continue
        words_of_models.append(word)
        if joint == "|":
            models.append([word])
        else:
            models = [[*words, word] for words in models]
    if model is not None:
        models = [[model, *words] for words in models]
    named = ["-".join(words) for words in models if words]
    if site.models and named and not any(model_matches(tuple(named), here) for here in site.models):
        _refuse_unknown(words_of_models, one, site)
    flags = ["--gpu-model", ",".join(named)] if named else []
    return [*flags, *(word for label in labels for word in ("--label", label))]


def _label(word: str, one: Said, site: Site) -> str | None:
    """The label that a word means. None if the word belongs to a GPU model, or to nothing here."""
    if "=" in word:
        return word
    if not site.models or any(model_matches((word,), model) for model in site.models):
        return None
    lowered = word.lower()
    found = sorted(
        f"{key}={value}"
        for key, value in site.labels
        if (key.lower() == lowered and value.lower() in _TRUE) or value.lower() == lowered
    )
    if len(found) == 1:
        return found[0]
    if found:
        raise Refused(f"{one.where}: {word!r} may mean several labels of nodes; write one of {', '.join(found)}")
    return None


def _refuse_unknown(words: list[str], one: Said, site: Site) -> None:
    """Raises Refused for the first unknown word. If all words are known, no GPU here matches them together."""
    known = sorted(f"{key}={value}" for key, value in site.labels)
    labels = f"of {', '.join(known[:_MOST_SHOWN])}" if known else "(no node here has any)"
    for word in words:
        if not any(model_matches((word,), model) for model in site.models):
            raise Refused(
                f"{one.where}: {word!r} is neither a word of a GPU model nor a label here; write one of the models "
                f"{', '.join(site.models[:_MOST_SHOWN])}, or a label {labels}"
            )
