"""`python -m benchkit compare`: runs arms in turn by fresh processes, and judges the difference.

arms      what an arm changes in a run
command   what was typed; compare.json: what is compared, and when it ends
session   all runs in their order, on every agent of a start

analysis.compare judges the runs.
"""
