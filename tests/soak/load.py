"""Who works with the server of a soak at the same time, each on a thread of its own."""

import random
import threading
import time
from collections import Counter
from contextlib import suppress
from typing import Any

from corral.client import Client
from corral.core.model.errors import Conflict, NotFound, Refused
from tests.api.described import DescribedApi, Statuses
from tests.soak.site import COOL, HOT, Site

MOST_LIVE = 60
"""A soak is to see many jobs come and go, not to see them wait."""

WHOLE_MILLI = 1000
TIDY_S = 2.0


class Worker(threading.Thread):
    """Takes one step after another until it is told to stop. A step that the server was away for is just over.

    `faults` are steps that ended as none may; `did` counts what was done.
    """

    def __init__(self, site: Site, seed: int, pause_s: float) -> None:
        super().__init__(name=type(self).__name__)
        self.site = site
        self.chance = random.Random(f"{self.name} {seed}")
        self.did: Counter[str] = Counter()
        self.faults: list[str] = []
        self._pause_s = pause_s
        self._stopping = threading.Event()

    def run(self) -> None:
        while not self._stopping.is_set():
            if not self.site.there(1.0):
                continue
            began = time.time()
            try:
                with self.site.client() as client:
                    self._work(client)
            except Exception as error:
                if self.site.was_away_since(began):
                    self.did["interrupted"] += 1
                else:
                    self.faults.append(f"{self.name}: {type(error).__name__}: {error}"[:2000])
                    self._stopping.wait(1.0)

    def _work(self, client: Client) -> None:
        while not self._stopping.wait(self._pause_s * 2 * self.chance.random()):
            self.step(client)

    def step(self, client: Client) -> None:
        raise NotImplementedError

    def stop(self) -> None:
        """Take no further step; `join` waits until the last is over."""
        self._stopping.set()


class Submitter(Worker):
    """Submits jobs of many kinds; `accepted` are those that the server has promised to run."""

    def __init__(self, site: Site, seed: int) -> None:
        super().__init__(site, seed, 0.15)
        self.accepted: list[str] = []

    def step(self, client: Client) -> None:
        if len(client.jobs.list(limit=MOST_LIVE)) >= MOST_LIVE:
            self.did["held back"] += 1
            return
        lasts = self.chance.choice(["0", "0", "0.2", "1", "4"])
        ends = self.chance.choice(["true", "true", "exit 3", "kill -9 $$"])
        note = 'echo "$CORRAL_JOB_ID $CORRAL_ATTEMPT $CORRAL_RANK"'
        work = ["sh", "-c", f"{note} >> {self.site.ran}; echo begun; sleep {lasts}; {ends}"]
        options: dict[str, Any] = self.chance.choice(
            [
                {"gpus": 1},
                {"gpus": 2},
                {"gpus": 0.25},
                {"gpus": 0.5, "queue": "night"},
                {"gpus": 0},
                {"gang": 2},
                {"gpus": 1, "retries": 1},
                {"gpus": 1, "array": "0-2"},
                {"gpus": 2, "queue": "urgent"},
                {"gpu_mem": "20G"},
                {"gpus": 1, "time": 2},
            ]
        )
        handle = client.submit(work, name=f"soak {self.chance.randrange(9)}", **options)
        self.accepted.append(handle.id)
        self.did["submitted"] += 1


class Changer(Worker):
    """Cancels, holds, releases, requeues and changes jobs, and puts right what the others have shut."""

    def __init__(self, site: Site, seed: int) -> None:
        super().__init__(site, seed, 0.3)
        self._tidied_at = 0.0

    def step(self, client: Client) -> None:
        if time.monotonic() > self._tidied_at + TIDY_S:
            self._tidied_at = time.monotonic()
            tidy(client)
        rows = client.jobs.list(all=True, limit=30)
        if rows:
            row = self.chance.choice(rows)
            what = self.chance.choice(["cancel", "hold", "release", "release", "requeue", "update"])
            try:
                if what == "update":
                    client.jobs.update(row.id, priority=self.chance.randrange(10))
                else:
                    getattr(client.jobs, what)(row.id)
                self.did[what] += 1
            except (Conflict, Refused):
                self.did[f"{what} refused"] += 1


class Reader(Worker):
    """Looks at all there is, and whether a device is ever given away twice."""

    def __init__(self, site: Site, seed: int) -> None:
        super().__init__(site, seed, 0.25)

    def step(self, client: Client) -> None:
        for device in client.alloc_map():
            held = sum(job.share_milli for job in device.jobs)
            if max(held, device.allocated_milli) > WHOLE_MILLI:
                self.faults.append(f"{device.uuid} was given away to {held} thousandths: {device.jobs}")
        uuid = client.devices.list()[0].uuid
        looks = [
            lambda: client.jobs.list(all=True, limit=200),
            lambda: client.devices.history(uuid, "30m"),
            lambda: client.report(["user", "queue"]),
            lambda: client.alerts.list(history=True),
            client.queues,
            client.nodes.list,
            client.usage,
        ]
        # A device has no history before it has been read for the first time.
        with suppress(NotFound):
            self.chance.choice(looks)()
        self.did["looked"] += 1


class Asker(Worker):
    """Sends what the API's description makes up, by the holder of each kind of token."""

    def __init__(self, site: Site, seed: int) -> None:
        super().__init__(site, seed, 0.0)
        self.statuses: Statuses = Counter()

    def step(self, client: Client) -> None:
        # Made-up requests make tokens, too, and a user may have 100.
        for row in client.tokens.list():
            client.tokens.revoke(row.id)
        description = self.site.box.api("/api/v1/openapi.json")
        tokens = {scope: client.tokens.create(scope=scope).token for scope in ("read", "submit", "admin")}
        known = {
            "job_id": [row.id for row in client.jobs.list(all=True, limit=8)] or ["1"],
            "device": [row.uuid for row in client.devices.list()],
            "uuid": [row.uuid for row in client.devices.list()],
            "node": [row.name for row in client.nodes.list()],
        }
        api = DescribedApi(description, self.site.url, tokens, known)
        try:
            api.ask(1)
        finally:
            self.statuses += api.statuses
            api.close()
        tidy(client)
        self.did["whole descriptions"] += 1


class Listener(Worker):
    """Follows the events of jobs from the first on; `submitted` are those it has heard of."""

    def __init__(self, site: Site, seed: int) -> None:
        super().__init__(site, seed, 0.0)
        self.submitted: set[str] = set()
        self.last = 0

    def step(self, client: Client) -> None:
        for event in client.events(["jobs"], after=self.last):
            if event.topic == "reset":
                self.faults.append(f"events were missed after {self.last}: {event.message}")
            if event.id is not None:
                if event.id < self.last:
                    self.faults.append(f"event {event.id} came after {self.last}")
                self.last = event.id
            if event.what == "submitted":
                self.submitted |= {str(row["id"]) for row in event.rows}
            self.did["events"] += 1
            if self._stopping.is_set():
                return


class Heater(Worker):
    """Has the devices get too hot, and cool again."""

    def __init__(self, site: Site, seed: int) -> None:
        super().__init__(site, seed, 15.0)

    def step(self, client: Client) -> None:
        self.site.heat(HOT)
        self.did["heated"] += 1
        self._stopping.wait(8.0)
        self.site.heat(COOL)


def tidy(client: Client) -> None:
    """Open again what a made-up request has shut."""
    for device in client.devices.list():
        if device.state == "cordoned":
            client.devices.uncordon(device.uuid)
    for node in client.nodes.list():
        if node.state in ("cordoned", "draining"):
            client.nodes.uncordon(node.name)
