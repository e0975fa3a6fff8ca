"""iceoryx2: publish and subscribe of byte slices, with an event that wakes receivers.

A subscriber of iceoryx2 does not wait. As in its examples, an event follows each
message, and a receiver takes all messages after each event. The publisher retries until
a message is delivered.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import iceoryx2 as iox

from benchmarks.job import Job, Sender
from benchmarks.tally import Tally

_WAIT: Final = iox.Duration.from_millis(500)


def near(job: Job) -> Sender:
    """Publish; the service exists by then."""
    node = _node()
    send = _sending(node, "out", job)
    ports: list[Any] = [node]
    if job.act != "echo":
        return Sender(send, ports.clear)
    subscriber, listener = _receiving(node, "back", job)

    def ask(message: bytes) -> None:
        send(message)
        while (sample := subscriber.receive()) is None:
            listener.timed_wait(_WAIT)
        sample.delete()

    return Sender(send, ports.clear, ask)


def far(job: Job, tally: Tally) -> None:
    """Subscribe, and take all messages after each event."""
    node = _node()
    subscriber, listener = _receiving(node, "out", job)
    answer = _sending(node, "back", job) if job.act == "echo" else None
    take, receive = tally.take, subscriber.receive
    tally.ready()
    while not tally.done:
        listener.timed_wait(_WAIT)
        while (sample := receive()) is not None:
            view = sample.payload().as_memory_view()
            if take(view) and answer is not None:
                answer(view)
            del view
            sample.delete()
    tally.finish()


def _node() -> Any:
    iox.set_log_level(iox.LogLevel.Error)
    mode = iox.SignalHandlingMode.Disabled  # an interrupt is ours to handle
    return iox.NodeBuilder.new().signal_handling_mode(mode).create(iox.ServiceType.Ipc)


def _services(node: Any, way: str, job: Job) -> tuple[Any, Any]:
    """Return the service of the messages, and the one of the events."""
    # The services of a machine share one space of names.
    name = iox.ServiceName.new(f"{Path(job.folder).name}/{way}")
    messages = (
        node.service_builder(name)
        .publish_subscribe(iox.Slice[ctypes.c_uint8])
        .enable_safe_overflow(False)
        .subscriber_max_buffer_size(job.window)
        .max_subscribers(job.receivers)
        .max_publishers(1)
        .max_nodes(job.receivers + 1)
        .open_or_create()
    )
    events = (
        node.service_builder(name)
        .event()
        .max_listeners(job.receivers)
        .max_nodes(job.receivers + 1)
        .open_or_create()
    )
    return messages, events


def _sending(node: Any, way: str, job: Job) -> Callable[[bytes | memoryview], None]:
    messages, events = _services(node, way, job)
    publisher = (
        messages.publisher_builder()
        .initial_max_slice_len(job.size)
        .backpressure_strategy(iox.BackpressureStrategy.RetryUntilDelivered)
        .create()
    )
    notifier = events.notifier_builder().create()

    def send(message: bytes | memoryview) -> None:
        sample = publisher.loan_slice_uninit(len(message))
        source: Any = message
        if not isinstance(message, bytes):
            source = (ctypes.c_uint8 * len(message)).from_buffer(message)
        ctypes.memmove(sample.payload_ptr, source, len(message))
        sample.assume_init().send()
        notifier.notify()

    return send


def _receiving(node: Any, way: str, job: Job) -> tuple[Any, Any]:
    messages, events = _services(node, way, job)
    return (
        messages.subscriber_builder().create(),
        events.listener_builder().create(),
    )
