"""The meaning of an exception is read from Python's own classes, or from names."""

from __future__ import annotations

import queue

import pytest

from queuebroker import errors
from specs.models.answers import Answer, Ending, answer_of, changed
from tests.specs.models.recorded import Call

MEANT = [
    (errors.DisconnectedQueueError("x"), Ending.DISCONNECTED),
    (errors.DisconnectedChannelError("x"), Ending.DISCONNECTED),
    (errors.SendTimeoutError("x"), Ending.TIMED_OUT),
    (errors.RendezvousTimeoutError("x"), Ending.TIMED_OUT),
    (errors.BrokerClosedError("x"), Ending.BROKER_CLOSED),
    (errors.UnknownBrokerError("x"), Ending.UNKNOWN_BROKER),
    (errors.BrokerNameInUseError("x"), Ending.NAME_IN_USE),
    (errors.PortInUseError("x"), Ending.PORT_IN_USE),
    (errors.MessageTooLargeError("x"), Ending.REFUSED),
    (ConnectionResetError(), Ending.DISCONNECTED),
    (TimeoutError(), Ending.TIMED_OUT),
    (ValueError(), Ending.REFUSED),
    (TypeError(), Ending.REFUSED),
    (KeyboardInterrupt(), Ending.BROKEN),
    (ZeroDivisionError(), Ending.BROKEN),
]


@pytest.mark.parametrize(
    ("error", "ending"), MEANT, ids=lambda each: type(each).__name__
)
def test_an_exception_is_understood(error: BaseException, ending: Ending) -> None:
    assert answer_of(Call("send", error=error, ended=1)) == Answer(ending)


def test_an_implementation_may_have_its_own_exception_for_a_disconnect() -> None:
    call = Call("get", error=queue.Empty(), ended=1)

    assert answer_of(call, disconnected_error=queue.Empty) == Answer(
        Ending.DISCONNECTED
    )
    assert answer_of(call) == Answer(Ending.BROKEN)


def test_a_result_is_an_answer_and_a_pending_call_has_none() -> None:
    assert answer_of(Call("receive", result=b"x", ended=1)) == Answer(Ending.DONE, b"x")
    assert answer_of(Call("receive")) is None


def test_a_changed_operation_is_a_copy() -> None:
    call = Call("send", (0, b"x"), ended=1)

    other = changed(call, name="receive")

    assert (other.name, other.args, call.name) == ("receive", (0, b"x"), "send")


def test_only_attrs_objects_can_be_changed() -> None:
    class Plain:
        name, args, result, error, pending = "send", (), None, None, False
        began, ended = 0, 1

    with pytest.raises(TypeError, match="operation must be an attrs object"):
        changed(Plain(), name="receive")
