"""The container of a job, from options as users write them."""

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from corral.core.model.errors import Refused
from corral.core.model.jobs.container import MAX_TEMPLATE_LENGTH, Container, Pull, check_container, parse_volume
from corral.core.model.units import parse_memory_mib


def container(given: Mapping[str, Any], spell: Callable[[str], str]) -> Container | None:
    """The container of the job by its options; None if no option asks for one. Raises Refused."""
    named = ("image", "volume", "service_account", "pod_template", "shm_size", "network", "user", "pull")
    if not any(given.get(name) for name in named):
        return None
    shm_size = given.get("shm_size")
    asked = Container(
        image=given.get("image"),
        volumes=tuple(parse_volume(one, spell("volume")) for one in given.get("volume", ())),
        service_account=given.get("service_account"),
        pod_template=_template(given.get("pod_template"), spell("pod_template")),
        shm_size_mib=None if shm_size is None else parse_memory_mib(shm_size, field=spell("shm_size")),
        network=given.get("network"),
        user=given.get("user"),
        pull=_pull(given.get("pull"), spell("pull")),
    )
    check_container(asked)
    return asked


def _pull(given: str | None, field: str) -> Pull | None:
    try:
        return None if given is None else Pull(given)
    except ValueError:
        raise Refused(
            f"{field}: {given!r:.40} is no such policy; write missing, always or never", field=field
        ) from None


def _template(given: Any, field: str) -> str | None:
    """The template as JSON, read from a file or given as a mapping."""
    if given is None:
        return None
    if isinstance(given, Mapping):
        return _as_json(given, field)
    import yaml

    try:
        with Path(given).open("rb") as file:
            text = file.read(MAX_TEMPLATE_LENGTH + 1)
    except OSError as error:
        raise Refused(f"{field}: cannot read {given}: {error.strerror}", field=field) from None
    if len(text) > MAX_TEMPLATE_LENGTH:
        raise Refused(f"{field}: {given} is longer than {MAX_TEMPLATE_LENGTH // 1024} KiB", field=field)
    try:
        read = yaml.safe_load(text)
    except (yaml.YAMLError, RecursionError) as error:
        raise Refused(f"{field}: {given} is not YAML: {_first_problem(error)}", field=field) from None
    if not isinstance(read, Mapping):
        raise Refused(f"{field}: {given} has no pod template; it begins with metadata: or spec:", field=field)
    return _as_json(read, field)


def _first_problem(error: Exception) -> str:
    """PyYAML's message on a file, on one line, with the line of the file if it is known."""
    mark, problem = getattr(error, "problem_mark", None), getattr(error, "problem", None)
    return (f"line {mark.line + 1}: " if mark else "") + f"{problem or error!s:.300}".split("\n")[0]


def _as_json(template: Mapping[str, Any], field: str) -> str:
    try:
        return json.dumps(template, sort_keys=True)
    except (TypeError, ValueError, RecursionError) as error:
        raise Refused(
            f"{field}: a template is made of texts, numbers, lists and mappings: {error}", field=field
        ) from None
