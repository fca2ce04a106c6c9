"""A sweep over parameters: an array with a job for each combination of their values.

The texts of a submission (command, name, files, directory) name a parameter as {NAME}, and each job gets its own value
there. `${NAME}`, `{{NAME}}`, and braces around anything else stay as they are.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from itertools import product
from math import prod
from typing import Annotated

from corral.core.model.field import SUBMIT, Field, JobOption
from corral.core.model.jobs.array_indices import MAX_ARRAY_SIZE

Params = tuple[tuple[str, str], ...]
"""The name and the value of each parameter of one job, in the given order."""


@dataclass(frozen=True, slots=True)
class Sweep:
    """The values of each parameter by its name.

    Attributes:
        params: every combination is a job; the values of the last parameter change fastest.
        zipped: in place of that, the first values of all make a job, the second values another, and so on.
        limit: how many of the jobs run at a time, None is no limit.
    """

    params: Mapping[str, tuple[str, ...]]
    zipped: Annotated[bool, JobOption(name="zip", on=SUBMIT, own=True)] = False
    """Pair the values of --param, not combine them.

    In Python: pair the values of `params` instead, the first of all, the second of all, and so on.
    """

    limit: Annotated[
        int | None, Field(least=1, most=MAX_ARRAY_SIZE, hint="how many of its jobs run at a time", called="max_running")
    ] = None

    @property
    def size(self) -> int:
        """The number of its jobs."""
        counts = [len(values) for values in self.params.values()]
        return min(counts, default=0) if self.zipped else prod(counts)

    def elements(self) -> Iterator[Params]:
        """The parameters of each job, in order."""
        # Each pair is made once, and all jobs with this value share it.
        pairs = [[(name, value) for value in values] for name, values in self.params.items()]
        return zip(*pairs, strict=False) if self.zipped else product(*pairs)


def with_values(text: str, params: Params) -> str:
    """`text` with the value of each parameter in place of its {NAME}. What a value contains is not replaced again."""
    if "{" not in text or not params:
        return text
    values = dict(params)
    return _placeholder(tuple(values)).sub(lambda found: values[found[1]], text)


def with_values_in_pattern(pattern: str, params: Params) -> str:
    """The pattern of an output file with the parameters replaced, as by `with_values`. A percent sign in a value is no
    placeholder.
    """
    return with_values(pattern, tuple((name, value.replace("%", "%%")) for name, value in params))


@lru_cache(maxsize=64)
def _placeholder(names: tuple[str, ...]) -> re.Pattern[str]:
    return re.compile(rf"(?<![${{])\{{({'|'.join(map(re.escape, names))})\}}")
