"""Network namespace for the ranks on one host.

gloo does not authenticate connections: without a private network any local user can connect to a
rank's port in its peer's place, and end the point. A network namespace of Linux has its own
loopback interface. A user other than root makes it inside a user namespace, which some systems
forbid.

This file is also a program, which imports no other module of this package: a process with threads,
such as an agent, can neither make nor enter a user namespace.
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
OPEN_FLAGS = os.O_RDONLY | os.O_CLOEXEC
READY, LIMIT_S = b"ready\n", 10.0


@dataclass(frozen=True)
class PrivateNetwork:
    """The namespaces of a private network, kept alive by open files of process `pid`."""

    pid: int
    descriptors: tuple[int, ...]
    inodes: tuple[int, ...]

    @property
    def paths(self) -> list[str]:
        return [proc_fd_path(self.pid, descriptor) for descriptor in self.descriptors]

    def can_be_entered(self) -> bool:
        """Return whether the paths lead to the namespaces, as in the same PID namespace."""
        with suppress(OSError):
            return [os.stat(path).st_ino for path in self.paths] == list(self.inodes)
        return False

    def enter(self) -> None:
        """Move this process into the network; it must have no further threads.

        In the user namespace it may no longer read /proc of processes outside, so it opens their
        files first.
        """
        descriptors = [os.open(path, OPEN_FLAGS) for path in self.paths]
        for descriptor in descriptors:
            call_libc("setns", descriptor, 0)
            os.close(descriptor)


def proc_fd_path(pid: int, descriptor: int) -> str:
    """Return the path by which processes of the same user open another one's open file."""
    return f"/proc/{pid}/fd/{descriptor}"


def create_private_network() -> PrivateNetwork | None:
    """Make a network for the lifetime of this process; return None if the kernel refuses."""
    kinds = ("net",) if os.geteuid() == 0 else ("user", "net")
    with suppress(OSError, subprocess.SubprocessError), start_helper("make", *kinds) as maker:
        assert maker.stdin
        assert maker.stdout
        try:
            readable, _, _ = select.select([maker.stdout], [], [], LIMIT_S)
            if not readable or maker.stdout.readline() != READY:
                return None
            namespace_fds = [os.open(f"/proc/{maker.pid}/ns/{kind}", OPEN_FLAGS) for kind in kinds]
        finally:
            maker.kill()  # The open files keep the namespaces alive.
        inodes = tuple(os.fstat(descriptor).st_ino for descriptor in namespace_fds)
        network = PrivateNetwork(os.getpid(), tuple(namespace_fds), inodes)
        with start_helper("enter", str(network.pid), *map(str, namespace_fds)) as visitor:
            try:
                if visitor.communicate(timeout=LIMIT_S)[0] == READY:
                    return network
            finally:
                visitor.kill()
    return None


def start_helper(*arguments: str) -> "subprocess.Popen[bytes]":
    return subprocess.Popen(
        [sys.executable, "-I", "-S", __file__, *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )


def call_libc(name: str, *arguments: int) -> None:
    library = ctypes.CDLL(None, use_errno=True)
    if getattr(library, name)(*arguments):
        number = ctypes.get_errno()
        raise OSError(number, f"{name}: {os.strerror(number)}")


def unshare(kinds: Sequence[str]) -> None:
    """Move this process into new namespaces and bring loopback up; keep its user and group."""
    uid, gid = os.geteuid(), os.getegid()
    call_libc("unshare", CLONE_NEWNET | (CLONE_NEWUSER if "user" in kinds else 0))
    if "user" in kinds:
        Path("/proc/self/setgroups").write_text("deny")
        Path("/proc/self/uid_map").write_text(f"{uid} {uid} 1")
        Path("/proc/self/gid_map").write_text(f"{gid} {gid} 1")
    request = struct.pack("16sH14x", b"lo", IFF_UP | IFF_RUNNING)
    with socket.socket() as any_socket:
        fcntl.ioctl(any_socket, SIOCSIFFLAGS, request)


def main(task: str, *arguments: str) -> None:
    """Make namespaces and keep them until the end of standard input, or enter existing ones."""
    if task == "make":
        unshare(arguments)
    else:
        pid, *descriptors = map(int, arguments)
        PrivateNetwork(pid, tuple(descriptors), ()).enter()
    sys.stdout.buffer.write(READY)
    sys.stdout.flush()
    if task == "make":
        sys.stdin.read()


if __name__ == "__main__":
    main(*sys.argv[1:])
