"""CUDA by what an image says: the variables and labels of NVIDIA's images, and the condition on the driver.

Sources: the documentation of NVIDIA's container toolkit on `NVIDIA_REQUIRE_*` constraints, and the Dockerfiles of
NVIDIA's CUDA images.
"""

import operator
import re
from collections.abc import Callable, Mapping

from corral.core.model.version import version_of, version_tuple
from corral.core.ports.preflight import Place
from corral.vendors.nvidia.compatibility import cuda_of_driver
from corral.vendors.vendor import ImageNames, ImageSays

REQUIRE, DISABLE = "NVIDIA_REQUIRE_CUDA", "NVIDIA_DISABLE_REQUIRE"
VERSION, LABEL = "CUDA_VERSION", "com.nvidia.cuda.version"
_TRUE = ("1", "true", "yes", "on", "t", "y")
_MOST_ALTERNATIVES = 500

_CONSTRAINT = re.compile(r"(cuda|driver|arch|brand)(<=|>=|!=|<|>|=)([A-Za-z0-9.]{1,40})", re.ASCII)
_COMPARISONS: Mapping[str, Callable[[tuple[int, ...], tuple[int, ...]], bool]] = {
    "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge, "=": operator.eq, "!=": operator.ne,
}  # fmt: skip


def _read(variables: Mapping[str, str], labels: Mapping[str, str]) -> ImageSays:
    runtime = version_of(variables.get(VERSION, "")) or version_of(labels.get(LABEL, ""))
    if variables.get(DISABLE, "").lower() in _TRUE:
        return ImageSays(runtime)
    return ImageSays(runtime, variables.get(REQUIRE) or None)


IMAGE = ImageNames((REQUIRE, VERSION, DISABLE), (LABEL,), _read)


def may_hold(condition: str, place: Place) -> bool:
    """Return whether the condition may hold at the place: alternatives with blanks between them, of each of which all
    constraints, with commas between them, must hold. What is unknown may hold.

    `driver>=535` holds for 535.129, and `driver<536` does not for 536.25.
    """
    alternatives = condition.split()[:_MOST_ALTERNATIVES]
    return not alternatives or any(
        all(_constraint_may_hold(one, place) for one in alternative.split(",")) for alternative in alternatives
    )


def _constraint_may_hold(constraint: str, place: Place) -> bool:
    found = _CONSTRAINT.fullmatch(constraint)
    if found is None:
        return True
    name, comparison, value = found.groups()
    driver = version_tuple(place.driver)
    cuda = place.cuda or (cuda_of_driver(place.driver) if place.driver else None)
    here = {"cuda": cuda, "driver": driver, "arch": place.compute}.get(name)
    wanted = version_tuple(value)
    if here is None or wanted is None:
        return True
    as_long = (*here, *(0,) * len(wanted))[: len(wanted)]
    return _COMPARISONS[comparison](as_long, wanted)
