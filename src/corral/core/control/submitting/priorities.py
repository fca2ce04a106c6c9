"""The priorities that callers may choose: users within the site's range, administrators any."""

from dataclasses import replace

from corral.core.access.caller import Caller
from corral.core.model.errors import Refused
from corral.core.model.jobs.submission import Submission
from corral.core.model.queues.queue import Limits
from corral.declared.field_limits import between, ranges

NICE_PER_STEP = 100
"""The nice value of one step of priority: that of a bare --nice in Slurm."""


def settle_priority(limits: Limits, asked: Submission, caller: Caller) -> tuple[Submission, tuple[str, ...]]:
    """Return the submission with its nice value converted to a priority, and notes for the user.

    A priority from a nice value is limited to the caller's range, because scripts bring nice values from sites with
    other ranges. Raises Refused for an explicit priority outside that range, and for a priority together with a nice
    value.
    """
    if asked.nice is None:
        refuse_priority(limits, asked.priority, caller)
        return asked, ()
    least, most, *_ = ranges(Submission)["nice"]
    between(asked.nice, least, most, "nice")
    if asked.priority is not None:
        raise Refused("priority and nice exclude each other; remove one of them", field="nice")
    steps = -(-asked.nice // NICE_PER_STEP) if asked.nice > 0 else asked.nice // NICE_PER_STEP
    wanted = limits.default_priority + steps
    least, most = _range_of(limits, caller) or (wanted, wanted)
    given = min(max(wanted, least), most)
    note = f"nice {asked.nice} means priority {wanted}, but the site allows {least} to {most}; it is set to {given}"
    return replace(asked, priority=given, nice=None), () if given == wanted else (note,)


def refuse_priority(limits: Limits, priority: int | None, caller: Caller, *, whose: str = "") -> None:
    """Raise Refused for a priority that the caller may not use. Every caller may use None, the site's default."""
    allowed = _range_of(limits, caller)
    if priority is not None and allowed is not None and not allowed[0] <= priority <= allowed[1]:
        raise Refused(
            f"priority {priority}{whose} is not allowed: users may choose {allowed[0]} to {allowed[1]} "
            "(lower numbers run first), administrators any",
            field="priority",
        )


def _range_of(limits: Limits, caller: Caller) -> tuple[int, int] | None:
    return None if caller.admin else limits.priority_range
