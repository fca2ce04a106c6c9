import json
import subprocess
import threading
from collections.abc import Callable

from corral.client import Client, Event
from tests.e2e.box import CORRAL, Box, described


def test_who_follows_hears_everything_also_of_a_server_that_is_killed(new_box: Callable[[str], Box]) -> None:
    box = new_box(described(2))
    box.up()
    heard: list[Event] = []
    done = threading.Event()

    def follow() -> None:
        with Client(box.home) as client:
            for event in client.events(["jobs", "devices"]):
                heard.append(event)
                if any(row.get("name") == "last" and row.get("phase") == "SUCCEEDED" for row in event.rows):
                    break
        done.set()

    follower = threading.Thread(target=follow, daemon=True)
    follower.start()
    with Client(box.home) as client:
        client.wait(client.submit(["true"], gpus=1, workdir="/").id)
        box.kill()
        box.up()
        client.wait(client.submit(["true"], gpus=1, name="last", workdir="/").id)
        assert done.wait(60.0)
        everything = []
        for event in client.events(["jobs", "devices"], after=heard[0].id):
            everything.append(event)
            if event.id == heard[-1].id:
                break
    assert (heard[0].topic, [event.topic for event in heard].count("hello")) == ("hello", 1)
    assert heard[1:] == everything[1:]
    lines = command_says(box, heard[0].id or 0, len(everything) - 1)
    assert [json.loads(line)["id"] for line in lines] == [event.id for event in everything[1:]]


def command_says(box: Box, after: int, count: int) -> list[str]:
    """The first lines of JSON that `corral events` prints, but for the greeting."""
    command = [CORRAL, "events", "--topics", "jobs,devices", "--after", str(after), "--json"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=box.env) as process:
        assert process.stdout is not None
        try:
            return [process.stdout.readline() for _ in range(count + 1)][1:]
        finally:
            process.terminate()
