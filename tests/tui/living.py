"""`corral top` in this process, driven by keys, read as the text on its screen."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Any

from textual.pilot import Pilot

from corral.client import Client
from corral.tui.app import TopApp
from tests.e2e.box import PATIENCE_S, Box


class Living:
    """A running `corral top`."""

    def __init__(self, app: TopApp, pilot: Pilot[Any]) -> None:
        self.app = app
        self.pilot = pilot

    def text(self) -> list[str]:
        """The lines on the screen."""
        strips = self.app.screen._compositor.render_strips()
        return ["".join(segment.text for segment in strip).rstrip() for strip in strips]

    async def press(self, *keys: str) -> None:
        await self.pilot.press(*keys)

    async def until(
        self, *words: str, gone: str = "", holds: Callable[[list[str]], bool] = lambda lines: True
    ) -> list[str]:
        """Wait until the screen says all of this, and its lines are so; its lines."""
        deadline = time.monotonic() + PATIENCE_S
        while True:
            shown = "\n".join(self.text())
            if all(word in shown for word in words) and not (gone and gone in shown) and holds(shown.split("\n")):
                return shown.split("\n")
            assert time.monotonic() < deadline, f"{words} {gone!r} never came about:\n{shown}"
            await self.pilot.pause(0.05)


def live(box: Box, story: Callable[[Living], Awaitable[None]], size: tuple[int, int] = (80, 24)) -> None:
    """Have the story told in a terminal of this size."""

    async def told() -> None:
        app = TopApp(lambda: Client(box.home))
        async with app.run_test(size=size) as pilot:
            await story(Living(app, pilot))

    asyncio.run(told())


def lines_with(lines: list[str], *words: str) -> list[str]:
    """The lines in which all of these words are."""
    return [line for line in lines if all(word in line for word in words)]


def is_above(lines: list[str], one: str, other: str) -> bool:
    """Whether the first line with one word is above the first with the other."""
    return lines.index(lines_with(lines, one)[0]) < lines.index(lines_with(lines, other)[0])
