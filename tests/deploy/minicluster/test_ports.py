"""Free ports are found, and none is given away twice."""

import socket

import pytest

from deploy.minicluster.errors import StartError
from deploy.minicluster.processes.ports import choose, is_free


def test_a_taken_port_is_passed_over() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        assert not is_free(port, ["127.0.0.1"])
        chosen = choose({"a": port, "b": port}, ["127.0.0.1", "127.0.10.1"])
    assert port not in chosen.values()
    assert chosen["a"] != chosen["b"]
    assert min(chosen.values()) > port


def test_a_taken_udp_port_counts() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as taken:
        taken.bind(("127.0.0.1", 0))
        assert not is_free(taken.getsockname()[1], ["127.0.0.1"])


def test_no_free_port_is_an_error_with_its_setting() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        with pytest.raises(StartError, match=r"set ports\.gmond"):
            choose({"gmond": taken.getsockname()[1]}, ["127.0.0.1"], search=1)
