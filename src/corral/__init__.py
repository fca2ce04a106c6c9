"""Corral: a fair, full, observable pool of GPUs, with the same commands from one machine to a fleet.

>>> import corral
>>> with corral.Client() as client:          # doctest: +SKIP
...     job = client.submit(["python", "train.py"], gpus=2)
...     print(*job.logs(follow=True), sep="")
...     print(*job.logs(follow=True), sep="")

Start with `Client`.
"""

from __future__ import annotations

TYPE_CHECKING = False  # importing `typing` would slow down every command
if TYPE_CHECKING:
    from typing import Any

    from corral import gpu as gpu
    from corral.client import Client as Client
    from corral.client import JobHandle as JobHandle
    from corral.client import NoServer as NoServer
    from corral.client import UntrustedServer as UntrustedServer
    from corral.client import WaitTimedOut as WaitTimedOut
    from corral.core.model.errors import BackendFailed as BackendFailed
    from corral.core.model.errors import Conflict as Conflict
    from corral.core.model.errors import CorralError as CorralError
    from corral.core.model.errors import Forbidden as Forbidden
    from corral.core.model.errors import LedgerFailed as LedgerFailed
    from corral.core.model.errors import NotFound as NotFound
    from corral.core.model.errors import Refused as Refused

RELEASE = "0.1.0"


def _version() -> str:
    """The version that deploy/version.py has written. Read once, because `make setup` may change it under a server."""
    try:
        with open(f"{__path__[0]}/version.txt", encoding="ascii") as file:
            return file.read().strip() or RELEASE
    except OSError:
        return RELEASE


__version__ = _version()

_CLIENT = ("Client", "JobHandle", "NoServer", "UntrustedServer", "WaitTimedOut")
_ERRORS = ("BackendFailed", "Conflict", "CorralError", "Forbidden", "LedgerFailed", "NotFound", "Refused")
__all__ = [
    "BackendFailed",
    "Client",
    "Conflict",
    "CorralError",
    "Forbidden",
    "JobHandle",
    "LedgerFailed",
    "NoServer",
    "NotFound",
    "Refused",
    "UntrustedServer",
    "WaitTimedOut",
    "gpu",
]


def __getattr__(name: str) -> Any:
    """Load public names on first use, to make `import corral` cheap."""
    from importlib import import_module

    if name in _CLIENT:
        return getattr(import_module("corral.client"), name)
    if name in _ERRORS:
        return getattr(import_module("corral.core.model.errors"), name)
    if name == "gpu":
        return import_module("corral.gpu")
    raise AttributeError(f"module 'corral' has no attribute {name!r}; its public names are {', '.join(__all__)}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
