"""Facts to the plain data of the journal, and back."""

from collections.abc import Mapping
from typing import Any

from corral.model.fact import (
    AllocationEnded,
    AllocationMade,
    DeviceCordoned,
    DeviceUncordoned,
    Fact,
    JobChanged,
    JobRequeued,
    JobSubmitted,
)
from corral.model.job import Job
from corral.wire import from_plain, some_from_plain, to_plain

_FACTS: dict[str, type[Any]] = {
    cls.__name__: cls
    for cls in (
        JobSubmitted,
        JobChanged,
        JobRequeued,
        AllocationMade,
        AllocationEnded,
        DeviceCordoned,
        DeviceUncordoned,
    )
}


def fact_to_plain(fact: Fact) -> dict[str, Any]:
    """Compact plain data of a fact, with its class name under "fact"."""
    return {"fact": type(fact).__name__, **to_plain(fact, compact=True)}


def fact_from_plain(data: Mapping[str, Any]) -> Fact:
    """The fact that `fact_to_plain` made the data of. Raises Refused, or KeyError when there is no such fact."""
    body = {key: value for key, value in data.items() if key != "fact"}
    cls = _FACTS[data["fact"]]
    if cls is JobChanged:
        return JobChanged(**{**body, "changes": some_from_plain(Job, body["changes"])})
    fact: Fact = from_plain(cls, body)
    return fact
