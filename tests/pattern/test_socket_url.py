"""`SocketUrl`: addresses that are accepted, those that are refused, and their text."""

from __future__ import annotations

import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bus.pattern import BusSocket
from bus.pattern.socket_url import SocketUrl, Transport
from queuebroker import _net
from specs.clauses import clause

INPROC, IPC, ABSTRACT = Transport.INPROC, Transport.IPC, Transport.ABSTRACT
TCP, MULTICAST = Transport.TCP, Transport.MULTICAST


@clause("BP-3")
@pytest.mark.parametrize(
    ("text", "transport", "name"),
    [
        ("inproc://a", INPROC, "a"),
        ("inproc://a b/%20:1", INPROC, "a b/%20:1"),
        ("ipc:///tmp/a.sock", IPC, "/tmp/a.sock"),
        ("ipc://relative/a", IPC, "relative/a"),
        ("ipc:///tmp/a%20b%25", IPC, "/tmp/a%20b%25"),
        ("ipc:///tmp/a b", IPC, "/tmp/a b"),
        ("ipc:///tmp/%zz", IPC, "/tmp/%zz"),
        ("ipc:///tmp/\N{GREEK SMALL LETTER PI}", IPC, "/tmp/\N{GREEK SMALL LETTER PI}"),
        ("ipc:///tmp/%CF%80", IPC, "/tmp/%CF%80"),
        ("unix:///tmp/a", IPC, "/tmp/a"),
        ("abstract://a", ABSTRACT, "a"),
        ("abstract://a%2Fb", ABSTRACT, "a/b"),
    ],
)
def test_addresses_with_a_name_are_read(
    text: str, transport: Transport, name: str
) -> None:
    url = SocketUrl.parse(text)

    assert (url.transport, url.name, url.host, url.port) == (transport, name, "", 0)


@clause("BP-3")
@pytest.mark.parametrize(
    ("text", "transport", "host", "port"),
    [
        ("tcp://127.0.0.1:5555", TCP, "127.0.0.1", 5555),
        ("tcp://localhost:0", TCP, "localhost", 0),
        ("tcp://a-b.example:65535", TCP, "a-b.example", 65535),
        ("tcp://*:1", TCP, "", 1),
        ("tcp://:1", TCP, "", 1),
        ("tcp://[::1]:80", TCP, "::1", 80),
        ("tcp://[fe80::1%lo]:80", TCP, "fe80::1%lo", 80),
        ("tcp4://127.0.0.1:1", TCP, "127.0.0.1", 1),
        ("tcp4://*:1", TCP, "", 1),
        ("tcp4://localhost:1", TCP, "localhost", 1),
        ("tcp6://[::]:1", TCP, "::", 1),
        ("udp-mcast://239.1.2.3:4000", MULTICAST, "239.1.2.3", 4000),
        ("udp-mcast://[ff02::7]:4000", MULTICAST, "ff02::7", 4000),
        ("udp-mcast://[ff02::7%lo]:4000", MULTICAST, "ff02::7%lo", 4000),
    ],
)
def test_addresses_with_a_port_are_read(
    text: str, transport: Transport, host: str, port: int
) -> None:
    url = SocketUrl.parse(text)

    assert (url.transport, url.name, url.host, url.port) == (transport, "", host, port)


FORM = r"must have the form {}://host:port with a port of 0 to 65535"
TCP_FORM = FORM.format("tcp")


@clause("BP-3")
@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "must begin with one of inproc://, ipc://"),
        ("tcp", "must begin with one of"),
        ("tcp:/127.0.0.1:1", "must begin with one of"),
        ("TCP://127.0.0.1:1", "must begin with one of"),
        ("ws://host:1", "must begin with one of .*, got 'ws://host:1'"),
        (" tcp://host:1", "must begin with one of"),
        ("inproc://", "inproc address must have a name"),
        ("ipc://", "ipc address must have a name without NUL"),
        ("ipc:///tmp/a\0b", "ipc address must have a name without NUL"),
        ("unix://", "unix address must have a name"),
        ("abstract://", "abstract address must have a name without NUL"),
        ("abstract://%00", "abstract address must have a name without NUL"),
        ("ipc:///tmp/\ud800", "ipc address must be encodable"),
        ("tcp://", TCP_FORM),
        ("tcp://host", TCP_FORM),
        ("tcp://host:", TCP_FORM),
        ("tcp://host:65536", TCP_FORM),
        ("tcp://host:123456", TCP_FORM),
        ("tcp://host:-1", TCP_FORM),
        ("tcp://host:http", TCP_FORM),
        ("tcp://host: 80", TCP_FORM),
        ("tcp://host:80/", TCP_FORM),
        ("tcp://host:\N{ARABIC-INDIC DIGIT ONE}", TCP_FORM),
        ("tcp://ho st:80", TCP_FORM),
        ("tcp://host/path:80", TCP_FORM),
        ("tcp://eth0;host:80", TCP_FORM),  # nanomsg's form with a local interface
        ("tcp://::1:80", TCP_FORM),
        ("tcp://[host]:80", TCP_FORM),
        ("tcp://[]:80", TCP_FORM),
        ("tcp://[127.0.0.1]:80", TCP_FORM),
        ("tcp://[::1]", TCP_FORM),
        ("tcp://[a:b]:80", TCP_FORM),
        ("tcp://host\0.test:80", TCP_FORM),  # the resolver would read "host"
        (f"tcp://{'a' * 64}.example:80", "must be a host name, .*label"),
        ("tcp4://[::1]:80", "tcp4 address must have an IPv4"),
        ("tcp6://127.0.0.1:80", "tcp6 address must have an IPv6"),
        ("udp-mcast://host:1", "must have a multicast group and a port"),
        ("udp-mcast://127.0.0.1:1", "must have a multicast group and a port"),
        ("udp-mcast://*:1", "must have a multicast group and a port"),
        ("udp-mcast://239.1.2.3:0", "must have a multicast group and a port"),
        ("udp-mcast://[::1]:1", "must have a multicast group and a port"),
        ("udp-mcast://239.1.2.3", FORM.format("udp-mcast")),
    ],
)
def test_other_texts_are_refused(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        SocketUrl.parse(text)


@clause("BP-3")
@pytest.mark.parametrize("value", [None, b"tcp://host:1", 5])
def test_an_address_is_a_str(value: object) -> None:
    with pytest.raises(TypeError, match="address of a socket must be a str"):
        SocketUrl.parse(value)


@clause("BP-3")
@pytest.mark.parametrize(
    ("scheme", "letter"),
    [
        *(("ipc", "a"), ("unix", "a"), ("abstract", "a")),
        *(("abstract", "%61"), ("abstract", "%FF")),
    ],
)
def test_a_name_has_at_most_107_bytes_once_decoded(scheme: str, letter: str) -> None:
    """A longer one would make a nanomsg peer abort its process; 103 on macOS."""
    most = _net.PATH_BYTES_MAX
    assert len(os.fsencode(SocketUrl.parse(f"{scheme}://{letter * most}").name)) == most

    error = f"must have at most {most} bytes, got {most + 1}"
    with pytest.raises(ValueError, match=error):
        SocketUrl.parse(f"{scheme}://{letter * (most + 1)}")


@clause("BP-3")
def test_a_long_name_is_counted_in_bytes() -> None:
    two_bytes = "\N{GREEK SMALL LETTER PI}"
    half = _net.PATH_BYTES_MAX // 2
    assert SocketUrl.parse(f"ipc://{two_bytes * half}a").name == two_bytes * half + "a"

    with pytest.raises(ValueError, match=f"got {2 * half + 2}"):
        SocketUrl.parse(f"ipc://{two_bytes * (half + 1)}")


@clause("BP-3")
def test_the_name_of_inproc_has_no_bound() -> None:
    assert SocketUrl.parse("inproc://" + "a" * 1000).name == "a" * 1000


@clause("BP-3")
@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("inproc://a b%20", "inproc://a b%20"),
        ("ipc:///tmp/a b%25", "ipc:///tmp/a b%25"),
        ("unix://a", "unix://a"),
        ("abstract://a%2Fb", "abstract://a/b"),
        ("tcp://:5", "tcp://*:5"),
        ("tcp6://[::1]:005", "tcp6://[::1]:5"),
        ("udp-mcast://[ff02::7]:4000", "udp-mcast://[ff02::7]:4000"),
    ],
)
def test_an_address_is_shown_in_one_form(text: str, shown: str) -> None:
    assert str(SocketUrl.parse(text)) == shown


NAMES = st.binary(min_size=1, max_size=107).filter(lambda name: b"\0" not in name)
PORTS = st.integers(0, 65535)


@clause("BP-3")
@given(
    st.one_of(
        st.builds(
            lambda scheme, name: SocketUrl(
                IPC if scheme != "abstract" else ABSTRACT,
                os.fsdecode(name),
                scheme=scheme,
            ),
            st.sampled_from(["ipc", "unix", "abstract"]),
            NAMES,
        ),
        st.builds(
            lambda scheme, host, port: SocketUrl(
                TCP, host=host, port=port, scheme=scheme
            ),
            st.sampled_from(["tcp", "tcp4"]),
            st.one_of(st.just(""), st.ip_addresses(v=4).map(str)),
            PORTS,
        ),
        st.builds(
            lambda scheme, host, port: SocketUrl(
                TCP, host=host, port=port, scheme=scheme
            ),
            st.sampled_from(["tcp", "tcp6"]),
            st.ip_addresses(v=6).map(str),
            PORTS,
        ),
    )
)
def test_the_text_of_an_address_is_read_as_the_same_address(url: SocketUrl) -> None:
    """The name of a file may have any bytes, UTF-8 or not."""
    assert SocketUrl.parse(str(url)) == url


@clause("BP-3")
@given(st.text(), st.sampled_from(["", "tcp://", "ipc://", "abstract://", "tcp6://["]))
def test_any_text_is_read_or_refused(text: str, scheme: str) -> None:
    try:
        url = SocketUrl.parse(scheme + text)
    except ValueError:
        return
    assert SocketUrl.parse(str(url)) == url


@clause("BP-3")
@pytest.mark.parametrize("raw", [b"ipc:///tmp/\xff\xfe", b"abstract://\x80"])
def test_a_path_from_the_command_line_keeps_its_bytes(raw: bytes) -> None:
    url = SocketUrl.parse(os.fsdecode(raw))

    assert os.fsencode(url.name) == raw.partition(b"://")[2]
    assert SocketUrl.parse(str(url)) == url


@clause("BP-3")
@pytest.mark.parametrize("url", ["tcp://*:5", "tcp://:5", "tcp://127.0.0.1:0"])
def test_only_a_listener_may_leave_out_the_host_or_the_port(url: str) -> None:
    with (
        BusSocket() as bus,
        pytest.raises(ValueError, match="give the host and the port of a listener"),
    ):
        bus.dial(url)


@clause("BP-3")
@pytest.mark.parametrize("act", ["listen", "dial"])
def test_a_multicast_group_is_joined(act: str) -> None:
    with BusSocket() as bus, pytest.raises(ValueError, match="call join_group"):
        getattr(bus, act)("udp-mcast://239.1.2.3:4000")
