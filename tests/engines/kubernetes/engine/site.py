"""A server over a real API server, used by the installed command as a user would."""

import os
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from uuid import uuid4

from corral.core.model.errors import CorralError
from corral.engines.kubernetes.cluster.client import Cluster
from corral.engines.kubernetes.cluster.resource import NODES
from tests.loaded import loaded

PATIENCE_S = 90.0


@dataclass
class Site:
    """A home, and how its cluster is reached. The API server is shared, so nodes have names of this test's own."""

    home: Path
    kubeconfig: Path
    namespace: str
    cluster: Cluster
    prefix: str = field(default_factory=lambda: f"n{uuid4().hex[:6]}")

    @property
    def env(self) -> dict[str, str]:
        """The environment of its commands."""
        return {**os.environ, "CORRAL_HOME": str(self.home), "NO_COLOR": "1", "COLUMNS": "200"}

    def corral(
        self,
        *words: str,
        status: int | None = 0,
        directory: Path | None = None,
        typed: str | None = None,
        **variables: str,
    ) -> str:
        """What a command says, typed in this directory."""
        command = [str(Path(sys.executable).parent / "corral"), *words]
        done = subprocess.run(
            command,
            env={**self.env, **variables},
            input=typed,
            stdin=subprocess.DEVNULL if typed is None else None,
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
            cwd=directory,
        )
        assert status in (None, done.returncode), f"{words}: {done.stdout}{done.stderr}"
        return done.stdout + done.stderr

    def up(self, *options: str, status: int | None = 0) -> str:
        """Start its server, with its modules loaded where `corral up` has no more to do than that."""
        cluster = ("--engine", "kubernetes", "--kubeconfig", str(self.kubeconfig), "--namespace", self.namespace)
        self.home.mkdir(exist_ok=True)
        if options or status != 0 or not loaded().can_begin(self.env):
            return self.corral("up", "--detach", *cluster, *options, status=status)
        log = self.home / "server.log"
        said = loaded().begin(self.env, log, ["--home", str(self.home), *cluster])
        assert said.splitlines()[-1:] == ["ready"], f"the server did not start: {said} {log.read_text()}"
        return said

    def until(self, *words: str, says: str) -> str:
        """Repeat a command until it says this."""
        return self._repeat(words, f"does not come to say {says!r}", lambda said: says in said)

    def until_not(self, *words: str, says: str) -> str:
        """Repeat a command until it does not say this any more."""
        return self._repeat(words, f"goes on to say {says!r}", lambda said: says not in said)

    def _repeat(self, words: Sequence[str], otherwise: str, holds: Callable[[str], bool]) -> str:
        deadline = time.monotonic() + PATIENCE_S
        while not holds(said := self.corral(*words)):
            assert time.monotonic() < deadline, f"{words} {otherwise}: {said}"
            time.sleep(0.2)
        return said

    def close(self) -> None:
        """End the server, and take this test's nodes out of the cluster."""
        self.corral("down", status=None)
        with suppress(CorralError):
            for node in self.cluster.list(NODES):
                if node["metadata"]["name"].startswith(self.prefix):
                    self.cluster.delete(NODES, node["metadata"]["name"])
