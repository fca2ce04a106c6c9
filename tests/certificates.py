"""Certificates made for a test by the openssl command."""

import shutil
import subprocess
from pathlib import Path

import pytest

needs_openssl = pytest.mark.skipif(shutil.which("openssl") is None, reason="the openssl command makes the certificates")


def make_certificate(
    directory: Path, name: str = "server", *, names: str = "DNS:localhost,IP:127.0.0.1"
) -> tuple[Path, Path]:
    """A certificate that signs itself, good for these names, and its key."""
    certificate, key = directory / f"{name}-cert.pem", directory / f"{name}-key.pem"
    command = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
    command += ["-days", "2", "-subj", f"/CN={name}", "-addext", f"subjectAltName={names}"]
    subprocess.run([*command, "-keyout", str(key), "-out", str(certificate)], check=True, capture_output=True)
    key.chmod(0o600)
    return certificate, key
