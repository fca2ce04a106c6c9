"""Reads the fields of a pod that restrict its nodes, each into the matching value of the model.

Users write them. The callers decide what they mean for a job, a pod of others or a model service.
"""

from collections.abc import Mapping
from typing import Any

from corral.core.model.placing.placement_rules import (
    NAME_FIELD,
    LabelExpression,
    Operator,
    Selector,
    TaintEffect,
    Toleration,
)
from corral.engines.kubernetes.cluster.objects import sequence

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
"""The two kinds of terms of an affinity."""

_EFFECTS = {effect.value: effect for effect in TaintEffect}
_OPERATORS = {operator.value: operator for operator in Operator}


class NotUnderstood(ValueError):
    """The written value has no counterpart in the model. The message names it, as in "the operator 'Newer'"."""


def read_toleration(written: Mapping[str, Any]) -> Toleration:
    """Read one of `tolerations`. Raises NotUnderstood."""
    operator, effect = written.get("operator") or "Equal", written.get("effect") or None
    key, value = written.get("key") or "", written.get("value") or ""
    if operator not in ("Equal", "Exists"):
        raise NotUnderstood(f"the operator {operator!r:.40}")
    if not (isinstance(key, str) and isinstance(value, str)):
        raise NotUnderstood("a key or a value that is no text")
    if not key and operator != "Exists":
        raise NotUnderstood("a toleration without a key, except with the operator Exists")
    if effect is not None and not (isinstance(effect, str) and effect in _EFFECTS):
        raise NotUnderstood(f"the effect {effect!r:.40}")
    return Toleration(key, None if operator == "Exists" else value, None if effect is None else _EFFECTS[effect])


def read_expression(written: Mapping[str, Any]) -> LabelExpression:
    """Read one of `matchExpressions` or `matchFields`. Raises NotUnderstood."""
    operator, values = written.get("operator"), written.get("values")
    if not (isinstance(operator, str) and operator in _OPERATORS):
        raise NotUnderstood(f"the operator {operator!r:.40}")
    listed = tuple(str(value) for value in values) if isinstance(values, list) else ()
    return LabelExpression(str(written.get("key") or ""), _OPERATORS[operator], listed)


def read_node_term(term: Mapping[str, Any]) -> Selector:
    """Read a term of node affinity; () for an empty term, which matches no node. Raises NotUnderstood."""
    fields = tuple(map(read_expression, sequence(term.get("matchFields"))))
    for one in fields:
        if one.key != NAME_FIELD:
            raise NotUnderstood(f"the field {one.key!r:.60} in matchFields")
    return (*map(read_expression, sequence(term.get("matchExpressions"))), *fields)
