"""Which interface leads to other hosts, with sockets that this host connects to itself."""

import socket
from ipaddress import ip_address

import pytest
from launch.agents import interface
from launch.agents.address import own_ip


@pytest.mark.parametrize(
    ("addresses", "leads_out"),
    [(["127.0.1.1"], False), (["192.0.2.9", "127.0.1.1"], False), (["192.0.2.9"], False), ([], False)],
)
def test_loopback_or_foreign_name_leads_nowhere(monkeypatch, addresses, leads_out):
    """192.0.2.9 is no address of this host, so gloo would go on to the next one."""
    assert leads_out_with(monkeypatch, addresses) is leads_out


def test_own_address_leads_out(monkeypatch):
    if not own_ip():
        pytest.skip("this host has no way out")
    assert leads_out_with(monkeypatch, own_ip())


def test_name_that_does_not_resolve_leads_nowhere(monkeypatch):
    monkeypatch.setattr(socket, "gethostname", lambda: "nowhere.invalid")
    assert not interface.name_leads_out()


def leads_out_with(monkeypatch, addresses):
    found = [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, 0)) for address in addresses]
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: found)
    return interface.name_leads_out()


def connected(host):
    """One end of a connection to this host at one of its addresses; a listener for both versions wraps IPv4."""
    with socket.create_server(("", 0), family=socket.AF_INET6, dualstack_ipv6=True) as listener:
        caller = socket.create_connection((host, listener.getsockname()[1]))
        accepted, _ = listener.accept()
    return caller, accepted


def test_interface_is_that_of_first_outer_socket():
    if not own_ip():
        pytest.skip("this host has no way out")
    ends = [*connected("127.0.0.1"), *connected(own_ip()[0])]
    try:
        found = interface.outer_interface(ends)
        assert found in [name for _, name in socket.if_nameindex()]
        assert found != "lo"
        assert interface.outer_interface(ends[3:]) == found  # wrapped by IPv6
        assert interface.outer_interface(ends[:2]) == ""
    finally:
        for end in ends:
            end.close()


def test_interface_of_ipv6_address_is_found(monkeypatch, tmp_path):
    listed = tmp_path / "if_inet6"
    listed.write_text(f"{'0' * 31}1 01 80 10 80       lo\nfd00{'0' * 27}7 02 40 00 80     eth7\n")
    monkeypatch.setattr(interface, "IPV6_ADDRESSES", listed)
    assert interface.interface_with(ip_address("fd00::7")) == "eth7"
    assert interface.interface_with(ip_address("fd00::8")) == ""


def test_foreign_address_has_no_interface():
    assert interface.interface_with(ip_address("192.0.2.9")) == ""
