"""Conversion of facts to the plain data of the journal, and back."""

from collections.abc import Mapping
from typing import Any

from corral.core.model.fact import Fact, ServerPart, fact_class
from corral.wire import from_plain, to_plain


def fact_to_plain(fact: Fact) -> dict[str, Any]:
    """Compact plain data of a fact, with its class name under "fact"."""
    return {"fact": type(fact).__name__, **to_plain(fact, compact=True)}


def fact_from_plain(data: Mapping[str, Any]) -> Fact:
    """The fact that `fact_to_plain` turned into this data. Raises Refused, or KeyError for an unknown class.

    Fact classes of features are known once their slices are loaded (`corral.features.feature_list.slices`).
    Journals of format 0006 and earlier name the author of a fact only for cordons.
    """
    body = {"by": ServerPart.UNRECORDED.value, **data}
    return from_plain(fact_class(body.pop("fact")), body)
