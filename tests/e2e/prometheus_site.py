"""A site's own Prometheus and Alertmanager, with the examples' settings, beside the server of a box."""

import json
import re
import shutil
import subprocess
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.e2e.box import Box

DEPLOY = Path(__file__).parent.parent.parent / "deploy"
EXAMPLES = DEPLOY / "prometheus"

Found = list[dict[str, str]]


class Daemon:
    """A program that listens at a port of its own choice, and says in its log which."""

    def __init__(self, box: Box, root: Path, *words: str) -> None:
        self._log = root / f"{words[0]}.log"
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                [*words, "--web.listen-address=127.0.0.1:0"], stderr=log, stdout=log, cwd=root
            )
        self.address: str = box.until(self._address)
        box.until(self._ready)

    def _ready(self) -> bool:
        try:
            with urllib.request.urlopen(f"http://{self.address}/-/ready"):
                return True
        except urllib.error.HTTPError:
            return False

    def _address(self) -> str | None:
        said = self._log.read_text()
        assert self._process.poll() is None, said
        found = re.search(r'msg="Listening on" address=(\S+)', said)
        return found and found[1]

    def stop(self) -> None:
        self._process.terminate()
        self._process.wait(60)


class Prometheus(Daemon):
    """One that scrapes the server of a box, and looks at the rules, every second.

    `alertmanager` is where it sends alerts; `rules` are texts to replace in the rules, such as to wait for less long.
    """

    def __init__(
        self, box: Box, root: Path, *, alertmanager: str = "127.0.0.1:9", rules: Mapping[str, str] | None = None
    ) -> None:
        url = re.findall(r"http://(\S+)", (box.home / "server.log").read_text())[-1]
        (root / "corral.token").write_text(box.json("token", "create", "--scope", "read", "--json")["token"])
        _copy("corral.rules.yml", root, rules or {})
        here = {
            "scrape_interval: 15s": "scrape_interval: 1s\n  evaluation_interval: 1s",
            "https": "http",
            "corral.example.org:7070": url,
            "localhost:9093": alertmanager,
        }
        _copy("prometheus.yml", root, here)
        super().__init__(box, root, "prometheus", "--config.file=prometheus.yml", "--storage.tsdb.path=data")

    def ask(self, path: str, **query: str) -> Any:
        with urllib.request.urlopen(f"http://{self.address}/api/v1/{path}?{urllib.parse.urlencode(query)}") as answer:
            return json.load(answer)["data"]

    def query(self, expression: str) -> Found:
        """The labels of what an expression gives now."""
        return [row["metric"] for row in self.ask("query", query=expression)["result"]]

    def values(self, expression: str) -> list[float]:
        """The numbers that an expression gives now."""
        return [float(row["value"][1]) for row in self.ask("query", query=expression)["result"]]


class Alertmanager(Daemon):
    """One that sends what it is told to a webhook, at once."""

    def __init__(self, box: Box, root: Path, webhook: str) -> None:
        here = {"http://localhost:9095/alerts": webhook, "group_wait: 30s": "group_wait: 0s", "5m": "1s"}
        _copy("alertmanager.yml", root, here)
        program = Path(str(shutil.which("prometheus-alertmanager")))
        # A copy that is not installed (.ci/unpack-package) looks for its templates where it is started.
        shutil.copytree(program.parent.parent / "share/prometheus/alertmanager", root / "templates")
        words = ("--config.file=alertmanager.yml", "--storage.path=data", "--cluster.listen-address=")
        super().__init__(box, root, "prometheus-alertmanager", *words)


def _copy(name: str, root: Path, replaced: Mapping[str, str]) -> None:
    text = (EXAMPLES / name).read_text()
    for example, here in replaced.items():
        assert example in text
        text = text.replace(example, here)
    (root / name).write_text(text)
