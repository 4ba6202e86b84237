# SPDX-License-Identifier: Apache-2.0
"""The hosts that the other tests of this folder use are as far apart as these believe."""

import socket
import time

import pytest

from network import Network, address, why_not

pytestmark = pytest.mark.skipif(why_not() is not None, reason=str(why_not()))
PORT = 7000


def serve(network, number):
    with network.inside(number):
        server = socket.create_server((address(number), PORT))
    server.settimeout(10)
    return server


def connect(network, source, target, timeout_s=10):
    with network.inside(source):
        client = socket.socket()
    client.settimeout(timeout_s)
    client.connect((address(target), PORT))
    return client


def test_hosts_hear_each_other_as_late_as_the_wire_says():
    with Network(3) as network, serve(network, 2) as server:
        network.delay(2, 100)
        with connect(network, 1, 2) as client, server.accept()[0] as peer:
            assert peer.getpeername()[0] == address(1)
            begin = time.monotonic()
            client.sendall(b"x")
            assert peer.recv(1) == b"x"
            peer.sendall(b"y")
            assert client.recv(1) == b"y"
            assert time.monotonic() - begin >= 0.1
            # What another host listens on is not here.
            with pytest.raises(ConnectionRefusedError):
                connect(network, 1, 3)


def test_a_host_that_is_cut_off_hears_nothing_until_it_is_joined():
    with Network(3) as network, serve(network, 2) as server, serve(network, 3):
        network.cut(2, 1)
        with pytest.raises(TimeoutError):
            connect(network, 1, 2, timeout_s=0.3)
        connect(network, 3, 2).close()
        server.accept()[0].close()
        network.join(2)
        connect(network, 1, 2).close()
