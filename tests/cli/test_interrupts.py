import os
import subprocess
import sys
import time

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


def test_no_byte_is_lost_when_signals_interrupt_large_writes_to_a_slow_reader() -> None:
    program = """
import signal
from corral.cli.jobs.interrupts import pass_on
signal.signal(signal.SIGALRM, lambda number, frame: None)
signal.setitimer(signal.ITIMER_REAL, 0.005, 0.005)
for number in range(50):
    pass_on(1, bytes([number]) * 131_000)
"""
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE) as writer:
        assert writer.stdout is not None
        read = b""
        while piece := os.read(writer.stdout.fileno(), 12_000):
            read += piece
            time.sleep(0.0002)
    assert read == b"".join(bytes([number]) * 131_000 for number in range(50))
