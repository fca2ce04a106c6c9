"""Which of several languages a person reads, by the locale of their environment."""

import os
from collections.abc import Mapping


def in_own_language(texts: Mapping[str, str]) -> str | None:
    """The text of the locale's language ("zh_CN.UTF-8" is zh), else the English one, else the first; None for none.

    The locale is what the first of LC_ALL, LC_MESSAGES and LANG says that is not empty, as in POSIX.
    """
    locale = next(filter(None, map(os.environ.get, ("LC_ALL", "LC_MESSAGES", "LANG"))), "")
    language = locale.partition(".")[0].partition("_")[0].lower()
    return texts.get(language) or texts.get("en") or next(iter(texts.values()), None)
