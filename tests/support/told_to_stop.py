"""A process that heeds signals as benchkit does and waits for one; says which it heard."""

import signal

from launch.signals import StopRequested, defer_signals, install_handlers, wait_readable


def stop(number, frame):
    raise StopRequested(number)


if __name__ == "__main__":
    install_handlers((signal.SIGINT, signal.SIGHUP, signal.SIGTERM), stop)
    with defer_signals():
        pass
    try:
        print("ready", flush=True)
        wait_readable([], 300)
    except StopRequested as told:
        print(signal.Signals(told.number).name)
