"""What a site asks for a GPU-hour."""

from dataclasses import dataclass

MICRO = 1_000_000
"""So many of `Price.micro` are one unit of the currency."""


@dataclass(frozen=True, slots=True)
class Price:
    """The price of a GPU-hour in millionths of the site's currency.

    `model` None is any model, else it is matched as a job's wish is. `begins_at` is wall-clock time, Unix seconds;
    None is always.
    """

    micro: int
    model: str | None = None
    begins_at: float | None = None
