"""Parses genai-bench's traffic scenarios with text in and text out. Pure."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from random import Random

from corral.core.model.errors import Refused

_PAIR = r"\(\s*(\d+(?:\.\d+)?)\s*,\s*(\d+(?:\.\d+)?)\s*\)"
_FORMS = {
    "D": re.compile(rf"D{_PAIR}"),
    "N": re.compile(rf"N{_PAIR}\s*/\s*{_PAIR}"),
    "U": re.compile(rf"U{_PAIR}\s*/\s*{_PAIR}"),
}
MOST_TOKENS = 1_000_000


@dataclass(frozen=True, slots=True)
class RequestSize:
    """The tokens of one request: of its prompt, and the requested output."""

    prompt_tokens: int
    output_tokens: int


def read_scenario(scenario: str) -> Callable[[Random], RequestSize]:
    """Return a function that draws the sizes of requests.

    "D(100,200)" is constant. "N(480,240)/(300,150)" is normal, with mean and standard deviation of prompt and output.
    "U(50,100)/(200,250)" is uniform between the bounds. Raises Refused for others.
    """
    for kind, form in _FORMS.items():
        if (found := form.fullmatch(scenario.strip())) is not None:
            numbers = [float(one) for one in found.groups()]
            return _drawing(kind, numbers)
    raise Refused(
        f"benchmark.traffic_scenarios: {scenario!r:.60} cannot be generated here; "
        "write D(prompt,output), N(mean,deviation)/(mean,deviation) or U(least,most)/(least,most)",
        field="benchmark.traffic_scenarios",
    )


def _drawing(kind: str, numbers: list[float]) -> Callable[[Random], RequestSize]:
    if kind == "D":
        size = RequestSize(_tokens(numbers[0]), _tokens(numbers[1]))
        return lambda random: size
    a, b, c, d = numbers
    if kind == "N":
        return lambda random: RequestSize(_tokens(random.gauss(a, b)), _tokens(random.gauss(c, d)))
    return lambda random: RequestSize(_tokens(random.uniform(a, b)), _tokens(random.uniform(c, d)))


def _tokens(value: float) -> int:
    return min(max(1, round(value)), MOST_TOKENS)
