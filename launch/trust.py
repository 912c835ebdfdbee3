"""Read files that only this user or root can have written: their content is executed or trusted.

The owner is this user or root, and nobody else may write. The check is of the open file, because a
path may lead to another file a moment later. The same holds for the file's folder: whoever may
write there may replace the file.

A folder is shared on purpose by a file MARKER in it or above it (chmod 644), which holds the name
of the trusted group, or `everyone`. It counts for its owner, and for all users if root owns it.
"""

import contextlib
import grp
import logging
import os
import pwd
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

MARKER = ".benchkit-trust"
EVERYONE = "everyone"
MOST_MARKER_BYTES = 256
MOUNTS = Path("/proc/self/mountinfo")
RELEASE = Path("/proc/sys/kernel/osrelease")
OWNERLESS = {"cifs", "drvfs", "exfat", "msdos", "ntfs", "ntfs3", "smb3", "vboxsf", "vfat"}
"""File systems with the fixed modes of their mount. WSL's 9p is one, too."""
GROUP, OTHERS = stat.S_IWGRP, stat.S_IWOTH
log = logging.getLogger("benchkit")
_warned: set[str] = set()
_umask: list[int] = []
"""The user's umask, once `restrict_umask` has replaced it."""


def read(path: Path, most_bytes: int, private: bool = False) -> bytes:
    """Read a file that only this user or root can have written.

    Args:
        private: nobody else may read it either. Its folder may be anybody's, because nobody else
            can make such a file.

    Raises:
        OSError: it cannot be read.
        PermissionError: it is a link, or others can have written it.
        ValueError: it is not a regular file, or larger than `most_bytes`.
    """
    with contextlib.ExitStack() as exit_stack:
        folder = exit_stack.enter_context(open_folder(path.parent))
        if not private:
            require_trusted(path.parent, folder)
        file = exit_stack.enter_context(open_file(path, folder))
        status = os.fstat(file.fileno())
        if not stat.S_ISREG(status.st_mode):
            raise ValueError(f"{path}: not a regular file")
        require_trusted(path, file.fileno(), private)
        if status.st_size > most_bytes:
            size = f"{status.st_size:,} bytes; allowed are {most_bytes:,}"
            raise ValueError(f"{path}: {size}")
        return file.read(most_bytes)


@contextlib.contextmanager
def open_folder(folder: Path, flags: int = 0) -> Iterator[int]:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC | flags)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def open_file(path: Path, folder: int) -> Iterator[BinaryIO]:
    """Open a file of an open folder, never a link, and without blocking on a pipe."""
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    with open(os.open(path.name, flags, dir_fd=folder), "rb") as file:
        yield file


def require_folder(folder: Path, private: bool = False) -> None:
    """Raise PermissionError for a folder that somebody else owns or may write.

    Args:
        private: nobody else may open it either, and it is not a link.
    """
    try:
        with open_folder(folder, os.O_NOFOLLOW if private else 0) as descriptor:
            require_trusted(folder, descriptor, private)
    except NotADirectoryError:  # so is a link that is not followed
        raise PermissionError(f"{folder}: a link or a file; allowed is a folder") from None


def make_private_folder(folder: Path) -> None:
    """Make a folder that only this user may open, unless it exists; its parent exists.

    Raises:
        PermissionError: it exists, and others may open it.
    """
    folder.mkdir(mode=0o700, exist_ok=True)
    require_folder(folder, private=True)


def restrict_umask() -> None:
    """Deny others write access to files made from now on, outside of shared folders."""
    _umask.append(os.umask(0o022))
    os.umask(_umask[0] | 0o022)


def make_folder(folder: Path) -> None:
    """Make a folder and its parents, unless it exists; in a shared one others may write.

    Raises:
        PermissionError: it exists, and somebody else owns it or may write it.
    """
    folder.parent.mkdir(parents=True, exist_ok=True)
    if _umask and trusted_group(folder.parent):
        os.umask(_umask[0])
    try:
        folder.mkdir()  # by root on NFS it may be nobody's
    except FileExistsError:
        require_folder(folder)


def require_trusted(path: Path, descriptor: int, private: bool = False) -> None:
    """Raise PermissionError if others than this user and root can have written an open file."""
    if why := distrust_reason(path, os.fstat(descriptor), private, has_acl(descriptor)):
        raise PermissionError(f"{path}: {why}")


def distrust_reason(
    path: Path, status: os.stat_result, private: bool, has_acl: bool = False
) -> str:
    """Return why a file or a folder, by its status, is not trusted; "" if it is.

    With an access control list, the mode's group bits are those of everyone in the list.
    """
    mode = status.st_mode
    if private:
        is_ours = status.st_uid == os.geteuid() and not mode & 0o077
        return "" if is_ours else "ignored; allowed is one that this user alone may open"
    if not stat.S_ISDIR(mode) and status.st_nlink > 1:
        return "it has a second name (hard link)"
    is_mine = status.st_uid in (os.geteuid(), 0)
    writers = mode & (GROUP | OTHERS)
    if writers & GROUP and not has_acl and is_user_private_group(status.st_gid):
        writers &= ~GROUP
    if is_mine and not writers:
        return ""
    if is_mine and is_ownerless(status.st_dev):
        warn_once(f"{path}: its file system has no owners: whoever may write there is trusted")
        return ""
    folder = path if stat.S_ISDIR(mode) else path.parent
    shared, by_group = trusted_group(folder), not writers & OTHERS and not has_acl
    if shared == EVERYONE or (shared and by_group and is_group(shared, status.st_gid)):
        warn_once(f"{path}: {shared} may have written it, which {MARKER} trusts")
        return ""
    allowed = "allowed is one that only you may (chmod go-w)" if is_mine else "allowed is your own"
    marker = f"{MARKER} names {shared}" if shared else f"or one that a {MARKER} of yours shares"
    problem = "others may write it" if is_mine else f"it is {user_name(status.st_uid)}'s"
    return f"{problem}; {allowed}, {marker}"


def has_acl(descriptor: int) -> bool:
    with contextlib.suppress(AttributeError, OSError):  # not on Linux, or none
        return bool(os.getxattr(descriptor, "system.posix_acl_access"))
    return False


def is_user_private_group(gid: int) -> bool:
    """Return whether a group is this user's private group, as many systems make one per user."""
    with contextlib.suppress(KeyError):
        user, group = pwd.getpwuid(os.geteuid()), grp.getgrgid(gid)
        is_own = user.pw_gid == gid and group.gr_name == user.pw_name
        return is_own and {*group.gr_mem} <= {user.pw_name}
    return False


def is_group(name: str, gid: int) -> bool:
    """Return whether a name, or a number as text, denotes a group."""
    with contextlib.suppress(KeyError):
        return name == str(gid) or grp.getgrnam(name).gr_gid == gid
    return False


def user_name(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return f"user {uid}"


def trusted_group(folder: Path) -> str:
    """Return the group, or EVERYONE, in the nearest MARKER in a folder or above it; "" for none.

    A MARKER of another user does not count, nor one that others may write.
    """
    real = folder.resolve()
    for directory in (real, *real.parents):
        with contextlib.suppress(OSError), contextlib.ExitStack() as exit_stack:
            descriptor = exit_stack.enter_context(open_folder(directory))
            file = exit_stack.enter_context(open_file(directory / MARKER, descriptor))
            status = os.fstat(file.fileno())
            is_plain = stat.S_ISREG(status.st_mode) and status.st_nlink == 1
            is_mine = status.st_uid in (os.geteuid(), 0)
            if is_plain and is_mine and not status.st_mode & (GROUP | OTHERS):
                return file.read(MOST_MARKER_BYTES).decode(errors="replace").strip()
    return ""


def is_ownerless(device: int) -> bool:
    """Return whether a file system, by its device number, keeps neither owners nor modes."""
    kind = file_system(device)
    with contextlib.suppress(OSError):
        return kind in OWNERLESS or (kind == "9p" and "microsoft" in RELEASE.read_text().lower())
    return False


def file_system(device: int) -> str:
    """Return the kind of a file system, such as ext4, by its device number; "" if unknown."""
    number = f"{os.major(device)}:{os.minor(device)}"
    with contextlib.suppress(OSError):
        for line in MOUNTS.read_text(errors="replace").splitlines():
            fields, _, remainder = line.partition(" - ")
            if fields.split()[2:3] == [number]:
                return remainder.partition(" ")[0]
    return ""


def warn_once(text: str) -> None:
    """Log a warning once per process."""
    if text not in _warned:
        _warned.add(text)
        log.warning("%s", text)
