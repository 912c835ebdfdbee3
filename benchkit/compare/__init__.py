"""`python -m benchkit compare`: runs arms in turn by fresh processes, and judges the difference.

command   what was typed
arms      what an arm changes in a run
plan      compare.json: what is compared, and when it ends
session   all runs in their order, on every agent of a start
runs      one run: a sweep in a process of its own
figures   what records say of each run
judging   the verdicts on all points, of benchkit.statistics.compare
report    the verdicts as text, JSON, JUnit and Markdown
"""
