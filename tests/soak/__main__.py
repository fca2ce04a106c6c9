"""A long proof: `python -m tests.soak MINUTES`, or `make soak`.

A real server with mock devices has a mixed load for so long: jobs of all kinds come, are changed and cancelled, all
that the API's description allows is asked, events are followed, devices get too hot. In the first half the server is
killed again and again, as `kill -9` does; in the second it lives, and what it takes is watched. In the end all that
must hold is looked at, and told line by line. Exits with 1 where something does not.
"""

import contextlib
import random
import sys
import time
from collections import Counter
from collections.abc import Iterator

from corral.client import Client
from corral.core.model.errors import Conflict
from corral.core.model.home import Home
from tests.features.channels.receivers import Receiver
from tests.soak import claims
from tests.soak.claims import Claim
from tests.soak.load import Asker, Changer, Heater, Listener, Reader, Submitter, Worker, tidy
from tests.soak.site import Footprint, Site

KILL_EACH_S = 75.0
SETTLED_S = 12.0
"""By then a server that has just started has done what it does once."""

EMPTY_S = 300.0
LEAST_MINUTES = 1.0


class Soak:
    """One run. `claims` are what was looked at, each as soon as it can be."""

    def __init__(self, minutes: float, seed: int) -> None:
        self._half_s = minutes * 30.0
        self._chance = random.Random(seed)
        self._receiver = Receiver()
        self._site = Site(self._receiver.port)
        self._submitter, self._listener, self._asker = (
            Submitter(self._site, seed),
            Listener(self._site, seed),
            Asker(self._site, seed),
        )
        others = [kind(self._site, seed) for kind in (Changer, Heater, Reader, Reader)]
        self._load: list[Worker] = [self._submitter, Submitter(self._site, seed + 1), self._asker, *others]
        self.claims: list[Claim] = []

    def run(self) -> None:
        """All of it; what it has started is gone afterwards, whatever happens."""
        try:
            self._site.up()
            began = time.time() + SETTLED_S
            for worker in (*self._load, self._listener):
                worker.start()
            self._kill_again_and_again()
            settled, calm = self._live()
            end = self._wind_down()
            self._look(began, settled, calm, end)
        finally:
            for worker in (*self._load, self._listener):
                worker.stop()
            self._site.box.discard()
            self._receiver.close()

    def _kill_again_and_again(self) -> None:
        until = time.monotonic() + self._half_s
        while (left := until - time.monotonic()) > 0:
            time.sleep(min(left, KILL_EACH_S * (0.7 + 0.6 * self._chance.random())))
            self._site.kill()
            print(f"killed and started again, {len(self._submitter.accepted)} submitted so far", flush=True)

    def _live(self) -> tuple[Footprint, list[Footprint]]:
        time.sleep(SETTLED_S)
        first = self._site.footprint()
        calm = []
        until = time.monotonic() + self._half_s - SETTLED_S
        while time.monotonic() < until:
            if self._site.lives():
                calm.append(self._site.footprint())
            else:
                self._site.kill()
            time.sleep(1.0)
        return first, calm

    def _wind_down(self) -> Footprint:
        """End all jobs, and all who work; what the server takes then."""
        for worker in self._load:
            worker.stop()
        for worker in self._load:
            if worker.ident is not None:
                worker.join()
        with self._site.client() as client:
            tidy(client)
            self._empty(client)
            # An event that it can hear, so that it comes to its end.
            self._listener.stop()
            last = client.submit(["true"], gpus=0)
            self._submitter.accepted.append(last.id)
            client.wait(last.id, EMPTY_S)
        self._listener.join()
        self._hear_out()
        return self._site.footprint()

    def _hear_out(self) -> None:
        """Wait until no message comes any more."""
        deadline = time.monotonic() + EMPTY_S
        heard = -1
        while time.monotonic() < deadline and (heard < len(self._receiver.got) or claims.untold(self._receiver.got)):
            heard = len(self._receiver.got)
            time.sleep(SETTLED_S)

    def _empty(self, client: Client) -> None:
        deadline = time.monotonic() + EMPTY_S
        while rows := client.jobs.list(limit=None):
            for row in rows:
                with contextlib.suppress(Conflict):
                    client.jobs.cancel(row.id)
            if time.monotonic() > deadline:
                self.claims.append(Claim("all jobs can be ended", False, f"{len(rows)} live after {EMPTY_S:g} s"))
                return
            time.sleep(0.5)

    def _look(self, began: float, settled: Footprint, calm: list[Footprint], end: Footprint) -> None:
        home = Home(self._site.box.home)
        faults = [fault for worker in (*self._load, self._listener) for fault in worker.faults]
        said = "\n  ".join(f"{count} times {fault}" for fault, count in Counter(faults).most_common(20))
        self.claims.append(Claim("nobody met a fault of the server's", not faults, said or "none"))
        crashes = self._site.crashes
        self.claims.append(Claim("the server never ended by itself", not crashes, "\n  ".join(crashes) or "it did not"))
        self.claims += claims.of_alerts(self._receiver.got)
        self.claims += claims.of_history(self._site, began, time.time())
        self.claims += claims.of_footprint(settled, end, calm)
        with self._site.client() as client:
            rows = client.jobs.list(all=True, limit=None)
        self._site.down()
        known = claims.submitted(home)
        self.claims += claims.of_journal(home)
        accepted = [job_id for worker in self._load if isinstance(worker, Submitter) for job_id in worker.accepted]
        ended = {row.id for row in rows if row.ended}
        self.claims += claims.of_jobs(self._site, accepted, known, ended)
        missed = sorted(known - self._listener.submitted)
        said = f"{missed[:20] or self._listener.did['events']} events"
        self.claims.append(Claim("a follower heard of every job", not missed, said))
        self.claims += claims.of_leftovers(self._site)

    def summary(self) -> Iterator[str]:
        """What was done, and what holds."""
        for worker in (*self._load, self._listener):
            yield f"{worker.name}: " + ", ".join(f"{count} {what}" for what, count in sorted(worker.did.items()))
        requests = sum(self._asker.statuses.values())
        yield f"{requests} made-up requests to {len({key[1:3] for key in self._asker.statuses})} routes"
        away = [outage.ended - outage.began for outage in self._site.outages]
        yield f"{len(away)} kills, the server away for {max(away, default=0.0):.1f} s at most"
        for claim in self.claims:
            yield f"{'holds' if claim.holds else 'FAILS'}  {claim.name}: {claim.said}"


def main(words: list[str]) -> int:
    """Run it for so many minutes; 0 where all holds."""
    minutes = float(words[0]) if words else 20.0
    if minutes < LEAST_MINUTES:
        print(f"{minutes:g} minutes are too few; a soak takes at least {LEAST_MINUTES:g}", file=sys.stderr)
        return 2
    seed = int(words[1]) if len(words) > 1 else random.randrange(10**6)
    print(f"soak of {minutes:g} minutes, seed {seed}", flush=True)
    soak = Soak(minutes, seed)
    soak.run()
    print("\n".join(soak.summary()))
    return 0 if all(claim.holds for claim in soak.claims) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
