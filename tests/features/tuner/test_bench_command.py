"""`corral bench` against a server that answers."""

import json
import subprocess

from tests.e2e.box import COMMAND_S, CORRAL
from tests.features.tuner.serving import stand_in


def bench(*words: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run([CORRAL, "bench", *words], capture_output=True, text=True, timeout=COMMAND_S)


def test_each_level_is_a_row_and_the_generator_is_named() -> None:
    with stand_in("--max-num-seqs", "2") as url:
        table = bench(
            url,
            "--model",
            "m",
            "-c",
            "1",
            "-c",
            "3",
            "--requests",
            "3",
            "--scenario",
            "D(10,4)",
            "--generator",
            "corral",
        )
        told = bench(url, "-m", "m", "-c", "2", "--requests", "2", "--scenario", "D(10,4)", "--json")
    assert table.returncode == told.returncode == 0, table.stderr + told.stderr
    _, first, second, generator = table.stdout.splitlines()
    assert first.split()[:4] == ["D(10,4)", "1", "3", "0"]
    assert second.split()[:4] == ["D(10,4)", "3", "3", "0"]
    assert generator == "times in ms; measured by the load generator corral"
    assert max(map(len, table.stdout.splitlines())) <= 80
    metrics = json.loads(told.stdout)
    assert (metrics["total_completed_requests"], metrics["generator"]) == (2, "corral")


def test_what_cannot_be_measured_is_refused() -> None:
    for words, why in [
        (("127.0.0.1:8000",), "has no scheme"),
        (("http://127.0.0.1:9", "-c", "1", "--requests", "1"), "answered no request"),
        (("http://127.0.0.1:9", "--params", "[1]"), "--params must be an object"),
        (("http://127.0.0.1:9", "--scenario", "E(4)"), "cannot be generated here"),
    ]:
        refused = bench(*words, "--model", "m")
        assert (refused.returncode, why in refused.stderr) == (2, True), refused.stderr
