"""The network that can be cut: what it does to connections, and what it must not do."""

import os
import socket
from collections.abc import Iterator

import pytest

from tests.cluster.background import Background
from tests.cluster.network import ETCD, Network
from tests.servers import free_port
from tests.waiting import wait_until

OTHER = "b"


@pytest.fixture
def network() -> Iterator[Network]:
    """This process is node a."""
    with Background() as background:
        yield Network(background, lambda: {"a": os.getpid()})


def connected(port: int) -> socket.socket:
    """A connection, once somebody accepts it."""
    found: list[socket.socket] = []

    def is_accepted() -> bool:
        try:
            found.append(socket.create_connection(("127.0.0.1", port)))
        except ConnectionRefusedError:
            return False
        return True

    wait_until(is_accepted)
    return found[0]


def silent(end: socket.socket) -> bool:
    """Whether nothing comes for a while, not even the end."""
    end.settimeout(0.2)
    try:
        end.recv(10)
    except TimeoutError:
        return True
    finally:
        end.settimeout(None)
    return False


@pytest.mark.parametrize("receiver", [ETCD, OTHER])
def test_a_cut_holds_back_and_refuses_nothing(network: Network, receiver: str) -> None:
    """Bytes and the end of a connection come when the cut is healed; new connections wait until then."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        near = connected(network.to_etcd("a", port) if receiver == ETCD else network.to_node(receiver, port))
        far, _ = server.accept()
        near.sendall(b"before")
        assert far.recv(10) == b"before"
        network.cut([("a", receiver), (receiver, "a")])
        near.sendall(b"during")
        far.sendall(b"answer")
        far.close()
        assert silent(near)
        with connected(near.getpeername()[1]) as second:
            second.sendall(b"second")
            server.settimeout(0.2)
            with pytest.raises(TimeoutError):
                server.accept()
            server.settimeout(None)
            network.heal()
            assert server.accept()[0].recv(10) == b"second"
        assert near.recv(10) == b"answer"
        assert near.recv(10) == b""
        near.close()


def test_one_way(network: Network) -> None:
    """What is cut from one to the other passes in the other direction."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        near = connected(network.to_node(OTHER, server.getsockname()[1]))
        far, _ = server.accept()
        with near, far:
            network.cut([(OTHER, "a")])
            near.sendall(b"there")
            assert far.recv(10) == b"there"
            far.sendall(b"back")
            assert silent(near)
            network.heal()
            assert near.recv(10) == b"back"


def test_others_are_not_cut(network: Network) -> None:
    """A cut between two nodes is none between two others."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        network.cut([("c", OTHER), (OTHER, "c")])
        near = connected(network.to_node(OTHER, server.getsockname()[1]))
        far, _ = server.accept()
        with near, far:
            near.sendall(b"there")
            assert far.recv(10) == b"there"


def test_a_process_that_has_ended_refuses_connections(network: Network) -> None:
    """When a connection ends because its process has, the next one is refused at once, and accepted when it is back."""
    port = free_port()
    server = socket.create_server(("127.0.0.1", port))
    forwarder = network.to_node(OTHER, port)
    near = connected(forwarder)
    far, _ = server.accept()
    server.close()
    far.close()
    with near:
        assert near.recv(10) == b""
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", forwarder))
    with socket.create_server(("127.0.0.1", port)):
        connected(forwarder).close()
