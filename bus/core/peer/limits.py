"""`Limits`: bounds and times for the exchange with other processes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from bus.core.wire.batch import FRAME_BYTES_MAX

if TYPE_CHECKING:
    from bus.config import BusConfig

__all__ = ["Limits"]


class Limits(Struct, frozen=True, kw_only=True):
    """Bounds in messages and in seconds; a `BusConfig` provides the values.

    window: messages of one relay that are sent and not yet extracted (BUS-RELAY-11);
      window_bytes: their total length, not counting the last one.
    stream_window: outstanding numbers of a stream (AMO-13).
    missing_ranges_per_stream: ranges of missing numbers that a receiver keeps for a
      stream (AMO-14).
    relay_queue: messages that may wait in a relay; relay_bytes: total length of the
      notifications that wait in one (BUS-FLOW-3). The bytes of commands are counted by
      the object that posts them.
    message_bytes_max: the longest body that is accepted (OPEN-6).
    connect_timeout_s: how long a relay waits for its first link (BUS-ROUTE-12).
    relink_timeout_s: how long a process may be without a link before it is lost.
    linger_s: how long an unused relay (BUS-DEREG-13) or data link (BUS-DEREG-5) is
      kept.
    keep_alive_s: silence on a link after which a PING is sent; lease_s: silence after
      which a process counts as unresponsive (OPEN-2).
    ack_delay_s: how long an acknowledgement may wait for more to acknowledge.
    ended_stream_s: how long the end of a stream is remembered; ended_streams_max: for
      how many streams (AMO-21).
    searches_per_process, searches_in_all: searches of others that are kept
      (BUS-FLOW-1).
    public_tasks_per_process, relays_per_process, subscriptions_per_process: other items
      that are kept for one other process; subscriptions_in_all: for all others
      (BUS-FLOW-1).
    backlog_frames: control frames to another process that are not acknowledged, and
      answers that wait for it; backlog_bytes: total length of these answers
      (BUS-CHAN-8).
    auth_timeout_s: how long a link is kept whose peer sends no HELLO;
      unauthenticated_links: how many such links are kept (BUS-SEC-9).
    eager_relays: True if each task is introduced to the master at once (BUS-INIT-13).
    """

    window: int
    window_bytes: int
    stream_window: int
    missing_ranges_per_stream: int
    relay_queue: int
    relay_bytes: int
    message_bytes_max: int
    connect_timeout_s: float
    relink_timeout_s: float
    linger_s: float
    keep_alive_s: float
    lease_s: float
    ack_delay_s: float
    ended_stream_s: float
    ended_streams_max: int
    searches_per_process: int
    searches_in_all: int
    public_tasks_per_process: int
    relays_per_process: int
    subscriptions_per_process: int
    subscriptions_in_all: int
    backlog_frames: int
    backlog_bytes: int
    auth_timeout_s: float
    unauthenticated_links: int
    eager_relays: bool

    @property
    def frame_bytes_max(self) -> int:
        """The maximum length of a frame on a link to this process, in bytes.

        Messages that are sent together may be longer than one message (BUS-CHAN-6).
        """
        return max(self.message_bytes_max, FRAME_BYTES_MAX)

    @staticmethod
    def of(config: BusConfig) -> Limits:
        """Return the limits that a bus is configured with."""
        return Limits(
            window=config.window,
            window_bytes=config.window_bytes,
            stream_window=config.stream_window,
            missing_ranges_per_stream=config.missing_ranges_per_stream,
            relay_queue=config.task_fifo_messages,
            relay_bytes=config.task_fifo_bytes,
            message_bytes_max=config.message_bytes_max,
            connect_timeout_s=config.connect_timeout_s,
            relink_timeout_s=config.relink_timeout_s,
            linger_s=config.link_linger_s,
            keep_alive_s=config.keep_alive_s,
            lease_s=config.lease_s,
            ack_delay_s=config.ack_delay_s,
            ended_stream_s=config.ended_stream_s,
            ended_streams_max=config.ended_streams_max,
            searches_per_process=config.searches_per_process,
            searches_in_all=config.searches_in_all,
            public_tasks_per_process=config.public_tasks_per_process,
            relays_per_process=config.relays_per_process,
            subscriptions_per_process=config.subscriptions_per_process,
            subscriptions_in_all=config.subscriptions_in_all,
            backlog_frames=config.backlog_frames,
            backlog_bytes=config.backlog_bytes,
            auth_timeout_s=config.auth_timeout_s,
            unauthenticated_links=config.unauthenticated_links,
            eager_relays=config.eager_relays,
        )
