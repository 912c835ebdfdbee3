"""Ranges of the numbers in a record; reading refuses values outside them."""

from typing import Annotated

from msgspec import Meta

LONGEST_S = 1e9
"""A longer time is no measurement."""
Count = Annotated[int, Meta(ge=1, le=10**12)]
NumRanks = Annotated[int, Meta(ge=1, le=10**6)]
RankNumber = Annotated[int, Meta(ge=0, le=10**6)]
RepetitionNumber = Annotated[int, Meta(ge=0, le=10**6)]
NumEarlier = Annotated[int, Meta(ge=0, le=10**6)]
Position = Annotated[int, Meta(ge=0)]
"""From 0 on, such as that of a case among the cases of its job."""
Seconds = Annotated[float, Meta(ge=0, le=LONGEST_S)]
Offset = Annotated[float, Meta(ge=-LONGEST_S, le=LONGEST_S)]
"""In seconds, of either sign."""
NumBytes = Annotated[int, Meta(ge=0, le=10**18)]
Amount = Annotated[float, Meta(ge=0, le=1e30)]
Figure = Annotated[float, Meta(ge=-1e18, le=1e18)]
Rows = list[list[Seconds]]
"""Seconds by rank and iteration: [rank][iteration]."""
