/*
 * The rendez-vous: callers of accept and connect are matched, time out, are interrupted
 * by an exception, or are woken by the close of a broker.
 *
 * One manager; brokers A and B; one port of B. Callers 0 and 1 accept on B, caller 2
 * connects from A, caller 3 from B to itself. Callers 0 and 3 have a deadline, which
 * may pass at any moment of their sleep. One broker is closed at any moment, or none.
 * One exception from outside, at most, interrupts one caller, asleep or about to
 * return, and one sleeper, at most, wakes for no reason. That is with callers 0, 2 and
 * 3; with FOUR there is caller 1 too, and neither of these two events.
 *
 * A step here is atomic for all threads: callers compete for the lock, and only the
 * reads of `meet` and the parkers do without it. The functions that the steps mirror,
 * in queuebroker/:
 *
 *   acquire, release     `with manager.lock`
 *   opposite_of          rendezvous.RdVMap.opposite_of
 *   step                 rendezvous.RdV.step
 *   pair                 pairing.pair, and the two ends handed out by meet.begin
 *   withdraw_locked      meet.withdraw_locked, rendezvous.RdVMap.remove
 *   Caller               broker.Broker.meet_accept, meet_connect; meet.meet,
 *                        begin, expire, outcome, abandon; _sync.park
 *   Closer               broker.Broker.close_locked
 *
 * Left out: exclusive accepts; other ports and kinds, which have lists of their own;
 * exceptions in the middle of a critical section, and so RdVMap.mend; callers that spin
 * first and make their parkers afterwards, under the lock.
 *
 * Fairness: the liveness properties assume only that some process goes on as long as
 * one can. Every run of these processes ends, so no process can starve; a deadline
 * passes, unless its caller leaves before.
 *
 * Planted faults, each by its define:
 *
 *   EXPIRY_UNCHECKED     an expired caller withdraws without another check under the
 *                        lock, and takes back a match
 *   STATE_FIRST          a match changes the states before it hands out the ends
 *   NO_WAKE              a match does not wake the sleeping caller
 *   HALF_CLOSE           a close wakes the waiters at the broker, and forgets its own
 *                        connects elsewhere
 *   TWO_SECTIONS         the lock is released between the search for an opposite and
 *                        the action on its result
 *   GHOST                a withdrawn waiter stays on the list
 *   NEWEST_FIRST         of two waiters, the later one is matched
 *   NO_REASON            a withdrawal does not record its reason
 *   NEVER_DEPARTS        a match leaves the sleeping connect in its broker's `departing`
 *   INTERRUPTED_SILENT   a caller interrupted after its match keeps the end to itself
 *   EXPIRY_FORGOTTEN     an expired caller goes back to sleep
 */

#define CALLERS 4
#define NOBODY 255
#define A 0
#define B 1

mtype = { NEW, WAITING_ACCEPT, WAITING_CONNECT, MATCHED, WITHDRAWN };    /* RdVState */
mtype = { NONE, TIMED_OUT, BROKER_CLOSED, INTERRUPTED };                   /* Reason */
mtype = { CALLING, RETURNED, RAISED };                   /* the outcome of a call */

typedef RdV {
    mtype state = NEW;
    mtype reason = NONE;
    byte end;                   /* number of its connection, 0 for none */
    bool parker = true;         /* taken; released to wake the caller */
    bool departing              /* in the `departing` of the broker it connects from */
}

bool locked;                    /* the manager's lock */
bool open[2] = true;
chan waiting = [CALLERS] of { byte };   /* the list of the port, oldest first */
RdV rdv[CALLERS];

#ifndef FOUR
bool strikes = true;            /* an exception from outside is yet to come */
bool wakes = true;              /* a wake-up for no reason is yet to come */
#else
bool strikes, wakes;
#endif

/* Variables for the properties; no step reads them. */
mtype call[CALLERS] = CALLING;
byte partner[CALLERS] = NOBODY;
bool interrupted[CALLERS];
bool hung_up[CALLERS];          /* an end that no caller got was disconnected */
bool late;                      /* a final state was left */
bool second[CALLERS];           /* arrived when the other in its role waited already */
bool overtaken;                 /* a match passed over that other */

#define ACCEPTS(i) (i < 2)
#define OTHER(i) (i ^ 1)
#define HAS_DEADLINE(i) (i == 0 || i == 3)
#define BROKER(i) (1 - (i == 2))
#define CLOSED_FOR(i) (!open[B] || BROKER(i) == A && !open[A])
#define WAITS(i) (rdv[i].state == WAITING_ACCEPT || rdv[i].state == WAITING_CONNECT)

inline acquire() { !locked -> locked = true }
inline release() { locked = false }

inline step(i, to) {
    late = late || !WAITS(i);
    rdv[i].state = to
}

inline opposite_of(i) {
    opposite = NOBODY;
    if
    :: nempty(waiting) ->
        waiting?<opposite>;
        if
        :: WAITS(opposite) && rdv[opposite].state != rdv[i].state
#ifdef NEWEST_FIRST
            ->
            if
            :: WAITS(OTHER(opposite)) -> opposite = OTHER(opposite)
            :: else
            fi
#endif
        :: else -> opposite = NOBODY
        fi
    :: empty(waiting)
    fi
}

inline pair(i) {
    rdv[i].end = 1 + (ACCEPTS(i) -> i : opposite);
    rdv[opposite].end = rdv[i].end;
    partner[i] = opposite;
    partner[opposite] = i;
    overtaken = overtaken || second[opposite] && WAITS(OTHER(opposite));
    second[opposite] = false
}

inline withdraw_locked(i, why) {
#ifndef NO_REASON
    rdv[i].reason = why;
#endif
    step(i, WITHDRAWN);
    rdv[i].parker = false;
    rdv[i].departing = false;
#ifndef GHOST
    if
    :: waiting??[eval(i)] -> waiting??eval(i)
    :: else
    fi
#endif
}

proctype Caller(byte i) {
    byte opposite;

    /* begin */
    atomic {
        acquire();
        if
        :: CLOSED_FOR(i) ->         /* _check_open; find_locked gave None */
            call[i] = RAISED;
            release();
            goto ended
        :: else
        fi;
        rdv[i].state = (ACCEPTS(i) -> WAITING_ACCEPT : WAITING_CONNECT);
        opposite_of(i);
#ifdef TWO_SECTIONS
        release();
    };
    atomic {
        acquire();
#endif
        if
        :: opposite == NOBODY ->
            waiting!i;
            second[i] = WAITS(OTHER(i));
            rdv[i].departing = !ACCEPTS(i);
            release();
            goto finish
        :: else
        fi;
#ifndef STATE_FIRST
        pair(i);
#endif
        step(i, MATCHED)
    };
    atomic { step(opposite, MATCHED) };
#ifdef STATE_FIRST
    atomic { pair(i) };
#endif
#ifndef NO_WAKE
    rdv[opposite].parker = false;
#endif
    atomic {
        rdv[i].departing = false;
#ifndef NEVER_DEPARTS
        rdv[opposite].departing = false;
#endif
        waiting??eval(opposite);
        release()
    };

finish:
    do
    :: !WAITS(i) -> break
    :: WAITS(i) ->
        if                                  /* _sync.park */
        :: atomic { !rdv[i].parker -> rdv[i].parker = true }
        :: atomic { wakes -> wakes = false }
        :: atomic { strikes -> strikes = false; interrupted[i] = true; goto abandon }
        :: HAS_DEADLINE(i) && rdv[i].parker ->
            atomic {
                acquire();
                if
#ifdef EXPIRY_UNCHECKED
                :: true ->
#else
                :: WAITS(i) ->
#endif
#ifdef EXPIRY_FORGOTTEN
                    skip
#else
                    withdraw_locked(i, TIMED_OUT)
#endif
                :: else
                fi;
                release()
            }
        fi
    od;
    atomic {
        if
        :: rdv[i].state == MATCHED && rdv[i].end != 0 ->
            call[i] = RETURNED;
            goto ended
        :: rdv[i].state == MATCHED && strikes ->
            strikes = false;
            interrupted[i] = true
        :: else
        fi
    };

abandon:
    atomic {
        acquire();
        if
        :: WAITS(i) -> withdraw_locked(i, INTERRUPTED)
        :: else
        fi;
#ifndef INTERRUPTED_SILENT
        hung_up[i] = (rdv[i].end != 0);
#endif
        rdv[i].end = 0;
        call[i] = RAISED;
        release()
    };
ended:
}

proctype Closer(byte broker) {
    byte i;

    atomic { acquire(); open[broker] = false };
    do
    :: i < CALLERS ->
        atomic {
            if
#ifdef HALF_CLOSE
            :: WAITS(i) && broker == B ->
#else
            :: WAITS(i) && (broker == B || rdv[i].departing && BROKER(i) == broker) ->
#endif
                withdraw_locked(i, BROKER_CLOSED)
            :: else
            fi;
            i++
        }
    :: else -> break
    od;
    release()
}

init {
    atomic {
        run Caller(0);
#ifdef FOUR
        run Caller(1);
#endif
        run Caller(2);
        run Caller(3);
        if
        :: run Closer(A)
        :: run Closer(B)
        :: skip
        fi
    }
}

#define FREE (!locked)
#define EACH(p) (p(0) && p(1) && p(2) && p(3))
#define SOME(p) (p(0) || p(1) || p(2) || p(3))

#define LISTED(i) (waiting??[eval(i)])
#define ACCEPT_LISTED (LISTED(0) || LISTED(1))
#define CONNECT_LISTED (LISTED(2) || LISTED(3))
#define LISTED_ONLY_WAITING(i) (!LISTED(i) || WAITS(i) && rdv[i].end == 0)
#define WAITING_IS_LISTED(i) (!WAITS(i) || LISTED(i))
#define DEPARTING_WAITS(i) (rdv[i].departing == (rdv[i].state == WAITING_CONNECT))
#define HAS_END(i) (rdv[i].end != 0 || interrupted[i])
#define SAME_END(i) (rdv[i].state != MATCHED || HAS_END(i) && partner[i] != NOBODY \
    && rdv[partner[i]].state == MATCHED && partner[partner[i]] == i \
    && ACCEPTS(i) != ACCEPTS(partner[i]) && (interrupted[i] || interrupted[partner[i]] \
    || rdv[i].end == rdv[partner[i]].end))
#define ENDED(i) (rdv[i].state == MATCHED || rdv[i].state == WITHDRAWN)
#define KNOWS_WHY(i) (rdv[i].state != WITHDRAWN || rdv[i].reason != NONE)
#define RELEASED(i) (!CLOSED_FOR(i) || !WAITS(i))
#define AGREES(i) (call[i] != RETURNED || call[partner[i]] != RAISED \
    || interrupted[partner[i]])
#define NOT_SILENT(i) (call[i] != RETURNED || call[partner[i]] != RAISED \
    || hung_up[partner[i]])

/* Safety. These hold whenever the lock is free, or, without FREE, at every step. */

/* QB-RDV-3, QB-RDV-16: an accept and a connect that could match have matched. */
ltl one_role_waits { [] (FREE -> !(ACCEPT_LISTED && CONNECT_LISTED)) }

/* QB-RDV-8, QB-RDV-11: all listed callers wait, and no caller waits unlisted. */
ltl who_is_listed_waits {
    [] (FREE -> EACH(LISTED_ONLY_WAITING) && EACH(WAITING_IS_LISTED))
}

/* QB-NAME-6: a broker finds its own connects that wait, and no others. */
ltl who_departs_waits { [] (FREE -> EACH(DEPARTING_WAITS)) }

/* QB-RDV-1, QB-RDV-5: one connection, one end to each of the two. */
ltl a_match_gives_both_an_end { [] (FREE -> EACH(SAME_END)) }

/* QB-RDV-6, QB-RDV-9: of one role, the first waiter is matched first. */
ltl who_came_first_is_met_first { [] !overtaken }

/* QB-RDV-16. */
ltl final_states_are_final { [] !late }

/* QB-ERR-6: the exception can state the reason. */
ltl who_withdrew_knows_why { [] EACH(KNOWS_WHY) }

/* QB-NAME-6: no caller waits at a closed broker, nor for it, nor from it. */
ltl nobody_waits_where_it_is_closed { [] (FREE -> EACH(RELEASED)) }

/* QB-TIME-5, QB-NAME-6: never one side with a queue and the other with an error. */
ltl both_succeed_or_neither { [] EACH(AGREES) }

/* QB-RDV-12: the peer of an interrupted caller is not left with a silent queue. */
ltl who_was_interrupted_hangs_up { [] EACH(NOT_SILENT) }

/* Liveness. */

#define PENDING(i) (rdv[i].state != NEW && call[i] == CALLING)
#define ACCEPT_PENDING (PENDING(0) || PENDING(1))
#define CONNECT_PENDING (PENDING(2) || PENDING(3))
#define ENDED_PENDING(i) (ENDED(i) && call[i] == CALLING)
#define OVERDUE(i) (HAS_DEADLINE(i) && PENDING(i))
#define CLOSED_PENDING(i) (CLOSED_FOR(i) && PENDING(i))

/* QB-RDV-2: a caller whose opposite waits is matched, or one of them leaves. */
ltl a_pair_does_not_wait_for_ever { []<> !(ACCEPT_PENDING && CONNECT_PENDING) }

/* QB-CONC-4: a caller that is matched or withdrawn wakes and returns. */
ltl who_has_ended_returns { []<> !SOME(ENDED_PENDING) }

/* QB-TIME-2. */
ltl a_deadline_ends_the_wait { []<> !SOME(OVERDUE) }

/* QB-NAME-6. */
ltl a_close_ends_the_wait { []<> !SOME(CLOSED_PENDING) }
