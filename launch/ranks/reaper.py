"""Makes the fork server, which alone imports this, the parent of what ranks leave behind (Linux).

A process that a rank has started in its own session outlives the rank. It then becomes a child of
the fork server, where launch.ranks.fork_server finds it after the point. Ranks do not inherit this.
"""

import ctypes
import sys
import warnings

PR_SET_CHILD_SUBREAPER = 36

if sys.platform == "linux":
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    # multiprocessing reaps such a child like any other, but warns about it.
    warnings.filterwarnings("ignore", "forkserver: waitpid returned unexpected pid")
