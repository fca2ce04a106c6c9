"""The pages as another user of the machine has them: through connections of that user's, as `ssh -L` makes them."""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from urllib.parse import urlsplit

FORWARD = """
import encodings.idna, os, socket, sys, threading
uid, host, port = int(sys.argv[1]), sys.argv[2], int(sys.argv[3])
os.setgroups([]); os.setgid(uid); os.setuid(uid)

def pass_on(source, target):
    try:
        while data := source.recv(65536):
            target.sendall(data)
    except OSError:
        pass
    finally:
        for end in (source, target):
            try:
                end.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass

def serve(near):
    with near, socket.create_connection((host, port)) as far:
        back = threading.Thread(target=pass_on, args=(far, near))
        back.start()
        pass_on(near, far)
        back.join()

with socket.create_server(("127.0.0.1", 0)) as listening:
    print(listening.getsockname()[1], flush=True)
    while True:
        threading.Thread(target=serve, args=(listening.accept()[0],), daemon=True).start()
"""


@contextmanager
def forwarded(uid: int, url: str) -> Iterator[str]:
    """An address at which processes of this user pass on what comes to the pages at `url`. Only root can do that."""
    assert os.geteuid() == 0
    # All that it imports it imports as root: the library of root's Python need not be readable to others.
    place = urlsplit(url)
    command = [sys.executable, "-I", "-c", FORWARD, str(uid), str(place.hostname), str(place.port)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield f"http://127.0.0.1:{int(process.stdout.readline())}"
        finally:
            process.kill()
