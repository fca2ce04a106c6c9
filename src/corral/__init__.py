"""Corral: a fair, full, observable pool of GPUs, with the same commands from one machine to a fleet.

>>> import corral
>>> with corral.Client() as client:          # doctest: +SKIP
...     job = client.submit(["python", "train.py"], gpus=2)
...     client.wait(job.id)
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from corral import gpu as gpu
    from corral.client import Client as Client

__version__ = "0.1.0"
__all__ = ["Client", "gpu"]


def __getattr__(name: str) -> Any:
    """Load the public face on first use, so that `import corral` costs nothing."""
    if name == "Client":
        from corral.client import Client

        return Client
    if name == "gpu":
        import importlib

        return importlib.import_module("corral.gpu")
    raise AttributeError(f"module 'corral' has no attribute {name!r}; its public names are {', '.join(__all__)}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
