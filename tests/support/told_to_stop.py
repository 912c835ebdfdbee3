"""A process that heeds signals as benchkit does and waits for one; says what it heard."""

import signal

from launch.signals import Stopped, handle, uninterrupted, wait_for


def stop(number, frame):
    raise Stopped(number)


if __name__ == "__main__":
    handle((signal.SIGINT, signal.SIGHUP, signal.SIGTERM), stop)
    with uninterrupted():
        pass
    try:
        print("ready", flush=True)
        wait_for([], 300)
    except Stopped as told:
        print(told)
