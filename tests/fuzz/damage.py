"""Ways to damage a file, each with random numbers of a given generator.

A damage takes bytes and gives other bytes. Those for text know what readers stumble
over: numbers out of range, cells and nesting without end, quotes that do not close.
"""

import json
import re
from random import Random

NUMBERS = [
    *("-1", "0", "0.5", "1e999", "-1e999", "nan", "inf", "1e308", "1_000", "0x10"),
    *("1,5", "1000000000000", "true", "null", "", " ", "٣", "½", "1\x00", "1 2"),
    *(str(2**63 - 1), str(2**63), str(-(2**63) - 1), "9" * 40, "9" * 5000),
]
VALUES = [
    None,
    True,
    -1,
    0,
    10**6,
    10**12,
    2**63,
    10**40,
    1e308,
    float("nan"),
    float("inf"),
    "",
    "..",
    "../..",
    "/etc/passwd",
    "x" * 200_000,
    "\x00",
    "=1+1",
    "<script>alert(1)</script>",
    [],
    {},
    [[]],
    [None],
    {"": {}},
    [0, 0],
]
NESTED = "[" * 100_000 + "]" * 100_000
LINES = [
    "",
    ",",
    '"',
    '""""',
    "'" * 3,
    "a,b,c,d,e,f,g,h",
    "x" * 200_000,
    "," * 5000,
    "\ufeff",
    "\u2028",
    "\x00",
    "=1+1",
    "C" * 300_000 + ",1",
    "C1" * 2000 + ",1",
    "(" * 5000 + ",1",
    "[" * 5000,
    "-" * 200_000,
]


def flip_bit(data: bytes, random: Random) -> bytes:
    place = random.randrange(len(data))
    changed = data[place] ^ (1 << random.randrange(8))
    return data[:place] + bytes([changed]) + data[place + 1 :]


def set_bytes(data: bytes, random: Random) -> bytes:
    start, end = _span(data, random)
    return data[:start] + random.randbytes(end - start) + data[end:]


def cut_out(data: bytes, random: Random) -> bytes:
    start, end = _span(data, random)
    return data[:start] + data[end:]


def repeat(data: bytes, random: Random) -> bytes:
    start, end = _span(data, random)
    return data[:end] + data[start:end] * random.choice((1, 2, 50)) + data[end:]


def truncate(data: bytes, random: Random) -> bytes:
    return data[: random.randrange(len(data))]


def append(data: bytes, random: Random) -> bytes:
    return data + random.randbytes(random.choice((1, 8, 1000)))


def empty(data: bytes, random: Random) -> bytes:
    return random.choice((b"", b"\n", b"\x00" * len(data), random.randbytes(100)))


def change_number(data: bytes, random: Random) -> bytes:
    found = list(re.finditer(rb"-?\d+(\.\d+)?", data))
    if not found:
        return append(data, random)
    place = random.choice(found)
    new = random.choice(NUMBERS).encode()
    return data[: place.start()] + new + data[place.end() :]


def change_line(data: bytes, random: Random) -> bytes:
    lines = data.split(b"\n")
    place = random.randrange(len(lines))
    new = random.choice(LINES).encode()
    how = random.choice(("replace", "insert", "append", "prepend", "drop", "move"))
    if how == "replace":
        lines[place] = new
    elif how == "insert":
        lines.insert(place, new)
    elif how == "append":
        lines[place] += new
    elif how == "prepend":
        lines[place] = new + lines[place]
    elif how == "drop":
        del lines[place]
    else:
        lines.append(lines.pop(place))
    return b"\n".join(lines)


def change_encoding(data: bytes, random: Random) -> bytes:
    text = data.decode()
    return random.choice(
        (
            text.encode("utf-16"),
            b"\xef\xbb\xbf" + data,
            data.replace(b"\n", b"\r\n"),
            data.replace(b"\n", b"\r"),
            data.replace(b",", b";"),
            data.replace(b",", b"\t"),
            text.replace("e", "é").encode("latin-1", "replace"),
        )
    )


def change_json(data: bytes, random: Random) -> bytes:
    """Replace, remove or add a value somewhere in a JSON document."""
    document = [json.loads(data)]
    holder, key = random.choice(list(_places(document)))
    how = random.random()
    if how < 0.1:
        holder[key] = "NESTED"
        return json.dumps(document[0]).replace('"NESTED"', NESTED).encode()
    if how < 0.2:
        del holder[key]
    elif how < 0.3 and isinstance(holder[key], dict):
        holder[key]["unknown"] = random.choice(VALUES)
    elif how < 0.4 and isinstance(holder[key], list):
        holder[key] *= random.choice((2, 1000))
    else:
        holder[key] = random.choice(VALUES)
    return json.dumps(document[0] if document else None).encode()


def change_yaml(data: bytes, random: Random) -> bytes:
    """Put something that only YAML has into the place of a value, or at the end."""
    bomb = "[&a [x, x], &b [*a, *a, *a, *a, *a, *a, *a, *a]"
    for old, new in zip("bcdefghij", "cdefghijk", strict=True):
        bomb += f", &{new} [" + ", ".join([f"*{old}"] * 8) + "]"
    snippet = random.choice(
        (
            bomb + "]",
            NESTED,
            "!!timestamp x",
            "!!int x",
            "!!binary x",
            "!!python/object/apply:os.system [true]",
            "2020-99-99",
            "&a [*a]",
            "*nothing",
            "{<<: 1}",
            "? [a]\n: b",
            "!!set {a, b}",
            "0b2",
            "1:99:99",
            "'" * 3,
            "{a: 1, a: 2}",
            "9" * 5000,
            "~",
            "!unknown x",
            "%YAML 9.9",
        )
    ).encode()
    lines = data.split(b"\n")
    place = random.randrange(len(lines))
    if b":" in lines[place] and random.random() < 0.7:
        lines[place] = lines[place].partition(b":")[0] + b": " + snippet
    elif random.random() < 0.5:
        lines.append(lines[place])  # a key that is there twice
    else:
        lines.insert(place, snippet)
    return b"\n".join(lines)


BYTES = (flip_bit, flip_bit, set_bytes, cut_out, repeat, truncate, append, empty)
TEXT = (*BYTES, change_number, change_number, change_line, change_line, change_encoding)
JSON = (flip_bit, truncate, empty, change_number, change_line, *[change_json] * 6)
YAML = (*TEXT, *[change_yaml] * 6)


def _span(data: bytes, random: Random) -> tuple[int, int]:
    start = random.randrange(len(data))
    return start, min(len(data), start + random.choice((1, 2, 16, 256)))


def _places(node: object) -> list[tuple[object, object]]:
    """Where each value of a document is held."""
    keys: object = ()
    if isinstance(node, dict):
        keys = node
    elif isinstance(node, list):
        keys = range(len(node))
    found: list[tuple[object, object]] = []
    for key in keys:  # type: ignore[attr-defined]
        found.append((node, key))
        found += _places(node[key])  # type: ignore[index]
    return found
