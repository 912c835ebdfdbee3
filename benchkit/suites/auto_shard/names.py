"""Names in records of auto_shard, which the suite writes and its analysis reads."""

from benchkit.api.details import StrEnum

SHARDING, RANKS, SCOPE = "sharding", "ranks", "scope"
"""Labels of a case."""
WORK_SHARE, CREATES_WHOLE, LATENCY_S = "work_share", "creates_whole", "latency_s"
"""Details of a case on several devices.

WORK_SHARE: the work of the busiest device as a multiple of its even share. CREATES_WHOLE: whether a
step creates an operand whole on each device. LATENCY_S: predicted seconds of empty messages.
"""
STRONG, WEAK = "strong", "weak"
"""Values of the key `scaling`."""


class Sharding(StrEnum):
    """The rule by which a workload is sharded.

    UNSHARDED is on one device. AUTO and AXIS0 are planners of DTensor, DISPATCHER is GT's
    architecture. With INDEPENDENT each device has a whole workload of its own.
    """

    UNSHARDED = "none"
    AUTO = "auto"
    AXIS0 = "axis0"
    DISPATCHER = "dispatcher"
    INDEPENDENT = "independent"


class Scope(StrEnum):
    """What a step includes.

    RESIDENT: operands and result stay on the devices. END_TO_END: operands are created, and the
    result is fetched.
    """

    RESIDENT = "resident"
    END_TO_END = "end_to_end"


class Phase(StrEnum):
    """The regions of a step; with resident operands it has only the two in the middle."""

    CREATE = "create"
    COMPUTE = "compute"
    COMMUNICATE = "communicate"
    FETCH = "fetch"


UNSHARDED, AUTO, AXIS0, DISPATCHER, INDEPENDENT = Sharding
RESIDENT, END_TO_END = Scope
CREATE, COMPUTE, COMMUNICATE, FETCH = Phase
