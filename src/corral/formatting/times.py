"""Times as a person reads them."""

import time


def clock_time(at: float | None) -> str:
    """A time as a person writes it: 14:20, with the date if it is not today; "-" if unknown."""
    if at is None:
        return "-"
    moment, today = time.localtime(at), time.localtime()
    return time.strftime("%H:%M" if moment[:3] == today[:3] else "%Y-%m-%d %H:%M", moment)


def start_time(at: float | None, what: str | None) -> str:
    """When a job is expected to start, and how sure that is: "14:20 (promise)"."""
    if at is None:
        return "not known"
    return f"{clock_time(at)} ({what})" if what else clock_time(at)
