"""A kernel that refuses system calls to one command: a filter of seccomp(2), on x86-64."""

import ctypes
import errno
import os
import platform
import struct
import sys

NUMBERS = {
    "bind": 49, "fadvise64": 221, "fcntl": 72, "flock": 73, "fsync": 74, "getsockopt": 55, "ioctl": 16,
    "memfd_create": 319, "pidfd_open": 434, "prctl": 157, "sched_getaffinity": 204, "sched_setaffinity": 203,
    "sendmsg": 46, "setns": 308, "setsid": 112, "setsockopt": 54, "socket": 41, "statfs": 137, "symlink": 88,
    "unshare": 272, "waitid": 247,
}  # fmt: skip
"""arch/x86/entry/syscalls/syscall_64.tbl"""
IS_KNOWN = (sys.platform, platform.machine()) == ("linux", "x86_64")
LOAD, SKIP_UNLESS, RETURN = 0x20, 0x15, 0x06  # linux/bpf_common.h
ALLOW, REFUSE = 0x7FFF0000, 0x00050000  # linux/seccomp.h
ARGUMENTS = 16  # where they begin in struct seccomp_data
PR_SET_SECCOMP, FILTER, PR_SET_NO_NEW_PRIVS = 22, 2, 38


def checks(refused: str) -> list[tuple[int, int, int, int]]:
    """The filter's instructions for a call such as "flock=EPERM", or "fcntl(1:10)=EPERM", whose argument 1 is 10."""
    call, _, error = refused.partition("=")
    name, _, arguments = call.rstrip(")").partition("(")
    pairs = [each.split(":") for each in arguments.split(";") if each]
    places = [(0, NUMBERS[name]), *((ARGUMENTS + 8 * int(index), int(value, 0)) for index, value in pairs)]
    made = []
    for left, (place, value) in zip(range(len(places) - 1, -1, -1), places, strict=True):
        made += [(LOAD, 0, 0, place), (SKIP_UNLESS, 0, 2 * left + 1, value)]
    return [*made, (RETURN, 0, 0, REFUSE | getattr(errno, error))]


def refuse(calls: str) -> None:
    """Takes calls, separated by commas, from this process and all that it starts, for ever."""
    program = [step for each in calls.split(",") for step in checks(each)] + [(RETURN, 0, 0, ALLOW)]
    code = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *step) for step in program))
    given = ctypes.create_string_buffer(struct.pack("HxxxxxxP", len(program), ctypes.addressof(code)))
    library = ctypes.CDLL(None, use_errno=True)
    for order in ((PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), (PR_SET_SECCOMP, FILTER, given)):
        if library.prctl(*order):
            raise OSError(ctypes.get_errno(), "prctl")


if __name__ == "__main__":
    refuse(sys.argv[1])
    os.execvp(sys.argv[2], sys.argv[2:])
