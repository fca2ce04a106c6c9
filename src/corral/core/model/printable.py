"""Text from others, made safe to show on a terminal, in a log line, or in a notice."""


def printable(text: str) -> str:
    r"""`text` with each control or invisible character replaced by its Python escape.

    These are the characters that are not `str.isprintable`: control characters, line ends and tabs, marks that change
    the direction of writing, characters of no width. An escape character becomes `\x1b`, four characters. Printable
    text of any language stays as it is.
    """
    if text.isprintable():
        return text
    return "".join(character if character.isprintable() else ascii(character)[1:-1] for character in text)
