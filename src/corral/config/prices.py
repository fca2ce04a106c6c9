"""Read the prices of a GPU-hour, by model and by the day on which they begin."""

import re
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from corral.config.groups import Key, line_of, lines_of, one, read_group
from corral.config.mistakes import Placed
from corral.config.readers import text
from corral.core.model.devices.price import MICRO, Price
from corral.core.model.errors import Refused

if TYPE_CHECKING:
    from yaml.nodes import Node, ScalarNode

MOST_PRICES = 1000
_MOST_CHARACTERS = 200
_MOST = 1_000_000
"""The highest price: a higher number is probably not meant as the price of a GPU-hour."""

_AMOUNT = re.compile(r"(\d{1,7})(?:\.(\d{1,6}))?", re.ASCII)
_DAYS = ("%Y-%m-%d", "%Y-%m-%dT%H:%M")
_EXAMPLE = "such as `- {model: H100, gpu_hour: 2.50, from: 2026-07-01}`"


def code_of_currency(node: "ScalarNode") -> str:
    """Read the currency shown after amounts, such as EUR: a word that is not used in calculations."""
    word = str(node.value)
    if not word or len(word) > 12 or not word.isprintable() or " " in word or word[0] in "=+-@" or word[0].isdigit():
        raise Refused(f"{word!r:.60} is not a currency; write a word of at most 12 characters, such as EUR")
    return word


def read_prices(path: Path, node: "Node") -> tuple[Price, ...]:
    """Read the price of a GPU-hour, or a list of prices. Raises Refused, with file and line, for an invalid price."""
    from yaml.nodes import MappingNode, ScalarNode, SequenceNode

    if isinstance(node, ScalarNode):
        return (Price(_amount(node)),)
    if not isinstance(node, SequenceNode):
        raise Refused(f"write the price of a GPU-hour, or a list of prices {_EXAMPLE}")
    if len(node.value) > MOST_PRICES:
        raise Refused(f"{len(node.value)} prices are too many; at most {MOST_PRICES} are read")
    prices: list[Price] = []
    for each in node.value:
        place = f"{path}, {line_of(each)}: prices"
        if not isinstance(each, MappingNode):
            raise Placed(f"{place}: write each price as a group, {_EXAMPLE}", field="prices")
        said = read_group(path, lines_of(each), _PRICE, "prices.").values
        if "micro" not in said:
            raise Placed(f"{place}: gpu_hour is missing; write what a GPU-hour costs, {_EXAMPLE}", field="prices")
        price = Price(**said)
        if any((price.model, price.begins_at) == (other.model, other.begins_at) for other in prices):
            raise Placed(f"{place}: there is already a price for this model from then on; remove one", field="prices")
        prices.append(price)
    return tuple(prices)


def price_in_words(price: Price) -> str:
    """A price in a few words: "2.5 for H100 from 2026-07-01T00:00"."""
    begin = (
        "" if price.begins_at is None else f" from {datetime.fromtimestamp(price.begins_at).astimezone():{_DAYS[1]}}"
    )
    return f"{price.micro / MICRO:g} for {price.model or '*'}{begin}"


def _amount(node: "ScalarNode") -> int:
    """Read an amount in millionths of the currency, digit by digit: a binary fraction would not be exact."""
    found = _AMOUNT.fullmatch(node.value)
    micro = int(found[1]) * MICRO + int((found[2] or "").ljust(6, "0")) if found else -1
    if not 0 <= micro <= _MOST * MICRO:
        raise Refused(
            f"{node.value!r:.60} is not a price; write what a GPU-hour costs as a number from 0 to {_MOST:,}, with at "
            "most six digits after the point and without the currency, such as 2.50"
        )
    return micro


def _begin(node: "ScalarNode") -> float:
    """Read midnight of a day, or a minute, in this machine's time zone; returns Unix seconds."""
    for form in _DAYS:
        try:
            return datetime.strptime(node.value, form).astimezone().timestamp()
        except (ValueError, OverflowError, OSError):
            continue
    raise Refused(f"{node.value!r:.60} is not a day; write one such as 2026-07-01, or 2026-07-01T08:00")


def _model(node: "ScalarNode") -> str | None:
    name = text(node)
    if len(name) > _MOST_CHARACTERS or not name.isprintable():
        raise Refused(f'{name!r:.60} is no model; write words of its name, such as A100-80GB, or "*" for any')
    return None if name == "*" else name


_PRICE = {
    "gpu_hour": Key("micro", one(_amount)),
    "model": Key("model", one(_model)),
    "from": Key("begins_at", one(_begin)),
}
