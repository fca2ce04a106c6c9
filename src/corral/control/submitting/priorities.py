"""What priorities callers may take: a site's users have a range, administrators any."""

from dataclasses import replace

from corral.access.caller import Caller
from corral.control.submitting.bounds import BOUNDS, between
from corral.model.errors import Refused
from corral.model.queue import Limits
from corral.model.submission import Submission

NICE_PER_STEP = 100
"""What a bare --nice means in Slurm is one step of priority here."""


def settle_priority(limits: Limits, asked: Submission, caller: Caller) -> tuple[Submission, tuple[str, ...]]:
    """The submission with a priority in place of a nice value, and what to tell of it.

    A nice value is brought into the caller's range, for scripts come with theirs from sites that have another. Raises
    Refused for a priority outside that range.
    """
    if asked.nice is None:
        refuse_priority(limits, asked.priority, caller)
        return asked, ()
    between(asked.nice, *BOUNDS[Submission]["nice"][:2], "nice")
    if asked.priority is not None:
        raise Refused("priority and nice both say how urgent it is; leave one of them out", field="nice")
    steps = -(-asked.nice // NICE_PER_STEP) if asked.nice > 0 else asked.nice // NICE_PER_STEP
    wanted = limits.default_priority + steps
    least, most = _range_of(limits, caller) or (wanted, wanted)
    given = min(max(wanted, least), most)
    note = f"nice {asked.nice} comes to priority {wanted}, and the site allows {least} to {most}: it is {given}"
    return replace(asked, priority=given, nice=None), () if given == wanted else (note,)


def refuse_priority(limits: Limits, priority: int | None, caller: Caller, *, whose: str = "") -> None:
    """Raises Refused for a priority that the caller may not take; None is the site's default, which everybody may."""
    allowed = _range_of(limits, caller)
    if priority is not None and allowed is not None and not allowed[0] <= priority <= allowed[1]:
        raise Refused(
            f"priority {priority}{whose} is not open to you: the site allows its users {allowed[0]} to {allowed[1]} "
            "(a lower number runs first), and administrators any",
            field="priority",
        )


def _range_of(limits: Limits, caller: Caller) -> tuple[int, int] | None:
    return None if caller.admin else limits.priority_range
