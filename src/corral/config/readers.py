"""Readers of single values: each takes a YAML scalar and returns the checked value, or raises Refused."""

import re
from collections.abc import Callable
from enum import StrEnum
from typing import TYPE_CHECKING, Any, TypeVar

from corral.core.model.errors import Refused, nearest
from corral.core.model.units import (
    DECIMAL,
    MILLI_PER_DEVICE,
    SHARE_QUANTUM_MILLI,
    WHOLE,
    is_whole,
    parse_duration_s,
    parse_memory_mib,
)

if TYPE_CHECKING:
    from yaml.nodes import ScalarNode

E = TypeVar("E", bound=StrEnum)
Reader = Callable[["ScalarNode"], Any]

_INTEGER = re.compile(rf"[+-]?{WHOLE}")
_NUMBER = re.compile(rf"[+-]?{DECIMAL}")
_LABEL = r"[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?"
_HOST = re.compile(rf"{_LABEL}(?:\.{_LABEL})*(?::[0-9]{{1,5}})?")
_REGISTRY = re.compile(rf"(?P<scheme>https?)://(?P<host>{_LABEL}(?:\.{_LABEL})*)(?::[0-9]{{1,5}})?")
_THIS_MACHINE = ("127.0.0.1", "localhost")
_LONGEST_NAME = 64
_PREFIX = "value"
"""The name of the value in messages of unit parsers. It is replaced by file, line and key."""


def duration(least_s: float, most_s: float) -> Reader:
    """A reader of seconds, written with a unit."""

    def read(node: "ScalarNode") -> float:
        seconds = 0.0 if node.value == "0s" else parse_duration_s(node.value, field=_PREFIX)
        if not least_s <= seconds <= most_s:
            raise Refused(f"{node.value:.60} is out of range; write a time from {least_s:g}s to {most_s:g}s")
        return seconds

    return read


def memory(least_mib: int, most_mib: int) -> Reader:
    """A reader of MiB, written with a unit."""

    def read(node: "ScalarNode") -> int:
        mib = parse_memory_mib(node.value, field=_PREFIX)
        if not least_mib <= mib <= most_mib:
            raise Refused(f"{node.value:.60} is out of range; write a size from {least_mib}M to {most_mib}M")
        return mib

    return read


def integer(least: int, most: int) -> Reader:
    """A reader of a whole number."""

    def read(node: "ScalarNode") -> int:
        if not _INTEGER.fullmatch(node.value) or not least <= int(node.value) <= most:
            raise Refused(f"{node.value!r:.60} is not allowed; write a whole number from {least} to {most}")
        return int(node.value)

    return read


def number(least: float, most: float, *, factor: float = 1.0) -> Reader:
    """A reader of a number with or without a fraction, multiplied by `factor`."""

    def read(node: "ScalarNode") -> float:
        if not _NUMBER.fullmatch(node.value) or not least <= float(node.value) <= most:
            raise Refused(f"{node.value!r:.60} is not allowed; write a number from {least:g} to {most:g}")
        return float(node.value) * factor

    return read


def version(node: "ScalarNode") -> tuple[int, int]:
    """Read a version of two parts, such as 12.2 or 8.0."""
    major, dot, minor = node.value.partition(".")
    if not (dot and is_whole(major) and is_whole(minor)):
        raise Refused(f"{node.value!r:.60} is not a version; write two numbers with a dot, such as 8.0")
    return int(major), int(minor)


def above_zero(node: "ScalarNode") -> float:
    """Read a weight, a number above 0."""
    if not _NUMBER.fullmatch(node.value) or not float(node.value) > 0:
        raise Refused(f"{node.value!r:.60} is not allowed; write a number above 0")
    return float(node.value)


def gpus(node: "ScalarNode") -> int:
    """Read a number of GPUs, in hundredths; returns milli-GPU."""
    milli = float(node.value) * MILLI_PER_DEVICE if _NUMBER.fullmatch(node.value) else -1.0
    if milli < 0 or milli > 1e9 or milli % SHARE_QUANTUM_MILLI:
        raise Refused(f"{node.value!r:.60} is not a number of GPUs; write one such as 8 or 0.5")
    return int(milli)


def pool_gpu(node: "ScalarNode") -> str:
    """Read a pool's word for GPUs: a UUID, NODE:INDEX, NODE:*, a model, or on a single node an index."""
    host, colon, which = text(node).rpartition(":")
    if is_whole(which) and bool(host) == bool(colon):
        return f"{host}{colon}{int(which)}"
    if node.value == "*" or (colon and not (host and which == "*")):
        raise Refused(f"{node.value!r:.60} names no GPU; write a UUID, NODE:INDEX, NODE:* or a model")
    return str(node.value)


def yes_or_no(node: "ScalarNode") -> bool:
    """Read true or false."""
    if node.value.lower() not in ("true", "false"):
        raise Refused(f"{node.value!r:.60} is not allowed; write true or false")
    return bool(node.value.lower() == "true")


def one_of(kind: type[E]) -> Reader:
    """A reader of a member of an enumeration, by its value."""

    def read(node: "ScalarNode") -> E:
        known = {str(member.value): member for member in kind}
        if node.value not in known:
            raise Refused(f"{node.value!r:.60} is not allowed; {nearest(node.value, known)}")
        return known[node.value]

    return read


def text(node: "ScalarNode") -> str:
    """Read a path or a name, which must not be empty."""
    if not node.value:
        raise Refused("the value is empty; write a path or a name")
    return str(node.value)


def registry(node: "ScalarNode") -> str:
    """Read the address of a registry of images: HTTPS, or HTTP on this machine."""
    address = text(node).rstrip("/")
    found = _REGISTRY.fullmatch(address)
    if found is None or (found["scheme"] == "http" and found["host"] not in _THIS_MACHINE):
        raise Refused(
            f"{address!r:.100} is no registry; write https://HOST or https://HOST:PORT, or http:// for one on this "
            "machine, such as http://127.0.0.1:5000"
        )
    return address


def site_name(node: "ScalarNode") -> str:
    """Read the site's name, which is shown before messages and in titles."""
    name = text(node)
    if not name.isprintable() or name != name.strip() or len(name) > _LONGEST_NAME:
        raise Refused(
            f"{name!r:.60} is no name; write at most {_LONGEST_NAME} characters that can be read, in one line"
        )
    return name


def host_name(node: "ScalarNode") -> str:
    """Read the name of a host as a browser sends it: with a port, if it is not the usual one."""
    if not _HOST.fullmatch(text(node)):
        raise Refused(
            f"{node.value!r:.60} is no host name; write one such as gpus.example.org or gpus.example.org:8443"
        )
    return str(node.value)


def absolute_path(node: "ScalarNode") -> str:
    """Read an absolute path, because the reader of the file may be started in any directory."""
    path = text(node)
    if not path.startswith("/"):
        raise Refused(f"{path!r:.60} is not an absolute path; write it from / on")
    return path


def without_prefix(message: str) -> str:
    """A reader's message without the name that unit parsers give to the value."""
    return message.removeprefix(f"{_PREFIX}: ")
