"""A person at `corral top`, with keys alone, before a real server."""

from pathlib import Path

from tests.e2e.box import Box, until_there
from tests.tui.living import Living, is_above, lines_with, live


def test_a_look_tells_what_is_free_and_why_a_job_waits(box: Box, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    running = box.submit("--gpus", "2", "--time", "1h", "--name", "trains", "--", "sh", "-c", until_there(gate))
    waiting = box.submit("--gpus", "1", "--name", "waits", "--", "true")

    async def story(top: Living) -> None:
        lines = await top.until(
            *("trains", "RUNNING", "(Resources)", "0 of 2 GPUs free  1 run, 1 wait"),
            holds=lambda lines: len(lines_with(lines, "allocated", f"/{running}")) == 2,
        )
        assert len(lines) <= 24
        assert all(len(line) <= 80 for line in lines)
        await top.press("down")
        lines = await top.until("number 1 in the queue", ":")
        assert lines_with(lines, waiting, "waits", "PENDING")
        gate.touch()
        await top.until("2 of 2 GPUs free", "no job waits or runs")
        await top.press("e")
        await top.until(holds=lambda lines: len(lines_with(lines, "SUCCEEDED")) >= 2)

    live(box, story)


def test_a_log_opens_at_its_end_and_goes_on(box: Box, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    job = f"seq 1 20000; printf '%0150dtail\\n' 7; {until_there(gate)}; echo the very end"
    job_id = box.submit("--gpus", "1", "--name", "writes", "--", "sh", "-c", job)
    box.until_phase(job_id, "RUNNING")

    async def story(top: Living) -> None:
        await top.until("writes", "RUNNING")
        await top.press("enter")
        lines = await top.until("command", "asks for", ">0000")
        assert [line.count("…") for line in lines_with(lines, ">0000")] == [1], "the line goes on"
        await top.press(*["right"] * 5)
        await top.until("7tail", "from column 101")
        await top.press(*["left"] * 5)
        await top.press("up")
        await top.until(">20000")
        gate.touch()
        lines = await top.until("the very end", "end of the log")
        assert lines_with(lines, ">20000"), "who has moved away from the end stays where he is"
        await top.press("escape")
        await top.until("WHERE, WHY")

    live(box, story)


def test_a_job_is_cancelled_once_it_was_asked_for(box: Box) -> None:
    job_id = box.submit("--gpus", "1", "--name", "loses", "--", "sleep", "1000")
    box.until_phase(job_id, "RUNNING")

    async def story(top: Living) -> None:
        await top.until("loses", "RUNNING")
        await top.press("c")
        await top.until(f"Cancel job {job_id} loses")
        await top.press("n")
        await top.until("? help", gone="y: yes")
        assert box.job(job_id)["phase"] == "RUNNING"
        await top.press("c")
        await top.until("y: yes")
        await top.press("y")
        await top.until(f"job {job_id} is cancelled")

    live(box, story)
    assert box.ended(job_id)["phase"] == "CANCELLED"


def test_lists_are_filtered_sorted_and_explained(box: Box, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    for name in ("zebra", "aardvark"):
        box.submit("--gpus", "1", "--name", name, "--", "sh", "-c", until_there(gate))

    async def story(top: Living) -> None:
        await top.until("zebra", "aardvark", "2 run", holds=lambda lines: is_above(lines, "zebra", "aardvark"))
        await top.press("s", "s", "s")
        await top.until("[by name]", holds=lambda lines: is_above(lines, "aardvark", "zebra"))
        await top.press("r")
        await top.until("[by name, reversed]", holds=lambda lines: is_above(lines, "zebra", "aardvark"))
        await top.press("slash", *"zeb")
        await top.until("filter: zeb", gone="aardvark")
        await top.press("enter", "escape")
        await top.until("aardvark", gone="[by name, reversed, filter")
        await top.press("question_mark")
        await top.until("reverse the order")
        await top.press("escape")
        await top.press("tab")
        await top.until(">0 ", "GPU 0 Mock A100, allocated")
        await top.press("enter")
        await top.until("command", "LOG")
        gate.touch()

    live(box, story)


HOSTILE = "[red]x[/] \u0301\u4e2d\u6587[@click=app.quit]"


def test_what_users_named_is_text(box: Box) -> None:
    writes = r"printf '\033[31mred\033[0m \033]0;t\007[b]\n'; sleep 1000"
    box.submit("--gpus", "1", "--name", HOSTILE, "--", "sh", "-c", writes, "\x1b[31m\u202etxt\n[bold]")

    async def story(top: Living) -> None:
        await top.until("RUNNING", "[red]x[/] ", "[@click=app.quit]")
        await top.press("enter")
        lines = await top.until(">red [b]", r"\x1b[31m\u202etxt\n[bold]")
        assert all("\x1b" not in line and "\u202e" not in line for line in lines)

    live(box, story, size=(200, 30))


def test_a_small_terminal_and_a_new_size_are_no_trouble(box: Box) -> None:
    async def story(top: Living) -> None:
        await top.until("2 of 2 GPUs free")
        for columns, rows in ((40, 10), (20, 5), (200, 60), (80, 24)):
            await top.pilot.resize_terminal(columns, rows)
            lines = await top.until("GPU")
            assert len(lines) <= rows
            assert all(len(line) <= columns for line in lines)

    live(box, story)
