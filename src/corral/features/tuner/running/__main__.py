"""The process that runs one task of the autotuner. It ends with the process that started it: standard input closes.

python -I -m corral.features.tuner.running HOME TASK LOCK SITE

LOCK is the descriptor of a file that only one tuner of the task at a time can lock. The next tuner waits for its end.
SITE has the settings of the site as JSON.
"""

import fcntl
import json
import logging
import os
import sys
import threading
from functools import partial

from corral.client import Client
from corral.config.tuner import TunerSettings
from corral.event_log import log_to_stderr
from corral.features.tuner.running.experiment_run import SERVER_FAILED
from corral.features.tuner.running.task_run import run_task
from corral.wire import from_plain

SERVER_AWAY = 75


def _end_with_server() -> None:
    """End this process with its server. The jobs run on, and the tuner of the next server takes them over."""
    # sys.stdin is not used: its lock would be held while the interpreter ends.
    os.read(0, 1)
    os._exit(SERVER_AWAY)


def main(home: str, task_id: str, lock: str, site: str = "{}") -> int:
    """Run a task. Return the exit code."""
    log_to_stderr()
    threading.Thread(target=_end_with_server, daemon=True).start()
    fcntl.flock(int(lock), fcntl.LOCK_EX)
    try:
        run_task(partial(Client, home), task_id, from_plain(TunerSettings, json.loads(site)))
    except SERVER_FAILED as error:
        logging.getLogger("corral.tuner").warning("task %s: %s; the next tuner continues", task_id, error)
        # Threads of experiments may wait for a server that is gone.
        os._exit(SERVER_AWAY)
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
