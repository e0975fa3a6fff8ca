"""`Limits`: how much, and how long, of what concerns other processes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

from bus.core.wire.batch import FRAME_BYTES_MAX

if TYPE_CHECKING:
    from bus.config import BusConfig

__all__ = ["Limits"]


@attrs.frozen(kw_only=True)
class Limits:
    """Bounds in messages and in seconds; made of a `BusConfig`, which has the defaults.

    window: sent by one relay and not yet extracted (BUS-RELAY-11); window_bytes: how
      long all of that may be, but for the last one.
    stream_window: numbers of a stream that are outstanding (AMO-13).
    missing_ranges: gaps that a receiver keeps of a stream (AMO-14).
    relay_queue: messages that may wait in a relay; relay_bytes: how long notifications
      may be that wait in one (BUS-FLOW-3): of commands whoever posts them counts that.
    message_bytes_max: the longest body taken (OPEN-6).
    connect_timeout_s: how long a relay waits for its first link (BUS-ROUTE-12).
    relink_timeout_s: how long a process may be without a link before it is lost.
    linger_s: how long a relay (BUS-DEREG-13) or a data link (BUS-DEREG-5) is kept that
      nothing uses.
    keep_alive_s: after how long a silence a link is asked for a sign of life; lease_s:
      after how long a process counts as one that does not respond (OPEN-2).
    ack_delay_s: how long an acknowledgement may wait for more to acknowledge.
    message_life_s: how long it is remembered that a stream has ended; ended_streams: of
      how many (AMO-21).
    searches_per_process, searches_in_all: those of others that are kept (BUS-FLOW-1).
    exports_per_process, relays_per_process, subscriptions_per_process: what else one
      other process may let this one keep; subscriptions_in_all: and all others
      (BUS-FLOW-1).
    backlog_frames: what is told to another process and not heard, and answers that wait
      for it; backlog_bytes: how long these may be (BUS-CHAN-8).
    auth_timeout_s: how long a link is kept whose peer does not greet;
      unauthenticated_links: how many of these (BUS-SEC-9).
    eager_relays: whether a master is told at once how each task is reached
      (BUS-INIT-13).
    """

    window: int
    window_bytes: int
    stream_window: int
    missing_ranges: int
    relay_queue: int
    relay_bytes: int
    message_bytes_max: int
    connect_timeout_s: float
    relink_timeout_s: float
    linger_s: float
    keep_alive_s: float
    lease_s: float
    ack_delay_s: float
    message_life_s: float
    ended_streams: int
    searches_per_process: int
    searches_in_all: int
    exports_per_process: int
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
        """How long the frames are that a link to this process takes, in bytes.

        What travels together may be longer than one message (BUS-CHAN-6).
        """
        return max(self.message_bytes_max, FRAME_BYTES_MAX)

    @staticmethod
    def of(config: BusConfig) -> Limits:
        """Return what a bus is configured to."""
        return Limits(
            window=config.window,
            window_bytes=config.window_bytes,
            stream_window=config.stream_window,
            missing_ranges=config.missing_ranges,
            relay_queue=config.task_fifo_messages,
            relay_bytes=config.task_fifo_bytes,
            message_bytes_max=config.message_bytes_max,
            connect_timeout_s=config.connect_timeout_s,
            relink_timeout_s=config.relink_timeout_s,
            linger_s=config.link_linger_s,
            keep_alive_s=config.keep_alive_s,
            lease_s=config.lease_s,
            ack_delay_s=config.ack_delay_s,
            message_life_s=config.message_life_s,
            ended_streams=config.ended_streams,
            searches_per_process=config.searches_per_process,
            searches_in_all=config.searches_in_all,
            exports_per_process=config.exports_per_process,
            relays_per_process=config.relays_per_process,
            subscriptions_per_process=config.subscriptions_per_process,
            subscriptions_in_all=config.subscriptions_in_all,
            backlog_frames=config.backlog_frames,
            backlog_bytes=config.backlog_bytes,
            auth_timeout_s=config.auth_timeout_s,
            unauthenticated_links=config.unauthenticated_links,
            eager_relays=config.eager_relays,
        )
