"""`corral doctor` if CORRAL_URL names a server elsewhere: check a client's needs, and the state of that server."""

import os

import corral
from corral.cli.local.doctor_devices import devices_finding, nodes_finding
from corral.cli.local.doctor_hosts import hosts_findings
from corral.client import Address, Client, NoServer, UntrustedServer, find_address
from corral.core.model.errors import CorralError, Refused
from corral.core.model.home import Home
from corral.formatting.check_result import FAILURE, OK, WARNING, CheckResult


def is_client_elsewhere(home: Home) -> bool:
    """Whether CORRAL_URL is set and this home has no server's ledger."""
    return bool(os.environ.get("CORRAL_URL")) and not (home.root / "ledger.db").exists()


def client_findings() -> list[CheckResult]:
    """Findings about the server's answer, the certificate and the token, and about the server's nodes and GPUs."""
    try:
        address = find_address()
        with Client() as client:
            server, nodes, devices = client.server(), client.nodes.list(), client.devices.list()
            hosts = hosts_findings(client)
    except UntrustedServer as error:
        return [CheckResult("TLS", FAILURE, str(error))]
    except NoServer as error:
        return [
            CheckResult("server", FAILURE, str(error), "see that it runs (there: corral doctor) and is let through")
        ]
    except Refused as error:
        about = {"CORRAL_CA_FILE": "TLS", "CORRAL_URL": "server", "CORRAL_INSECURE": "server"}
        return [CheckResult(about.get(error.field or "", "token"), FAILURE, str(error))]
    except CorralError as error:
        return [CheckResult("server", FAILURE, str(error))]
    return [
        _version_finding(address, server.version, server.user),
        _certificate_finding(address),
        CheckResult("token", OK, "accepted by the server"),
        nodes_finding(nodes),
        devices_finding(devices, ", mock devices (--mock)" if server.mock else " of the server", described=server.mock),
        *hosts,
        *([] if server.obstacle is None else [CheckResult("disk", FAILURE, f"nothing starts now: {server.obstacle}")]),
    ]


def _version_finding(address: Address, version: str, user: str) -> CheckResult:
    if version == corral.__version__:
        return CheckResult("server", OK, f"that of {user} answers at {address}, version {version}")
    found = f"the server at {address} runs {version}, this command is {corral.__version__}"
    return CheckResult(
        "server", WARNING, found, "install the server's version here, or have its owner install this one"
    )


def _certificate_finding(address: Address) -> CheckResult:
    if (address.url or "").startswith("https:"):
        trusted = address.ca_file or "the certificates of this system"
        return CheckResult("TLS", OK, f"checked with {trusted}")
    return CheckResult("TLS", OK, "none: plain HTTP, allowed to this machine and with CORRAL_INSECURE=1")
