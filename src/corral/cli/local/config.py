"""`corral config`: write a settings file, check a file as a server would read it, and let the server reload it."""

import pwd
from collections.abc import Iterator
from pathlib import Path

from corral.cli.commands import serving
from corral.cli.local.served_nodes import served_nodes
from corral.cli.local.server import make_home
from corral.cli.screen import USAGE, print_json, say, write_document, write_lines
from corral.client import Client, own_home
from corral.config import HOST, Settings, load_settings
from corral.config.mistakes import Collecting, Mistakes
from corral.config.site import PoolStrategy
from corral.config.starter import starter_settings
from corral.core.control.site.from_settings import SiteSetup, site_setup
from corral.core.model.devices.device import Node
from corral.core.model.errors import CorralError, Refused
from corral.core.model.queues.queue import Project
from corral.core.sharing.definitions import load_catalogue
from corral.features.feature_list import features
from corral.plugins.queue_orders import load_policies


def check(given: serving.ConfigCheckCommand) -> int:
    """Run `corral config check`."""
    path = own_home().config_file if given.file is None else given.file
    if not path.exists():
        raise Refused(f"there is no file {path}, so every setting has its default value", field="FILE")
    try:
        settings, arranged, unknown = _read(path)
    except Mistakes as mistakes:
        for one in mistakes.found:
            say(str(one))
        return USAGE
    remarks = [*arranged.remarks, *_preempting(settings), *_unknown_names(settings), *([unknown] if unknown else [])]
    if given.json:
        print_json({"file": str(path), "remarks": remarks})
        return 0
    for remark in remarks:
        write_lines(f"note: {remark}")
    write_lines(f"{path} is valid")
    return 0


def init(given: serving.ConfigInitCommand) -> None:
    """Run `corral config init`."""
    if given.file == Path("-"):
        write_document(starter_settings())
        return
    home = own_home()
    path = home.config_file if given.file is None else given.file
    if given.file is None:
        make_home(home)
    try:
        with path.open("x", encoding="utf-8") as new:
            new.write(starter_settings())
    except FileExistsError:
        instead = "`corral config init -` writes to standard output"
        raise Refused(f"{path} is there already, and is not overwritten; {instead}", field="FILE") from None
    except OSError as error:
        raise Refused(f"cannot write {path}: {error.strerror}", field="FILE") from None
    write_lines(f"{path} is written; change it, then: corral config check, corral config reload")


def _read(path: Path) -> tuple[Settings, SiteSetup, str]:
    """The settings, their meaning here, and the reason if the GPUs are unknown. Raises Refused with all mistakes."""
    settings, wrong = load_settings(path), Collecting()
    for feature in features():
        with wrong.at():
            feature.check(settings)
    if settings.resource_names is not None:
        with wrong.at(settings.places["resource_names"]):
            load_catalogue([path.parent / settings.resource_names])
    nodes, unknown = _nodes(settings.engine) if _names_gpus(settings) else (None, "")
    arranged = None
    with wrong.at():
        arranged = site_setup(settings, nodes, load_policies(), arrange=[feature.arranged for feature in features()])
    wrong.tell()
    assert arranged is not None, "else something was wrong"
    return settings, arranged, unknown


def _names_gpus(settings: Settings) -> bool:
    static = settings.strategy is PoolStrategy.STATIC
    return bool(settings.expected_gpus or settings.sharing or settings.pools or static)


def _nodes(engine: str) -> tuple[list[Node] | None, str]:
    """The nodes of the running server, else this machine if it has the engine `host`. Else None and the reason."""
    try:
        with Client() as client:
            return served_nodes(client), ""
    except CorralError:
        if engine != HOST:
            return None, "cannot check whether the GPUs it names exist: no server of this cluster answers"
        from corral.cli.local.doctor import node_here

        here, source = node_here()
    return ([here], "") if here else (None, f"cannot check whether the GPUs it names exist: {source}")


def _preempting(settings: Settings) -> Iterator[str]:
    """Remarks on the queues that preempt although their own lines do not say so."""
    silent = [queue.name for queue in settings.queues if queue.preempts is None]
    if settings.enable_preemption and silent:
        queues = f"{'queues' if len(silent) > 1 else 'queue'} {', '.join(silent)}"
        yield (
            f"policies.enable_preemption applies to {queues} too: the first waiting job there may stop other "
            "jobs; write `preempts: false` in a queue to prevent that"
        )


def _unknown_names(settings: Settings) -> Iterator[str]:
    """Remarks on users that this machine does not have, and on projects of pools if no project is set up."""
    for kind, groups in (("project", settings.projects), ("pool", settings.pools)):
        for group in groups:
            weighed = group.user_weights if isinstance(group, Project) else ()
            place = settings.places[f"{kind} {group.name}"]
            for user in dict.fromkeys([*group.users, *(user for user, _ in weighed)]):
                if not _is_user(user):
                    yield f"{place}: {kind} {group.name}: there is no user {user!r} on this machine"
    for pool in settings.pools:
        for project in () if settings.projects else pool.projects:
            place = settings.places[f"pool {pool.name}"]
            yield f"{place}: pool {pool.name}: no projects are defined, so anybody may use its project {project!r}"


def _is_user(name: str) -> bool:
    try:
        pwd.getpwnam(name)
    except (KeyError, ValueError):
        return False
    return True
