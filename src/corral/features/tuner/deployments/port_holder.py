"""Finds an address and a free port, reserves the port, prints both, and becomes the server that listens there.

    python -I -m corral.features.tuner.deployments.port_holder PLACE COMMAND... {host} ... {port} ...

The port stays bound, without listening, in a socket that the command inherits. So no other process gets it meanwhile. A
server that sets SO_REUSEADDR, as asyncio and uvicorn do, can listen there: Linux allows that while no other socket
listens.

PLACE identifies the tuner's boot and network. A server in the same place listens only at the loopback address. In a
container with its own network, in a pod or on another node it uses the address that is reachable from outside.

The module runs from its text alone, also in images without Corral: with the standard library of any Python 3.9. Jobs
that wait in a ledger name this module (decision 97).
"""

import os
import socket
import sys

HOST, PORT = "{host}", "{port}"
SAYS = "corral: the server is at "
CANNOT_RUN, NOT_FOUND = 126, 127


def place() -> str:
    """Return the machine's boot and network namespace, which share a loopback address; "" if not known."""
    try:
        with open("/proc/sys/kernel/random/boot_id") as file:
            return f"{file.read().strip()}/{os.readlink('/proc/self/ns/net')}"
    except OSError:
        return ""


def own_address() -> str:
    """Return the address at which others reach this machine or container. Raises OSError if there is none."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asked:
        try:
            # Nothing is sent: the kernel only returns the source address. The target is reserved for documentation.
            asked.connect(("192.0.2.1", 9))
            return str(asked.getsockname()[0])
        except OSError:
            # There is no route outwards. In a network of its own the container's name has the address.
            named = socket.gethostbyname(socket.gethostname())
    if named.startswith("127."):
        raise OSError(f"{named} leads others to themselves")
    return named


def main(words: list[str]) -> int:
    """Become the command. Return a shell's exit code if it cannot be run."""
    held = socket.socket()
    try:
        host = "127.0.0.1" if words[0] == place() != "" else own_address()
        held.bind((host, 0))
    except OSError:
        print("corral: there is no network here, so nobody could reach the server", file=sys.stderr)
        return CANNOT_RUN
    # This must come after the bind: before it, the kernel could choose a port that another process has and shares.
    held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    held.set_inheritable(True)
    port = str(held.getsockname()[1])
    print(f"{SAYS}{host}:{port}", flush=True)
    command = [{HOST: host, PORT: port}.get(word, word) for word in words[1:]]
    try:
        os.execvp(command[0], command)
    except OSError as error:
        absent = isinstance(error, FileNotFoundError)
        hint = "; install it there, or have it on the task's PATH" if absent else ""
        print(f"corral: {command[0]} cannot be run: {error.strerror}{hint}", file=sys.stderr)
        return NOT_FOUND if absent else CANNOT_RUN


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
