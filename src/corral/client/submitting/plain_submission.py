"""Makes the plain form of a submission with common options, like `request.submission` but without the model.

Loading the classes of a submission takes longer than all the rest of a short command.
"""

from __future__ import annotations

from corral.client.submitting.calling_process import checked_text, directory, environment, soft_limits, umask
from corral.client.submitting.git_commit import git_commit
from corral.core.model.errors import Refused
from corral.core.model.units import parse_time_limit_s

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

PLAIN_OPTIONS = frozenset(
    {"array", "env", "force", "gpus", "hold", "name", "priority", "project", "queue", "time", "workdir"}
)

_NO_PLAIN_NUMBER = 10**15

_DEFAULTS: dict[str, Any] = {
    "name": "", "priority": None, "queue": "default", "project": "default", "time_limit_s": None, "env": {},
    "workdir": "/", "umask": 0o022, "rlimits": [], "held": False, "force": False, "inherited_env": [],
    "inherited_workdir": False, "request": {}, "array": None, "git_commit": None, "git_dirty": None,
}  # fmt: skip


def plain_submission(command: Sequence[str], options: Mapping[str, Any]) -> dict[str, Any] | None:
    """The compact plain form of the submission; None if the model must make it.

    The model must make it if `options` has others than PLAIN_OPTIONS, or if any value is invalid: the model then
    reports the first fault. Values are as flags give them. `gpus` is a whole number; text for a share needs the model.
    """
    if not (PLAIN_OPTIONS.issuperset(options) and command and command[0]):
        return None
    if not all(_is_plain(options[name]) for name in ("gpus", "priority") if name in options):
        return None
    try:
        fields = _fields(command, options)
    except Refused:
        return None
    return {name: value for name, value in fields.items() if name == "command" or value != _DEFAULTS[name]}


def _fields(command: Sequence[str], options: Mapping[str, Any]) -> dict[str, Any]:
    given_env, given_dir, gpus = options.get("env", {}), options.get("workdir"), options.get("gpus", 1)
    env, workdir = environment(given_env), directory(given_dir, "workdir")
    commit, dirty = git_commit(workdir) or (None, None)
    return {
        "command": [checked_text(word, "command") for word in command],
        "name": checked_text(options.get("name") or "", "name"),
        "request": {} if gpus == 1 else {"devices": gpus},
        "priority": options.get("priority"),
        "time_limit_s": parse_time_limit_s(options["time"]) if "time" in options else None,
        "queue": checked_text(options.get("queue") or "default", "queue"),
        "project": checked_text(options.get("project") or "default", "project"),
        "env": env,
        "inherited_env": sorted(name for name in env if name not in given_env),
        "workdir": workdir,
        "inherited_workdir": given_dir is None,
        "git_commit": commit,
        "git_dirty": dirty,
        "umask": umask(),
        "rlimits": [list(limit) for limit in soft_limits()],
        "array": _array(options["array"]) if "array" in options else None,
        "held": options.get("hold", False),
        "force": options.get("force", False),
    }


def _is_plain(number: object) -> bool:
    return isinstance(number, int) and 0 <= number < _NO_PLAIN_NUMBER


def _array(text: str) -> dict[str, Any]:
    from corral.core.model.jobs.array_indices import parse_indices

    indices, limit = parse_indices(text)
    return {"indices": list(indices), **({} if limit is None else {"limit": limit})}
