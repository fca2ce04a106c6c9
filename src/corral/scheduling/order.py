"""The old address of what a site's own order needs; the new one is `corral.plugins`. Removed after one release."""

import warnings
from typing import Any

from corral.scheduling.queueing import order as _order

_RENAMED = {"Standing": "OrderContext"}


def __getattr__(name: str) -> Any:
    new_name = _RENAMED.get(name, name)
    if name.startswith("_") or not hasattr(_order, new_name):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    warnings.warn(
        f"{__name__} will be removed in the next release; import {new_name} from corral.plugins",
        DeprecationWarning,
        stacklevel=2,
    )
    return getattr(_order, new_name)
