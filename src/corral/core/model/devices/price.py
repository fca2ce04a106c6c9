"""The price of a GPU-hour."""

from dataclasses import dataclass

MICRO = 1_000_000
"""The number of `Price.micro` in one unit of the currency."""


@dataclass(frozen=True, slots=True)
class Price:
    """The price of a GPU-hour in millionths of the site's currency.

    `model` None is any model; otherwise it is matched like the model that a job requests. `begins_at` is wall-clock
    time in Unix seconds; None is always.
    """

    micro: int
    model: str | None = None
    begins_at: float | None = None
