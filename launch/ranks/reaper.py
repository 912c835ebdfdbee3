"""Imported by the fork server alone: makes it the parent of what ranks leave behind (Linux).

A process that a rank has started in a session of its own outlives the rank. It is then a child of
the fork server, where launch.ranks.fork_server finds it after the point. Ranks do not inherit this.
"""

import ctypes
import sys
import warnings

PR_SET_CHILD_SUBREAPER = 36

if sys.platform == "linux":
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    # multiprocessing reaps such a child as any other, and wonders about it
    warnings.filterwarnings("ignore", "forkserver: waitpid returned unexpected pid")
