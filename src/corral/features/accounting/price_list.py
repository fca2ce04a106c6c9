"""The price of a GPU-hour, by model of the device and by time. Pure."""

from collections.abc import Iterable
from functools import cache
from itertools import pairwise
from typing import NamedTuple

from corral.core.model.devices.model_and_profile_match import model_matches
from corral.core.model.devices.price import MICRO, Price

COST_UNIT = 1000 * 3_600_000 * MICRO
"""The units of `PriceList.cost` in one unit of the currency."""

_ALWAYS_MS = -(2**62)


class DatedPrice(NamedTuple):
    """A price, and when it begins by the ledger's clock (Unix milliseconds); None is always."""

    price: Price
    begins_ms: int | None


class PriceList:
    """The prices of a site. The latest price that has begun for a device's model counts.

    If none has begun for it, the latest price for any model counts. Of two that begin at once, the second counts.
    """

    def __init__(self, prices: Iterable[DatedPrice] = ()) -> None:
        self._prices = sorted(prices, key=_begin)
        self._of_model = cache(self._find)

    def cost(self, model: str | None, milli: int, since_ms: int, until_ms: int) -> tuple[int, int]:
        """Return the cost of `milli` of a device from one moment to another, and the number of milliseconds without a
        price.

        The cost is in millionths of the currency times milli-GPU times milliseconds: `COST_UNIT` of them are one unit
        of it.
        """
        if not self._prices:
            return 0, until_ms - since_ms
        named, of_any = self._of_model(model), self._of_model(None)
        moments = [at for at, _ in (*named, *of_any) if since_ms < at < until_ms]
        cost = unpriced_ms = 0
        for begin_ms, end_ms in pairwise(sorted({since_ms, *moments, until_ms})):
            micro = _at(named, begin_ms)
            micro = _at(of_any, begin_ms) if micro is None else micro
            if micro is None:
                unpriced_ms += end_ms - begin_ms
            else:
                cost += (end_ms - begin_ms) * milli * micro
        return cost, unpriced_ms

    def _find(self, model: str | None) -> tuple[tuple[int, int], ...]:
        """The prices that name the model, or for None those that name none: when they begin, and how much they are."""
        return tuple((_begin(dated), dated.price.micro) for dated in self._prices if _names(dated.price, model))


def _names(price: Price, model: str | None) -> bool:
    if price.model is None or model is None:
        return price.model is model
    return model_matches((price.model,), model)


def _begin(dated: DatedPrice) -> int:
    return _ALWAYS_MS if dated.begins_ms is None else dated.begins_ms


def _at(prices: tuple[tuple[int, int], ...], at_ms: int) -> int | None:
    return next((micro for begin, micro in reversed(prices) if begin <= at_ms), None)
