"""The hosts of a server, on disk: those that were added by command, and what was learned of all."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from corral.core.model.devices.joined_host import HostEntry
from corral.core.model.errors import BackendFailed, Refused
from corral.files import read_whole, write_whole
from corral.wire import from_plain, to_plain

_MOST_BYTES = 4 * 1024 * 1024
MOST_HOSTS = 1000


@dataclass(frozen=True, slots=True)
class HostRecord:
    """The record of one host.

    Attributes:
        joined: its agent has answered once, so that it is a node.
        restricted: the server's own key reaches its agent, and nothing else there.
        from_settings: it is listed in the settings.
    """

    entry: HostEntry
    joined: bool = False
    restricted: bool = False
    from_settings: bool = False


class HostRecords:
    """The records by name, in a file of the server's home. For one thread at a time."""

    def __init__(self, path: Path) -> None:
        """Read the file. Raises BackendFailed if it cannot be read."""
        self._path = path
        self._records: dict[str, HostRecord] = {}
        try:
            rows = json.loads(read_whole(path, _MOST_BYTES))
            self._records = {one.entry.name: one for one in from_plain(tuple[HostRecord, ...], rows, field="hosts")}
        except FileNotFoundError:
            pass
        except (OSError, ValueError, RecursionError, Refused) as error:
            raise BackendFailed(f"the list of hosts in {path} cannot be read: {error}; mend or remove it") from None

    def all(self) -> Mapping[str, HostRecord]:
        """Return the records by name."""
        return dict(self._records)

    def settle(self, from_settings: tuple[HostEntry, ...]) -> None:
        """Take over the hosts of the settings. Those that the settings listed before, and list no more, are removed."""
        listed = {entry.name: entry for entry in from_settings}
        kept = {name: one for name, one in self._records.items() if name in listed or not one.from_settings}
        for name, entry in listed.items():
            kept[name] = replace(kept.get(name, HostRecord(entry)), entry=entry, from_settings=True)
        self._write(kept)

    def put(self, record: HostRecord) -> None:
        """Add a record, or replace it. Raises Refused if there are too many hosts, BackendFailed for a full disk."""
        if record.entry.name not in self._records and len(self._records) >= MOST_HOSTS:
            raise Refused(f"this server has {len(self._records)} hosts, the most that are joined", field="name")
        self._write({**self._records, record.entry.name: record})

    def remove(self, name: str) -> None:
        """Remove a record."""
        self._write({other: record for other, record in self._records.items() if other != name})

    def _write(self, records: dict[str, HostRecord]) -> None:
        if records == self._records:
            return
        try:
            write_whole(self._path, json.dumps([to_plain(one) for one in records.values()], indent=1))
        except OSError as error:
            raise BackendFailed(f"the list of hosts in {self._path} cannot be written: {error.strerror}") from None
        self._records = records
