"""`corral status` and `corral devices`: the GPUs of the server."""

from __future__ import annotations

from corral.cli.screen import print_json, write_painted
from corral.client.connecting.address import find_address
from corral.client.connecting.transport import Transport

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from corral.cli.commands import gpus_and_nodes, looking


def show_status(given: looking.StatusCommand) -> int:
    """Print each GPU with its state and its jobs. With `watch`, until the user leaves it. Return the exit code."""
    transport = Transport(find_address())
    if given.watch:
        from corral.cli.tables.live import show_live

        show_live(lambda: _status_lines(transport, bars=True), "status")
        return 0
    if given.json:
        return _print_devices(transport)
    from corral.cli.screen import fitted, painted
    from corral.cli.tables.device_tables import elsewhere

    write_painted(*_status_lines(transport))
    if (at := elsewhere(transport.address)) is not None:
        write_painted(painted(fitted(f"server: {at}"), "dim"))
    return 0


def list_devices(given: gpus_and_nodes.DevicesCommand) -> int:
    """Print each GPU with its UUID and model. Return the exit code."""
    transport = Transport(find_address())
    if given.json:
        return _print_devices(transport)
    from corral.cli.tables.device_tables import device_lines

    write_painted(*device_lines(_rows(transport)))
    return 0


def _print_devices(transport: Transport) -> int:
    print_json(transport.get("/devices")["devices"])
    return 0


def _status_lines(transport: Transport, *, bars: bool = False) -> list[str]:
    from corral.cli.direct.rows import row_of
    from corral.cli.tables.device_tables import status_lines

    devices = _rows(transport)
    return status_lines(row_of("ServerInfo", transport.get("/server")), devices, bars=bars)


def _rows(transport: Transport) -> list[Any]:
    from corral.cli.direct.rows import rows_of

    return rows_of("DeviceRow", transport.get("/devices")["devices"])
