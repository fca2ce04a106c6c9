"""What a user may write in the place of anything: texts that have broken readers of text, or might."""

import json

DEEP = 100_000

TEXTS: dict[str, bytes] = {
    "nothing": b"",
    "lists in lists": b"[" * DEEP,
    "lists in lists to the end": b"[" * DEEP + b"]" * DEEP,
    "objects in objects": b'{"a":' * DEEP,
    "a list in each field": json.dumps({}).encode()[:1] + b'"a":[' * 900,
    "many digits": b"9" * 5000,
    "many digits below zero": b"-" + b"9" * 5000,
    "a huge exponent": b"1e999999999",
    "no number": b"NaN",
    "endless": b"Infinity",
    "commas": b",,,",
    "digits of another script": "٣٣٣".encode(),
    "a square": "²".encode(),
    "half a character": b'"\\ud800"',
    "bytes of no character": b"\xff\xfe\x80",
    "a zero byte": b"\0",
    "a zero byte in a text": b'"\\u0000"',
    "orders to a terminal": b"\x1b]0;owned\x07\x1b[2J",
    "lines": b"\n" * 5000,
    "one long line": b"x" * 70_000,
    "null": b"null",
    "true": b"true",
    "a list": b"[]",
    "an object": b"{}",
    "a text": b'"x"',
}

VALUES = (
    "9" * 5000,
    "9" * 400,
    "1e400",
    "-1e400",
    "NaN",
    "Infinity",
    '"\\ud800"',
    '"a\\u0000b"',
    "[]",
    "{}",
    "null",
    "true",
    '"x"',
    "-1",
)
"""JSON in the place of any one field."""


def broken_fields(record: dict[str, object]) -> list[bytes]:
    """The record as JSON with each field replaced by each of these values, one at a time."""
    found = []
    for name in record:
        for value in VALUES:
            others = (f"{json.dumps(key)}: {json.dumps(one)}" for key, one in record.items() if key != name)
            found.append(f"{{{', '.join((*others, f'{json.dumps(name)}: {value}'))}}}".encode())
    return found
