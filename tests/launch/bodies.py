"""What ranks do in the tests of launch: no torch, so that each test takes milliseconds."""

import os
import sys
import time


def identity(argument):
    print("out", argument)
    print("err", argument, file=sys.stderr)
    return argument, os.environ.get("MINE"), os.getpid(), os.getpgid(0)


def raise_second(argument):
    """Rank 1 raises; rank 0 raises a little later, as one whose peer is gone does."""
    time.sleep(0.3 if argument == 0 else 0.0)
    raise ValueError(f"rank {argument}")


def exit_silently(argument):
    if argument == 1:
        os._exit(0)
    return argument


def grandchild(argument):
    pid = os.fork()
    if pid == 0:
        time.sleep(60)
    if argument == 1:
        raise ValueError(str(pid))
    time.sleep(60)


def large(argument):
    return "x" * 5_000_000


def sleep(argument):
    time.sleep(60)
