"""The calls of a node agent, derived from the Protocols of its parts in `corral.core.ports.node`.

A call is known by the names of its part and its method, as `launches.stop`.
"""

import inspect
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, get_type_hints

from corral.core.model.errors import Refused
from corral.core.ports.node import (
    AccountChecks,
    HostAccess,
    InnerCommands,
    Inputs,
    Installation,
    Launches,
    Logs,
    NodeNews,
    Trees,
)
from corral.wire import from_plain


@dataclass(frozen=True, slots=True)
class Method:
    """One call, with the readers of its arguments and its result, by the type hints of the port."""

    part: str
    name: str
    parameters: Mapping[str, Any]
    result: Any

    def __str__(self) -> str:
        return f"{self.part}.{self.name}"

    def of(self, agent: object) -> Any:
        """Return this method of an agent."""
        return getattr(getattr(agent, self.part), self.name)

    def read_arguments(self, plain: Any) -> dict[str, Any]:
        """Return the arguments in a received message. Raises Refused if they are invalid."""
        if not isinstance(plain, dict) or plain.keys() != self.parameters.keys():
            raise Refused(f"{self} takes {', '.join(self.parameters) or 'nothing'}", field="arguments")
        return {name: from_plain(kind, plain[name], field=name) for name, kind in self.parameters.items()}

    def read_result(self, plain: Any) -> Any:
        """Return the result in a received message. Raises Refused if it is invalid."""
        return None if self.result is type(None) else from_plain(self.result, plain, field="result")


PARTS: Mapping[str, type] = {
    "news": NodeNews,
    "launches": Launches,
    "logs": Logs,
    "inputs": Inputs,
    "executions": InnerCommands,
    "trees": Trees,
    "host": HostAccess,
    "accounts": AccountChecks,
    "installation": Installation,
}


class CarriedAgent:
    """Implements all parts of a `corral.core.ports.node.NodeAgent` by passing each call to `carry`."""

    news: NodeNews
    launches: Launches
    logs: Logs
    inputs: Inputs
    executions: InnerCommands
    trees: Trees
    host: HostAccess
    accounts: AccountChecks | None
    installation: Installation

    def __init__(self, carry: Callable[..., Any]) -> None:
        """`carry(method, *arguments)`, also with named arguments, makes a call and returns its result."""
        for part in PARTS:
            setattr(self, part, _CarriedPart(part, carry))


class _CarriedPart:
    def __init__(self, part: str, carry: Callable[..., Any]) -> None:
        self._part = part
        self._carry = carry

    def __getattr__(self, name: str) -> Any:
        method = METHODS.get(f"{self._part}.{name}")
        if method is None:
            raise AttributeError(f"{self._part} has no call {name}")
        return partial(self._carry, method)


def _methods() -> Iterator[Method]:
    for part, port in PARTS.items():
        for name, function in vars(port).items():
            if inspect.isfunction(function) and not name.startswith("_"):
                hints = get_type_hints(function)
                yield Method(part, name, hints, hints.pop("return"))


METHODS: Mapping[str, Method] = {str(method): method for method in _methods()}
