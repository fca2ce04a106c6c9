"""Inference servers as data: their command lines, their names of parameters, and invalid combinations.

A file in `engines/` has everything about one engine. Unknown parameters are passed on unchanged: the engine itself
checks them.
"""

import sys
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib.resources import files
from typing import Any

from corral.config.tuner import TunerSettings
from corral.core.model.errors import Refused, nearest
from corral.core.model.serving.parallelism import axis_of, bare_name, engine_in
from corral.core.model.serving.presets import without_presets
from corral.features.tuner.engines.over_nodes import OverNodes, read_over_nodes
from corral.features.tuner.engines.power_limit import is_power_limit
from corral.features.tuner.model.tuning_spec import DeploymentMode, TuningSpec

_NOTHING = (None, 1, False, "auto")
"""Values with which a task requests no feature that an engine would need."""


@dataclass(frozen=True)
class InferenceEngine:
    """One kind of inference server.

    Attributes:
        taken_from: the version whose flags these are.
        program, arguments: the command line, in which {model}, {served}, {host} and {port} are replaced.
        health: the path that answers 200 once requests are served.
        image: its container image, in which `python3` is Python.
        flags: its flag for a parameter, by the name in tasks.
        defaults: its default values, by flag. --no-FLAG switches off a flag that is on by default.
        instead: other flags for some values of a parameter, by parameter and value.
        left_out: by flag the value for which the flag is left out.
        refused: parameters that it does not support.
        multiples: pairs of parameters; the first must be a multiple of the second.
        over_nodes: its ways to run on several nodes, the preferred one first.
    """

    name: str
    taken_from: str
    program: tuple[str, ...]
    arguments: tuple[str, ...]
    health: str
    image: str = ""
    flags: Mapping[str, str] = field(default_factory=dict)
    defaults: Mapping[str, Any] = field(default_factory=dict)
    instead: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    left_out: Mapping[str, Any] = field(default_factory=dict)
    refused: tuple[str, ...] = ()
    multiples: tuple[tuple[str, str], ...] = ()
    over_nodes: tuple[OverNodes, ...] = ()

    def command(
        self,
        model: str,
        parameters: Mapping[str, Any],
        *,
        host: str,
        port: str,
        served: str | None = None,
        python: str = sys.executable,
    ) -> tuple[str, ...]:
        """Return the command line that serves a model.

        `host` and `port` may be placeholders that are replaced later. `served` is the model's name in requests, None
        for `model`.
        """
        words = {"model": model, "served": served or model, "host": host, "port": port, "python": python}
        return (*self._filled(self.program, words), *self._filled(self.arguments, words), *self._flags_of(parameters))

    def why_not(self, parameters: Mapping[str, Any]) -> str | None:
        """Return why this engine cannot run a combination, None if no reason is known."""
        named = {canonical(name): value for name, value in without_presets(parameters).items()}
        for name in self.refused:
            if named.get(name) not in _NOTHING and named[name] not in self.instead.get(name, ()):
                return f"{name} cannot be used with {self.name}"
        for larger, smaller in self.multiples:
            whole, part = named.get(larger, 1), named.get(smaller, 1)
            if type(whole) is type(part) is int and part > 1 and whole % part:
                return (
                    f"{self.name} needs {larger} to be a multiple of {smaller}, and {whole} is not a multiple of {part}"
                )
        return None

    def sets_itself(self, name: str) -> bool:
        """Return whether a parameter is one that every command line has already, such as the port."""
        return f"--{self._flag(name, None)}" in self.arguments

    def is_default(self, parameters: Mapping[str, Any]) -> bool:
        """Return whether these parameters equal the engine's defaults."""
        return all(
            (is_power_limit(name) and value is False)
            or (canonical(name) in self.refused and value in _NOTHING)
            or (self._flag(name, value) in self.defaults and self.defaults[self._flag(name, value)] == value)
            for name, value in without_presets(parameters).items()
        )

    @property
    def known_flags(self) -> tuple[str, ...]:
        """The flags in its file; the engine may have others."""
        said = (flag for values in self.instead.values() for flag in values.values())
        return tuple(sorted({*self.flags.values(), *self.defaults, *said}))

    def _flag(self, name: str, value: Any) -> str:
        other = self.instead.get(canonical(name), {}).get(value) if isinstance(value, str) else None
        return other or self.flags.get(canonical(name), bare_name(name).replace("_", "-"))

    def options(self, parameters: Mapping[str, Any]) -> dict[str, Any]:
        """Return the options of the command line by flag; True is a flag without a value."""
        said: dict[str, Any] = {}
        for name, value in without_presets(parameters).items():
            if is_power_limit(name):
                continue
            flag = self._flag(name, value)
            if value is False and self.defaults.get(flag) is True:
                said[f"no-{flag}"] = True
            refused = canonical(name) in self.refused and flag not in self.instead.get(canonical(name), {}).values()
            if value is False or value is None or value == self.left_out.get(flag) or refused:
                continue
            said[flag] = value
        return said

    def _flags_of(self, parameters: Mapping[str, Any]) -> Iterator[str]:
        for flag, value in self.options(parameters).items():
            yield f"--{flag}"
            if value is not True:
                yield str(value)

    @staticmethod
    def _filled(words: Sequence[str], values: Mapping[str, str]) -> Iterator[str]:
        for word in words:
            yield values[word[1:-1]] if word.startswith("{") else word


def find_inference_engine(base_runtime: str) -> InferenceEngine:
    """Return the engine whose name `base_runtime` begins with. Raises Refused."""
    known = engine_names()
    for name in known:
        if base_runtime.startswith(name):
            return _read(name)
    raise Refused(f"base_runtime: {base_runtime!r} is not known; {nearest(base_runtime, known)}", field="base_runtime")


def engine_names() -> tuple[str, ...]:
    """Return the names of all engines, sorted."""
    return tuple(sorted(entry.name.removesuffix(".toml") for entry in _files() if entry.name.endswith(".toml")))


def engine_on_site(spec: TuningSpec, site: TunerSettings) -> InferenceEngine:
    """Return the engine of a task, with the image and the health check of the site. Raises Refused."""
    engine = engine_of(spec)
    image, health = dict(site.images).get(engine.name), dict(site.health_paths)
    return replace(
        engine,
        image=image or engine.image,
        health=health.get(spec.base_runtime) or health.get(engine.name) or engine.health,
    )


def check_images(site: TunerSettings, place: str) -> None:
    """Raise Refused for an image of an engine that does not exist. `place` is the setting's file and line."""
    known = engine_names()
    for name, _ in site.images:
        if name not in known:
            raise Refused(
                f"{place}: tuner.images.{name}: no engine has this name; {nearest(name, known)}", field="tuner"
            )


def engine_of(spec: TuningSpec) -> InferenceEngine:
    """Return the engine of a task as its file describes it. Raises Refused.

    In a cluster `base_runtime` is the name of a runtime there, which usually contains the engine's name. Otherwise the
    engine is unknown, and parameters are passed on under their own names.
    """
    if spec.deployment_mode not in (DeploymentMode.OME, DeploymentMode.KSERVE):
        return find_inference_engine(spec.base_runtime)
    named = engine_in(spec.base_runtime)
    if named is None or not _has_file(named):
        return InferenceEngine(spec.base_runtime, "nothing", (), (), "/health")
    return _read(named)


def canonical(name: str) -> str:
    """Return the short name of a parameter of parallelism for all its aliases; other names without their group."""
    return axis_of(name) or bare_name(name)


def _has_file(name: str) -> bool:
    return any(entry.name == f"{name}.toml" for entry in _files())


def _files() -> Iterator[Any]:
    return files("corral.features.tuner.engines").iterdir()


def _read(name: str) -> InferenceEngine:
    text = files("corral.features.tuner.engines").joinpath(f"{name}.toml").read_text()
    data = tomllib.loads(text)
    return InferenceEngine(
        name,
        data["taken_from"],
        tuple(data["program"]),
        tuple(data["arguments"]),
        data["health"],
        data["image"],
        data.get("flags", {}),
        data.get("defaults", {}),
        data.get("instead", {}),
        data.get("left_out", {}),
        tuple(data.get("refused", ())),
        tuple((larger, smaller) for larger, smaller in data.get("multiples", ())),
        tuple(map(read_over_nodes, data.get("over_nodes", ()))),
    )
