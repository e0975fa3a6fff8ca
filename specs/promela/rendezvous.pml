/*
 * The rendez-vous: callers of accept and connect meet, run out of time, are struck
 * by an exception, or are released by the close of a broker.
 *
 * One manager; brokers A and B; one port of B. Callers 0 and 1 accept on B, caller 2
 * connects from A, caller 3 from B to itself. Each has a deadline or none, and it may
 * pass at any moment of its sleep. One broker is closed at any moment, or none. One
 * exception from outside, at most, strikes one caller, asleep or about to return. One
 * wake-up, at most, comes for no reason. QUICK leaves out caller 1.
 *
 * A step here is one step there; the lock-free looks of `finish` fall between any two.
 * What each mirrors, in queuebroker/:
 *
 *   acquire, release     `with manager.lock`
 *   opposite_of          rendezvous.RdVMap.opposite_of
 *   step                 rendezvous.RdV.step
 *   begin_locked         meeting.begin_locked, pairing.pair
 *   withdraw_locked      meeting.withdraw_locked, rendezvous.RdVMap.remove
 *   Caller               broker.Broker.meet_accept, meet_connect; meeting.finish,
 *                        abandon; _sync.park
 *   Closer               broker.Broker.close_locked
 *
 * Left out: exclusive accepts; other ports and kinds, which have lists of their own;
 * exceptions in the middle of a critical section, and so RdVMap.mend.
 *
 * Fairness for the liveness properties: weak, by process. Whoever can go on, does so
 * in the end; a deadline that is there passes in the end.
 *
 * Planted faults, each by its define:
 *
 *   EXPIRY_UNCHECKED     who runs out of time withdraws without another look under the
 *                        lock, and takes back a match
 *   STATE_FIRST          a match changes the states before it hands out the ends
 *   NO_WAKE              a match does not wake who slept
 *   HALF_CLOSE           a close releases who waits at the broker, and forgets its own
 *                        connects elsewhere
 */

#define CALLERS 4
#define NOBODY 255
#define A 0
#define B 1

mtype = { NEW, WAITING_ACCEPT, WAITING_CONNECT, MATCHED, WITHDRAWN };    /* RdVState */
mtype = { NONE, TIMED_OUT, BROKER_CLOSED, INTERRUPTED };                   /* Reason */
mtype = { CALLING, RETURNED, RAISED };                   /* what a call has come to */

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
byte made;                      /* connections so far */

bool deadline[CALLERS];
bool strikes = true;            /* exceptions from outside yet to come */
bool spurious = true;           /* wake-ups for no reason yet to come */

/* What the properties speak of, and no step looks at. */
mtype call[CALLERS] = CALLING;
byte partner[CALLERS] = NOBODY;
bool struck[CALLERS];
bool hung_up[CALLERS];          /* an end that nobody got was disconnected */
bool late;                      /* a final state was left */

#define ACCEPTS(i) (i < 2)
#define BROKER(i) (i == 2 -> A : B)
#define WAITS(i) (rdv[i].state == WAITING_ACCEPT || rdv[i].state == WAITING_CONNECT)

inline acquire() { atomic { !locked -> locked = true } }
inline release() { locked = false }

inline step(i, to) {
    d_step {
        late = late || !WAITS(i);
        rdv[i].state = to
    }
}

inline opposite_of(i) {
    d_step {
        opposite = NOBODY;
        if
        :: nempty(waiting) ->
            waiting?<opposite>;
            if
            :: WAITS(opposite) && rdv[opposite].state != rdv[i].state
            :: else -> opposite = NOBODY
            fi
        :: empty(waiting)
        fi
    }
}

inline begin_locked(i) {
    opposite_of(i);
    if
    :: opposite == NOBODY ->
        d_step {
            waiting!i;
            rdv[i].departing = !ACCEPTS(i)
        }
    :: else ->
        d_step {
            made++;
            partner[i] = opposite;
            partner[opposite] = i
        }
#ifdef STATE_FIRST
        step(i, MATCHED);
        step(opposite, MATCHED);
#endif
        rdv[i].end = made;
        rdv[opposite].end = made;
#ifndef STATE_FIRST
        step(i, MATCHED);
        step(opposite, MATCHED);
#endif
#ifndef NO_WAKE
        rdv[opposite].parker = false;
#endif
        d_step {
            rdv[i].departing = false;
            rdv[opposite].departing = false;
            waiting??eval(opposite)
        }
    fi
}

inline withdraw_locked(i, why) {
    rdv[i].reason = why;
    step(i, WITHDRAWN);
    rdv[i].parker = false;
    d_step {
        rdv[i].departing = false;
        if
        :: waiting??[eval(i)] -> waiting??eval(i)
        :: else
        fi
    }
}

proctype Caller(byte i) {
    byte opposite;
    byte end;

    if
    :: deadline[i] = true
    :: skip
    fi;
    acquire();
    if
    :: !open[BROKER(i)] || !open[B] ->      /* _check_open; find_locked gave None */
        release();
        goto raised
    :: else ->
        rdv[i].state = (ACCEPTS(i) -> WAITING_ACCEPT : WAITING_CONNECT);
        begin_locked(i)
    fi;
    release();

    /* finish */
    do
    :: !WAITS(i) -> break
    :: WAITS(i) ->
        if
        :: atomic { !rdv[i].parker -> rdv[i].parker = true }
        :: atomic { spurious -> spurious = false }
        :: atomic { strikes -> strikes = false; struck[i] = true }; goto abandon
        :: deadline[i] && rdv[i].parker ->
            acquire();
            if
#ifdef EXPIRY_UNCHECKED
            :: true ->
#else
            :: WAITS(i) ->
#endif
                withdraw_locked(i, TIMED_OUT)
            :: else
            fi;
            release()
        fi
    od;
    if
    :: rdv[i].state != MATCHED -> goto abandon
    :: else
    fi;
    if
    :: rdv[i].end == 0 -> goto abandon
    :: rdv[i].end != 0 -> call[i] = RETURNED; goto done
    :: atomic { strikes -> strikes = false; struck[i] = true }
    fi;

abandon:
    acquire();
    if
    :: WAITS(i) -> withdraw_locked(i, INTERRUPTED)
    :: else
    fi;
    atomic { end = rdv[i].end; rdv[i].end = 0 };
    release();
    hung_up[i] = (end != 0);
raised:
    call[i] = RAISED;
done:
    skip
}

proctype Closer(byte broker) {
    byte i;

    acquire();
    open[broker] = false;
    i = 0;
    do
    :: i < CALLERS ->
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
    :: else -> break
    od;
    release()
}

init {
    atomic {
        run Caller(0);
#ifndef QUICK
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
#define HAS_END(i) (rdv[i].end != 0 || struck[i])
#define SAME_END(i) (rdv[i].state != MATCHED || HAS_END(i) && partner[i] != NOBODY \
    && rdv[partner[i]].state == MATCHED && partner[partner[i]] == i \
    && ACCEPTS(i) != ACCEPTS(partner[i]) && (struck[i] || struck[partner[i]] \
    || rdv[i].end == rdv[partner[i]].end))
#define ENDED(i) (rdv[i].state == MATCHED || rdv[i].state == WITHDRAWN)
#define KNOWS_WHY(i) (rdv[i].state != WITHDRAWN || rdv[i].reason != NONE)
#define CLOSED_FOR(i) (!open[B] || i == 2 && !open[A])
#define RELEASED(i) (!CLOSED_FOR(i) || !WAITS(i))
#define AGREES(i) (call[i] != RETURNED || call[partner[i]] != RAISED \
    || struck[partner[i]])
#define NOT_SILENT(i) (call[i] != RETURNED || call[partner[i]] != RAISED \
    || hung_up[partner[i]])

/* Safety. These hold whenever the lock is free, or, without FREE, at every step. */

/* QB-RDV-3, QB-RDV-16: an accept and a connect that could match have matched. */
ltl one_role_waits { [] (FREE -> !(ACCEPT_LISTED && CONNECT_LISTED)) }

/* QB-RDV-8, QB-RDV-11: no ghost on the list, and nobody waits off it. */
ltl who_is_listed_waits {
    [] (FREE -> EACH(LISTED_ONLY_WAITING) && EACH(WAITING_IS_LISTED))
}

/* QB-NAME-6: a broker finds its own connects that wait, and no others. */
ltl who_departs_waits { [] (FREE -> EACH(DEPARTING_WAITS)) }

/* QB-RDV-1, QB-RDV-5: one connection, one end to each of the two. */
ltl a_match_gives_both_an_end { [] (FREE -> EACH(SAME_END)) }

/* QB-RDV-16. */
ltl final_states_are_final { [] !late }

/* QB-ERR-6: the exception can say what happened. */
ltl who_withdrew_knows_why { [] EACH(KNOWS_WHY) }

/* QB-NAME-6: nobody waits at a closed broker, nor for it, nor from it. */
ltl nobody_waits_where_it_is_closed { [] (FREE -> EACH(RELEASED)) }

/* QB-TIME-5, QB-NAME-6: never one side with a queue and the other with an error. */
ltl both_succeed_or_neither { [] EACH(AGREES) }

/* QB-RDV-12: the peer of a caller that was struck is not left with a silent queue. */
ltl who_was_struck_hangs_up { [] EACH(NOT_SILENT) }

/* Liveness. */

#define PENDING(i) (rdv[i].state != NEW && call[i] == CALLING)
#define ACCEPT_PENDING (PENDING(0) || PENDING(1))
#define CONNECT_PENDING (PENDING(2) || PENDING(3))
#define ENDED_PENDING(i) (ENDED(i) && call[i] == CALLING)
#define OVERDUE(i) (deadline[i] && PENDING(i))
#define CLOSED_PENDING(i) (CLOSED_FOR(i) && PENDING(i))

/* QB-RDV-2: a caller whose opposite waits is matched, or one of them leaves. */
ltl a_pair_does_not_wait_for_ever { []<> !(ACCEPT_PENDING && CONNECT_PENDING) }

/* QB-CONC-4: whoever is matched or withdrawn wakes and returns. */
ltl who_has_ended_returns { []<> !SOME(ENDED_PENDING) }

/* QB-TIME-2. */
ltl a_deadline_ends_the_wait { []<> !SOME(OVERDUE) }

/* QB-NAME-6. */
ltl a_close_ends_the_wait { []<> !SOME(CLOSED_PENDING) }
