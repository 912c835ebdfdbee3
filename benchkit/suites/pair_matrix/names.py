"""Names in records of pair_matrix, which the suite writes and its analysis reads."""

ROUND, DIRECTION, GROUP = "round", "direction", "group"
"""Labels of a case: the round of the schedule and who sends, or the level of nested groups."""
ASCENDING, DESCENDING = "ascending", "descending"
"""Directions: from the lower rank of each pair to the higher one, or back."""
SENDS_TO = "sends_to"
"""Detail of a case: the rank that each rank sends to, or IDLE."""
GROUP_OF = "group_of"
"""Detail of a case: the number of each rank's group at its level."""
IDLE = -1
"""In place of a rank: the rank receives, or has no partner in this round."""
PAIRS, NODES, HALVES, ALL = "pairs", "nodes", "halves", "all"
"""Levels of nested groups, from the smallest groups to the largest."""
