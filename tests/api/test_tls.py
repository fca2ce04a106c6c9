"""TCP with a real certificate, and with real clients that trust it or not."""

import asyncio
import gc
import os
import socket
import ssl
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from corral.api import server
from corral.api.connections import tls
from corral.api.connections.listening import Listening, TcpListener
from corral.api.connections.tls import Certificate, TlsAcceptor
from corral.client import Client, NoServer, UntrustedServer
from corral.core.model.errors import Refused
from tests.api.world import PATIENCE_S, TOKEN, Served, World
from tests.certificates import make_certificate, needs_openssl

pytestmark = needs_openssl


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    return make_certificate(tmp_path_factory.mktemp("tls"))


@pytest.fixture
def serve(world: World, files: tuple[Path, Path]) -> Iterator[Callable[[], Served]]:
    """Serves over TLS, with the settings that the test has made before."""
    begun: list[Served] = []

    def begin() -> Served:
        begun.append(Served(world, certificate=Certificate(*files)))
        return begun[-1]

    yield begin
    for served in begun:
        served.stop()


def client_of(served: Served, host: str = "127.0.0.1") -> Client:
    return Client(url=f"https://{host}:{served.port}", token=TOKEN)


def test_a_client_that_trusts_the_certificate_is_served(
    serve: Callable[[], Served], files: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    served = serve()
    monkeypatch.setenv("CORRAL_CA_FILE", str(files[0]))
    for host in ("127.0.0.1", "localhost"):
        with client_of(served, host) as client:
            job = client.submit(["true"])
            assert client.jobs.get(job.id).id == job.id
            assert "".join(client.jobs.logs(job.id)) == ""


def test_a_certificate_that_is_not_trusted_is_told_nothing_and_the_message_says_what_to_set(
    serve: Callable[[], Served], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    served = serve()
    with client_of(served) as client, pytest.raises(UntrustedServer, match=r"self-signed certificate.*CORRAL_CA_FILE"):
        client.server()
    other, _ = make_certificate(tmp_path, "other")
    monkeypatch.setenv("CORRAL_CA_FILE", str(other))
    with client_of(served) as client, pytest.raises(UntrustedServer, match=f"trusted are those in {other}"):
        client.server()


def test_a_certificate_for_another_name_is_not_trusted(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    certificate, key = make_certificate(tmp_path, names="DNS:gpu-07")
    monkeypatch.setenv("CORRAL_CA_FILE", str(certificate))
    served = Served(world, certificate=Certificate(certificate, key))
    try:
        with client_of(served) as client, pytest.raises(UntrustedServer, match=r"not valid for '127\.0\.0\.1'"):
            client.server()
    finally:
        served.stop()


@pytest.mark.parametrize("content", [None, "no certificate"])
def test_trusted_certificates_that_cannot_be_read_are_told(
    content: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "ca.pem"
    if content is not None:
        path.write_text(content)
    monkeypatch.setenv("CORRAL_CA_FILE", str(path))
    with Client(url="https://127.0.0.1:1") as client, pytest.raises(Refused, match=f"cannot use {path}"):
        client.server()


def test_who_takes_one_protocol_for_the_other_is_told_which_to_write(
    serve: Callable[[], Served],
) -> None:
    served = serve()
    with Client(url=f"http://127.0.0.1:{served.port}") as client, pytest.raises(NoServer, match="write https://"):
        client.server()
    with socket.create_server(("127.0.0.1", 0)) as plain:
        port = plain.getsockname()[1]

        def answer() -> None:
            connection, _ = plain.accept()
            with connection:
                connection.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")
                connection.recv(4096)

        thread = threading.Thread(target=answer)
        thread.start()
        with Client(url=f"https://127.0.0.1:{port}") as client, pytest.raises(NoServer, match="write http://"):
            client.server()
        thread.join(PATIENCE_S)


def test_handshakes_that_never_finish_delay_nobody_and_are_ended(
    serve: Callable[[], Served], files: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tls, "MOST_HANDSHAKES", 8)
    monkeypatch.setattr(tls, "HANDSHAKE_TIMEOUT_S", 2 * PATIENCE_S)
    monkeypatch.setenv("CORRAL_CA_FILE", str(files[0]))
    served = serve()
    silent = [socket.create_connection(("127.0.0.1", served.port), PATIENCE_S) for _ in range(50)]
    try:
        with client_of(served) as client:
            began = time.monotonic()
            client.server()
            assert time.monotonic() - began < PATIENCE_S
        # The oldest were ended to make room; the last are still patiently waited for.
        assert silent[0].recv(1) == b""
        silent[-1].settimeout(0.01)
        with pytest.raises(TimeoutError):
            silent[-1].recv(1)
    finally:
        for connection in silent:
            connection.close()


def test_a_handshake_has_so_much_time(serve: Callable[[], Served], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tls, "HANDSHAKE_TIMEOUT_S", 0.1)
    served = serve()
    with socket.create_connection(("127.0.0.1", served.port), PATIENCE_S) as connection:
        assert connection.recv(1) == b""


def test_a_client_that_says_nothing_does_not_hold_up_a_stop(
    serve: Callable[[], Served], files: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CORRAL_CA_FILE", str(files[0]))
    monkeypatch.setattr(server, "GRACE_S", 2 * PATIENCE_S)
    served = serve()
    with client_of(served) as client:
        client.server()  # its connection is kept, and nobody reads from it
        began = time.monotonic()
        served.server.stop()
        served.thread.join(2 * PATIENCE_S)
        assert time.monotonic() - began < PATIENCE_S


def test_old_versions_of_tls_are_not_spoken(serve: Callable[[], Served]) -> None:
    served = serve()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    with pytest.warns(DeprecationWarning, match="TLSv1_1"):
        context.maximum_version = ssl.TLSVersion.TLSv1_1
    with socket.create_connection(("127.0.0.1", served.port), PATIENCE_S) as raw, pytest.raises(OSError):
        context.wrap_socket(raw)


def test_a_renewed_certificate_serves_the_connections_to_come(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    certificate, key = make_certificate(tmp_path)
    held = Certificate(certificate, key)
    served = Served(world, certificate=held)
    try:
        new = make_certificate(tmp_path, "new")
        key.write_bytes(new[1].read_bytes())
        held.renew()
        assert "does not belong to the certificate" in caplog.text
        certificate.write_bytes(new[0].read_bytes())
        held.renew()
        monkeypatch.setenv("CORRAL_CA_FILE", str(new[0]))
        with client_of(served) as client:
            assert client.server().version == "1"
    finally:
        served.stop()


def test_a_certificate_goes_with_its_key(files: tuple[Path, Path]) -> None:
    for certificate, key in ((files[0], None), (None, files[1])):
        with pytest.raises(Refused, match="--tls-cert and --tls-key go together"):
            TcpListener(Listening("127.0.0.1:0", certificate, key))


def test_the_address_says_how_it_is_spoken_to(files: tuple[Path, Path]) -> None:
    plain, encrypted = TcpListener(Listening("[::1]:0")), TcpListener(Listening("0.0.0.0:0", *files))
    with plain.socket, encrypted.socket:
        assert plain.url == f"http://[::1]:{plain.socket.getsockname()[1]}"
        assert encrypted.url == f"https://0.0.0.0:{encrypted.socket.getsockname()[1]}"


def test_a_key_of_another_certificate_is_refused(files: tuple[Path, Path], tmp_path: Path) -> None:
    _, other = make_certificate(tmp_path, "other")
    with pytest.raises(Refused, match=f"the key {other} does not belong to the certificate {files[0]}"):
        Certificate(files[0], other)


@pytest.mark.parametrize(("mode", "owner"), [(0o604, 0), (0o640, 65534), (0o644, 0)])
@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away")
def test_a_key_that_others_may_read_is_refused_with_the_way_out(
    mode: int, owner: int, files: tuple[Path, Path], tmp_path: Path
) -> None:
    key = tmp_path / "key.pem"
    key.write_bytes(files[1].read_bytes())
    os.chown(key, owner, 0)
    key.chmod(mode)
    with pytest.raises(Refused, match=rf"other users may read {key} \(mode {mode:o}\); forbid it: chmod 600 {key}"):
        Certificate(files[0], key)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away")
def test_a_key_of_roots_may_be_a_groups_too(files: tuple[Path, Path], tmp_path: Path) -> None:
    key = tmp_path / "key.pem"
    key.write_bytes(files[1].read_bytes())
    key.chmod(0o640)
    Certificate(files[0], key)


def test_an_encrypted_key_is_refused_with_the_way_out_and_nobody_is_asked(
    files: tuple[Path, Path], tmp_path: Path
) -> None:
    key = tmp_path / "key.pem"
    command = ["openssl", "pkey", "-in", str(files[1]), "-aes256", "-passout", "pass:secret", "-out", str(key)]
    subprocess.run(command, check=True, capture_output=True)
    key.chmod(0o600)
    with pytest.raises(Refused, match=r"the key is encrypted.*openssl pkey -in"):
        Certificate(files[0], key)


def test_what_is_no_certificate_or_no_file_is_told(files: tuple[Path, Path], tmp_path: Path) -> None:
    text, pipe = tmp_path / "text.pem", tmp_path / "pipe"
    text.write_text("hello")
    text.chmod(0o600)
    os.mkfifo(pipe, 0o600)
    with pytest.raises(Refused, match="not a certificate and key in PEM format"):
        Certificate(text, files[1])
    with pytest.raises(Refused, match="not a certificate and key in PEM format"):
        Certificate(files[0], text)
    with pytest.raises(Refused, match=f"--tls-key: {pipe} is not a file"):
        Certificate(files[0], pipe)
    with pytest.raises(Refused, match=r"--tls-cert: cannot read .*missing\.pem: No such file"):
        Certificate(tmp_path / "missing.pem", files[1])


def test_a_handshake_that_is_given_up_before_it_began_leaves_no_socket_open(files: tuple[Path, Path]) -> None:
    """What is left open is told by Python when it collects it, and that is an error here."""

    async def begin_and_stop() -> None:
        with socket.create_server(("127.0.0.1", 0)) as listener:
            acceptor = TlsAcceptor(listener, Certificate(*files))
            acceptor.start(asyncio.Protocol)
            clients = [socket.create_connection(listener.getsockname(), PATIENCE_S) for _ in range(5)]
            for _ in clients:
                await asyncio.sleep(0)
            acceptor.close()
            await asyncio.sleep(0)
            for client in clients:
                client.close()

    asyncio.run(begin_and_stop())
    gc.collect()


def test_a_client_may_show_a_certificate_of_the_given_authority_and_no_other(
    files: tuple[Path, Path], tmp_path: Path
) -> None:
    known, unknown = make_certificate(tmp_path, "kube-scheduler"), make_certificate(tmp_path, "stranger")
    context = Certificate(*files, known[0]).context
    assert shaken(context, files[0], known) == {"commonName": "kube-scheduler"}
    assert shaken(context, files[0], None) is None
    with pytest.raises(ssl.SSLError):
        shaken(context, files[0], unknown)


def shaken(context: ssl.SSLContext, trusted: Path, shown: tuple[Path, Path] | None) -> dict[str, str] | None:
    """The name that a server with this context knows of a client after a handshake; None if it knows none."""
    client_context = ssl.create_default_context(cafile=str(trusted))
    if shown is not None:
        client_context.load_cert_chain(*shown)
    to_client, to_server = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = client_context.wrap_bio(to_client, to_server, server_hostname="localhost")
    server = context.wrap_bio(to_server, to_client, server_side=True)
    waiting = [client, server]
    while waiting:
        for end in tuple(waiting):
            try:
                end.do_handshake()
                waiting.remove(end)
            except ssl.SSLWantReadError:
                pass
    certificate: Any = server.getpeercert()
    return dict(pair for part in certificate["subject"] for pair in part) if certificate else None


def test_a_file_without_certificates_of_authorities_is_refused(files: tuple[Path, Path], tmp_path: Path) -> None:
    empty = tmp_path / "empty.pem"
    empty.touch()
    with pytest.raises(Refused, match=r"--tls-client-ca: .*empty\.pem has no certificates in PEM format"):
        Certificate(*files, empty)
    with pytest.raises(Refused, match="--tls-client-ca needs --tls-cert and --tls-key"):
        TcpListener(Listening("127.0.0.1:0", client_ca=files[0]))
