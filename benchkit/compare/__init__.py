"""`python -m benchkit compare`: interleave runs of arms, until a judge has its answer.

arms      what an arm changes in a run
command   the command line; compare.json: the plan of the comparison
session   all runs in their order, on every agent of a start

benchkit.cli passes the judge, which is in analysis.compare.
"""

RESULT_FILE = "compare_result.json"
