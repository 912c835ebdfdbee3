"""What ranks do in the tests of launch: no torch, so that each test takes milliseconds."""

import os
import signal
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from multiprocessing import forkserver
from pathlib import Path

from launch.framing import add_length

from tests.support.entries.launch_ranks import entry, fork_server
from tests.support.ranks import run_ranks


def identity(argument):
    print("out", argument)
    print("err", argument, file=sys.stderr)
    return argument, os.environ.get("MINE"), os.getpid(), os.getpgid(0)


def raise_second(argument):
    """Rank 1 raises; rank 0 raises a little later, as one whose peer is gone does."""
    time.sleep(0.3 if argument == 0 else 0.0)
    raise ValueError(f"rank {argument}")


def raise_then_abort(argument):
    """Rank 1 raises; rank 0 aborts because its peer is gone, as NCCL's watchdog does."""
    if argument == 1:
        time.sleep(0.2)  # until both run
        raise ValueError("out of memory")
    time.sleep(0.6)
    os.abort()


def abort_then_raise(argument):
    """Rank 1 aborts; rank 0 notices at once, perhaps sooner than the agent."""
    note(os.getpid(), "")
    if argument == 1:
        time.sleep(0.3)
        os.abort()
    of_peer = Path(os.readlink("/proc/self/fd/1")).with_name("rank_1.pid")
    while not of_peer.exists() or not is_zombie(int(of_peer.read_text())):
        time.sleep(0.001)
    raise ValueError("peer closed")


def abort_with_words(argument):
    print(
        "terminate called after throwing an instance of 'Error'\n  what():  a GPU is lost", file=sys.stderr, flush=True
    )
    os.abort()


def fail_beside(argument):
    """A thread finds that rank 1 has failed, while the job would wait for ever."""
    if argument == 1:
        threading.Thread(target=entry.report_and_exit, args=(ValueError("a link is down"),)).start()
    time.sleep(1000)


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


def unstorable(argument):
    """What JSON has no word for."""
    return object()


def long_message(argument):
    raise ValueError("a" * 500_000 + "\ud800" + "z" * 500_000)


def speechless(argument):
    class Mute(Exception):
        def __str__(self):
            raise RuntimeError

    raise Mute


def stopped_amid_its_report(argument):
    """Somebody stops the rank when the agent has read a part of what it says."""

    def send_half(pipe, report):
        os.write(pipe.fileno(), add_length(report)[:1000])
        os.kill(os.getpid(), signal.SIGSTOP)

    entry.send = send_half
    return "x" * 5_000


def no_report(argument):
    """Says something else than a report."""
    entry.send = lambda pipe, report: os.write(pipe.fileno(), add_length(b"[" * 60_000))


def no_exception(argument):
    """Says what has the form of a report, but no types of one."""
    entry.send = lambda pipe, report: os.write(pipe.fileno(), add_length(b'{"exception": {"message": 3}}'))


def exit_255(argument):
    os._exit(255)


def kill_the_fork_server(argument):
    time.sleep(0.5)  # until it has told of the rank that it has forked
    os.kill(os.getppid(), signal.SIGKILL)
    time.sleep(60)


def leaves_a_child(argument):
    """Ends well; a process that it has started goes on. Returns its number."""
    return forked()


def leaves_a_session(argument):
    """The same in a session of its own, whose own child goes on, too."""
    report, says = os.pipe()
    first = os.fork()
    if first == 0:
        os.setsid()
        os.write(says, str(forked()).encode())
        time.sleep(600)
    return [first, int(os.read(report, 100))]


def forked() -> int:
    """A process that sleeps, longer than any test lasts."""
    pid = os.fork()
    if pid == 0:
        time.sleep(600)
        os._exit(0)
    return pid


def sleep_with_a_child(argument):
    note(forked(), "_child")
    sleep(argument)


def sleep(argument):
    """Says under which number it runs, beside its log."""
    note(os.getpid(), "")
    time.sleep(60)


def hang_with_flight_recorder(argument):
    """Rank 0 sleeps where torch.cuda would; rank 1 in its own code. Both answer their pipes as torch does."""
    pipe = f"{os.environ['TORCH_NCCL_DEBUG_INFO_PIPE_FILE']}{argument}.pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    threading.Thread(target=answer, args=(reader, argument), daemon=True).start()
    note(os.getpid(), "")
    if argument == 0:
        namespace = {"sleep": time.sleep}
        exec(compile("def synchronize(): sleep(60)", "/site-packages/torch/cuda/__init__.py", "exec"), namespace)
        namespace["synchronize"]()
    time.sleep(60)


def answer(reader, rank):
    """Writes a dump in two pieces once a byte has come."""
    while True:
        with suppress(BlockingIOError):
            if os.read(reader, 128):
                break
        time.sleep(0.05)
    with open(f"{os.environ['TORCH_FR_DUMP_TEMP_FILE']}{rank}", "w") as file:
        for piece in ("dump of ", str(rank)):
            file.write(piece)
            file.flush()
            time.sleep(0.02)


def note(pid: int, suffix: str) -> None:
    log = Path(os.readlink("/proc/self/fd/1"))
    part = log.with_name(f"{log.stem}{suffix}.part")
    part.write_text(str(pid))
    part.rename(log.with_name(f"{log.stem}{suffix}.pid"))


class SeesItsEnvironment:
    """Remembers what the environment held when it was unpickled."""

    def __reduce__(self):
        return os.getenv, ("MINE",)


def given(argument):
    return argument


def run(body, folder: Path, count=2, timeout_s=120.0, start_method="forkserver", environments=None):
    return run_ranks(
        f"tests.support.launch_bodies:{body}",
        list(range(count)),
        environments=environments or [{"MINE": str(rank)} for rank in range(count)],
        folder=folder,
        timeout_s=timeout_s,
        start_method=start_method,
    )


@contextmanager
def own_fork_server() -> Iterator[None]:
    """A fork server of multiprocessing without torch takes the place of this process's while the context lasts."""
    names = ("ensure_running", "get_inherited_fds", "connect_to_new_process", "set_forkserver_preload")
    before = {name: getattr(forkserver, name) for name in ("_forkserver", *names)}
    own = forkserver.ForkServer()
    try:
        vars(forkserver).update({name: getattr(own, name) for name in names}, _forkserver=own)
        fork_server.start_fork_server()  # its start counts towards a time-out
        yield
        fork_server.kill_server()
    finally:
        vars(forkserver).update(before)


def pids_in(folder: Path) -> list[int]:
    """The ranks that have begun to sleep."""
    return [int(path.read_text()) for path in folder.glob("rank_*.pid")]


def is_zombie(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True


if __name__ == "__main__":  # an agent of four ranks: FOLDER START_METHOD BODY
    print(run(sys.argv[3], Path(sys.argv[1]), count=4, start_method=sys.argv[2]).failure)
