"""Credentials for an API server: a token, a file with a token that is replaced at times, or a program that prints
one.
"""

import json
import os
import subprocess
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any, Protocol

from corral.engines.kubernetes.cluster.errors import NotAuthenticated

TOKEN_FILE_AGE_S = 60.0
EXEC_TIMEOUT_S = 60.0
EXPIRY_MARGIN_S = 10.0

EXEC_VERSIONS = (
    "client.authentication.k8s.io/v1",
    "client.authentication.k8s.io/v1beta1",
    "client.authentication.k8s.io/v1alpha1",
)


@dataclass(frozen=True, slots=True)
class Credential:
    """A credential shown to the API server. Its secrets appear in no message.

    Attributes:
        token: a bearer token, or None.
        certificate: a client certificate and its key as PEM text, or None.
    """

    token: str | None = field(default=None, repr=False)
    certificate: tuple[str, str] | None = field(default=None, repr=False)


class ClusterCredentials(Protocol):
    """Gives the credential to use now. Thread-safe."""

    def current(self) -> Credential:
        """Return the present credential. Raises NotAuthenticated if there is none."""

    def renew(self) -> bool:
        """Forget the credential that the API server refused. Return whether there may be another."""


@dataclass(frozen=True, slots=True)
class Fixed:
    """A credential that never changes."""

    credential: Credential

    def current(self) -> Credential:
        return self.credential

    def renew(self) -> bool:
        return False


class TokenFile:
    """A token in a file. The file is read again at intervals, because tokens of service accounts are replaced within
    the hour.
    """

    def __init__(self, path: Path, certificate: tuple[str, str] | None = None) -> None:
        self._path = path
        self._certificate = certificate
        self._lock = threading.Lock()
        self._read: tuple[float, Credential] | None = None

    def current(self) -> Credential:
        with self._lock:
            now = time.monotonic()
            if self._read is None or now - self._read[0] > TOKEN_FILE_AGE_S:
                try:
                    token = self._path.read_text().strip()
                except (OSError, UnicodeDecodeError) as error:
                    raise NotAuthenticated(f"the token file {self._path} cannot be read: {error}") from None
                self._read = now, Credential(checked_token(token, str(self._path)), self._certificate)
            return self._read[1]

    def renew(self) -> bool:
        with self._lock:
            before, self._read = self._read, None
        return before is None or before[1] != self.current()


class ExecPlugin:
    """A program that prints an ExecCredential, as `exec` in a kubeconfig defines it.

    Args:
        command: the program and its arguments.
        env: variables added to its environment.
        api_version: one of EXEC_VERSIONS.
        cluster: the cluster data passed to it (`provideClusterInfo`), or None.
        hint: the kubeconfig's advice if the program is missing (`installHint`).
    """

    def __init__(
        self,
        command: Sequence[str],
        env: Mapping[str, str],
        api_version: str,
        cluster: Mapping[str, Any] | None = None,
        hint: str = "",
    ) -> None:
        self._command = list(command)
        self._env = dict(env)
        self._api_version = api_version
        self._cluster = cluster
        self._hint = hint
        self._lock = threading.Lock()
        self._given: Credential | None = None
        self._good_until_s: float | None = None

    def current(self) -> Credential:
        with self._lock:
            expired = self._good_until_s is not None and time.time() > self._good_until_s - EXPIRY_MARGIN_S
            if self._given is None or expired:
                self._given, self._good_until_s = self._parsed(self._printed())
            return self._given

    def renew(self) -> bool:
        with self._lock:
            self._given = None
        return True

    def _printed(self) -> str:
        spec: dict[str, Any] = {"interactive": False}
        if self._cluster is not None:
            spec["cluster"] = dict(self._cluster)
        told = json.dumps({"apiVersion": self._api_version, "kind": "ExecCredential", "spec": spec})
        environ = {**os.environ, **self._env, "KUBERNETES_EXEC_INFO": told}
        program = self._command[0]
        try:
            done = subprocess.run(
                self._command,
                env=environ,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                timeout=EXEC_TIMEOUT_S,
            )
        except subprocess.TimeoutExpired:
            raise NotAuthenticated(
                f"{program}, which gives the token, has not ended in {EXEC_TIMEOUT_S:.0f} s"
            ) from None
        except (OSError, UnicodeDecodeError) as error:
            hint = f". {self._hint}" if self._hint else ""
            raise NotAuthenticated(f"{program}, which gives the token, cannot be run: {error}{hint}") from None
        if done.returncode != 0:
            said = done.stderr.strip()[-300:]
            raise NotAuthenticated(f"{program}, which gives the token, failed with status {done.returncode}: {said}")
        return done.stdout

    def _parsed(self, printed: str) -> tuple[Credential, float | None]:
        program = self._command[0]
        try:
            answer = json.loads(printed)
            status = answer["status"]
            version = answer["apiVersion"]
            expires = status.get("expirationTimestamp")
            until_s = None if expires is None else datetime.fromisoformat(expires).timestamp()
            token, certificate, key = (status.get(name) for name in ("token", "clientCertificateData", "clientKeyData"))
        except (ValueError, KeyError, TypeError, AttributeError):
            raise NotAuthenticated(f"{program} printed no ExecCredential with a status; log in again with it") from None
        if version != self._api_version:
            raise NotAuthenticated(f"{program} answers {version!r:.60}, but the kubeconfig says {self._api_version!r}")
        if certificate is not None and key is not None:
            return Credential(token, (str(certificate), str(key))), until_s
        if not isinstance(token, str):
            raise NotAuthenticated(f"{program} gave neither a token nor a certificate with its key")
        return Credential(checked_token(token, program)), until_s


def checked_token(token: str, origin: str) -> str:
    """Return the token if it is valid in an HTTP header. Raises NotAuthenticated."""
    if not token or not token.isascii() or not token.isprintable() or " " in token:
        raise NotAuthenticated(f"{origin} has no token: it is empty, or has characters that no token has")
    return token
