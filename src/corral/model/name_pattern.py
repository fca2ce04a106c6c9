"""Names of jobs as people ask for them: one or several, separated by commas, each with * for any characters."""

from fnmatch import fnmatchcase

WILD = frozenset("*?[")


def name_patterns(text: str) -> tuple[str, ...]:
    """The patterns in a text; the text itself is one, for a name may have a comma in it."""
    parts = [part.strip() for part in text.split(",")] if "," in text else []
    return tuple(dict.fromkeys([text, *(part for part in parts if part)]))


def fits(name: str, text: str) -> bool:
    """Whether a name is one of those that the text asks for: * is any characters, ? one, and [ab] one of these."""
    return any(name == pattern or fnmatchcase(name, pattern) for pattern in name_patterns(text))


def as_glob(pattern: str) -> str | None:
    """The pattern as SQLite's GLOB has it, None for one that is a plain name."""
    return None if WILD.isdisjoint(pattern) else pattern.replace("[!", "[^")
