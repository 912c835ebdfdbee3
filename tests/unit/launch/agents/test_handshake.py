"""A join of two agents amid strangers, both sides of the proof, and by which interface they meet."""

import errno
import json
import os
import socket
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from ipaddress import ip_address
from pathlib import Path
from typing import Any

import pytest
from launch.framing import add_length
from launch.launcher_env import LaunchContext
from launch.signals import wait_readable
from msgspec import to_builtins
from msgspec.structs import replace

from tests.support.cli import wait_until
from tests.support.entries.agents import (
    AGENT_0,
    CALLER,
    NONCE_BYTES,
    PROOF_BYTES,
    Address,
    Caller,
    JoinError,
    Stranger,
    call,
    choose_rendezvous,
    connect_agents,
    handshake,
    interfaces,
    open_listener,
    proof,
    rendezvous,
    secret,
    this_member,
    write_whole,
)

TRAITS = {"version": "1"}
DEEP = b"[" * 60_000
WORD = "sixteen letters."
HELLO = {"member": to_builtins(this_member(1)), "traits": TRAITS}


def connected(port: int) -> socket.socket:
    return socket.create_connection(("127.0.0.1", port))


def proved(port: int, token: str, wrong: bytes = b"") -> socket.socket:
    """A stranger that knows the secret, or one whose proof is `wrong`."""
    stream = connected(port)
    nonce_0, nonce = stream.recv(NONCE_BYTES), b"n" * NONCE_BYTES
    stream.sendall((wrong or proof(token, CALLER, nonce_0, nonce)) + nonce)
    return stream


def test_proof_depends_on_secret_role_and_nonces():
    parts = ["secret", CALLER, b"0" * NONCE_BYTES, b"1" * NONCE_BYTES]
    others = ["secreT", AGENT_0, b"2" * NONCE_BYTES, b"3" * NONCE_BYTES]
    for changed, other in enumerate(others):
        assert proof(*[*parts[:changed], other, *parts[changed + 1 :]]) != proof(*parts)


@pytest.mark.parametrize("other_secret", ["", "mine "])
def test_other_secret_makes_strangers_of_both(other_secret):
    ours, theirs = socket.socketpair()
    with ours, theirs, ThreadPoolExecutor(1) as pool:
        caller = Caller(ours, "mine")
        calling = pool.submit(call, theirs, other_secret)
        assert wait_readable([caller], 10)
        with pytest.raises(Stranger):
            caller.receive_hello()
        caller.close()
        with pytest.raises(Stranger):
            calling.result()


def says(*messages: bytes, proves: bool = False) -> Callable[[int, str], list[socket.socket]]:
    """Says what no agent says; one that `proves` knows the secret, as an agent of another version may."""

    def come(port: int, token: str) -> list[socket.socket]:
        streams = []
        for message in messages:
            streams.append(proved(port, token) if proves else connected(port))
            with suppress(ConnectionError):  # dropped before it has said all
                streams[-1].sendall(add_length(message) if proves else message)
        return streams

    return come


def changed(**fields: Any) -> bytes:
    return json.dumps(["hello", {**HELLO, "member": {**HELLO["member"], **fields}}]).encode()


def silent(count: int) -> Callable[[int, str], list[socket.socket]]:
    return lambda port, token: [connected(port) for _ in range(count)]


def dripping(port: int, token: str) -> list[socket.socket]:
    """A byte now and then, of a proof that never comes to its end."""
    streams = silent(20)(port, token)

    def drip() -> None:
        try:
            while True:
                for stream in streams:
                    stream.sendall(b"x")
                time.sleep(0.2)
        except OSError:  # dropped, or the test has ended
            return

    threading.Thread(target=drip, daemon=True).start()
    return streams


def wrong_proofs(port: int, token: str) -> list[socket.socket]:
    """By another secret, for another nonce, and in the other's role."""
    stream = connected(port)
    nonce_0, nonce = stream.recv(NONCE_BYTES), b"n" * NONCE_BYTES
    stream.sendall(proof(token, AGENT_0, nonce_0, nonce) + nonce + add_length(changed()))
    others = [proof("other", CALLER, nonce_0, nonce), proof(token, CALLER, nonce, nonce)]
    return [stream, *(proved(port, token, wrong=other) for other in others)]


STRANGERS = {
    "silent": silent(20),
    "many": silent(400),
    "dripping": dripping,
    "wrong_proofs": wrong_proofs,
    "garbage": says(b"GET / HTTP/1.1\r\n\r\n", b"\xff" * 100_000, DEEP, b""),
    "too_long": says(b" " * (handshake.HELLO_BYTES + 1), proves=True),
    "wrong_hello": says(
        *(DEEP, b"{}", b"[]", b'["hello", 1]', b'["hello", {"member": 1}]', b"\xff"),
        *(changed(index=index) for index in (0, 2, -1, True, "1", None, 1.5)),
        *(changed(host=1), changed(cores=["1"]), changed(more=1)),
        json.dumps(["hello", {**HELLO, "traits": {"version": 1}}]).encode(),
        json.dumps(["hello", {**HELLO, "traits": []}]).encode(),
        proves=True,
    ),
}


@pytest.mark.parametrize("strangers", STRANGERS)
def test_strangers_do_not_delay_join(tmp_path, strangers):
    """Agent 1 comes after them: a join that waits for each of them takes longer than its limit."""
    results: dict[int, Any] = {}

    def live(index: int) -> None:
        try:
            agents = connect_agents(LaunchContext("srun", index, 2, "j"), TRAITS, tmp_path, 15)
            results[index] = agents.all_gather(index, list[int], 5)
        except BaseException as error:
            results[index] = error

    threads = [threading.Thread(target=live, args=(index,)) for index in range(2)]
    threads[0].start()
    found = tmp_path / ".agents-srun-j"
    assert wait_until(found.exists)
    address = json.loads(found.read_text())
    with ExitStack() as streams:
        for stream in STRANGERS[strangers](address["port"], address["token"]):
            streams.enter_context(stream)
        threads[1].start()
        for thread in threads:
            thread.join(30)
    assert results == {0: [0, 1], 1: [0, 1]}


@pytest.fixture
def agent_0() -> Iterator[Callable[[Callable[[socket.socket], None]], socket.socket]]:
    """Stands in for what listens at an address of yesterday; gives a connection to it."""
    with ExitStack() as streams:

        def start(behave: Callable[[socket.socket], None]) -> socket.socket:
            here, there = socket.socketpair()
            streams.enter_context(here)
            streams.enter_context(there)
            threading.Thread(target=behave, args=(there,), daemon=True).start()
            return here

        yield start


def reflects(stream: socket.socket) -> None:
    """Sends a caller's own proof back as its own."""
    stream.sendall(b"n" * NONCE_BYTES)
    stream.sendall(stream.recv(PROOF_BYTES + NONCE_BYTES)[:PROOF_BYTES])


def hangs_up(stream: socket.socket) -> None:
    stream.sendall(b"n" * NONCE_BYTES)
    stream.recv(PROOF_BYTES + NONCE_BYTES)
    stream.shutdown(socket.SHUT_RDWR)


def drips(stream: socket.socket) -> None:
    try:
        for _ in range(300):
            stream.sendall(b"n")
            time.sleep(0.1)
    except OSError:
        return


@pytest.mark.parametrize("behave", [reflects, hangs_up, drips, lambda stream: None])
def test_call_rejects_stranger(agent_0, monkeypatch, behave):
    monkeypatch.setattr(handshake, "HELLO_S", 0.2)
    with pytest.raises(Stranger):
        call(agent_0(behave), "secret")


@pytest.fixture
def free_port(monkeypatch) -> int:
    """Agents meet at a fixed address with this port."""
    with socket.create_server(("", 0)) as free:
        port = free.getsockname()[1]
    monkeypatch.setenv("MASTER_ADDR", "somewhere")
    monkeypatch.setenv("MASTER_PORT", str(port))
    monkeypatch.delenv(secret.SECRET_VARIABLE, raising=False)
    return port


@pytest.fixture
def meet(tmp_path) -> Iterator[Callable[..., tuple[Any, list[Any]]]]:
    """Agent 0 opens its socket, then agent 1 looks for it, by a folder of its own where they share none."""
    with ExitStack() as opened:

        def start(job: str = "7.0", by: str = "srun", shared: bool = True, **options: Any) -> tuple[Any, list[Any]]:
            trusts = options.pop("trusts_network", False)
            started = [LaunchContext(by, index, 2, job, **options) for index in range(2)]
            folders = [tmp_path, tmp_path if shared else tmp_path / "elsewhere"]
            first, second = (choose_rendezvous(*args, trusts) for args in zip(started, folders, strict=True))
            _, address = opened.enter_context(first.listening())
            return address, second.find()

        yield start


def test_fixed_address_takes_random_secret_from_file(tmp_path, meet, free_port):
    address, [found] = meet()
    assert len(address.token) == 64
    assert (found.token, found.port, found.hosts[0]) == (address.token, free_port, "somewhere")
    [path] = tmp_path.glob(".agents*")
    assert path.stat().st_mode & 0o777 == 0o600
    assert meet("", "mpich", is_one_host=True)[1] != []


def test_fixed_address_takes_secret_from_environment(monkeypatch, tmp_path, meet, free_port):
    monkeypatch.setenv(secret.SECRET_VARIABLE, WORD)
    address, [found] = meet(shared=False)
    assert (found.token, found.hosts) == (address.token, ["somewhere"])
    assert (len(address.token), WORD in str(address)) == (64, False)
    assert not list(tmp_path.glob(".agents*"))


@pytest.mark.parametrize("word", ["x", "hunter2", WORD[:-1]])
def test_secret_that_is_soon_guessed_is_refused(monkeypatch, meet, free_port, word):
    monkeypatch.setenv(secret.SECRET_VARIABLE, word)
    with pytest.raises(JoinError, match=rf"^BENCHKIT_SECRET has {len(word)} characters?; allowed are 16 ") as refused:
        meet(shared=False)
    assert word == "x" or word not in str(refused.value)


@pytest.mark.parametrize("is_missing", [False, True])
def test_host_whose_cryptography_derives_no_key_says_so(monkeypatch, is_missing):
    """FIPS forbids scrypt, and LibreSSL lacks it."""

    def refuse(*_, **__):
        raise ValueError("[digital envelope routines] unsupported")

    if is_missing:
        monkeypatch.delattr(secret.hashlib, "scrypt")
    else:
        monkeypatch.setattr(secret.hashlib, "scrypt", refuse)
    with pytest.raises(JoinError, match=r"^BENCHKIT_SECRET: .*\Z"):
        secret.key_of(WORD)


def test_guessable_secret_needs_trust_and_warns(meet, free_port, caplog):
    address, [found] = meet(shared=False, trusts_network=True)
    assert (address.token, found.token) == ("7.0", "7.0")
    assert [record.levelname for record in caplog.records] == ["WARNING"]


def test_agents_of_one_host_meet_in_a_private_folder_by_a_random_secret(meet, monkeypatch, tmp_path):
    monkeypatch.setattr(rendezvous.tempfile, "tempdir", str(tmp_path))
    address, [found] = meet(is_one_host=True, trusts_network=True)
    assert len(address.token) == 64
    private = Path(found.endpoints()[0].path)
    assert private.parent == rendezvous.temporary_folder()
    assert private.is_socket()
    assert private.parent.stat().st_mode & 0o777 == 0o700
    assert [str(each) for each in found.endpoints()] == [str(private), f"127.0.0.1:{found.port}"]


@pytest.mark.parametrize("why", ["no folder", "long", "others"])
def test_agents_of_one_host_meet_on_loopback_without_a_private_folder(meet, monkeypatch, tmp_path, why):
    folder = tmp_path / ("x" * 120 if why == "long" else "there")
    folder.mkdir()
    if why == "no folder":
        folder.rmdir()
    if why == "others":
        (folder / f"benchkit-{os.geteuid()}").mkdir()
        (folder / f"benchkit-{os.geteuid()}").chmod(0o755)
    monkeypatch.setattr(rendezvous.tempfile, "tempdir", str(folder))
    _, [found] = meet(is_one_host=True)
    assert [str(each) for each in found.endpoints()] == [f"127.0.0.1:{found.port}"]


def test_flood_of_strangers_drops_no_agent_of_this_host(meet, monkeypatch, tmp_path):
    """Callers that never prove themselves, and more of them than agent 0 keeps, while an agent is slow."""
    monkeypatch.setattr(rendezvous.tempfile, "tempdir", str(tmp_path))
    place = [choose_rendezvous(LaunchContext("srun", index, 2, "j", is_one_host=True), tmp_path) for index in range(2)]
    with ExitStack() as opened, ThreadPoolExecutor(1) as pool:
        listeners, address = opened.enter_context(place[0].listening())
        hello = pool.submit(next, handshake.callers(listeners, address.token, time.monotonic() + 60))
        slow = opened.enter_context(address.endpoints()[0].dial(10))
        nonce_0 = slow.recv(NONCE_BYTES)
        for _ in range(2 * handshake.MOST_CALLERS):
            opened.enter_context(connected(address.port))
        nonce = b"n" * NONCE_BYTES
        slow.sendall(proof(address.token, CALLER, nonce_0, nonce) + nonce)
        assert slow.recv(PROOF_BYTES) == proof(address.token, AGENT_0, nonce_0, nonce)
        slow.sendall(add_length(json.dumps(["hello", HELLO]).encode()))
        found, told = hello.result()
        assert to_builtins(told) == HELLO
        found.close()


@pytest.mark.parametrize("secret_is_set", [False, True])
def test_lack_of_common_secret_ends_join(monkeypatch, tmp_path, meet, free_port, secret_is_set):
    """Agent 1 knows that agent 0 is there, but not its secret: it does not wait for the whole limit."""
    if secret_is_set:  # on agent 0 alone
        monkeypatch.setenv(secret.SECRET_VARIABLE, WORD)
        for name in ("MASTER_ADDR", "MASTER_PORT"):
            monkeypatch.delenv(name)
    else:
        monkeypatch.setenv("MASTER_ADDR", "127.0.0.1")
    monkeypatch.setattr(rendezvous, "PATIENCE_S", 0.1)
    meet(shared=secret_is_set)
    if secret_is_set:  # the file does not tell it
        assert [json.loads(path.read_text())["token"] for path in tmp_path.glob(".agents*")] == [""]
    monkeypatch.delenv(secret.SECRET_VARIABLE, raising=False)
    elsewhere = tmp_path if secret_is_set else tmp_path / "elsewhere"
    began = time.monotonic()
    with pytest.raises(JoinError, match=r"BENCHKIT_SECRET=(.|\n)*trust_network=true"):
        connect_agents(LaunchContext("srun", 1, 2, "7.0"), TRAITS, elsewhere, 60)
    assert time.monotonic() - began < 30


def test_starts_of_torchrun_in_one_folder_do_not_meet(monkeypatch, meet):
    """Their run id is none. The file of the start that ended badly, or that still runs, is not this one's."""
    for name, value in {"MASTER_ADDR": "localhost", "MASTER_PORT": "1", "TORCHELASTIC_RESTART_COUNT": "0"}.items():
        monkeypatch.setenv(name, value)
    first, [found] = meet("none.0", "torchrun", is_one_host=True)
    assert found == first
    monkeypatch.setenv("MASTER_PORT", "2")
    second, [found] = meet("none.0", "torchrun", is_one_host=True)
    assert found == second != first


def test_signed_address_holds_no_secret(tmp_path):
    address = Address(["n1"], 1, "", "word")
    public = address.signed()
    assert "word" not in str(public)
    for other in ({"port": 2}, {"hosts": ["n2"]}, {"network": "x"}, {"token": "other"}, {"path": "/x"}):
        assert replace(address, **other).signed().token != public.token


def test_local_agents_meet_in_temporary_folder(tmp_path, monkeypatch, meet):
    """Where the sweep's own folder cannot keep a file."""
    monkeypatch.setattr(rendezvous.tempfile, "tempdir", str(tmp_path))
    (tmp_path / "file").write_text("")
    place = [
        choose_rendezvous(LaunchContext("srun", index, 2, "j", is_one_host=True), tmp_path / "file")
        for index in range(2)
    ]
    with place[0].listening() as (_, address):
        assert place[1].find() == [address]
        own = rendezvous.temporary_folder()
        assert own.stat().st_mode & 0o777 == 0o700
        own.chmod(0o770)
        assert place[1].find() == []
    with pytest.raises(JoinError), place[0].listening():
        pass


def test_remote_agents_listen_on_ipv4_and_ipv6():
    if not socket.has_dualstack_ipv6():
        pytest.skip("no IPv6 here")
    with open_listener(0) as listener:
        port = listener.getsockname()[1]
        for host in ("127.0.0.1", "::1"):
            socket.create_connection((host, port), timeout=10).close()


@pytest.mark.parametrize("by_link", [True, False])
def test_address_file_of_others_is_ignored(tmp_path, caplog, by_link):
    path, other = tmp_path / ".agents-srun-j", tmp_path / "elsewhere"
    other.write_text("{}")
    other.chmod(0o644)
    path.symlink_to(other) if by_link else other.rename(path)
    place = choose_rendezvous(LaunchContext("srun", 1, 2, "j"), tmp_path)
    assert (place.find(), place.find()) == ([], [])
    assert len(caplog.messages) == (not by_link)


@pytest.mark.parametrize(
    "text",
    [DEEP, b"1", b"{}", b'{"hosts": [1], "port": 1, "network": "", "token": ""}',
     b'{"hosts": [], "port": "1", "network": "", "token": ""}',
     b'{"hosts": [], "port": 99999, "network": "", "token": ""}'],
)  # fmt: skip
def test_address_file_without_address_is_ignored(tmp_path, text):
    write_whole(tmp_path / ".agents-srun-j", text.decode())
    assert choose_rendezvous(LaunchContext("srun", 1, 2, "j"), tmp_path).find() == []


@pytest.mark.parametrize("addresses", [["192.0.2.9", "127.0.1.1"], ["192.0.2.9"], [], None])
def test_loopback_or_foreign_name_leads_nowhere(monkeypatch, addresses):
    """192.0.2.9 is no address of this host, so gloo would go on to the next one; None does not resolve."""
    own = list(interfaces.leading_out())
    if addresses is None:
        monkeypatch.setattr(socket, "gethostname", lambda: "nowhere.invalid")
    else:
        found = [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, 0)) for address in addresses or own]
        monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: found)
    assert interfaces.name_leads_out() is (addresses == [] and bool(own))


def pair(host):
    """One end of a connection to this host at one of its addresses; a listener for both versions wraps IPv4."""
    with socket.create_server(("", 0), family=socket.AF_INET6, dualstack_ipv6=True) as listener:
        caller = socket.create_connection((host, listener.getsockname()[1]))
        accepted, _ = listener.accept()
    return caller, accepted


def test_interface_is_that_of_first_outer_socket():
    own = list(interfaces.leading_out())
    if not own:
        pytest.skip("this host has no way out")
    ends = [*pair("127.0.0.1"), *pair(own[0])]
    try:
        found = interfaces.outer_interface(ends)
        assert found in [name for _, name in socket.if_nameindex()]
        assert found != "lo"
        assert interfaces.outer_interface(ends[3:]) == found  # wrapped by IPv6
        assert interfaces.outer_interface(ends[:2]) == ""
    finally:
        for end in ends:
            end.close()


def test_addresses_of_ipv6_are_found(monkeypatch, tmp_path):
    listed = tmp_path / "if_inet6"
    rows = {"0" * 31 + "1": "lo", "fd00" + "0" * 27 + "7": "eth7", "fe80" + "0" * 27 + "8": "eth7"}
    listed.write_text("".join(f"{address} 02 40 00 80 {name:>8}\n" for address, name in rows.items()))
    monkeypatch.setattr(interfaces, "IPV6_ADDRESSES", listed)
    found = interfaces.addresses()
    assert found[ip_address("fd00::7")] == found[ip_address("fe80::8")] == "eth7"
    assert ip_address("fd00::8") not in found
    monkeypatch.setattr(interfaces, "leading_out", lambda: iter(["fe80::8%eth7", "fd00::9"]))
    assert interfaces.reachable_addresses()[0] == "fd00::9"
    assert "fd00::7" in interfaces.reachable_addresses()
    assert not {"::1", "127.0.0.1", "fe80::8", "fe80::8%eth7"} & set(interfaces.reachable_addresses())


def test_host_without_a_list_of_interfaces_has_addresses_that_lead_out(monkeypatch, tmp_path):
    monkeypatch.setattr(interfaces, "IPV6_ADDRESSES", tmp_path / "none")
    monkeypatch.setattr(interfaces.fcntl, "ioctl", refused)
    assert interfaces.addresses() == {}
    assert interfaces.reachable_addresses() == list(interfaces.leading_out())


def refused(*_):
    raise PermissionError(errno.EPERM, os.strerror(errno.EPERM))
