"""Parse and format milli-GPU, MiB and seconds, with integer arithmetic.

Capacity is counted in integers only, so that an allocated amount can be given back exactly.
"""

from __future__ import annotations

import re

from corral.core.model.errors import Refused

TYPE_CHECKING = False
if TYPE_CHECKING:
    from fractions import Fraction

MILLI_PER_DEVICE = 1000
MW_PER_W = 1000
"""Shares are thousandths of a device; 1000 is always the whole device."""

SHARE_QUANTUM_MILLI = 10
"""Shares are allocated in hundredths of a device."""


def slot_milli(slots: int) -> int:
    """The share that is one of this many equal parts of a device."""
    return MILLI_PER_DEVICE // slots // SHARE_QUANTUM_MILLI * SHARE_QUANTUM_MILLI


WHOLE = r"[0-9]{1,15}"
"""A whole number as a person writes it. Longer numbers have no use here, and would overflow conversions."""

DECIMAL = rf"{WHOLE}(?:\.[0-9]{{1,20}})?"
"""A number as a person writes it, with or without a fraction."""

_MIB_PER_UNIT = {"K": 1 / 1024, "M": 1, "G": 1024, "T": 1024 * 1024}
WEEKDAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
SECONDS_PER_UNIT = {"s": 1, "m": 60, "h": 3600, "d": 86400, "w": 604800}
# These patterns are compiled at first use, and cached by `re`: most commands use none of them.
_MEMORY = rf"({DECIMAL})\s*([KMGTkmgt])(?:[iI][bB]?|[bB])?"
_NUMBER = rf"-?{DECIMAL}"
_CLOCK = r"[0-9]+-[0-9]+(:[0-9]+){0,2}|[0-9]+(:[0-9]+){1,2}"
_DURATION_PART = rf"({DECIMAL})\s*([smhdw])"


def is_whole(text: str) -> bool:
    """Whether the text is a whole number of at most 15 digits."""
    return re.fullmatch(WHOLE, text) is not None


def parse_memory_mib(text: str, *, field: str = "memory") -> int:
    """MiB of a size with a unit: "512M", "20G", "1.5GiB". K, M, G and T are powers of 1024.

    Raises Refused when the unit is missing, unknown, or the size is not above zero.
    """
    match = re.fullmatch(_MEMORY, text.strip())
    if match is None:
        raise Refused(
            f"{field}: {text!r:.60} is not a memory size; write a number and a unit, such as 512M or 20G", field=field
        )
    mib = round(float(match[1]) * _MIB_PER_UNIT[match[2].upper()])
    if mib <= 0:
        raise Refused(f"{field}: {text!r:.60} is less than 1 MiB; the least that can be asked for is 1M", field=field)
    return mib


def format_memory(mib: int | None) -> str:
    """The size as people write it: 512M, 20G, 1.5G; "?" if not known."""
    if mib is None:
        return "?"
    if mib < 1024:
        return f"{mib}M"
    gib = mib / 1024
    return f"{gib:.0f}G" if abs(gib - round(gib)) < 0.05 else f"{gib:.1f}G"


def format_bytes(count: int) -> str:
    """A number of bytes as people write it: 1 byte, 64 KiB, 4.5 MiB."""
    if count < 1024:
        return count_of(count, "byte")
    amount, unit = (count / 1024, "KiB") if count < 1024**2 else (count / 1024**2, "MiB")
    return f"{amount:.1f}".removesuffix(".0") + f" {unit}"


def parse_duration_s(text: str, *, field: str = "time") -> float:
    """Seconds of a duration with units: "90s", "2h", "1d12h", "1h30m".

    Raises Refused when a unit is missing (is "90" minutes or seconds?) or the duration is not above zero.
    """
    compact = text.strip().replace(" ", "")
    parts = re.findall(_DURATION_PART, compact)
    if not parts or "".join(number + unit for number, unit in parts) != compact:
        raise Refused(
            f"{field}: {text!r:.60} is not a duration; write a number and a unit, such as 90s, 30m, 2h or 1d12h",
            field=field,
        )
    seconds = sum(float(number) * SECONDS_PER_UNIT[unit] for number, unit in parts)
    if seconds <= 0:
        raise Refused(f"{field}: {text!r:.60} is too short; write a time above 0s", field=field)
    return seconds


def parse_slurm_time_s(text: str, *, field: str = "--time") -> float:
    """Seconds of a Slurm time limit: minutes, MM:SS, HH:MM:SS, D-HH, D-HH:MM, D-HH:MM:SS.

    The forms are those of sbatch(1), --time. Raises Refused for anything else.
    """
    days, dash, clock = text.strip().rpartition("-")
    numbers = clock.split(":")
    if not all(map(is_whole, [*numbers, *([days] if dash else [])])) or len(numbers) > 3:
        raise Refused(
            f"{field}: {text!r:.60} is not a Slurm time; write minutes, MM:SS, HH:MM:SS or D-HH:MM:SS", field=field
        )
    values = [int(n) for n in numbers]
    if dash:
        hours, minutes, seconds = [*values, 0, 0][:3]
        total = int(days) * 86400 + hours * 3600 + minutes * 60 + seconds
    elif len(values) == 1:
        total = values[0] * 60
    else:
        hours, minutes, seconds = [0] * (3 - len(values)) + values
        total = hours * 3600 + minutes * 60 + seconds
    if total <= 0:
        raise Refused(f"{field}: {text!r:.60} is too short; write at least 00:01", field=field)
    return float(total)


def parse_time_limit_s(text: str, *, field: str = "time") -> float:
    """The seconds of a time limit: a duration with units, or a Slurm time with a colon or with days, such as "1:30:00".

    "90" alone is Refused here too: Slurm means minutes, and other systems mean seconds.
    """
    if re.fullmatch(_CLOCK, text.strip()):
        return parse_slurm_time_s(text, field=field)
    try:
        return parse_duration_s(text, field=field)
    except Refused as refused:
        if not is_whole(text.strip()):
            raise
        minutes = text.strip()
        raise Refused(
            f"{refused}; {minutes}m is {minutes} minutes, as a number alone is in Slurm", field=field
        ) from None


def format_duration(seconds: float | None) -> str:
    """The duration in its two largest units: 45s, 3m 20s, 2h 5m, 1d 4h, <1s; "-" if not known."""
    if seconds is None:
        return "-"
    if 0 < seconds < 1:
        return "<1s"
    left = int(max(0.0, seconds))
    parts: list[tuple[int, str]] = []
    for unit in ("d", "h", "m", "s"):
        count, left = divmod(left, SECONDS_PER_UNIT[unit])
        if count or parts:
            parts.append((count, unit))
        if len(parts) == 2:
            break
    return " ".join(f"{count}{unit}" for count, unit in parts if count) or "0s"


def format_share(milli: int) -> str:
    """A share of a device as a decimal: 1000 -> "1", 250 -> "0.25"."""
    return f"{milli / MILLI_PER_DEVICE:.3f}".rstrip("0").rstrip(".")


def parse_amount(text: str, *, field: str) -> Fraction:
    """The exact number in a text, above zero. Raises Refused for anything else."""
    from fractions import Fraction

    if not re.fullmatch(_NUMBER, text.strip()):
        raise Refused(f"{field}: {text!r:.60} is not a number; write one such as 2 or 0.5", field=field)
    amount = Fraction(text.strip())
    if amount <= 0:
        raise Refused(f"{field}: {text} is not above zero; ask for more, or remove {field}", field=field)
    return amount


def parse_share_milli(text: str, *, field: str = "--gpus") -> int:
    """The milli-GPU of "0.5" or "1.2"; "0" is 0.

    Raises Refused for a number below 0, or one that is not a multiple of a hundredth of a device.
    """
    if re.fullmatch(_NUMBER, text.strip()) and not text.strip().strip("-.0"):
        return 0
    milli = parse_amount(text, field=field) * MILLI_PER_DEVICE
    if milli % SHARE_QUANTUM_MILLI:
        below = int(milli // SHARE_QUANTUM_MILLI * SHARE_QUANTUM_MILLI)
        near = " or ".join(format_share(n) for n in (below, below + SHARE_QUANTUM_MILLI) if n)
        raise Refused(f"{field}: {text} is not a share; shares are multiples of 0.01 GPU; ask for {near}", field=field)
    return int(milli)


def count_of(number: int, noun: str) -> str:
    """A counted noun: "1 GPU", "3 GPUs"."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
