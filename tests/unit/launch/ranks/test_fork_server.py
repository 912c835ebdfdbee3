"""What launch/ranks/fork_server.py relies on inside of multiprocessing, which promises none of it."""

import os
from multiprocessing import forkserver, popen_forkserver, util
from pathlib import Path

from tests.support.entries.launch_ranks import fork_server

ADVICE = "multiprocessing has changed: {}; adapt launch/ranks/fork_server.py, then this test"


def test_fork_server_has_pid():
    advice = ADVICE.format("pid() reads forkserver._forkserver._forkserver_pid, None before the start")
    assert getattr(forkserver.ForkServer(), "_forkserver_pid", "missing") is None, advice
    assert isinstance(getattr(forkserver, "_forkserver", None), forkserver.ForkServer), advice
    fork_server.start_fork_server()
    assert not fork_server.has_ended(fork_server.server_pid()), advice


def test_socket_of_fork_server_lies_in_temporary_folder():
    advice = ADVICE.format("folder_in_environment() names the folder of the socket, which the server may remove")
    fork_server.start_fork_server()
    assert Path(forkserver._forkserver._forkserver_address).parent == Path(util.get_temp_dir()), advice


def test_ensure_running_belongs_to_fork_server():
    advice = ADVICE.format("ensure_running() of the module must start the server whose number pid() reads")
    assert forkserver.ensure_running.__self__ is forkserver._forkserver, advice


def test_unreported_end_has_lost_exit_code():
    advice = ADVICE.format("poll() gave a process 255 where its fork server is gone: set LOST_EXIT_CODE to what it is")
    unreported = object.__new__(popen_forkserver.Popen)
    unreported.returncode, (unreported.sentinel, writer) = None, os.pipe()
    os.close(writer)
    assert unreported.poll() == fork_server.LOST_EXIT_CODE, advice
    os.close(unreported.sentinel)


def test_reaper_knows_waitpid_warning():
    text = "forkserver: waitpid returned unexpected pid"
    assert text in Path(fork_server.__file__).with_name("reaper.py").read_text()
    advice = ADVICE.format(f"it warns of orphans no longer by {text!r}: silence its new words in reaper.py")
    assert any(text in constant for constant in forkserver.main.__code__.co_consts if isinstance(constant, str)), advice
