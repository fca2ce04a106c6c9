"""Chooses a text by the language of the user's locale."""

import os
from collections.abc import Mapping


def in_own_language(texts: Mapping[str, str]) -> str | None:
    """The text in the locale's language ("zh_CN.UTF-8" is zh), else in English, else the first; None if there is none.

    The locale is the first non-empty value of LC_ALL, LC_MESSAGES and LANG, as in POSIX.
    """
    locale = next(filter(None, map(os.environ.get, ("LC_ALL", "LC_MESSAGES", "LANG"))), "")
    language = locale.partition(".")[0].partition("_")[0].lower()
    return texts.get(language) or texts.get("en") or next(iter(texts.values()), None)
