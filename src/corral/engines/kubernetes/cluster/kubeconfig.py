"""The address of an API server and the credential for it: from a kubeconfig file, or from the service account of a
pod.
"""

import base64
import binascii
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import yaml

from corral.core.model.errors import Refused, nearest
from corral.engines.kubernetes.cluster.credentials import (
    EXEC_VERSIONS,
    ClusterCredentials,
    Credential,
    ExecPlugin,
    Fixed,
    TokenFile,
    checked_token,
)

SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")


@dataclass(frozen=True, slots=True)
class Access:
    """The access to one API server.

    Attributes:
        url: its address, with its base path, if any.
        credentials: the credential of the client.
        namespace: the default namespace.
        authorities: certificates to trust as PEM text, or None for the system's.
        insecure: whether its certificate goes unchecked.
        tls_server_name: the name that its certificate must have, or None for the host in `url`.
        proxy_url: an HTTP proxy to go through, or None. Variables such as HTTPS_PROXY do not count.
    """

    url: str
    credentials: ClusterCredentials
    namespace: str = "default"
    authorities: str | None = field(default=None, repr=False)
    insecure: bool = False
    tls_server_name: str | None = None
    proxy_url: str | None = None


def find_access(
    kubeconfig: str | None = None,
    context: str | None = None,
    environ: Mapping[str, str] = os.environ,
    service_account: Path = SERVICE_ACCOUNT,
) -> Access:
    """Return the access from the given kubeconfig, else KUBECONFIG, else a pod's service account, else ~/.kube/config.

    Raises Refused if none of them exists, or one is invalid.
    """
    if kubeconfig is not None:
        return read_kubeconfig([Path(kubeconfig).expanduser()], context)
    if named := environ.get("KUBECONFIG"):
        return read_kubeconfig([Path(part) for part in named.split(os.pathsep) if part], context)
    if environ.get("KUBERNETES_SERVICE_HOST") and context is None:
        return _of_service_account(environ, service_account)
    home = Path(environ.get("HOME") or "~").expanduser() / ".kube" / "config"
    if not home.exists():
        raise Refused(
            f"there is no cluster to speak to: no kubeconfig file is named, KUBECONFIG is not set, there is no {home}, "
            "and this is not a pod with a service account; name a file, such as in KUBECONFIG",
            field="kubeconfig",
        )
    return read_kubeconfig([home], context)


def _of_service_account(environ: Mapping[str, str], directory: Path) -> Access:
    host, port = environ["KUBERNETES_SERVICE_HOST"], environ.get("KUBERNETES_SERVICE_PORT") or "443"
    if not (directory / "token").exists():
        raise Refused(
            f"this pod has no service account's token ({directory / 'token'} is missing); set "
            "automountServiceAccountToken: true for it, or name a kubeconfig file",
            field="kubeconfig",
        )
    namespace = directory / "namespace"
    return Access(
        url=f"https://{f'[{host}]' if ':' in host else host}:{port}",
        credentials=TokenFile(directory / "token"),
        namespace=namespace.read_text().strip() if namespace.exists() else "default",
        authorities=(directory / "ca.crt").read_text() if (directory / "ca.crt").exists() else None,
    )


def read_kubeconfig(paths: list[Path], context: str | None = None) -> Access:
    """Return the access that a context of these files names. Among entries with the same name, the first file's counts.

    Raises Refused with the file and the entry.
    """
    files = [_File.read(path) for path in paths if len(paths) == 1 or path.exists()]
    if not files:
        raise Refused(f"none of the files of KUBECONFIG is there: {_listed(paths)}", field="kubeconfig")
    chosen = context or next((name for file in files if (name := file.current_context)), None)
    if chosen is None:
        raise Refused(
            f"{_listed(paths)}: no context is chosen; give --context, {nearest('', _names(files, 'contexts'))}",
            field="context",
        )
    file, entry = _entry(files, "contexts", "context", chosen, "context")
    cluster_file, cluster = _entry(files, "clusters", "cluster", file.text(entry, "cluster", chosen), "kubeconfig")
    user_name = entry.get("user")
    user_file, user = _entry(files, "users", "user", user_name, "kubeconfig") if user_name else (file, {})
    return Access(
        url=_server(cluster_file, cluster),
        credentials=_credentials(user_file, user, cluster_file, cluster),
        namespace=entry.get("namespace") or "default",
        authorities=cluster_file.pem(cluster, "certificate-authority"),
        insecure=cluster.get("insecure-skip-tls-verify") is True,
        tls_server_name=cluster.get("tls-server-name") or None,
        proxy_url=_proxy(cluster_file, cluster),
    )


@dataclass(frozen=True, slots=True)
class _File:
    """One kubeconfig file. Paths in it are relative to its directory."""

    path: Path
    content: Mapping[str, Any] = field(repr=False)

    @classmethod
    def read(cls, path: Path) -> "_File":
        try:
            content = yaml.safe_load(path.read_text())
        except OSError as error:
            raise Refused(f"the kubeconfig {path} cannot be read: {error.strerror}", field="kubeconfig") from None
        except (yaml.YAMLError, UnicodeDecodeError):
            raise Refused(f"the kubeconfig {path} is not YAML", field="kubeconfig") from None
        if not isinstance(content, dict):
            raise Refused(f"the kubeconfig {path} is empty, or not a kubeconfig", field="kubeconfig")
        return cls(path, content)

    @property
    def current_context(self) -> str | None:
        return self.content.get("current-context") or None

    def refused(self, why: str) -> Refused:
        return Refused(f"the kubeconfig {self.path}: {why}", field="kubeconfig")

    def text(self, entry: Mapping[str, Any], key: str, owner: str) -> str:
        value = entry.get(key)
        if not isinstance(value, str) or not value:
            raise self.refused(f"{owner!r:.60} has no {key}")
        return value

    def pem(self, entry: Mapping[str, Any], key: str) -> str | None:
        """Return the text of `KEY-data`, else of the file that `KEY` names, or None if neither is given."""
        if data := entry.get(f"{key}-data"):
            try:
                return base64.b64decode(data, validate=True).decode("ascii")
            except (binascii.Error, ValueError, TypeError):
                raise self.refused(f"{key}-data is not base64 of a certificate or key") from None
        if named := entry.get(key):
            path = self.path.parent / Path(str(named)).expanduser()
            try:
                return path.read_text(encoding="ascii")
            except OSError as error:
                raise self.refused(f"{key} {path} cannot be read: {error.strerror}") from None
            except UnicodeDecodeError:
                raise self.refused(f"{key} {path} is no PEM file") from None
        return None


def _listed(paths: list[Path]) -> str:
    return ", ".join(str(path) for path in paths)


def _named(file: _File, section: str) -> list[Mapping[str, Any]]:
    entries = file.content.get(section)
    return [entry for entry in entries if isinstance(entry, dict)] if isinstance(entries, list) else []


def _names(files: list[_File], section: str) -> list[str]:
    return [str(entry.get("name")) for file in files for entry in _named(file, section)]


def _entry(files: list[_File], section: str, kind: str, name: str, field_name: str) -> tuple[_File, Mapping[str, Any]]:
    for file in files:
        for entry in _named(file, section):
            if entry.get("name") == name and isinstance(entry.get(kind), dict):
                return file, entry[kind]
    where = _listed([file.path for file in files])
    hint = nearest(name, _names(files, section))
    raise Refused(f"{where}: there is no {kind} {name!r:.60}" + (f"; {hint}" if hint else ""), field=field_name)


def _server(file: _File, cluster: Mapping[str, Any]) -> str:
    url = file.text(cluster, "server", "the cluster").rstrip("/")
    try:
        parts = urlsplit(url)
        good = parts.scheme in {"http", "https"} and bool(parts.hostname) and (parts.port or 1) > 0
    except ValueError:
        good = False
    if not good:
        raise file.refused(f"server: {url!r:.100} is no address such as https://10.0.0.1:6443")
    return url


def _proxy(file: _File, cluster: Mapping[str, Any]) -> str | None:
    url = cluster.get("proxy-url") or None
    if url is None:
        return None
    try:
        parts = urlsplit(str(url))
        good = parts.scheme == "http" and bool(parts.hostname) and (parts.port or 1) > 0
    except ValueError:
        good = False
    if not good:
        raise file.refused("proxy-url: Corral goes through http:// proxies alone, such as http://proxy:3128")
    return str(url)


def _credentials(
    file: _File, user: Mapping[str, Any], cluster_file: _File, cluster: Mapping[str, Any]
) -> ClusterCredentials:
    certificate, key = file.pem(user, "client-certificate"), file.pem(user, "client-key")
    if (certificate is None) != (key is None):
        raise file.refused("a user has a client-certificate without a client-key, or a key without a certificate")
    pair = (certificate, key) if certificate is not None and key is not None else None
    if token := user.get("token"):
        return Fixed(Credential(checked_token(str(token), f"the kubeconfig {file.path}"), pair))
    if named := user.get("tokenFile"):
        return TokenFile(file.path.parent / str(named), pair)
    if pair is not None:
        return Fixed(Credential(certificate=pair))
    if isinstance(plugin := user.get("exec"), dict):
        return _plugin(file, plugin, cluster_file, cluster)
    for unknown in ("auth-provider", "username"):
        if unknown in user:
            raise file.refused(f"a user with {unknown} is not understood; use a token, a certificate or an exec plugin")
    return Fixed(Credential())


def _plugin(file: _File, plugin: Mapping[str, Any], cluster_file: _File, cluster: Mapping[str, Any]) -> ExecPlugin:
    command = file.text(plugin, "command", "exec")
    if os.sep in command:
        command = str(file.path.parent / command)
    version = file.text(plugin, "apiVersion", "exec")
    if version not in EXEC_VERSIONS:
        raise file.refused(f"exec: apiVersion {version!r:.60} is not understood; known: {', '.join(EXEC_VERSIONS)}")
    if plugin.get("interactiveMode") == "Always":
        raise file.refused(f"exec: {command} wants to ask a person, and a server has none; use another user")
    try:
        env = {str(pair["name"]): str(pair["value"]) for pair in plugin.get("env") or ()}
        arguments = [str(argument) for argument in plugin.get("args") or ()]
    except (TypeError, KeyError):
        raise file.refused("exec: env is a list of name and value, args a list of texts") from None
    told = None
    if plugin.get("provideClusterInfo") is True:
        authorities = cluster_file.pem(cluster, "certificate-authority")
        told = {"server": cluster.get("server")}
        if authorities is not None:
            told["certificate-authority-data"] = base64.b64encode(authorities.encode()).decode()
    return ExecPlugin([command, *arguments], env, version, told, hint=str(plugin.get("installHint") or ""))
