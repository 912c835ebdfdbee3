"""What counts as written by this user alone: each mode, owner and kind of file, and who shares a folder."""

import os
import stat
from dataclasses import dataclass
from itertools import product
from pathlib import Path

import pytest
from launch import trust

ME, ROOT = os.getuid() or 4321, 0
OTHER = ME + 1
OWN, TEAM = 4321, 4400
FILE, FOLDER = stat.S_IFREG, stat.S_IFDIR
MOST = 1000


@dataclass
class User:
    pw_name: str
    pw_gid: int


@dataclass
class Group:
    gr_name: str
    gr_gid: int
    gr_mem: tuple[str, ...] = ()


GROUPS = {OWN: Group("me", OWN), TEAM: Group("team", TEAM, ("me", "other"))}


@pytest.fixture(autouse=True)
def users(monkeypatch):
    names = {"me": User("me", OWN)}
    monkeypatch.setattr(os, "geteuid", lambda: ME)
    monkeypatch.setattr(trust.pwd, "getpwuid", lambda uid: {ME: names["me"]}[uid])
    monkeypatch.setattr(trust.grp, "getgrgid", lambda gid: GROUPS[gid])
    monkeypatch.setattr(trust.grp, "getgrnam", lambda name: {each.gr_name: each for each in GROUPS.values()}[name])
    monkeypatch.setattr(trust, "_warned", set())


def status(mode, uid=ME, gid=OWN, links=1, device=0):
    return os.stat_result((mode, 1, device, links, uid, gid, 10, 0, 0, 0))


CASES = [*product((FILE, FOLDER), (ME, ROOT, OTHER), (OWN, TEAM), (0o600, 0o644, 0o664, 0o666, 0o602, 0o1777))]


@pytest.mark.parametrize("marker", ["", "team", "everyone", "nobody"])
@pytest.mark.parametrize(("kind", "uid", "gid", "mode"), CASES)
def test_only_what_others_cannot_have_written_is_trusted(kind, uid, gid, mode, marker, tmp_path):
    (tmp_path / trust.MARKER).write_text(f"{marker}\n")
    (tmp_path / trust.MARKER).chmod(0o644)
    os.chown(tmp_path / trust.MARKER, ROOT, OWN) if os.getuid() == 0 else None
    by_group, by_others = mode & 0o020 and gid != OWN, mode & 0o002
    is_mine = uid != OTHER and not by_group and not by_others
    is_team = marker == "team" and gid == TEAM and not by_others
    expected = is_mine or is_team or marker == "everyone"
    assert (trust.distrust_reason(tmp_path / "it", status(kind | mode, uid, gid), private=False) == "") == expected


@pytest.mark.parametrize(("uid", "mode", "is_private"), [
    (ME, 0o600, True), (ME, 0o400, True), (ME, 0o640, False), (ME, 0o604, False), (ROOT, 0o600, False),
    (OTHER, 0o600, False),
])  # fmt: skip
def test_private_file_is_this_users_alone(uid, mode, is_private, tmp_path):
    (tmp_path / trust.MARKER).write_text("everyone")
    for kind in (FILE, FOLDER):
        assert (trust.distrust_reason(tmp_path, status(kind | mode, uid), private=True) == "") == is_private


def test_group_of_one_is_no_group_once_it_has_another_member(monkeypatch, tmp_path):
    shared = status(FILE | 0o664)
    assert not trust.distrust_reason(tmp_path, shared, private=False)
    monkeypatch.setitem(GROUPS, OWN, Group("me", OWN, ("other",)))
    assert trust.distrust_reason(tmp_path, shared, private=False)
    monkeypatch.setattr(trust.grp, "getgrgid", lambda gid: (_ for _ in ()).throw(KeyError(gid)))
    assert trust.distrust_reason(tmp_path, shared, private=False)  # as in a container without names


@pytest.mark.parametrize(("kind", "release", "is_ownerless"), [
    ("vfat", "6.1", True), ("cifs", "6.1", True), ("ext4", "6.1", False), ("9p", "6.1", False),
    ("9p", "5.15-microsoft-standard-WSL2", True),
])  # fmt: skip
def test_file_system_without_owners_is_trusted_with_a_word(kind, release, is_ownerless, tmp_path, monkeypatch, caplog):
    (tmp_path / "mounts").write_text(f"1 2 8:1 / /other rw - ext4 x rw\n3 2 8:2 / /mnt/c rw,noatime - {kind} C: rw\n")
    (tmp_path / "release").write_text(release)
    monkeypatch.setattr(trust, "MOUNTS", tmp_path / "mounts")
    monkeypatch.setattr(trust, "RELEASE", tmp_path / "release")
    found = [
        trust.distrust_reason(tmp_path, status(FILE | 0o777, gid=TEAM, device=os.makedev(8, 2)), private=False)
        for _ in range(2)
    ]
    assert found == ["", ""] if is_ownerless else all(found)
    assert len(caplog.records) == int(is_ownerless)


@pytest.fixture
def own(monkeypatch):
    """The true user again, for files that are there."""
    monkeypatch.undo()
    monkeypatch.setattr(trust, "_warned", set())


def test_file_is_read_without_following_links_and_once(own, tmp_path):
    path = tmp_path / "it"
    path.write_bytes(b"mine")
    assert trust.read(path, MOST) == b"mine"
    (tmp_path / "link").symlink_to(path)
    os.mkfifo(tmp_path / "pipe")
    for name, error in (("link", OSError), ("pipe", ValueError), ("none", FileNotFoundError), (".", OSError)):
        with pytest.raises(error):
            trust.read(tmp_path / name, MOST)
    with pytest.raises(ValueError, match="4 bytes"):
        trust.read(path, 3)
    os.link(path, tmp_path / "second name")
    with pytest.raises(PermissionError):
        trust.read(path, MOST)


def test_folder_that_others_may_write_is_distrusted_with_its_files(own, tmp_path):
    folder = tmp_path / "sweep"
    folder.mkdir()
    (folder / "it").write_bytes(b"mine")
    (tmp_path / "latest").symlink_to(folder)
    assert trust.read(tmp_path / "latest" / "it", MOST) == b"mine"
    folder.chmod(0o777)
    for attempt in (lambda: trust.read(folder / "it", MOST), lambda: trust.require_folder(folder)):
        with pytest.raises(PermissionError):
            attempt()
    (tmp_path / trust.MARKER).write_text("everyone")
    (tmp_path / trust.MARKER).chmod(0o666)
    with pytest.raises(PermissionError):
        trust.require_folder(folder)  # others may have written the marker itself
    (tmp_path / trust.MARKER).chmod(0o644)
    trust.require_folder(folder)
    assert trust.read(folder / "it", MOST) == b"mine"


@pytest.mark.parametrize("is_swapped_before", [True, False])
def test_file_that_is_open_is_judged_whatever_the_name_leads_to(own, tmp_path, monkeypatch, is_swapped_before):
    path, theirs = tmp_path / "it", tmp_path / "theirs"
    path.write_bytes(b"mine")
    theirs.write_bytes(b"theirs")
    theirs.chmod(0o646)
    really_open = os.open

    def open_swapped(name, flags, *args, dir_fd=None):
        if dir_fd is not None and is_swapped_before:
            os.replace(theirs, path)
        descriptor = really_open(name, flags, *args, dir_fd=dir_fd)
        if dir_fd is not None and not is_swapped_before:
            os.replace(theirs, path)
        return descriptor

    monkeypatch.setattr(os, "open", open_swapped)
    if is_swapped_before:
        with pytest.raises(PermissionError):
            trust.read(path, MOST)
    else:
        assert trust.read(path, MOST) == b"mine"
    assert path.read_bytes() == b"theirs"


@pytest.mark.parametrize("is_shared", [False, True])
def test_what_is_made_is_not_for_others_to_write_unless_the_folder_is_shared(own, is_shared, tmp_path, monkeypatch):
    if is_shared:
        (tmp_path / trust.MARKER).write_text(str(os.getgid()))
        (tmp_path / trust.MARKER).chmod(0o644)
    monkeypatch.setattr(trust, "_umask", [])
    before = os.umask(0o002)
    try:
        trust.restrict_umask()
        (tmp_path / "before").mkdir()
        trust.make_folder(tmp_path / "a" / "made")
        trust.make_folder(tmp_path / "a" / "made")
    finally:
        os.umask(before)
    modes = [stat.S_IMODE((tmp_path / name).stat().st_mode) for name in ("before", "a/made")]
    assert modes == [0o755, 0o775 if is_shared else 0o755]


@pytest.mark.parametrize("kind", ["link", "file"])
def test_private_folder_is_neither_a_link_nor_a_file(own, tmp_path, kind):
    """Not even a link to a folder of this user alone: where it leads may change."""
    (tmp_path / "mine").mkdir(mode=0o700)
    trust.make_private_folder(tmp_path / "mine")
    path = tmp_path / "other"
    path.symlink_to(tmp_path / "mine") if kind == "link" else path.touch(mode=0o600)
    with pytest.raises(PermissionError, match="other"):
        trust.require_folder(path, private=True)


def test_folder_that_was_just_made_is_its_makers_whoever_owns_it(own, tmp_path, monkeypatch):
    """On NFS, what root makes is nobody's."""
    monkeypatch.setattr(trust, "distrust_reason", lambda *_: "it is nobody's")
    trust.make_folder(tmp_path / "made")
    with pytest.raises(PermissionError):
        trust.make_folder(tmp_path / "made")


def test_marker_counts_where_a_folder_truly_is(own, tmp_path, monkeypatch):
    shared, others = tmp_path / "shared", tmp_path / "others"
    for folder in (shared, others):
        folder.mkdir()
        (folder / "sweep").mkdir()
        (folder / "sweep").chmod(0o777)
    (shared / trust.MARKER).write_text("everyone")
    (shared / trust.MARKER).chmod(0o644)
    (shared / "link").symlink_to(others / "sweep")
    (others / "link").symlink_to(shared / "sweep")
    monkeypatch.chdir(shared)
    trust.require_folder(others / "link")
    for stranger in (shared / "link", Path("../others/sweep")):
        with pytest.raises(PermissionError):
            trust.require_folder(stranger)


def test_access_control_list_makes_a_group_of_one_several(own, tmp_path, monkeypatch):
    path = tmp_path / "it"
    path.write_bytes(b"mine")
    path.chmod(0o664)
    monkeypatch.setattr(trust, "is_user_private_group", lambda gid: True)
    assert trust.read(path, MOST) == b"mine"
    monkeypatch.setattr(os, "getxattr", lambda opened, name: b"list" if name == "system.posix_acl_access" else b"")
    with pytest.raises(PermissionError):
        trust.read(path, MOST)
