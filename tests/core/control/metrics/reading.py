"""Reads Prometheus's text format strictly, as its own parser does, into (name, labels) -> value."""

import re

_ROW = re.compile(r"([a-zA-Z_:][\w:]*)(?:\{(.*)\})? (\S+)")
_LABEL = re.compile(r'([a-zA-Z_]\w*)="((?:[^"\\\n]|\\[\\"n])*)"(?:,|$)')
_ESCAPES = {"\\\\": "\\", '\\"': '"', "\\n": "\n"}

Rows = dict[tuple[str, frozenset[tuple[str, str]]], float]


def rows_of(body: bytes) -> Rows:
    """Every row. A line that is none, a row twice, or one that does not follow its family's head fails."""
    text = body.decode()
    assert text.endswith("\n")
    rows: Rows = {}
    kind = family = ""
    for line in text.splitlines():
        if line.startswith("# HELP "):
            continue
        if line.startswith("# TYPE "):
            _, _, family, kind = line.split(" ")
            assert not any(name == family for name, _ in rows), f"{family} comes twice"
            continue
        found = _ROW.fullmatch(line)
        assert found, line
        name, labels = found[1], labels_of(found[2] or "")
        assert name == family or (kind == "histogram" and name.rpartition("_")[0] == family), line
        assert (name, labels) not in rows, line
        rows[name, labels] = float(found[3])
    return rows


def labels_of(text: str) -> frozenset[tuple[str, str]]:
    pairs, at = [], 0
    while at < len(text):
        found = _LABEL.match(text, at)
        assert found, text
        value = re.sub(r"\\.", lambda escape: _ESCAPES[escape[0]], found[2])
        pairs.append((found[1], value))
        at = found.end()
    assert len({name for name, _ in pairs}) == len(pairs), text
    return frozenset(pairs)


def named(rows: Rows, name: str) -> list[tuple[dict[str, str], float]]:
    """The rows of one name, with their labels."""
    return [(dict(labels), value) for (own, labels), value in rows.items() if own == name]
