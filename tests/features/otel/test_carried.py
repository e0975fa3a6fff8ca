"""A payload with a trace context, to bytes and back; and bytes that are none."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bus.errors import WireError
from bus.model.carried import CARRIED_CODE, CONTEXTS, Carried, Context, pack, size
from bus.model.payload import decode, encode, freeze_within, own_copy, size_of
from specs.clauses import clause

if TYPE_CHECKING:
    from collections.abc import Iterator

CONTEXT = Context("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", "a=b")
TEXTS = st.text(st.characters(codec="ascii"), max_size=255)


@pytest.fixture
def keeps() -> Iterator[None]:
    CONTEXTS.kept = True
    yield
    CONTEXTS.kept = False


@clause("BUS-MSG-21")
@given(
    context=st.builds(Context, TEXTS, TEXTS),
    payload=st.recursive(
        st.none() | st.integers(-(2**63), 2**64 - 1) | st.text(max_size=40),
        lambda inner: st.dictionaries(st.text(max_size=5), inner, max_size=3),
    ),
)
def test_the_payload_is_that_which_was_sent(context: Context, payload: Any) -> None:
    found: Any = freeze_within(Carried(context, payload), 2**20)
    carried, length, encoded = found
    body = encode(carried)

    assert encoded is None
    assert len(body) == length == size_of(carried)
    assert decode(body) == payload
    assert body == pack(context, encode(payload))


@clause("BUS-MSG-21")
@pytest.mark.usefixtures("keeps")
def test_a_process_that_asks_for_contexts_gets_them_and_can_send_them_on() -> None:
    body = pack(CONTEXT, encode({"x": (1, 2)}))

    found: Any = decode(body)

    assert found == Carried(CONTEXT, {"x": (1, 2)})
    assert encode(found) == body


@clause("BUS-MSG-21")
def test_the_limit_of_a_message_is_that_of_its_payload() -> None:
    payload = "x" * 90
    limit = size_of(payload)

    frozen, length, _ = freeze_within(Carried(CONTEXT, payload), limit)
    carried: Any = freeze_within(Carried(CONTEXT, payload), size(CONTEXT, limit))

    assert (frozen, length) == (payload, limit)
    assert carried == (Carried(CONTEXT, payload), size(CONTEXT, limit), None)


def test_each_receiver_has_a_dict_of_its_own() -> None:
    carried: Any = Carried(CONTEXT, {"x": 1})

    copy: Any = own_copy(carried)

    assert copy == carried
    assert copy.payload is not carried.payload


def _extension(content: bytes) -> bytes:
    return msgspec.msgpack.encode(msgspec.msgpack.Ext(CARRIED_CODE, content))


BODY = pack(CONTEXT, encode(1))


@clause("BUS-MSG-21", "BUS-MSG-16")
@pytest.mark.parametrize("keep", [False, True])
@pytest.mark.parametrize(
    "body",
    [
        pytest.param(_extension(b""), id="empty"),
        pytest.param(_extension(b"\x00\x00"), id="no lengths"),
        pytest.param(_extension(b"\x00\x00\x00"), id="no payload"),
        pytest.param(_extension(b"\xff\x00\x00\xc0"), id="a text beyond the end"),
        pytest.param(_extension(b"\x01\x00\x00\xff\xc0"), id="a text that is no ASCII"),
        pytest.param(_extension(b"\x00\x00\x00\xc0\xc0"), id="two payloads"),
        pytest.param(pack(CONTEXT, BODY), id="a context in a context"),
        pytest.param(b"\x91" + BODY, id="in a list"),
        pytest.param(b"\x81\xa1x" + BODY, id="in a map"),
        pytest.param(BODY + b"\xc0", id="behind it another one"),
        pytest.param(pack(CONTEXT, b"\x91" * 40 + b"\xc0"), id="too deep"),
        pytest.param(
            _extension(b"\x00\x00\x00" + _extension(b"\x00\x00\x00\xc0")),
            id="a short context in a context",
        ),
    ],
)
def test_any_other_body_is_refused(
    body: bytes, keep: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(CONTEXTS, "kept", keep)

    with pytest.raises(WireError, match="payload"):
        decode(body)
