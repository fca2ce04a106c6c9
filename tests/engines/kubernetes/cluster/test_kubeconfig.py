"""Kubeconfig files, a pod's service account, and who asks."""

import base64
import json
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from corral.core.model.errors import Refused
from corral.engines.kubernetes.cluster.credentials import Credential, ExecPlugin, TokenFile
from corral.engines.kubernetes.cluster.errors import NotAuthenticated
from corral.engines.kubernetes.cluster.kubeconfig import find_access, read_kubeconfig


def kubeconfig(path: Path, *, cluster: Any = None, user: Any = None, **content: Any) -> Path:
    whole = {
        "clusters": [{"name": "c", "cluster": {"server": "https://10.0.0.1:6443", **(cluster or {})}}],
        "users": [{"name": "u", "user": user if user is not None else {"token": "secret"}}],
        "contexts": [
            {"name": "one", "context": {"cluster": "c", "user": "u", "namespace": "team"}},
            {"name": "bare", "context": {"cluster": "c"}},
        ],
        "current-context": "one",
        **content,
    }
    path.write_text(yaml.safe_dump(whole))
    return path


def test_the_current_context_says_where_and_who(tmp_path: Path) -> None:
    access = find_access(str(kubeconfig(tmp_path / "config")))
    assert (access.url, access.namespace) == ("https://10.0.0.1:6443", "team")
    assert access.credentials.current() == Credential("secret")
    assert "secret" not in repr(access)


def test_a_context_can_be_named_and_nobody_in_particular_may_ask(tmp_path: Path) -> None:
    access = find_access(str(kubeconfig(tmp_path / "config")), "bare")
    assert access.namespace == "default"
    assert access.credentials.current() == Credential()


def test_several_files_are_one_and_the_first_counts(tmp_path: Path) -> None:
    first = kubeconfig(tmp_path / "a", clusters=[])
    second = kubeconfig(tmp_path / "b", user={"token": "other"})
    environ = {"KUBECONFIG": f"{tmp_path / 'missing'}:{first}:{second}"}
    access = find_access(environ=environ)
    assert access.url == "https://10.0.0.1:6443"
    assert access.credentials.current() == Credential("secret")


def test_certificates_are_data_or_files_beside_the_kubeconfig(tmp_path: Path) -> None:
    (tmp_path / "ca.crt").write_text("CA")
    user = {
        "client-certificate-data": base64.b64encode(b"CERT").decode(),
        "client-key-data": base64.b64encode(b"KEY").decode(),
    }
    path = kubeconfig(tmp_path / "config", cluster={"certificate-authority": "ca.crt"}, user=user)
    access = find_access(str(path))
    assert access.authorities == "CA"
    assert access.credentials.current().certificate == ("CERT", "KEY")


@pytest.mark.parametrize(
    ("bad", "said"),
    [
        ({"current-context": "nowhere"}, "there is no context 'nowhere'"),
        ({"current-context": ""}, "no context is chosen; give --context"),
        ({"clusters": []}, "there is no cluster 'c'"),
        ({"users": "alice"}, "there is no user 'u'"),
        ({"cluster": {"server": "10.0.0.1"}}, "no address such as https://"),
        ({"cluster": {"server": "https://h:port"}}, "no address such as https://"),
        ({"cluster": {"proxy-url": "socks5://p:1"}}, "http:// proxies alone"),
        ({"cluster": {"certificate-authority": "missing.crt"}}, "cannot be read: No such file"),
        ({"cluster": {"certificate-authority-data": "!"}}, "is not base64"),
        ({"user": {"client-certificate-data": "QQ=="}}, "without a client-key"),
        ({"user": {"auth-provider": {"name": "gcp"}}}, "auth-provider is not understood"),
        ({"user": {"exec": {"command": "x", "apiVersion": "v0"}}}, "apiVersion 'v0' is not understood"),
        ({"user": {"exec": {"command": "x", "apiVersion": "client.authentication.k8s.io/v1",
                            "interactiveMode": "Always"}}}, "wants to ask a person"),
    ],
)  # fmt: skip
def test_a_kubeconfig_that_makes_no_sense_is_refused_in_words(tmp_path: Path, bad: dict[str, Any], said: str) -> None:
    with pytest.raises(Refused, match=said):
        find_access(str(kubeconfig(tmp_path / "config", **bad)))


@pytest.mark.parametrize("text", ["", "- a\n- b\n", "a: [", "\x00", "just words"])
def test_a_file_that_is_none_is_refused_by_name(tmp_path: Path, text: str) -> None:
    path = tmp_path / "config"
    path.write_text(text)
    with pytest.raises(Refused, match=r"the kubeconfig .*config"):
        read_kubeconfig([path])
    with pytest.raises(Refused, match="cannot be read"):
        read_kubeconfig([tmp_path / "missing"])


def test_without_any_of_them_it_is_said_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(Refused, match="name a file, such as in KUBECONFIG"):
        find_access(environ={"HOME": str(tmp_path)})


def test_a_pod_speaks_to_its_own_cluster_as_its_service_account(tmp_path: Path) -> None:
    environ = {"KUBERNETES_SERVICE_HOST": "fd00::1", "KUBERNETES_SERVICE_PORT": "443", "HOME": str(tmp_path)}
    with pytest.raises(Refused, match="automountServiceAccountToken"):
        find_access(environ=environ, service_account=tmp_path)
    for name, text in {"token": "secret\n", "namespace": "team", "ca.crt": "CA"}.items():
        (tmp_path / name).write_text(text)
    access = find_access(environ=environ, service_account=tmp_path)
    assert (access.url, access.namespace, access.authorities) == ("https://[fd00::1]:443", "team", "CA")
    assert access.credentials.current() == Credential("secret")


def test_a_token_that_was_replaced_is_read_again_when_it_was_not_taken(tmp_path: Path) -> None:
    path = tmp_path / "token"
    path.write_text("first")
    credentials = TokenFile(path)
    assert credentials.current() == Credential("first")
    assert not credentials.renew()
    path.write_text("second")
    assert credentials.current() == Credential("first")
    assert credentials.renew()
    assert credentials.current() == Credential("second")
    path.unlink()
    with pytest.raises(NotAuthenticated, match="cannot be read"):
        credentials.renew()


V1 = "client.authentication.k8s.io/v1"


def plugin(program: str, **options: Any) -> ExecPlugin:
    return ExecPlugin([sys.executable, "-c", program], {"NAME": "value"}, V1, **options)


PRINTS = f"""
import json, os, time
told = json.loads(os.environ["KUBERNETES_EXEC_INFO"])
assert told["apiVersion"] == "{V1}" and told["spec"]["interactive"] is False and os.environ["NAME"] == "value"
status = {{"token": f"t{{time.time_ns()}}", "expirationTimestamp": "UNTIL"}}
print(json.dumps({{"apiVersion": "{V1}", "kind": "ExecCredential", "status": status}}))
"""


def test_a_program_gives_a_token_that_is_kept_until_it_expires() -> None:
    lasting = plugin(PRINTS.replace("UNTIL", "2999-01-01T00:00:00Z"))
    token = lasting.current()
    assert lasting.current() == token
    assert lasting.renew()
    assert lasting.current() != token
    expired = plugin(PRINTS.replace("UNTIL", "2001-01-01T00:00:00Z"))
    assert expired.current() != expired.current()


@pytest.mark.parametrize(
    ("program", "said"),
    [
        ("import sys; sys.exit('log in first')", "failed with status 1: log in first"),
        ("print('hello')", "printed no ExecCredential"),
        (f"print({json.dumps(json.dumps({'apiVersion': V1, 'status': {}}))})", "neither a token nor a certificate"),
        (f"print({json.dumps(json.dumps({'apiVersion': 'v0', 'status': {'token': 'x'}}))})", "answers 'v0'"),
        (
            f"print({json.dumps(json.dumps({'apiVersion': V1, 'status': {'token': 'a b'}}))})",
            "characters that no token",
        ),
    ],
)
def test_a_program_that_gives_no_token_is_said_to_be_the_reason(program: str, said: str) -> None:
    with pytest.raises(NotAuthenticated, match=said):
        plugin(program).current()


def test_a_program_that_is_missing_is_told_with_the_hint_of_the_kubeconfig() -> None:
    with pytest.raises(NotAuthenticated, match=r"cannot be run: .*install it from there"):
        ExecPlugin(["/nowhere/login"], {}, V1, hint="install it from there").current()
