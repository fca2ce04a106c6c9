import subprocess
import sys

_SCRIPT = """
import os, signal, threading
from corral.cli.jobs.interrupts import interruptible

class Heeded(Exception): ...

def on_signal(number, frame):
    raise Heeded

def signal_to_this_thread():
    reading.wait()
    signal.pthread_kill(threading.get_ident(), signal.SIGTERM)
    threading.Event().wait()

signal.signal(signal.SIGTERM, on_signal)
never, _ = os.pipe()
reading = threading.Event()
threading.Thread(target=signal_to_this_thread, daemon=True).start()
with interruptible():
    try:
        reading.set()
        os.read(never, 1)
    except Heeded:
        print("heeded", signal.getitimer(signal.ITIMER_REAL)[1])
print(signal.getitimer(signal.ITIMER_REAL)[1], signal.getsignal(signal.SIGALRM) is signal.SIG_DFL)
"""


def test_a_signal_that_interrupts_no_read_by_itself_is_heeded_all_the_same() -> None:
    done = subprocess.run([sys.executable, "-c", _SCRIPT], capture_output=True, text=True, timeout=90)
    assert done.stdout.splitlines() == ["heeded 0.5", "0.0 True"], done.stderr
