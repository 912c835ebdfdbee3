"""Compare runs point by point: which points are slower, failed or no longer measured.

points    cases of several runs, matched by their labels, and their outcomes
verdicts  the verdict on a point, by its times or by its outcomes; the exit code
pairs     runs of `python -m benchkit compare`, in pairs
folders   records of two places, whose runs are unpaired
report    texts of both; `pairs_report` and `folders_report` have the rest
"""
