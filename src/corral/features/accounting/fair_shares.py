"""The usage that counts for each project and user in the policy `fair-share`."""

from corral.core.model.view import View
from corral.core.scheduling.queueing.fair_share import HORIZON_S, FairShare
from corral.features.accounting.answers import FairShareRow, FairShares

FORMULA = (
    "(past + held) / weight, in GPU-seconds; past is the sum of gpu_s * 0.5 ^ (age / half-life) of what has ended, "
    f"held the sum of gpus * (seconds so far + {HORIZON_S:.0f}) of what lasts"
)


def fair_shares(view: View, now: float) -> FairShares:
    """Return the fair shares of all projects and users with usage or devices, whatever the policy of their queues."""
    share, half_life_s = FairShare(view, now), view.usage_half_life_s
    past_of_user = {member: usage.decayed(now, half_life_s).gpu_s for member, usage in view.usage.items()}
    rows: list[FairShareRow] = []
    for project, all_gpu_s in sorted(share.of_projects().items()):
        members = sorted((user, gpu_s) for (of, user), gpu_s in share.of_users().items() if of == project)
        past_s = sum(past_of_user.get((project, user), 0.0) for user, _ in members)
        rows.append(_row(project, None, share.weight_of_project(project), past_s, all_gpu_s))
        for user, gpu_s in members:
            past_s = past_of_user.get((project, user), 0.0)
            rows.append(_row(project, user, share.weight_of_user(project, user), past_s, gpu_s))
    return FairShares(half_life_s, FORMULA, tuple(rows))


def _row(project: str, user: str | None, weight: float, past_gpu_s: float, all_gpu_s: float) -> FairShareRow:
    figures = (past_gpu_s, max(0.0, all_gpu_s - past_gpu_s), all_gpu_s / weight)
    return FairShareRow(project, user, weight, *(round(figure, 3) for figure in figures))
