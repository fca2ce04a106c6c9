"""Devices, nodes and tokens: list and change them."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from corral.client.connecting.transport import Transport
from corral.client.submitting.arguments import flag, number, optional, text, whole, wrong
from corral.core.model.errors import Refused, nearest
from corral.core.model.token import TokenScope
from corral.wire import from_answer

if TYPE_CHECKING:
    from corral.core.model.answers.devices import DeviceRow, SlicePlan
    from corral.core.model.answers.site import NodeRow
    from corral.core.model.answers.tokens import MadeToken, TokenRow
    from corral.features.history.answers import DeviceHistory, GpuWindows, GroupHistory

_UUID = "'GPU-8a6f0000'"


class Devices:
    """Lists and cordons devices.

    The name of a device is its UUID, NODE:INDEX, or its index if only one node has that index.
    """

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    def list(self) -> "tuple[DeviceRow, ...]":
        return _devices(self._transport.get("/devices"))

    def history(
        self,
        uuid: str,
        range: str | None = None,
        *,
        since: float | None = None,
        until: float | None = None,
        series: str | Sequence[str] = (),
    ) -> "DeviceHistory":
        """The measured history of a device, by series, with at most 1,000 points each. Gaps have no points.

        The period is a `range` up to now (30m, 1h, 6h, 12h, 24h, 2d or 7d; "1h" by default), or lies between two times
        (Unix seconds). `series` chooses some series, for example "power_w"; () is all. The history of a removed device
        is kept.
        """
        from corral.features.history.answers import DeviceHistory
        from corral.features.history.client import read_history

        path = ["devices", text(uuid, "uuid", _UUID)]
        return read_history(self._transport, DeviceHistory, path, range=range, since=since, until=until, series=series)

    def window(self, uuid: str, since: float, until: float) -> "GpuWindows":
        """The sums of a device's readings over exactly this window (Unix seconds). Its label is its UUID."""
        from corral.features.history.client import read_window

        return read_window(self._transport, ["devices", text(uuid, "uuid", _UUID)], since, until)

    def cordon(self, device: str | int, reason: str = "") -> "tuple[DeviceRow, ...]":
        """Keep new jobs from starting on it; running jobs go on. Returns the changed devices, like `uncordon`."""
        return _devices(self._transport.post(_device(device, "cordon"), {"reason": _reason(reason)}))

    def uncordon(self, device: str | int) -> "tuple[DeviceRow, ...]":
        return _devices(self._transport.post(_device(device, "uncordon")))

    def cut(self, device: str | int, profile: str, count: int = 1, *, apply: bool = False) -> "SlicePlan":
        """The plan to create `count` MIG slices on it. With `apply`, creates them."""
        from corral.core.model.answers.devices import SlicePlan

        body = {
            "profile": text(profile, "profile", "'1g.10gb'"),
            "count": whole(count, "count"),
            "apply": flag(apply, "apply"),
        }
        return from_answer(SlicePlan, self._transport.post(_device(device, "slices"), body))

    def give_up(self, device: str | int, *, apply: bool = False) -> "SlicePlan":
        """The plan to delete its MIG slices. With `apply`, deletes them. No job may use one."""
        from corral.core.model.answers.devices import SlicePlan

        return from_answer(
            SlicePlan, self._transport.post(_device(device, "slices", "give-up"), {"apply": flag(apply, "apply")})
        )


class ClusterNodes:
    """Lists, cordons and drains nodes. Each change returns the changed node."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    def list(self) -> "tuple[NodeRow, ...]":
        from corral.core.model.answers.site import NodeRow

        return tuple(from_answer(NodeRow, row) for row in self._transport.get("/nodes")["nodes"])

    def history(
        self,
        node: str,
        range: str | None = None,
        *,
        since: float | None = None,
        until: float | None = None,
        series: str | Sequence[str] = (),
    ) -> "GroupHistory":
        """The history of a node's devices, as in `Devices.history`: memory and power are sums. A node may be gone."""
        from corral.features.history.answers import GroupHistory
        from corral.features.history.client import read_history

        path = ["nodes", text(node, "node", "'node1'")]
        return read_history(self._transport, GroupHistory, path, range=range, since=since, until=until, series=series)

    def cordon(self, node: str, reason: str = "") -> "NodeRow":
        """Keep new jobs from starting on it; running jobs go on."""
        return self._set(node, "cordon", {"reason": _reason(reason)})

    def drain(self, node: str, reason: str = "", *, deadline_s: float | None = None) -> "NodeRow":
        """Keep new jobs from starting on it. Jobs that still run `deadline_s` from now go back to their queues."""
        seconds = optional(number, deadline_s, "deadline_s", "600")
        return self._set(node, "drain", {"reason": _reason(reason), "deadline_s": seconds})

    def uncordon(self, node: str) -> "NodeRow":
        return self._set(node, "uncordon", None)

    def _set(self, node: str, verb: str, body: Any) -> "NodeRow":
        from corral.core.model.answers.site import NodeRow

        answer = self._transport.post("/".join(["/nodes", quote(text(node, "node", "'node1'"), safe=""), verb]), body)
        return from_answer(NodeRow, answer["nodes"][0])


class Tokens:
    """Creates, lists and revokes tokens for access over TCP."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    def create(
        self,
        user: str | None = None,
        *,
        scope: TokenScope | str = TokenScope.SUBMIT,
        expires_in_s: float | None = 30 * 86400.0,
    ) -> "MadeToken":
        """A new token with its secret, for a user (default: the caller).

        It is valid for `expires_in_s` seconds (None: until revoked).
        """
        from corral.core.model.answers.tokens import MadeToken

        body = {
            "user": optional(text, user, "user", "'alice'"),
            "scope": _scope(scope).value,
            "expires_in_s": optional(number, expires_in_s, "expires_in_s", "86400"),
        }
        return from_answer(MadeToken, self._transport.post("/tokens", body))

    def list(self, *, all: bool = False) -> "tuple[TokenRow, ...]":
        """Valid tokens, with `all` also recent invalid ones: the caller's own; for administrators, all users'."""
        from corral.core.model.answers.tokens import TokenRow

        return tuple(
            from_answer(TokenRow, row) for row in self._transport.get("/tokens", all=flag(all, "all"))["tokens"]
        )

    def revoke(self, token_id: str) -> tuple[str, ...]:
        """Revoke a token and all tokens created with it, at once. Returns their ids."""
        path = "/".join(["/tokens", quote(text(token_id, "token_id", "'t3'"), safe=""), "revoke"])
        return tuple(self._transport.post(path, repeatable=True)["ids"])


def _device(device: str | int, *verb: str) -> str:
    name = device if isinstance(device, str) else str(_index(device))
    return "/".join(["/devices", quote(text(name, "device"), safe=""), *verb])


def _index(device: Any) -> int:
    try:
        return whole(device, "device")
    except Refused:
        raise wrong(device, "device", "the name of a device", f"0, 'node1:0' or {_UUID}") from None


def _reason(reason: Any) -> str:
    return text(reason, "reason", "'it is hot'")


def _scope(scope: Any) -> TokenScope:
    try:
        return TokenScope(scope)
    except ValueError:
        raise Refused(
            f"scope: {scope!r:.60} is not a scope; {nearest(scope if isinstance(scope, str) else '', TokenScope)}",
            field="scope",
        ) from None


def _devices(answer: Any) -> "tuple[DeviceRow, ...]":
    from corral.core.model.answers.devices import DeviceRow

    return tuple(from_answer(DeviceRow, device) for device in answer["devices"])
