"""The worth of the free part of a device to classes of requests, and the classes that would fill it."""

import numpy as np
from numpy.typing import NDArray

from corral.core.scheduling.placing.scores import Floats
from corral.core.scheduling.placing.worth.values import LEVELS


class Knapsack:
    """The worth of every remainder of a device if request classes pay for the host resources that they take.

    Classes with equal numbers of steps differ only in what they pay: the knapsack therefore runs over step counts.
    Arrays: q sorts of device (those that the same classes may use), k price pairs, s classes, g step counts, LEVELS
    remainders.
    """

    def __init__(self, steps: NDArray[np.int64], paid: Floats, allowed: NDArray[np.bool_]) -> None:
        """`steps`: int[s]; `paid`: float[k, s] for the host; `allowed`: bool[q, s]."""
        self._order = np.argsort(steps, kind="stable")
        self._sizes, self._starts = np.unique(steps[self._order], return_index=True)
        self._group = np.searchsorted(self._sizes, steps[self._order])
        self._paid = paid[:, self._order]
        self._allowed = allowed[:, None, self._order]
        self._back = np.concatenate([[1], self._sizes])
        self._choices = 1 + np.searchsorted(self._sizes, np.arange(LEVELS), side="right")
        self._width = allowed.shape[0] * paid.shape[0]
        self._shares: list[Floats | None] = [None] * LEVELS
        self._single: Floats = np.zeros(0)

    def worth(self, gain: Floats, temperature: float) -> Floats:
        """float[LEVELS, q * k]: the softened maximum; `gain`, float[s], is the worth of one unit before it pays."""
        single = np.where(self._allowed, gain[self._order] - self._paid, -1e9)
        top = np.maximum.reduceat(single, self._starts, axis=2)
        part = np.exp((single - top[:, :, self._group]) / temperature)
        total = np.add.reduceat(part, self._starts, axis=2)
        self._single = part / total[:, :, self._group]
        best = (top + temperature * np.log(total)).transpose(2, 0, 1).reshape(len(self._sizes), self._width)
        offer = np.concatenate([np.zeros((1, self._width)), best])
        worth = np.zeros((LEVELS, self._width))
        for level in range(1, LEVELS):
            choices = int(self._choices[level])
            if choices == 1:
                continue
            rest = worth[level - self._back[:choices]]
            rest += offer[:choices]
            high = rest.max(axis=0)
            rest -= high
            rest /= temperature
            np.exp(rest, out=rest)
            total = rest.sum(axis=0)
            rest /= total
            self._shares[level] = rest
            worth[level] = high + temperature * np.log(total)
        return worth

    def use(self, devices: Floats) -> Floats:
        """float[s]: the units of each class that `devices`, float[LEVELS, q * k] by remainder, would serve.

        It uses the gains and the temperature of the last call of `worth`.
        """
        left = devices.copy()
        used = np.zeros((len(self._sizes), self._width))
        for level in range(LEVELS - 1, 0, -1):
            shares = self._shares[level]
            if shares is None:
                continue
            flow = shares * left[level]
            left[level - self._back[: len(flow)]] += flow
            used[: len(flow) - 1] += flow[1:]
        by_sort = used.reshape(len(self._sizes), *self._single.shape[:2]).transpose(1, 2, 0)
        units = np.zeros(len(self._order))
        units[self._order] = (self._single * by_sort[:, :, self._group]).sum(axis=(0, 1))
        return units
