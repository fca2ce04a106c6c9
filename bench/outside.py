"""Two checkouts, as the outside sees them: `python -m bench.outside OLD [NEW]`, each with its own environment in .venv.

It compares the description of the API; the help of every command; what a server of four mock GPUs answers, by command
and by API; what each makes of a home whose journal the old one wrote; and the plans of each on drawn sites. It prints
a unified diff and exits with 1 where they differ. NEW is this checkout by default.

Values that differ between two servers of the old checkout are left out: times, process ids, measurements.
"""

import difflib
import http.client
import json
import os
import re
import shlex
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

SITES = 300
"""How many sites are drawn."""

ANSWER_S = 30.0

MOCK = """slot_name = "cuda"
device_plugin_name = "CUDADevice"

[attributes]
nvidia_driver = "550.54.15"
cuda_runtime = "12.4"
""" + "".join(
    f"""
[[devices]]
mother_uuid = "GPU-{index:08d}-0000-4000-8000-000000000000"
model_name = "Mock A100"
numa_node = 0
subproc_count = 108
memory_size = "80G"
is_mig_device = false
compute_capability = "8.0"
"""
    for index in range(4)
)

SETTINGS = """kill_grace: 1s
queues:
  - {name: default}
  - {name: night, weight: 2, quota: {gpus: 2}}
"""

WORK = (
    *("--gpus 2 --name runs --time 4h -- sleep 3000", "--gpus 0.5 --name shares -- sleep 3000"),
    *("--gpus 4 --name waits --priority 7 -- sleep 1", "--hold --gpus 1 --queue night --name held -- true"),
    *("--gpus 0 --name ends -- echo done", "--gpus 0 --name fails -- sh -c 'exit 3'"),
    "--gpus 3 --after any:1 --name follows --array 0-3%2 -- true",
)
"""Submissions in turn: ids begin at 1."""

AFTER_A_RESTART = ("ps --all --elements", "status", "queues", "usage", *(f"show {job}" for job in range(1, 7)))
LISTINGS = (*AFTER_A_RESTART, "ps", "devices", "nodes", "alloc-map", "resources", "kpis", "report", "alerts")
ANSWERED = (
    *(f"{line}{form}" for line in (*LISTINGS, "why 1", "why 3", "why 4", "why 6") for form in ("", " --json")),
    *("logs 5", "cancel 99", "submit --gpus 9 -- true", "submit --dry-run --gpus 4 -- true", "ps --bogus", "nonsense"),
)
"""Commands whose output is compared, as text and as JSON; some of them are mistakes."""

EARLIEST, LATEST = 1.5e9, 5e9
"""Numbers between these are taken for moments, in Unix seconds."""

BRIEF = "Unrecorded"
"""The reason of waits that are so short that now and then there is none."""

VARIES = "(varies)"

Seen = dict[str, dict[str, str]]
"""What was seen: by what was asked, the values by their place in the answer."""


class Checkout:
    """A checkout of Corral, with its command and one server at a time in a home of its own."""

    def __init__(self, root: Path) -> None:
        self.root = root.resolve()
        self.home = Path(tempfile.mkdtemp(prefix="outside-"))
        (self.home / "mock.toml").write_text(MOCK)
        (self.home / "config.yaml").write_text(SETTINGS)
        kept = {name: value for name, value in os.environ.items() if not name.startswith("CORRAL_")}
        self.environ = {**kept, "CORRAL_HOME": str(self.home), "COLUMNS": "120", "TERM": "dumb", "NO_COLOR": "1"}
        self.version = "no version"
        self.version = self.says("--version").strip().removeprefix("corral ")

    def says(self, line: str) -> str:
        """All that a command prints, and its exit code where that is not 0."""
        return self._said([self._program("corral"), *shlex.split(line)], self.home)

    def inside(self, *words: str) -> str:
        """What `bench.inside` of the checkout prints."""
        return self._said([self._program("python"), "-m", "bench.inside", *words], self.root)

    def up(self) -> None:
        """Start the server. Exits where it does not start."""
        if "exit code" in (said := self.says("up --detach --mock mock.toml")):
            sys.exit(f"the server of {self.root} does not start:\n{said}")

    def api(self, path: str) -> tuple[int, str, str]:
        """The status, content type and text of a GET."""
        with socket.socket(socket.AF_UNIX) as line:
            line.settimeout(ANSWER_S)
            line.connect(str(self.home / "corral.sock"))
            connection = http.client.HTTPConnection("localhost")
            connection.sock = line
            connection.request("GET", path)
            answer = connection.getresponse()
            text = answer.read().decode(errors="replace")
        return answer.status, answer.getheader("content-type", ""), self._without_names(text)

    def discard(self) -> None:
        """End its jobs and its server, and remove its home."""
        for line in ("cancel --name '*' --yes", "wait 1 2", "down"):
            self.says(line)
        shutil.rmtree(self.home, ignore_errors=True)

    def _program(self, name: str) -> str:
        return str(self.root / ".venv/bin" / name)

    def _said(self, words: list[str], directory: Path) -> str:
        done = subprocess.run(
            words,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            env=self.environ,
            cwd=directory,
        )
        said = self._without_names(done.stdout)
        return said if done.returncode == 0 else f"{said}exit code {done.returncode}\n"

    def _without_names(self, text: str) -> str:
        for name, put in ((self.home, "HOME"), (self.root, "CHECKOUT"), (self.version, "VERSION")):
            text = text.replace(str(name), put)
        return text


@contextmanager
def checked_out(root: Path) -> Iterator[Checkout]:
    """A checkout whose jobs and server are ended afterwards."""
    of = Checkout(root)
    try:
        yield of
    finally:
        of.discard()


def helps(of: Checkout) -> Seen:
    """The help of every command, found by the listings of those above it."""
    found: Seen = {}
    level = [""]
    with ThreadPoolExecutor(2) as threads:
        while level:
            said = dict(zip(level, threads.map(lambda words: of.says(f"{words} --help"), level), strict=True))
            found |= {f"corral {words} --help": lines_of(text) for words, text in said.items()}
            level = [f"{words} {name}".strip() for words, text in said.items() for name in commands_in(text)]
    return found


def commands_in(text: str) -> Iterator[str]:
    """The names of the commands that a help lists."""
    listing = False
    for line in text.splitlines():
        if line and not line.startswith(" "):
            listing = line.endswith(":") and line not in ("Options:", "Arguments:")
        elif listing and (named := re.match(r"  ([a-z][a-z-]*)(  |$)", line)):
            yield named[1]


def answers(of: Checkout) -> Seen:
    """What a server with some work answers, and the description of its API."""
    of.up()
    for line in WORK:
        of.says(f"submit {line}")
    of.says("wait 5 6")
    found: Seen = {f"corral {line}": values_of(of.says(line)) for line in ANSWERED}
    _, _, text = of.api("/api/v1/openapi.json")
    description = json.loads(text)
    found["the description of the API"] = dict(flat(description))
    for path, methods in sorted(description["paths"].items()):
        if "get" in methods and "event-stream" not in json.dumps(methods["get"]):
            place = path.replace("{job_id}", "1")
            if "{" not in place:
                status, kind, answer = of.api(place)
                found[f"GET {place}"] = {"status": str(status), "type": kind, **values_of(answer)}
    return found


def after_a_restart(of: Checkout, home: Path) -> Seen:
    """What a server says of a home that another one has left, and what its journal folds to."""
    shutil.rmtree(of.home)
    shutil.copytree(home, of.home, symlinks=True)
    of.up()
    found: Seen = {
        f"corral {line} --json, on the old home": values_of(of.says(f"{line} --json")) for line in AFTER_A_RESTART
    }
    of.says("down")
    folded = of.inside("fold", f"sqlite:///{of.home}/ledger.db")
    found["the journal of the old home, folded"] = dict(line.partition(": ")[::2] for line in folded.splitlines())
    return found


def plans(of: Checkout) -> Seen:
    """Every plan on the drawn sites."""
    return {"plans on drawn sites": lines_of(of.inside("plans", str(SITES)))}


def values_of(text: str) -> dict[str, str]:
    """The values of JSON by their places; of other text its lines, without durations, numbers and widths of columns."""
    try:
        return dict(flat(json.loads(text)))
    except ValueError:
        recorded = re.sub(rf"^waited .*{BRIEF}.*\n", "", text, flags=re.MULTILINE)
        counted = re.sub(r"\d+(\.\d+)?", "0", re.sub(r"<?\b\d+[dhms]\b( \d+[hms]\b)*", "(a while)", recorded))
        return lines_of(re.sub(r" {2,}", " ", counted))


def lines_of(text: str) -> dict[str, str]:
    """The lines by their numbers."""
    return {f"{number:05}": line for number, line in enumerate(text.splitlines(), start=1)}


def flat(data: Any, place: str = "") -> Iterator[tuple[str, str]]:
    """The values in plain data, each with its place. Moments are all alike, and so are numbers of samples."""
    if isinstance(data, list):
        items = [one for one in data if not (isinstance(one, dict) and one.get("reason") == BRIEF)]
        pairs: dict[Any, Any] = dict(enumerate(items))
    else:
        pairs = data if isinstance(data, dict) else {}
    for key, item in pairs.items():
        yield from flat(VARIES if key in ("samples", "sample_count") else item, f"{place}/{key}")
    if not pairs:
        moment = isinstance(data, float | int) and EARLIEST < data < LATEST
        yield place, "(a moment)" if moment else json.dumps([] if isinstance(data, list) else data)


def steady(seen: Seen, again: Seen) -> Seen:
    """What was seen, without the values that were others a second time, or the whole of an answer of another form."""
    known = dict(seen)
    for asked in again.keys() & seen.keys():
        values, others = seen[asked], again[asked]
        known[asked] = {place: value if others.get(place) == value else VARIES for place, value in values.items()}
        if values.keys() != others.keys():
            known[asked] = {"": VARIES}
    return known


def written(seen: Seen, known: Seen) -> list[str]:
    """The lines to compare: what was seen, without what is known to vary."""
    lines = []
    for asked, values in seen.items():
        usual = known.get(asked, {})
        lines.append(f"-- {asked}")
        if usual == {"": VARIES}:
            continue
        for place, value in values.items():
            shown = VARIES if usual.get(place) == VARIES else value
            lines.append(shown if place.isdigit() else f"{place} = {shown}")
    return lines


def looked_at(root: Path, recorded: Path) -> Seen:
    """All that is seen of a checkout."""
    with checked_out(root) as of:
        return helps(of) | plans(of) | served(of, recorded)


def served(of: Checkout, recorded: Path) -> Seen:
    """What a server answers, and another one on the recorded home, which is that of the first if there is none yet."""
    found = answers(of)
    for line in ("cancel 1 2", "wait 1 2 3", "down"):
        of.says(line)
    if not recorded.exists():
        shutil.copytree(of.home, recorded, symlinks=True, ignore=_sockets_in)
    return found | after_a_restart(of, recorded)


def _sockets_in(directory: str, names: list[str]) -> list[str]:
    return [name for name in names if Path(directory, name).is_socket()]


def main(old: Path, new: Path) -> int:
    """Print how the new one differs; 1 where it does."""
    with tempfile.TemporaryDirectory(prefix="outside-") as directory:
        recorded = Path(directory, "home")
        seen = looked_at(old, recorded)
        with checked_out(old) as of:
            again = served(of, recorded)  # help and plans do not vary
        other = looked_at(new, recorded)
    known = steady(seen, again)
    left_out = sum(value == VARIES for values in known.values() for value in values.values())
    told = sum(map(len, seen.values()))
    differences = list(
        difflib.unified_diff(written(seen, known), written(other, known), "old", "new", n=3, lineterm="")
    )
    print(*differences, sep="\n")
    print(f"{told} values were compared, of which {left_out} vary and were left out", file=sys.stderr)
    return 1 if differences else 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), Path(sys.argv[2] if len(sys.argv) > 2 else ".")))
