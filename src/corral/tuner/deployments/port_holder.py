"""Finds an address and a free port, keeps others from taking it, says which, and becomes the server that listens there.

    python -I -m corral.tuner.deployments.port_holder PLACE COMMAND... {host} ... {port} ...

The port stays bound, without listening, in a socket that the command inherits. So nobody is given it meanwhile, and a
server that sets SO_REUSEADDR, as asyncio and uvicorn do, can listen there: Linux lets it while nobody else listens.

PLACE is where the tuner is: a server in the same place is reached, and listens, at the loopback address alone. In a
container with a network of its own, in a pod or on another node it has the address that leads there.

It runs from its text alone, also in images that know nothing of Corral: with the standard library of any Python 3.9.
Jobs that wait in a ledger name this module (decision 97).
"""

import os
import socket
import sys

HOST, PORT = "{host}", "{port}"
SAYS = "corral: the server is at "
CANNOT_RUN, NOT_FOUND = 126, 127


def place() -> str:
    """Whose loopback address this process has: that of a machine's boot and a network namespace. "" if not known."""
    try:
        with open("/proc/sys/kernel/random/boot_id") as file:
            return f"{file.read().strip()}/{os.readlink('/proc/self/ns/net')}"
    except OSError:
        return ""


def own_address() -> str:
    """The address by which others reach this machine or container. Raises OSError where it has none."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asked:
        try:
            # Nothing is sent: the kernel says from where it would be. The address is of those for documentation.
            asked.connect(("192.0.2.1", 9))
            return str(asked.getsockname()[0])
        except OSError:
            # No way leads out; on a network of its own the name of a container has the address.
            named = socket.gethostbyname(socket.gethostname())
    if named.startswith("127."):
        raise OSError(f"{named} leads others to themselves")
    return named


def main(words: list[str]) -> int:
    """Become the command; its exit code is that of this process, or what a shell has where it cannot be run."""
    held = socket.socket()
    try:
        host = "127.0.0.1" if words[0] == place() != "" else own_address()
        held.bind((host, 0))
    except OSError:
        print("corral: there is no network here, so nobody could reach the server", file=sys.stderr)
        return CANNOT_RUN
    # Not before: with it the kernel may choose a port that somebody has and shares.
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
