"""`corral bench`: measures any OpenAI-compatible server by itself."""

import json as json_format
import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer

from corral.cli.screen import command_group, example, print_json, say, write_painted
from corral.cli.text_table import TextTable
from corral.model.errors import Refused

if TYPE_CHECKING:
    from corral.tuner.level_figures import AppliedLoad

app = command_group()


@app.command(epilog=example("corral bench http://127.0.0.1:8000 --model llama-3-8b -c 1 -c 8"))
def bench(
    url: Annotated[str, typer.Argument(metavar="URL", help="Where the server answers, without /v1.")],
    *,
    model: Annotated[str, typer.Option("--model", "-m", metavar="NAME", help="What requests call the model.")],
    scenario: Annotated[
        list[str] | None, typer.Option("--scenario", metavar="TEXT", help="D(100,100), N(480,240)/(300,150) or U(...).")
    ] = None,
    concurrency: Annotated[
        list[int] | None, typer.Option("--concurrency", "-c", metavar="N", help="Requests at a time.")
    ] = None,
    requests: Annotated[int, typer.Option("--requests", metavar="N", help="At most, of each level.")] = 100,
    minutes: Annotated[float, typer.Option("--minutes", metavar="N", help="At most, of each level.")] = 1.0,
    params: Annotated[
        str | None, typer.Option("--params", metavar="JSON", help='More fields of each request: {"ignore_eos": true}.')
    ] = None,
    tokenizer: Annotated[
        str, typer.Option("--tokenizer", metavar="DIR", help="Where genai-bench finds the model's tokenizer.")
    ] = "",
    generator: Annotated[
        str, typer.Option("--generator", metavar="NAME", help="genai-bench, or corral: the one that is built in.")
    ] = "",
    task: Annotated[str, typer.Option("--task", metavar="NAME", help="What is served.")] = "text-to-text",
    json: Annotated[bool, typer.Option("--json", help="Print JSON, with every statistic.")] = False,
) -> None:
    """Measure an OpenAI-compatible server.

    Latency, time to first token, time for each further token, and throughput are told for each level of load.

    Each scenario is measured at each concurrency, by genai-bench where it is installed and has the tokenizer. A key for
    the server is read from OPENAI_API_KEY.
    """
    from corral.tuner.benchmark import run_benchmark_job

    if not url.startswith(("http://", "https://")):
        raise Refused(f"URL: {url!r:.80} has no scheme; write http://HOST:PORT", field="URL")
    levels = {"traffic_scenarios": scenario, "num_concurrency": concurrency}
    spec: dict[str, Any] = {
        **{name: given for name, given in levels.items() if given},
        "model_name": model,
        "max_requests_per_iteration": requests,
        "max_time_per_iteration": minutes,
        "additional_params": _params(params),
        "model_tokenizer": tokenizer,
        "generator": generator,
        "task": task,
    }
    metrics = run_benchmark_job(url, spec, on_level=_say)
    if json:
        print_json(metrics)
    else:
        write_painted(*_lines(metrics))


def _say(load: "AppliedLoad") -> None:
    if sys.stderr.isatty():
        say(f"measuring {load.scenario} at {load.concurrency} at a time ...")


def _params(text: str | None) -> dict[str, Any]:
    try:
        found = json_format.loads(text or "{}")
    except ValueError as error:
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
