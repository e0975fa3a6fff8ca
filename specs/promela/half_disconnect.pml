/*
 * The half-disconnect: two ends send, receive and disconnect; accepted messages are
 * drained, and every waiter is woken.
 *
 * One connection, ends 0 and 1, each direction bounded to CAPACITY messages. Either end
 * hangs up at any moment or never. End 1 sends CAPACITY + 1 numbered messages, end 0
 * receives until it is refused; with BOTH_WAYS also the other way round. With
 * TWO_RECEIVERS end 0 has a second receiver, whose receive has a deadline; with WATCHED
 * a watcher reads the status of end 0 again and again without the lock.
 *
 * A step here is atomic for all threads: sleepers compete for the lock, and only
 * `status` reads without it. The functions that the steps mirror, in queuebroker/:
 *
 *   acquire, release     connection.Connection.critical, `with state.lock`
 *   wake_one, wake_all   parking.WaitList.wake_one, wake_all
 *   leave                parking.WaitList.leave
 *   look_send            status.SEND, queue_connection.QueueConnection.send_locked,
 *                        circular_buffer.CircularBufferQueue.push_locked, wake_locked
 *   look_receive         status.RECEIVE, QueueConnection.take_locked,
 *                        CircularBufferQueue.pull_locked, wake_locked
 *   Sender, Receiver     end.End._act, _wait; parking.wait_for; _sync.park
 *   HangUp               connection.Connection.close_locked, rouse_locked;
 *                        CircularBufferQueue.discard_locked
 *   Watcher              connection.Connection.status
 *
 * This is the locked kind of end. The fast kind does the same under the lock once its
 * lock-free buffers are closed; its steps before that are explored at each bytecode.
 *
 * Left out: strict ends; bytes; bulk calls; observers; exceptions in the middle of a
 * step, and so recover_locked; finalizers, and so settle.
 *
 * Fairness: the liveness properties assume only that some process goes on as long as
 * one can. Every run of these processes ends (the Watcher is for safety only), so no
 * process can starve; the deadline passes, unless its caller leaves before.
 *
 * Planted faults, each by its define:
 *
 *   PEER_LOSES           a disconnect clears both buffers, also the unread messages of
 *                        the peer
 *   ONE_SIDE_ROUSED      a disconnect wakes only the waiters at its own buffer
 *   NOBODY_ROUSED        a disconnect wakes no waiter
 *   WAITS_FOR_READERS    a disconnect waits, with the lock, until no waiter is listed
 *   KEEPS_UNREAD         a disconnect leaves its own buffer unchanged
 *   NOT_COUNTED          discarded messages are not counted
 *   NO_CHAIN             a receiver that leaves a message does not wake the next one
 *   NO_ROOM_TOLD         a receiver does not wake the sender it made room for
 *   NO_ARRIVAL_TOLD      a sender does not wake the receiver it stored for
 *   WAITED_STORES        a sender that has waited stores without reading the flags
 *   NEWEST_READ          of two messages the newer is received
 *   UNREAD_FIRST         the status is read in the wrong order: the unread messages
 *                        before the flags
 */

#ifndef CAPACITY
#define CAPACITY 1
#endif
#define MESSAGES (CAPACITY + 1)

/* Callers that may wait: senders 0 and 1 by end, receivers 2 and 3, 4 at end 0. */
#define CALLERS 5
#define RECEIVER(e) (2 + e)
#define SECOND 4

mtype = { DO, WAIT, DROP, REFUSE };                                     /* Verdict */

bool locked;                            /* the connection's lock */
bool closed[2];
bool hung_up[2];
chan unread[2] = [CAPACITY] of { byte };    /* by the end that receives it */
chan arrived[2] = [2] of { byte };          /* waiters for content, oldest first */
chan room[2] = [1] of { byte };             /* waiters for space */
bool parker[CALLERS];                   /* taken; released to wake its caller */

byte accepted[2];
byte received[2];
byte discarded[2];

/* Variables for the properties; no step reads them. */
bool busy[CALLERS];             /* in a call */
bool woken[CALLERS];            /* since it was listed */
bool late;                      /* a message was stored though a side was closed */
bool disordered;                /* a message was received out of turn */
bool undrained;                 /* a receive was refused with a message unread */
bool rose;                      /* a status that was read moved up */

#define PEER(e) (1 - e)
#define SOME(e) (len(unread[e]) > 0)
#define CONNECTED(e) (!closed[e] && !closed[PEER(e)])
#define HALF(e) (!closed[e] && closed[PEER(e)] && SOME(e))
#define GONE(e) (closed[e] || closed[PEER(e)] && !SOME(e))

inline acquire() { !locked -> locked = true }
inline release() { locked = false }

inline wake(list, most) {
    count = len(list);
    left = most;
    do
    :: count > 0 ->
        list?other;
        list!other;
        if
        :: left > 0 && parker[other] ->
            parker[other] = false;
            woken[other] = true;
            left--
        :: else
        fi;
        count--
    :: else -> break
    od;
    other = 0;
    left = 0
}
#define wake_one(list) wake(list, 1)
#define wake_all(list) wake(list, CALLERS)

inline leave(list, id) {
    if
    :: list??[eval(id)] -> list??eval(id)
    :: else
    fi;
    woken[id] = false
}

inline look_send(e, waited) {
    if
#ifdef WAITED_STORES
    :: (CONNECTED(e) || waited) && len(unread[PEER(e)]) < CAPACITY ->
#else
    :: CONNECTED(e) && nfull(unread[PEER(e)]) ->
#endif
        late = late || closed[0] || closed[1];
        unread[PEER(e)]!number;
        accepted[PEER(e)]++;
#ifndef NO_ARRIVAL_TOLD
        wake_one(arrived[PEER(e)]);
#endif
        if
        :: nfull(unread[PEER(e)]) -> wake_one(room[PEER(e)])
        :: full(unread[PEER(e)])
        fi;
        verdict = DO
    :: CONNECTED(e) && full(unread[PEER(e)]) -> verdict = WAIT
    :: HALF(e) -> verdict = (waited -> REFUSE : DROP)
#ifdef WAITED_STORES
    :: GONE(e) && (!waited || len(unread[PEER(e)]) == CAPACITY) -> verdict = REFUSE
#else
    :: GONE(e) -> verdict = REFUSE
#endif
    fi
}

inline look_receive(e) {
    if
    :: !closed[e] && nempty(unread[e]) ->
        unread[e]?number;
#ifdef NEWEST_READ
        if
        :: nempty(unread[e]) -> unread[e]!number; unread[e]?number
        :: empty(unread[e])
        fi;
#endif
        disordered = disordered || number != received[e] + 1;
        number = 0;
        received[e]++;
#ifndef NO_ROOM_TOLD
        wake_one(room[e]);
#endif
#ifndef NO_CHAIN
        if
        :: nempty(unread[e]) -> wake_one(arrived[e])
        :: empty(unread[e])
        fi;
#endif
        verdict = DO
    :: CONNECTED(e) && empty(unread[e]) -> verdict = WAIT
    :: GONE(e) ->
        undrained = undrained || !closed[e] && received[e] < accepted[e];
        verdict = REFUSE
    fi
}

/* _sync.park: woken, or out of time if there is a deadline. */
inline park(id) {
    if
    :: atomic { !parker[id] -> parker[id] = true }
    :: atomic { id == SECOND && parker[id] -> expired = true }
    fi
}

proctype Sender(byte e) {
    byte number = 1;
    byte count, left, other;
    mtype verdict;
    bool expired;

    do
    :: number > MESSAGES || verdict == REFUSE -> break
    :: else ->
        atomic {
            acquire();
            busy[e] = true;
            look_send(e, false);
            release();
            busy[e] = (verdict == WAIT)
        };
        do
        :: verdict != WAIT -> break
        :: verdict == WAIT ->
            atomic {
                acquire();
                leave(room[PEER(e)], e);
                look_send(e, true);
                if
                :: verdict == WAIT ->
                    room[PEER(e)]!e;
                    parker[e] = true
                :: else -> busy[e] = false
                fi;
                release()
            };
            if
            :: verdict == WAIT -> park(e)
            :: else
            fi
        od;
        number++
    od
}

proctype Receiver(byte e; byte id) {
    byte number, count, left, other;
    mtype verdict;
    bool expired;

    do
    :: verdict == REFUSE || expired -> break
    :: else ->
        atomic {
            acquire();
            busy[id] = true;
            look_receive(e);
            release();
            busy[id] = (verdict == WAIT)
        };
        do
        :: verdict != WAIT || expired -> break
        :: verdict == WAIT && !expired ->
            atomic {
                acquire();
                leave(arrived[e], id);
                look_receive(e);
                if
                :: verdict == WAIT ->
                    arrived[e]!id;
                    parker[id] = true
                :: else -> busy[id] = false
                fi;
                release()
            };
            if
            :: verdict == WAIT -> park(id)
            :: else
            fi;
            if
            :: expired ->           /* a last check: success and refusal come first */
                atomic {
                    acquire();
                    leave(arrived[e], id);
                    look_receive(e);
                    busy[id] = false;
                    release()
                }
            :: else
            fi
        od
    od
}

proctype HangUp(byte e) {
    byte number, count, left, other;

    atomic { acquire(); closed[e] = true };
#ifdef WAITS_FOR_READERS
    empty(arrived[e]);
#endif
    atomic {
#ifndef NOT_COUNTED
        discarded[e] = discarded[e] + len(unread[e]);
#endif
#ifndef KEEPS_UNREAD
        do
        :: nempty(unread[e]) -> unread[e]?number
        :: empty(unread[e]) -> break
        od;
#endif
#ifdef PEER_LOSES
        discarded[PEER(e)] = discarded[PEER(e)] + len(unread[PEER(e)]);
        do
        :: nempty(unread[PEER(e)]) -> unread[PEER(e)]?number
        :: empty(unread[PEER(e)]) -> break
        od;
#endif
        number = 0
    };
    atomic {
#ifndef NOBODY_ROUSED
        wake_all(room[e]);
        wake_all(arrived[e]);
#endif
#if !defined(ONE_SIDE_ROUSED) && !defined(NOBODY_ROUSED)
        wake_all(room[PEER(e)]);
        wake_all(arrived[PEER(e)]);
#endif
        hung_up[e] = true;
        release()
    }
}

proctype Watcher(byte e) {
    bool there, here, some;
    byte last, now;

    do
    :: true ->
#ifdef UNREAD_FIRST
        some = nempty(unread[e]);
#endif
        there = closed[PEER(e)];
        here = closed[e];
        atomic {
#ifndef UNREAD_FIRST
            some = nempty(unread[e]);
#endif
            now = (here || there && !some -> 2 : (there -> 1 : 0));
            rose = rose || now < last;
            last = now;
            now = 0;
            some = false;
            there = false;
            here = false
        }
    od
}

init {
    atomic {
        run Sender(1);
        run Receiver(0, RECEIVER(0));
#ifdef BOTH_WAYS
        run Sender(0);
        run Receiver(1, RECEIVER(1));
#endif
#ifdef TWO_RECEIVERS
        run Receiver(0, SECOND);
#endif
#ifdef WATCHED
        run Watcher(0);
#endif
        if
        :: run HangUp(0)
        :: skip
        fi;
        if
        :: run HangUp(1)
        :: skip
        fi
    }
}

#define FREE (!locked)
#define BOTH(p) (p(0) && p(1))

#define BALANCED(e) (accepted[e] == received[e] + discarded[e] + len(unread[e]))
#define NOTHING_IF_CLOSED(e) (!closed[e] || !SOME(e))
#define SLEEPS(list, id) (list??[eval(id)] && !woken[id])
#define NOBODY_SLEEPS(e) (!SLEEPS(room[e], PEER(e)) && !SLEEPS(arrived[e], 2 + e) \
    && !SLEEPS(arrived[e], SECOND))
#define ROOM_KNOWN(e) (len(unread[e]) == CAPACITY || !SLEEPS(room[e], PEER(e)))
#define STIRS(e) (arrived[e]??[eval(2 + e)] && woken[2 + e] \
    || arrived[e]??[eval(SECOND)] && woken[SECOND])
#define ARRIVAL_KNOWN(e) (!SOME(e) || len(arrived[e]) == 0 || STIRS(e))
#define NEVER_UP(e) ((HALF(e) -> [] !CONNECTED(e)) && (GONE(e) -> [] GONE(e)))
#define OWN_DISCARD(e) (discarded[e] == 0 || closed[e])

/* Safety. These hold whenever the lock is free, or, without FREE, at every step. */

/* QB-BOOK-1, QB-FIFO-3: each accepted message is received, discarded or unread. */
ltl counters_balance { [] (FREE -> BOTH(BALANCED)) }

/* QB-DISC-11. */
ltl a_closed_side_has_nothing_unread { [] (FREE -> BOTH(NOTHING_IF_CLOSED)) }

/* QB-DISC-3, QB-DISC-6, QB-DISC-14. */
ltl nothing_arrives_after_a_hang_up { [] !late }

/* QB-DISC-5: only the end that hangs up itself loses its unread messages. */
ltl only_its_own_hang_up_discards { [] BOTH(OWN_DISCARD) }

/* QB-RECV-3: the peer's hang-up refuses a receive only after the last message. */
ltl what_was_accepted_is_drained { [] !undrained }

/* QB-FIFO-1, QB-RECV-8. */
ltl received_in_order { [] !disordered }

/* QB-DISC-1. */
ltl status_moves_down_only { [] BOTH(NEVER_UP) }

/* QB-DISC-1, for a read without the lock, in three steps. */
ltl status_as_read_moves_down_only { [] !rose }

/* QB-DISC-4, QB-DISC-7: all waiters at either end have been woken. */
ltl nobody_sleeps_through_a_hang_up {
    [] (FREE && (closed[0] || closed[1]) -> BOTH(NOBODY_SLEEPS))
}

/* QB-CONC-4: if a listed waiter could go on, one was woken. */
ltl no_waiter_is_forgotten {
    [] (FREE && CONNECTED(0) -> BOTH(ROOM_KNOWN) && BOTH(ARRIVAL_KNOWN))
}

/* Liveness. */

#define CLOSED (closed[0] || closed[1])

/* QB-RECV-5, QB-DISC-4, QB-DISC-7. */
ltl a_hang_up_ends_every_receive { []<> !(CLOSED && (busy[2] || busy[3] || busy[4])) }

/* QB-DISC-4, QB-DISC-7. */
ltl a_hang_up_ends_every_send { []<> !(CLOSED && (busy[0] || busy[1])) }

/* QB-DISC-8: it never waits. */
ltl a_hang_up_returns { []<> (closed[0] == hung_up[0] && closed[1] == hung_up[1]) }

/* QB-CONC-4, QB-SEND-6. */
ltl a_send_goes_on_where_somebody_receives {
    []<> !(busy[0] && busy[3]) && []<> !(busy[1] && (busy[2] || busy[4]))
}

/* QB-CONC-4. */
ltl what_has_arrived_is_received {
    []<> !(SOME(0) && busy[2]) && []<> !(SOME(1) && busy[3])
}
