"""Reads the result files of one run of genai-bench. The files are not trusted: an invalid value raises an error.

`DIRECTORY/<scenario>_<task>_<iteration>_<n>_time_<s>s.json` has `aggregated_metrics` and `individual_request_metrics`.
If every request failed, genai-bench writes `debug_for_run_*.json` with the requests instead. If none has ended, it
writes nothing.
"""

import json
import math
import stat
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from corral.features.tuner.measuring.level_figures import AppliedLoad, headlines_of

MOST_BYTES = 64 << 20
_MOST_TEXT = 300
_STATISTICS = ("min", "max", "mean", "stddev", "sum", "p25", "p50", "p75", "p90", "p95", "p99")
_SERIES = (
    *("ttft", "tpot", "e2e_latency", "output_latency", "output_inference_speed", "num_input_tokens"),
    *("num_output_tokens", "total_tokens", "input_throughput", "output_throughput"),
)
_OF_OUTPUT = ("tpot", "output_latency", "output_inference_speed", "num_output_tokens", "output_throughput")
"""Series that are 0 for answers without text: this 0 is not a measurement."""


class BrokenResult(Exception):
    """A result cannot be read, or is invalid."""


def result_file(directory: Path) -> Path | None:
    """Return the result file of the run in a directory, None if there is none yet."""
    return next(iter(sorted(directory.glob("*_time_*s.json"))), None)


def is_whole(path: Path) -> bool:
    """Return whether a file is complete, judging by its last line: braces within it are indented."""
    try:
        with path.open("rb") as file:
            file.seek(max(0, path.stat().st_size - 16))
            return file.read().rstrip().endswith(b"\n}")
    except OSError:
        return False


def figures_of(path: Path, load: AppliedLoad, *, task: str) -> dict[str, Any]:
    """Return the figures of a level, by the names that autotuners use. Raises BrokenResult."""
    found = _object(_read(path).get("aggregated_metrics"), path, "aggregated_metrics")
    read = {name: _number(found.get(name), path, name) for name in _NUMBERS}
    missing = [name for name in _NEEDED if read[name] is None]
    if missing:
        raise BrokenResult(f"{path.name} has no {', '.join(missing)}")
    stats = _stats(_object(found.get("stats"), path, "stats"), path, text_out=task.endswith("-to-text"))
    output, total = read["mean_output_throughput_tokens_per_s"], read["mean_total_tokens_throughput_tokens_per_s"]
    return {
        "scenario": load.scenario,
        "num_concurrency": load.concurrency,
        **({"batch_size": load.concurrency} if found.get("iteration_type") == "batch_size" else {}),
        "run_duration": read["run_duration"],
        **{name: int(read[name] or 0) for name in _COUNTS},
        "error_codes_frequency": _codes(found.get("error_codes_frequency"), path),
        "requests_per_second": read["requests_per_second"],
        **headlines_of(stats),
        **({"mean_output_throughput": output} if stats["num_output_tokens"] is not None and output is not None else {}),
        **({"mean_total_throughput": total} if total is not None else {}),
        "stats": stats,
    }


def unanswered(directory: Path, load: AppliedLoad, duration_s: float) -> tuple[dict[str, Any], str | None]:
    """Return the figures of a level without a valid answer, and the first error. Raises BrokenResult."""
    failed = [one for path in sorted(directory.glob("debug_for_run_*.json")) for one in _failed(path)]
    figures = {
        "scenario": load.scenario,
        "num_concurrency": load.concurrency,
        "run_duration": duration_s,
        "num_requests": len(failed),
        "num_completed_requests": 0,
        "num_error_requests": len(failed),
        "error_codes_frequency": dict(Counter(f"{one['error_code']!s:.20}" for one in failed)),
        "requests_per_second": 0.0,
        "stats": dict.fromkeys(_SERIES),
    }
    return figures, _said(failed)


def first_failure(path: Path) -> str | None:
    """Return the first error of a run, None if all requests succeeded. Raises BrokenResult."""
    return _said(_failed(path))


def _failed(path: Path) -> list[dict[str, Any]]:
    requests = _read(path).get("individual_request_metrics")
    found = requests if isinstance(requests, list) else []
    return [one for one in found if isinstance(one, dict) and one.get("error_code") is not None]


def _said(failed: list[dict[str, Any]]) -> str | None:
    return f"{failed[0]['error_code']!s:.20}: {failed[0].get('error_message')!s:.{_MOST_TEXT}}" if failed else None


_COUNTS = ("num_requests", "num_completed_requests", "num_error_requests")
_NEEDED = ("run_duration", *_COUNTS)
_NUMBERS = (
    *_NEEDED,
    "requests_per_second",
    "mean_output_throughput_tokens_per_s",
    "mean_total_tokens_throughput_tokens_per_s",
)


def _read(path: Path) -> dict[str, Any]:
    try:
        # Another process may have put anything there: reading a pipe would never end.
        about = path.lstat()
        if not stat.S_ISREG(about.st_mode):
            raise BrokenResult(f"{path.name} is no file")
        if about.st_size > MOST_BYTES:
            raise BrokenResult(f"{path.name} has {about.st_size >> 20} MiB, and {MOST_BYTES >> 20} are read at most")
        data = json.loads(path.read_bytes())
    except OSError as error:
        raise BrokenResult(f"{path.name} cannot be read: {error.strerror}") from None
    except (ValueError, RecursionError) as error:
        raise BrokenResult(f"{path.name} is no JSON: {error!s:.{_MOST_TEXT}}") from None
    return _object(data, path, "the file")


def _object(value: Any, path: Path, name: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise BrokenResult(f"{path.name}: {name} is no object")
    return value


def _number(value: Any, path: Path, name: str) -> float | None:
    """Return a finite number that is not negative, None for a missing value. Raises BrokenResult."""
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < 1e15:
        raise BrokenResult(f"{path.name}: {name} is {value!r:.60}, not a number that could have been measured")
    return value


def _stats(found: Mapping[str, Any], path: Path, *, text_out: bool) -> dict[str, dict[str, float] | None]:
    stats: dict[str, dict[str, float] | None] = {}
    for name in _SERIES:
        series = found.get(name)
        values = {} if series is None else _object(series, path, name)
        read = {key: _number(values.get(key), path, f"{name}.{key}") for key in _STATISTICS}
        whole = {key: value for key, value in read.items() if value is not None}
        known = len(whole) == len(_STATISTICS) and (text_out or name not in _OF_OUTPUT)
        stats[name] = whole if known else None
    return stats


def _codes(value: Any, path: Path) -> dict[str, int]:
    counts = {} if value is None else _object(value, path, "error_codes_frequency")
    return {f"{code:.20}": int(_number(count, path, "error_codes_frequency") or 0) for code, count in counts.items()}
