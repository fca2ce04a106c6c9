"""`corral bench`: measure any OpenAI-compatible server."""

import json as json_format
import sys
from typing import TYPE_CHECKING, Any

from corral.cli.screen import print_json, say, write_painted
from corral.cli.tables.text_table import TextTable
from corral.core.model.errors import Refused
from corral.features.tuner import commands

if TYPE_CHECKING:
    from corral.features.tuner.measuring.level_figures import AppliedLoad


def bench(given: commands.BenchCommand) -> None:
    """Run `corral bench`."""
    from corral.features.tuner.measuring.benchmark import run_benchmark_job

    if not given.url.startswith(("http://", "https://")):
        raise Refused(f"URL: {given.url!r:.80} has no scheme; write http://HOST:PORT", field="URL")
    levels = {"traffic_scenarios": given.scenario, "num_concurrency": given.concurrency}
    spec: dict[str, Any] = {
        **{name: wanted for name, wanted in levels.items() if wanted},
        "model_name": given.model,
        "max_requests_per_iteration": given.requests,
        "max_time_per_iteration": given.minutes,
        "additional_params": _params(given.params),
        "model_tokenizer": given.tokenizer,
        "generator": given.generator,
        "task": given.task,
    }
    metrics = run_benchmark_job(given.url, spec, on_level=_say)
    if given.json:
        print_json(metrics)
    else:
        write_painted(*_lines(metrics))


def _say(load: "AppliedLoad") -> None:
    if sys.stderr.isatty():
        say(f"measuring {load.scenario} at {load.concurrency} at a time ...")


def _params(text: str | None) -> dict[str, Any]:
    try:
        found = json_format.loads(text or "{}")
    except (ValueError, RecursionError) as error:
        raise Refused(f"--params is not JSON: {error}", field="--params") from None
    if not isinstance(found, dict):
        raise Refused('--params must be an object, such as {"ignore_eos": true}', field="--params")
    return found


def _lines(metrics: dict[str, Any]) -> list[str]:
    titles = ("SCENARIO", "AT ONCE", "DONE", "FAILED", "TTFT", "TPOT", "LATENCY", "P99", "TOKENS/S")
    table = TextTable(titles, numeric=titles[1:])
    for level in metrics["raw_results"]:
        seconds = [level.get(f"mean_{name}") for name in ("ttft", "tpot", "e2e_latency")] + [
            level.get("p99_e2e_latency")
        ]
        table.add(
            level["scenario"],
            str(level["num_concurrency"]),
            str(level["num_completed_requests"]),
            str(level["num_error_requests"]),
            *("-" if value is None else f"{1000 * value:,.1f}" for value in seconds),
            f"{level['mean_output_throughput']:,.0f}" if "mean_output_throughput" in level else "-",
        )
    note = f" ({metrics['generator_note']})" if "generator_note" in metrics else ""
    return [*table.lines(), f"times in ms; measured by the load generator {metrics['generator']}{note}"]
