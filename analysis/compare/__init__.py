"""Compares runs point by point: which points are slower, failed or no longer measured.

points    cases of several runs, matched by their labels; how a case ended in them
verdicts  the verdict on a point, by its times or by how its runs ended; the exit code
pairs     runs of `python -m benchkit compare`, in pairs
places    records of two places, whose runs are no pairs
report    what both say in the same words; `pairs_report` and `places_report` have the rest
"""
