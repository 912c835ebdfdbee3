"""A network of their own for ranks on one host: no other process there can reach the ports on which they listen.

gloo asks nobody who connects for a name: on a network that others share, any local user can take the place of a rank
while ranks connect, and end the point. A network namespace of Linux's has a loopback interface of its own. Who is not
root makes one inside a user namespace, which some systems forbid.

This file is also a program of its own, which imports nothing of ours: a process that has threads, such as an agent, can
neither make nor enter a user namespace.
"""

import ctypes
import fcntl
import os
import select
import socket
import struct
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

CLONE_NEWUSER, CLONE_NEWNET = 0x10000000, 0x40000000  # sched.h
SIOCSIFFLAGS, IFF_UP, IFF_RUNNING = 0x8914, 0x1, 0x40  # linux/sockios.h, linux/if.h
READY, LIMIT_S = b"ready\n", 10.0


@dataclass(frozen=True)
class PrivateNetwork:
    """Namespaces to enter one after another: files that agent 0 holds open, which keep them alive, and their inodes."""

    paths: tuple[str, ...]
    inodes: tuple[int, ...]

    def can_be_entered(self) -> bool:
        """Whether the paths lead to the namespaces here, as they do among the same process numbers."""
        with suppress(OSError):
            return [os.stat(path).st_ino for path in self.paths] == list(self.inodes)
        return False

    def enter(self) -> None:
        """Moves this process, which has no threads yet, into the network; raises OSError where it may not.

        In a user namespace of its own a process may no longer look into those of its user outside: files of theirs, by
        /proc, must be open before.
        """
        descriptors = [os.open(path, os.O_RDONLY | os.O_CLOEXEC) for path in self.paths]
        for descriptor in descriptors:
            call("setns", descriptor, 0)
            os.close(descriptor)


def make() -> PrivateNetwork | None:
    """A network that lives as long as this process; None where the kernel gives none, or would let no rank in."""
    kinds = ("net",) if os.geteuid() == 0 else ("user", "net")
    with suppress(OSError, subprocess.SubprocessError), run("make", *kinds) as maker:
        assert maker.stdin
        assert maker.stdout
        try:
            if not select.select([maker.stdout], [], [], LIMIT_S)[0] or maker.stdout.readline() != READY:
                return None
            held = [os.open(f"/proc/{maker.pid}/ns/{kind}", os.O_RDONLY | os.O_CLOEXEC) for kind in kinds]
        finally:
            maker.kill()  # the open files keep the namespaces
        paths = tuple(f"/proc/{os.getpid()}/fd/{descriptor}" for descriptor in held)
        with run("enter", *paths) as visitor:
            try:
                if visitor.communicate(timeout=LIMIT_S)[0] == READY:
                    return PrivateNetwork(paths, tuple(os.fstat(descriptor).st_ino for descriptor in held))
            finally:
                visitor.kill()
    return None


def run(*arguments: str) -> "subprocess.Popen[bytes]":
    """Starts this file as a program."""
    return subprocess.Popen(
        [sys.executable, "-I", "-S", __file__, *arguments],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
    )  # fmt: skip


def call(name: str, *arguments: int) -> None:
    """Calls a function of the C library; raises OSError with what the kernel says."""
    library = ctypes.CDLL(None, use_errno=True)
    if getattr(library, name)(*arguments):
        number = ctypes.get_errno()
        raise OSError(number, f"{name}: {os.strerror(number)}")


def unshare(kinds: Sequence[str]) -> None:
    """Moves this process into fresh namespaces, as the user that it is, with a loopback interface that is up."""
    uid, gid = os.geteuid(), os.getegid()
    call("unshare", CLONE_NEWNET | (CLONE_NEWUSER if "user" in kinds else 0))
    if "user" in kinds:
        Path("/proc/self/setgroups").write_text("deny")
        Path("/proc/self/uid_map").write_text(f"{uid} {uid} 1")
        Path("/proc/self/gid_map").write_text(f"{gid} {gid} 1")
    with socket.socket() as any_socket:
        fcntl.ioctl(any_socket, SIOCSIFFLAGS, struct.pack("16sH14x", b"lo", IFF_UP | IFF_RUNNING))


def main(task: str, *arguments: str) -> None:
    """Makes namespaces and keeps them until standard input ends, or enters those at some paths."""
    if task == "make":
        unshare(arguments)
    else:
        PrivateNetwork(arguments, ()).enter()
    sys.stdout.buffer.write(READY)
    sys.stdout.flush()
    if task == "make":
        sys.stdin.read()


if __name__ == "__main__":
    main(*sys.argv[1:])
