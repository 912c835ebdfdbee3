"""How messages that are under way together share what they pass: max-min fair shares."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from benchkit.statistics.faults.cells import Ints, Mask
from benchkit.statistics.intervals import Array

BUSY = 0.9
"""An uplink is busy in turns in which it carries at least this share of its most messages."""


def max_min(resources: Ints, capacity: Array, count: Ints | None = None) -> Array:
    """Return the max-min fair rate of each flow: [flow].

    All rates rise together until a resource is full; its flows keep their rate, and the others rise
    on (progressive filling; Bertsekas and Gallager, Data Networks, 1992). A resource is filled as
    soon as no other one limits any of its flows further.

    Args:
        resources: of each flow, -1 for none: [flow][place].
        capacity: of each resource: [resource].
        count: how many flows pass the same, one by default: [flow].
    """
    rates = np.zeros(len(resources))
    weights = np.ones(len(resources)) if count is None else count.astype(np.float64)
    left = np.append(capacity.astype(np.float64), np.inf)  # -1 is the last, which is never full
    places = resources % len(left)
    rising = np.ones(len(resources), dtype=bool)

    def total(each: Array, flows: Mask) -> Array:
        """Return the sum over some flows at each resource."""
        passed = np.repeat(each[flows], places.shape[1])
        return np.bincount(places[flows].ravel(), passed, len(left)).astype(np.float64)

    while rising.any():
        used = total(weights, rising)
        with np.errstate(divide="ignore", invalid="ignore"):
            share = np.where(used > 0, left / used, np.inf)
        share[-1] = np.inf
        own = share[places].min(axis=1)
        lowest = np.full_like(share, np.inf)
        np.minimum.at(lowest, places[rising], own[rising, None])
        full = rising & (share <= lowest)[places].any(axis=1)
        rates[full] = own[full]
        left = np.maximum(left - total(weights * rates, full), 0.0)
        rising &= ~full
    return rates


@dataclass(frozen=True)
class Uplinks:
    """The messages that pass the uplinks of switches.

    Attributes:
        here, there: switches of sender and receiver of each message: [cell].
        turn: of each message; those of one turn are under way together: [cell].
    """

    here: Ints
    there: Ints
    turn: Ints

    @cached_property
    def crosses(self) -> Mask:
        """Which messages leave their switch: [cell]."""
        return np.asarray(self.here != self.there)

    @cached_property
    def turns(self) -> Ints:
        """The turn of each message, numbered from 0 on: [cell]."""
        return np.unique(self.turn, return_inverse=True)[1].ravel()

    @cached_property
    def rates(self) -> Array:
        """The rate of each message over that of an uplink, were uplinks all that limits it: [cell].

        A limit that is the same for all messages, such as that of network cards, changes no rate
        below it. So messages of equal rate stay alike at any oversubscription. All uplinks are
        taken to be equally fast. It is infinite for what stays at its switch.
        """
        ends = np.stack([self.turns, self.here, self.there], axis=1)[self.crosses]
        flows, of_flow, count = np.unique(ends, axis=0, return_inverse=True, return_counts=True)
        found = np.full(len(self.here), np.inf)
        if len(flows):
            size = int(flows.max()) + 1
            number = flows[:, :1] * size + flows[:, 1:]  # of each switch in each turn
            number[:, 1] += size**2  # what enters it
            used, resources = np.unique(number, return_inverse=True)
            rates = max_min(resources.reshape(-1, 2), np.ones(len(used)), count)
            found[self.crosses] = rates[of_flow.ravel()]
        return found

    def busy(self) -> tuple[Mask, Mask]:
        """Return which messages leave, and which enter, a switch in one of its busiest turns.

        A slow uplink is only seen where it is full.
        """
        return self.busiest(self.here), self.busiest(self.there)

    def busiest(self, ends: Ints) -> Mask:
        """Return which messages are in a busy turn of the switch at one of their ends: [cell]."""
        size = int(self.turns.max(initial=0)) + 1
        uplink = ends * size + self.turns  # of each switch in each turn
        load = np.bincount(uplink, self.crosses)[uplink]
        most = np.zeros(int(ends.max(initial=0)) + 1)
        np.maximum.at(most, ends, load)
        return np.asarray(self.crosses & (load >= BUSY * most[ends]))
