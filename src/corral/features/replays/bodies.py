"""The JSON body of a request for a replay."""

from dataclasses import dataclass
from typing import Annotated

from corral.core.model.field import Field


@dataclass(frozen=True, slots=True)
class NewReplay:
    """The jobs to run again, those of a period (Unix seconds; by default the last week), under one policy or several.

    A policy is POLICY or POLICY/BACKFILL, such as sjf or fcfs/none, or "configured": each queue under its own.
    """

    policies: Annotated[tuple[str, ...], Field(shortest=1)]
    since: int | None = None
    until: int | None = None
