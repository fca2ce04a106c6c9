"""Times as a person reads them."""

import time

from corral.core.model.placing.certainty import Certainty


def clock_time(at: float | None) -> str:
    """A time as a person writes it: 14:20, with the date if it is not today; "-" if unknown."""
    if at is None:
        return "-"
    moment, today = time.localtime(at), time.localtime()
    return time.strftime("%H:%M" if moment[:3] == today[:3] else "%Y-%m-%d %H:%M", moment)


def full_time(at: float) -> str:
    """A time with its date, its seconds and its zone, for whoever reads it elsewhere and later."""
    return time.strftime("%Y-%m-%d %H:%M:%S %z", time.localtime(at))


def clock_span(begin: float, end: float) -> str:
    """A stretch of time: "08:00 to 14:20" today, else both with their dates."""
    dates = [time.localtime(at)[:3] for at in (begin, end, time.time())]
    wanted = "%H:%M" if len(set(dates)) == 1 else "%Y-%m-%d %H:%M"
    return " to ".join(time.strftime(wanted, time.localtime(at)) for at in (begin, end))


def start_time(at: float | None, what: str | None) -> str:
    """When a job is expected to start, and how sure that is, `what` it is by `Certainty`: "14:20 (promise)"."""
    if at is None:
        return "not foreseen: too many jobs go first" if what == Certainty.UNFORESEEN else "not known"
    return f"{clock_time(at)} ({what})" if what else clock_time(at)
