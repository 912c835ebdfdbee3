"""`python -m benchkit compare`: runs arms in turn by fresh processes, until a judge has its answer.

arms      what an arm changes in a run
command   what was typed; compare.json: what is compared, and when it ends
session   all runs in their order, on every agent of a start

The command line hands in the judge, which is analysis.compare.
"""

RESULT_FILE = "compare_result.json"
