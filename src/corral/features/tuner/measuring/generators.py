"""Chooses the load generator: genai-bench if it is installed and suitable, otherwise the built-in one."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple, Protocol

from corral.core.model.errors import Refused, nearest
from corral.features.tuner.measuring.built_in_generator import BuiltInGenerator
from corral.features.tuner.measuring.genai_bench import GenaiBench, installed_program
from corral.features.tuner.measuring.level_figures import AppliedLoad, MeasuredLevel
from corral.features.tuner.model.tuning_spec import BenchmarkSpec


class LoadGenerator(Protocol):
    """Applies levels of load to a server, and times the answers."""

    @property
    def name(self) -> str:
        """Its name in results."""

    def why_not(self, spec: BenchmarkSpec) -> str | None:
        """Return why it cannot apply the traffic of a benchmark, None if it can."""

    def measure(
        self,
        endpoint_url: str,
        spec: BenchmarkSpec,
        load: AppliedLoad,
        *,
        seed: int = 0,
        stop: Callable[[], bool] = lambda: False,
    ) -> MeasuredLevel:
        """Apply one level. `stop` is called several times a second and returns whether to end at once. Raises
        GeneratorFailed.
        """


class Chosen(NamedTuple):
    """A load generator. `note` says why better ones were not chosen, None if it is the best."""

    generator: LoadGenerator
    note: str | None


def choose_generator(spec: BenchmarkSpec, *, engine: str = "", env: Mapping[str, str] | None = None) -> Chosen:
    """Return the best generator that can apply the traffic of a benchmark. Raises Refused if none can."""
    known: tuple[LoadGenerator, ...] = (GenaiBench(installed_program(), engine=engine, env=env), BuiltInGenerator(env))
    asked = [one for one in known if spec.generator in ("", one.name)]
    if not asked:
        names = [one.name for one in known]
        raise Refused(
            f"benchmark.generator: {spec.generator!r:.60} is not known; {nearest(spec.generator, names)}",
            field="benchmark.generator",
        )
    reasons: list[str] = []
    for generator in asked:
        if (why := generator.why_not(spec)) is None:
            return Chosen(generator, "; ".join(reasons) or None)
        reasons.append(f"{generator.name}: {why}")
    raise Refused(f"benchmark: no load generator can measure this: {'; '.join(reasons)}", field="benchmark")


def with_tokenizer(spec: BenchmarkSpec, model: str) -> BenchmarkSpec:
    """Return the benchmark with a tokenizer: the model's own if its directory is on this machine."""
    return spec if spec.model_tokenizer or not Path(model).is_dir() else replace(spec, model_tokenizer=model)
