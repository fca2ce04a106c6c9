"""The plain way to place a request: the fullest node that fits, and on it the devices with the best availability."""

from corral.model.allocation import Grant, Member, Placement
from corral.model.device import availability_score
from corral.model.fit import Cause, Fit, Misfit, grant_memory_mib
from corral.model.job import Request
from corral.scheduling.draft import Draft

METHOD = "availability"


def choose(draft: Draft, request: Request) -> Placement | Misfit:
    """A place for every member of the request in the draft's open capacity, or the misfit of the best node.

    The draft is not changed. Members of a gang go one after another, so that each sees what those before it took.
    """
    if request.gang_size == 1:
        found = _member(draft, request, draft.capacity.names)
        return found if isinstance(found, Misfit) else Placement((found,))
    names = draft.capacity.names
    if not request.one_node:
        return _gang(draft, request, names)
    misfits = []
    for name in names:
        placed = _gang(draft, request, (name,))
        if isinstance(placed, Placement):
            return placed
        misfits.append(placed)
    return best_misfit(misfits) if misfits else _no_node(request)


def best_misfit(misfits: list[Misfit]) -> Misfit:
    """The misfit that is nearest to fitting: one that waiting can mend, with the most of what is asked for."""
    return min(misfits, key=lambda m: (m.never, -m.available, m.node or ""))


def _gang(draft: Draft, request: Request, names: tuple[str, ...]) -> Placement | Misfit:
    trial = draft.branch()
    members: list[Member] = []
    for _ in range(request.gang_size):
        found = _member(trial, request, names)
        if isinstance(found, Misfit):
            return found
        members.append(found)
        trial.take((found,))
        if request.spread:
            names = tuple(name for name in names if name != found.node)
    return Placement(tuple(members))


def _member(draft: Draft, request: Request, names: tuple[str, ...]) -> Member | Misfit:
    best: tuple[int, str, Fit] | None = None
    misfits = []
    for name in names:
        answer = draft.fit(name, request)
        if isinstance(answer, Misfit):
            misfits.append(answer if answer.node else _on(answer, name))
        elif best is None or len(answer.slots) < best[0]:
            best = (len(answer.slots), name, answer)
    if best is not None:
        return _take(draft, request, best[1], best[2])
    return best_misfit(misfits) if misfits else _no_node(request)


def _take(draft: Draft, request: Request, name: str, answer: Fit) -> Member:
    state = draft.free(name)

    def preference(index: int) -> tuple[int, float, int]:
        device = draft.capacity.device(name, index)
        condition = draft.capacity.condition(device.uuid)
        score = 0.0
        if condition is not None:
            score = availability_score(condition.memory_free_mib, device.memory_mib, condition.utilization_pct)
        return state.slots[index].free_milli, -score, index

    chosen = sorted(sorted(answer.slots, key=preference)[: request.devices])
    grants = tuple(
        Grant(
            draft.capacity.device(name, index).uuid,
            request.share_milli,
            grant_memory_mib(request, state.slots[index]),
        )
        for index in chosen
    )
    return Member(name, grants, request.cpu_milli, request.host_memory_mib)


def _on(misfit: Misfit, name: str) -> Misfit:
    return Misfit(
        misfit.cause, misfit.wanted, misfit.available, misfit.devices, misfit.never, misfit.eviction_helps, name
    )


def _no_node(request: Request) -> Misfit:
    return Misfit(Cause.NO_NODE, request.gang_size, 0)
