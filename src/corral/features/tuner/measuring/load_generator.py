"""Keeps a number of requests open at a server, and times each. It is the core of the built-in load generator."""

import asyncio
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random
from typing import Any

from corral.features.tuner.measuring.chat_stream import ChatServer, RequestFailed, TimedAnswer
from corral.features.tuner.measuring.level_figures import AppliedLoad
from corral.features.tuner.measuring.traffic import RequestSize, read_scenario
from corral.features.tuner.model.tuning_spec import BenchmarkSpec

_WORDS = ("the", "of", "and", "to", "in", "is", "that", "for", "it", "as", "was", "with", "be", "by", "on", "not")
_LOOK_S = 0.1
_PAUSE_AFTER_FAILURE_S = 0.05


@dataclass(slots=True)
class LoadResult:
    """The result of a level of load. `began_at` and `ended_at` are Unix seconds.

    Attributes:
        answers: the valid answers.
        failures: the number of failed requests, by HTTP status or by a word.
        first_failure: the error of the first failed request.
        stopped: whether it was ended from outside, and does not count.
    """

    scenario: str
    concurrency: int
    began_at: float
    ended_at: float = 0.0
    answers: list[TimedAnswer] = field(default_factory=list)
    failures: Counter[str] = field(default_factory=Counter)
    first_failure: str | None = None
    stopped: bool = False

    @property
    def duration_s(self) -> float:
        return self.ended_at - self.began_at


def generate(
    server: ChatServer,
    spec: BenchmarkSpec,
    load: AppliedLoad,
    *,
    seed: int = 0,
    stop: Callable[[], bool] = lambda: False,
) -> LoadResult:
    """Apply a load and time every request. Requests that are open when the time is over are dropped and not counted.

    `stop` is called ten times a second and returns whether to end at once.
    """
    return asyncio.run(_generate(server, spec, load, Random(f"{seed}:{load.scenario}:{load.concurrency}"), stop))


async def _generate(
    server: ChatServer, spec: BenchmarkSpec, load: AppliedLoad, random: Random, stop: Callable[[], bool]
) -> LoadResult:
    draw = read_scenario(load.scenario)
    sizes = iter([draw(random) for _ in range(load.most_requests)])
    result = LoadResult(load.scenario, load.concurrency, time.time())
    began = time.perf_counter()
    workers = [
        asyncio.create_task(_ask_on(server, spec, sizes, result))
        for _ in range(min(load.concurrency, load.most_requests))
    ]
    try:
        pending = set(workers)
        while pending and not result.stopped:
            left_s = began + load.most_s - time.perf_counter()
            if left_s <= 0:
                break
            _, pending = await asyncio.wait(pending, timeout=min(_LOOK_S, left_s))
            result.stopped = stop()
    finally:
        for worker in workers:
            worker.cancel()
        await asyncio.gather(*workers, return_exceptions=True)
    result.ended_at = result.began_at + time.perf_counter() - began
    return result


async def _ask_on(server: ChatServer, spec: BenchmarkSpec, sizes: Any, result: LoadResult) -> None:
    for size in sizes:
        try:
            result.answers.append(await server.ask(request_body(spec, size)))
        except RequestFailed as failure:
            result.failures[failure.code] += 1
            if result.first_failure is None:
                result.first_failure = f"{failure.code}: {failure}"
            # Without a pause, a server that refuses at once would get requests at full speed.
            await asyncio.sleep(_PAUSE_AFTER_FAILURE_S)


def request_body(spec: BenchmarkSpec, size: RequestSize) -> dict[str, Any]:
    """Return a chat completion of about this size. Without a tokenizer, a short common word counts as one token."""
    prompt = " ".join(_WORDS[number % len(_WORDS)] for number in range(size.prompt_tokens))
    return {
        "model": spec.model_name,
        "messages": [{"role": "user", "content": prompt}],
        "max_tokens": size.output_tokens,
        "stream": True,
        "stream_options": {"include_usage": True},
        **spec.additional_params,
    }
