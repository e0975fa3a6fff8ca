/*
 * Searches and relays on one machine: each search is answered once, and relays vanish
 * with the tasks they were made for, regardless of the order of events.
 *
 * A master, process 0, and slaves 1, 2 and 3, each with a signalling link to the
 * master; data links between slaves. Each link keeps its order; there is no order
 * between links. D at slave 1 searches for a name, and with TWO also E at slave 2,
 * which is private. D's messages have a deadline, which may pass at any moment, unless
 * it is PATIENT; E's have none. F1 at slave 3 has the name. F2 takes it in process
 * NEXT, perhaps before any process learns that F1 has left. D leaves at any moment or
 * never, and so does F1. A task that loses a relay may search again, up to SEARCHES
 * times in all. With OWNER_KNOWN the master asks only the slave that has the name by
 * its user table. With SLOWLY the unread messages of a leaving task are known one step
 * later. The signalling link of slave LOST breaks for good at any moment or never, with
 * the frames on it or after them; with CUT, the data link of slaves 1 and 3 does, once.
 * A data link that is not made has a deadline, which passes when no frame is under way
 * that could make it, and with EARLY once before.
 *
 * A step is the reaction of one process to one event, under its manager's lock. The
 * functions that the steps mirror, in bus/kernel/:
 *
 *   launch               own_searches.OwnSearches.seek
 *   close                own_searches.OwnSearches.on_expired, own_searches.OwnSearches.end_found,
 *                        own_searches.OwnSearches.on_departure
 *   from_slave           resolver.Resolver.on_search, resolver.Resolver.on_answer,
 *                        resolver.Resolver.on_cancel, resolver.Resolver.on_export;
 *                        name_registry.NameRegistry.on_eliminate, name_registry.NameRegistry.on_export;
 *                        name_registry.UserRoutingTable.claim
 *   forward, forget      requests.Requests.forward, requests.Requests.end
 *   Master, when lost    name_registry.NameRegistry.on_process_lost, requests.Requests.lose
 *   from_master          resolver.Resolver.on_search, resolver.Resolver.on_answer,
 *                        relays.Relays.on_eliminate,
 *                        name_registry.NameRegistry.on_refusal
 *   answer, make         resolver.Resolver._answer, relays.Relays.add_relay
 *   answer_here          the same, and peer.Peer.has_departed
 *   dial, from_peer      relays.Relays.on_found, peer.Peer.announce,
 *                        outbound_messages.UndeliveredMessages.on_unrelay
 *   take_name            name_registry.NameRegistry.on_registered, resolver.Resolver.on_registered
 *   leave                process_manager.ProcessManager.leave, name_registry.NameRegistry.on_departure
 *   depart               task_announcer.TaskAnnouncer.on_emptied, peer.Peer.report_departure; and, at
 *                        once, remote_manager.RemoteManager.tick for an idle link
 *   bury                 process_manager.ProcessManager.on_emptied, as far as it searches
 *   give_up, LATE        outbound_messages.UndeliveredMessages.lose
 *
 * Left out: all machines but one, and so hops; new links over which a session
 * continues; death of a process, which is loss of all its links; subscriptions; eager
 * relays; the fate of the messages themselves (stream.pml).
 *
 * Fairness: the liveness properties assume only that some process goes on as long as
 * one can. Every run of these processes ends, so no process can starve; a deadline
 * passes, unless its search or link is over before.
 *
 * Planted faults, each by its define:
 *
 *   SENT_BACK            the master forwards a search also on the link that it came by
 *   MADE_TWICE           a process makes a relay although it has one
 *   EVERY_ANSWER_PASSED  the master passes back also an answer to a forgotten search
 *   ANSWERED_BY_RELAY    a process with a relay of the name answers for it
 *   BY_NAME              an elimination releases the relays of a name
 *   ADDS_LATE            an answer makes a relay though its search is over
 *   LEAVES_SILENTLY      a departure is not announced on the data links
 *   CANCEL_KEPT          the master does not pass on a cancellation
 *   ANSWER_KEPT          the master does not cancel an answered search at the others
 *   LEAVES_SEARCHING     the search of a leaving task is not cancelled
 *   NOT_SERVED           a registration does not check the ledger
 *   NOT_ASKED_LATER      a slave that exports a name does not get the open searches
 *   WAITS_FOR_EVER       a data link that is not made has no deadline
 *   DEPARTED_ANSWERED    the master answers the search of a departed task
 *   REPLIES_AFTER_LOSS   the master keeps the searches that came by a lost link
 *   KEEPS_NAME           a task that is refused a name stays public
 */

/* Where F2 registers: 0, 2 or 3. */
#ifndef NEXT
#define NEXT 2
#endif
/* The slave whose signalling link may break: 0 for none. */
#ifndef LOST
#define LOST 0
#endif
#ifndef SEARCHES
#define SEARCHES 2
#endif
#ifndef EARLY
#define EARLY 0
#endif
#define ROOM 8
#define DATA_ROOM 4

#define BIT(n) (1 << (n))
#define HAS(set, n) (((set) >> (n)) & 1)

/* Processes: 0 is the master. Registrations, and where each is. */
#define D 0
#define E 1
#define F1 2
#define F2 3
#define NONE 4
#define AT(r) (((r) == F2) * NEXT + ((r) != F2) * ((r) + 1))

/* Searches: the first of D and of E, then the second ones. */
#define OF(id) ((id) & 1)
#define IDS 4

mtype = { SEARCH, CANCEL, ADD_RELAY, ELIMINATE, EXPORT, ERROR };
mtype = { UNRELAY, WELCOME };               /* these, and ADD_RELAY, on data links */
mtype = { NOT_YET, PUBLIC, LEAVING, GONE };  /* the state of a registration */

/* Links: to the master, from it, and between slaves. */
chan up[3] = [ROOM] of { mtype, byte };
chan down[3] = [ROOM] of { mtype, byte };
chan data[6] = [DATA_ROOM] of { mtype, byte };
#define CH(p, q) (((p) + (q) - 3) * 2 + ((p) > (q)))

bool lost;                      /* the link of slave LOST */
bool master_knows, slave_knows; /* that it is */
bool early = EARLY;             /* a deadline may pass early */
byte cut;                       /* of slaves 1 and 3: those that must drop the other */
bool d_leaves, f_leaves;        /* the departures to come */

mtype is[4];
byte users = BIT(D) | BIT(F1);  /* the master's user table */
byte departed;                  /* those of whose departure the master knows */
byte search[2];                 /* of D, of E: the open search, plus 1; 0 for none */
byte searches[2];               /* number of searches made */
byte ledger[4];                 /* by process: a set of searches */
byte asked[4];                  /* by slave: those that the master sent it */
byte relays[16];                /* by process and registration: how many */
byte bound[4];                  /* by process: those with a link */
byte linked[4];                 /* by process: those it has a data link with */

/* Variables for the properties; no step reads them. */
byte seen[4];                   /* by process: the searches it was sent */
bool looped, impostor, wronged;
byte answers[IDS];
byte ended;                     /* the searches that are over */
byte cancels[4];                /* by process: those with a CANCEL to it under way */
byte told[4];                   /* by slave: those whose departure a data link will
                                   announce; and, times 16, those whose departure its
                                   loss will show */

#define RELAYS(p, r) relays[(p) * 4 + (r)]
#define BROKEN(p) ((p) == LOST && lost)
#define CUT_OFF(p, q) (HAS(cut, p) && (p) + (q) == 4)

/* The task of process p that is public by the name: F2 if there is none. */
#define HOLDS(p) ((p) == 3 && is[F1] == PUBLIC || (p) == NEXT && is[F2] == PUBLIC)
#define HOLDER(p) ((p) == 3 && is[F1] == PUBLIC -> F1 : F2)
#define ROUTE(p) (HOLDS(p) || RELAYS(p, F1) > 0 || RELAYS(p, F2) > 0)

inline to_master(own, what, one, two) {
    if
    :: !BROKEN(own) ->
        assert(nfull(up[own - 1]));
        cancels[0] = cancels[0] | (what == CANCEL) * BIT(one);
        up[own - 1]!what(one + 4 * (two))
    :: else
    fi
}

inline to_slave(to, what, one, two) {
    if
    :: !BROKEN(to) ->
        assert(nfull(down[to - 1]));
        cancels[to] = cancels[to] | (what == CANCEL) * BIT(one);
        down[to - 1]!what(one + 4 * (two))
    :: else
    fi
}

inline to_peer(own, to, what, one, two) {
    if
    :: !CUT_OFF(own, to) ->
        assert(nfull(data[CH(own, to)]));
        told[to] = told[to] | (what == UNRELAY) * BIT(one);
        data[CH(own, to)]!what(one + 4 * (two))
    :: else
    fi
}

inline make(p, r) {
    if
#ifdef MADE_TWICE
    :: RELAYS(p, r) < 2 -> RELAYS(p, r)++
#else
    :: RELAYS(p, r) == 0 -> RELAYS(p, r) = 1
#endif
    :: else
    fi
}

inline bind(p, r) { bound[p] = bound[p] | BIT(r) }

inline release(p, r) {
    RELAYS(p, r) = 0;
    bound[p] = bound[p] & ~BIT(r)
}

inline launch(p) {
    search[p - 1] = searches[p - 1] * 2 + p;
    to_master(p, SEARCH, searches[p - 1] * 2 + p - 1, 0);
    searches[p - 1]++
}

inline close(p) {
    ended = ended | BIT(search[p - 1] - 1);
    to_master(p, CANCEL, search[p - 1] - 1, 0);
    search[p - 1] = 0
}

/* Slave p answers a search by registration r. */
inline answer(p, id, r) {
    impostor = impostor || is[r] != PUBLIC || AT(r) != p;
    make(p, OF(id));
    to_master(p, ADD_RELAY, id, r)
}

inline note(p, id) {
    looped = looped || HAS(seen[p], id) || p == OF(id) + 1;
    seen[p] = seen[p] | BIT(id)
}

/* The master's steps. */

inline forward(id, to) {
    asked[to] = asked[to] | BIT(id);
    to_slave(to, SEARCH, id, 0)
}

/* A search is over: the slaves that were asked, but one, need not keep it. */
inline forget(id, but) {
    ledger[0] = ledger[0] & ~BIT(id);
    k = 1;
    do
    :: k < 4 && HAS(asked[k], id) && k != but ->
        to_slave(k, CANCEL, id, 0);
        k++
    :: k < 4 && (!HAS(asked[k], id) || k == but) -> k++
    :: else -> break
    od;
    k = 0;
    asked[1] = asked[1] & ~BIT(id);
    asked[2] = asked[2] & ~BIT(id);
    asked[3] = asked[3] & ~BIT(id)
}

/* F2 may have registered between the end of a task and that of its search. */
inline answer_here(id) {
    if
#ifdef DEPARTED_ANSWERED
    :: true ->
#else
    :: !HAS(departed, OF(id)) ->
#endif
        make(0, OF(id));
        bind(0, OF(id));
        to_slave(OF(id) + 1, ADD_RELAY, id, F2)
    :: else
    fi
}

inline pass_on_elimination(r, from) {
    users = users & ~BIT(r);
    release(0, r);
#if NEXT == 0
    departed = departed | BIT(r);
#endif
    k = 1;
    do
    :: k < 4 && k != from -> to_slave(k, ELIMINATE, r, 0); k++
    :: k == from -> k++
    :: else -> break
    od;
    k = 0
}

#define OWNER (HAS(users, F1) -> 3 : NEXT)
#define OWNED (HAS(users, F1) || HAS(users, F2))

inline from_slave() {
    if
    :: kind == SEARCH ->
        note(0, x);
        if
        :: HOLDS(0) -> answer_here(x)
#ifdef OWNER_KNOWN
        :: !HOLDS(0) && OWNED && OWNER != l ->
            ledger[0] = ledger[0] | BIT(x);
            forward(x, OWNER)
#endif
        :: else ->
            ledger[0] = ledger[0] | BIT(x);
            k = 1;
            do
#ifdef SENT_BACK
            :: k < 4 -> forward(x, k); k++
#else
            :: k < 4 && k != l -> forward(x, k); k++
            :: k == l -> k++
#endif
            :: else -> break
            od;
            k = 0
        fi
    :: kind == ADD_RELAY ->
        if
        :: HAS(ledger[0], x) ->
            to_slave(OF(x) + 1, ADD_RELAY, x, y);
#ifdef ANSWER_KEPT
            ledger[0] = ledger[0] & ~BIT(x)
#else
            forget(x, l)
#endif
        :: else ->
#ifdef EVERY_ANSWER_PASSED
            to_slave(OF(x) + 1, ADD_RELAY, x, y)
#endif
        fi
    :: kind == CANCEL ->
        cancels[0] = cancels[0] & ~BIT(x);
        if
        :: HAS(ledger[0], x) ->
#ifdef CANCEL_KEPT
            ledger[0] = ledger[0] & ~BIT(x)
#else
            forget(x, 0)
#endif
        :: else
        fi
    :: kind == ELIMINATE -> pass_on_elimination(x, l)
    :: kind == EXPORT ->
        if
        /* The first of two stays. */
        :: HAS(users, F1) -> to_slave(l, ERROR, x, 0)
        :: else ->
            users = users | BIT(x);
#ifndef NOT_ASKED_LATER
            n = 0;
            do
            :: n < IDS ->
                if
                :: HAS(ledger[0], n) && !HAS(asked[l], n) && OF(n) + 1 != l ->
                    forward(n, l)
                :: else
                fi;
                n++
            :: else -> break
            od;
            n = 0
#endif
        fi
    fi
}

proctype Master() {
    byte l, x, y, k, n;
    mtype kind;

end:
    do
    :: atomic {
        if
        :: nempty(up[0]) -> l = 1
        :: nempty(up[1]) -> l = 2
        :: nempty(up[2]) -> l = 3
        fi;
        d_step {
            up[l - 1]?kind(x);
            y = x >> 2;
            x = x & 3;
            from_slave();
            l = 0; x = 0; y = 0; kind = 0
        }
    }
#if LOST
    :: d_step { lost && !master_knows && empty(up[LOST - 1]) ->
        master_knows = true;
#ifndef REPLIES_AFTER_LOSS
        do
        :: n < IDS && HAS(ledger[0], n) && OF(n) + 1 == LOST -> forget(n, LOST); n++
        :: n < IDS && !(HAS(ledger[0], n) && OF(n) + 1 == LOST) -> n++
        :: else -> break
        od;
        n = 0;
#endif
        do
        :: n < 4 && HAS(users, n) && AT(n) == LOST -> pass_on_elimination(n, LOST); n++
        :: n < 4 && !HAS(users, n) && AT(n) == LOST -> release(0, n); n++
        :: n < 4 && AT(n) != LOST -> n++
        :: else -> break
        od;
        n = 0
    }
#endif
#if NEXT == 0
    :: d_step { is[F2] == NOT_YET && !HAS(users, F1) ->
        is[F2] = PUBLIC;
        users = users | BIT(F2);
#ifndef NOT_SERVED
        do
        :: n < IDS && HAS(ledger[0], n) -> answer_here(n); forget(n, 0); n++
        :: n < IDS && !HAS(ledger[0], n) -> n++
        :: else -> break
        od;
        n = 0
#endif
    }
#endif
    od
}

/* A slave's steps; `Slave` below carries out their consequences. */

inline from_master() {
    if
    :: kind == SEARCH ->
        note(p, x);
        if
        :: HOLDS(p) -> answer(p, x, HOLDER(p))
#ifdef ANSWERED_BY_RELAY
        :: !HOLDS(p) && RELAYS(p, F1) > 0 -> answer(p, x, F1)
        :: !HOLDS(p) && RELAYS(p, F1) == 0 ->
#else
        :: else ->
#endif
            ledger[p] = ledger[p] | BIT(x)
        fi
    :: kind == CANCEL ->
        cancels[p] = cancels[p] & ~BIT(x);
        ledger[p] = ledger[p] & ~BIT(x)
    :: kind == ADD_RELAY ->
        answers[x]++;
        if
#ifdef ADDS_LATE
        :: true ->
#else
        :: search[p - 1] == x + 1 ->
#endif
            search[p - 1] = 0;
            ended = ended | BIT(x);
            make(p, y);
            if
            :: AT(y) == 0 -> bind(p, y)
            :: else -> dial = y
            fi
        :: else
        fi
    :: kind == ELIMINATE ->
        if
        /* A relay on a living data link ends by UNRELAY. */
        :: HAS(bound[p], x) && AT(x) != 0
        :: else -> gone = x
        fi
    :: kind == ERROR ->
#ifndef KEEPS_NAME
        leave(x)
#endif
    fi
}

inline from_peer() {
    if
    :: kind == ADD_RELAY && is[y] == PUBLIC ->
        linked[p] = linked[p] | BIT(q);
        make(p, x);
        bind(p, x);
        to_peer(p, q, WELCOME, y, 0)
    :: kind == ADD_RELAY && is[y] == LEAVING -> linked[p] = linked[p] | BIT(q)
    :: kind == ADD_RELAY && is[y] == GONE ->
        linked[p] = linked[p] | BIT(q);
        to_peer(p, q, UNRELAY, y, 0)
    :: kind == WELCOME ->
        if
        :: RELAYS(p, x) > 0 -> bind(p, x)
        :: else
        fi
    :: kind == UNRELAY -> gone = x; told[p] = told[p] & ~BIT(x)
    fi
}

/* The name is free in this process, or has become so. */
inline take_name() {
    is[F2] = PUBLIC;
    to_master(p, EXPORT, F2, 0);
#ifndef NOT_SERVED
    do
    :: n < IDS && HAS(ledger[p], n) -> answer(p, n, F2); n++
    :: n < IDS && !HAS(ledger[p], n) -> n++
    :: else -> break
    od;
    n = 0;
    ledger[p] = 0;
#endif
    over = (p == 2)
}

/* D or F1 leaves, or F2, whose name is refused: no search finds it any more. */
inline leave(r) {
    is[r] = LEAVING;
    to_master(p, ELIMINATE, r, 0);
#ifndef SLOWLY
    off = r
#endif
}

/* The unread messages of the task were taken out. */
inline depart() {
    is[off] = GONE;
#ifndef LEAVES_SILENTLY
    n = 1;
    do
    :: n < 4 && HAS(linked[p], n) -> to_peer(p, n, UNRELAY, off, 0); n++
    :: n < 4 && !HAS(linked[p], n) -> n++
    :: else -> break
    od;
    n = 0;
#endif
    if
    :: off >= F1 && !HOLDS(p) -> release(p, D); release(p, E)
    :: off == D ->
        release(p, F1);
        release(p, F2);
#ifndef LEAVES_SEARCHING
        over = true
#endif
    :: else
    fi
}

#ifdef BY_NAME
#define NAMED(r) (r >= F1 && gone >= F1 && (kind == ELIMINATE || kind == UNRELAY))
#else
#define NAMED(r) false
#endif

/* The messages left in the relay of `gone` may need a new search. */
inline bury() {
    n = 0;
    do
    :: n < 4 && (n == gone || NAMED(n)) && RELAYS(p, n) > 0 ->
        release(p, n);
        wronged = wronged || n != gone;
        freed = freed || n >= F1;
        n++
    :: n < 4 && !((n == gone || NAMED(n)) && RELAYS(p, n) > 0) -> n++
    :: else -> break
    od;
    n = 0
}

/* Tasks at slave 3. */
#define THIRD (BIT(F1) | (NEXT == 3) * BIT(F2))

/* The session with the peer at the other end of the cut is over. */
inline give_up() {
    cut = cut & ~BIT(p);
    linked[p] = linked[p] & ~BIT(4 - p);
    if
    :: p == 1 ->
        told[1] = told[1] & ~(THIRD << 4);
        freed = RELAYS(1, F1) > 0 || NEXT == 3 && RELAYS(1, F2) > 0;
        release(1, F1);
#if NEXT == 3
        release(1, F2)
#endif
    :: p == 3 ->
        told[3] = told[3] & ~(BIT(D) << 4);
        release(3, D)
    fi
}

#define SEARCHES_AGAIN(p) (is[p - 1] == PUBLIC && search[p - 1] == 0 \
    && searches[p - 1] < SEARCHES && !ROUTE(p) && !(p == LOST && slave_knows))

/* A relay whose link was not made in time: once early, else when it cannot be made. */
#define QUIET(p, q) (empty(data[CH(p, q)]) && empty(data[CH(q, p)]) \
    && empty(up[p - 1]) && empty(down[q - 1]))
#define LATE(p, r) (RELAYS(p, r) > 0 && !HAS(bound[p], r) && (early || QUIET(p, AT(r))))

proctype Slave(byte p) {
    byte q, x, y, n;
    byte gone = NONE, off = NONE, dial = NONE;
    bool over, takes, gives_up, freed, wants;
    mtype kind;

end:
    do
    :: atomic {
        if
        :: nempty(down[p - 1]) -> down[p - 1]?kind(x)
        :: p != 1 && nempty(data[CH(1, p)]) && !CUT_OFF(p, 1) -> q = 1
        :: p != 2 && nempty(data[CH(2, p)]) && !CUT_OFF(p, 2) -> q = 2
        :: p != 3 && nempty(data[CH(3, p)]) && !CUT_OFF(p, 3) -> q = 3
#ifndef WAITS_FOR_EVER
        :: LATE(p, D) -> gone = D; early = false
        :: LATE(p, E) -> gone = E; early = false
        :: LATE(p, F1) -> gone = F1; early = false
        :: LATE(p, F2) -> gone = F2; early = false
#endif
#ifdef CUT
        :: HAS(cut, p) -> gives_up = true
#endif
#ifndef PATIENT
        /* The deadline of D's messages passes. */
        :: p == 1 && is[D] == PUBLIC && search[0] != 0 -> over = true
#endif
        :: p == 1 && d_leaves -> d_leaves = false; leave(D)
        :: p == 3 && f_leaves -> f_leaves = false; leave(F1)
#ifdef SLOWLY
        :: p == 1 && is[D] == LEAVING -> off = D
        :: p == 3 && is[F1] == LEAVING -> off = F1
#if NEXT
        :: p == NEXT && is[F2] == LEAVING -> off = F2
#endif
#endif
#if NEXT
        :: p == NEXT && is[F2] == NOT_YET && (p != 3 || is[F1] != PUBLIC) ->
            takes = true
#endif
#if LOST
        :: p == LOST && lost && !slave_knows && empty(down[p - 1]) ->
            slave_knows = true;
            ledger[p] = 0;
#if NEXT == 0
            release(p, F2)
#endif
#endif
        fi;
        d_step {
            if
            :: q != 0 -> data[CH(q, p)]?kind(x); y = x >> 2; x = x & 3; from_peer()
            :: q == 0 && kind != 0 -> y = x >> 2; x = x & 3; from_master()
            :: else
            fi;
#if NEXT
            if
            :: takes -> take_name()
            :: else
            fi;
#endif
#ifdef CUT
            if
            :: gives_up -> give_up()
            :: else
            fi;
#endif
            if
            :: dial != NONE ->
                linked[p] = linked[p] | BIT(AT(dial));
                to_peer(p, AT(dial), ADD_RELAY, p - 1, dial)
            :: else
            fi;
            if
            :: off != NONE -> depart()
            :: else
            fi;
            if
            :: over && search[p - 1] != 0 -> close(p)
            :: else
            fi;
            if
            :: gone != NONE -> bury()
            :: else
            fi;
            wants = freed && SEARCHES_AGAIN(p);
            q = 0; x = 0; y = 0; kind = 0; over = false; takes = false;
            gives_up = false; freed = false; gone = NONE; off = NONE; dial = NONE
        };
        if
        :: wants -> d_step { wants = false; launch(p) }
        :: true -> wants = false
        fi
    }
    od
}

#if LOST
proctype Loss() {
    mtype kind;
    byte x;

    atomic {
        lost = true;
        if
        :: do
            :: nempty(up[LOST - 1]) -> up[LOST - 1]?kind(x)
            :: empty(up[LOST - 1]) -> break
            od
        :: true
        fi;
        if
        :: do
            :: nempty(down[LOST - 1]) -> down[LOST - 1]?kind(x)
            :: empty(down[LOST - 1]) -> break
            od
        :: true
        fi;
        kind = 0;
        x = 0
    }
}
#endif

#ifdef CUT
proctype Cut() {
    mtype kind;
    byte x;

    d_step { HAS(linked[1], 3) ->
        do
        :: nempty(data[CH(1, 3)]) -> data[CH(1, 3)]?kind(x)
        :: nempty(data[CH(3, 1)]) -> data[CH(3, 1)]?kind(x)
        :: empty(data[CH(1, 3)]) && empty(data[CH(3, 1)]) -> break
        od;
        kind = 0;
        x = 0;
        cut = BIT(1) | BIT(3);
        told[1] = told[1] | THIRD << 4;
        told[3] = told[3] | BIT(D) << 4
    }
}
#endif

init {
    atomic {
        is[D] = PUBLIC;
        is[E] = PUBLIC;
        is[F1] = PUBLIC;
        is[F2] = NOT_YET;
        launch(1);
#ifdef TWO
        launch(2);
#endif
        if
        :: d_leaves = true
        :: skip
        fi;
        if
        :: f_leaves = true
        :: skip
        fi;
        run Master();
        run Slave(1);
        run Slave(2);
        run Slave(3);
#if LOST
        if
        :: run Loss()
        :: skip
        fi;
#endif
#ifdef CUT
        run Cut();
#endif
        skip
    }
}

#define OVER(r) (is[r] == GONE)
#define EACH_ID(f) (f(0) && f(1) && f(2) && f(3))

/* Every possible relay, in process p of registration r. */
#define OF_F(f) (f(1, F1) && f(2, F1) && f(1, F2) && f(2, F2))
#if NEXT
#define IN_SLAVES(f) (OF_F(f) && f(3, D) && f(3, E) && f(NEXT, D) && f(NEXT, E))
#define IN_MASTER(f) true
#else
#define IN_SLAVES(f) (OF_F(f) && f(3, D) && f(3, E))
#define IN_MASTER(f) (f(0, D) && f(0, E))
#endif
#define EACH_RELAY(f) (IN_SLAVES(f) && IN_MASTER(f))

/* No task that the relay was made for is in process p. */
#define HERE(p, place, r) (p == place && is[r] != NOT_YET && !OVER(r))
#define ALONE(p, r) (r >= F1 && OVER((p + 3) % 4) || r < F1 && !HERE(p, 3, F1) \
    && !HERE(p, NEXT, F2))

#define SINGLE(p, r) (RELAYS(p, r) <= 1)
#define HAS_AN_END(p, r) (RELAYS(p, r) == 0 || !OVER(r) || !ALONE(p, r))
#define NO_GARBAGE(p, r) (RELAYS(p, r) == 0 || !OVER(r) && !ALONE(p, r))
#define WILL_END(p, r) (!HAS(bound[p] & ~(told[p] | told[p] >> 4), r) || !OVER(r))
#define MASTER_HEARS(p, r) (RELAYS(p, r) == 0 || !OVER(r) \
    || up[r]??[ELIMINATE, r] || BROKEN(r + 1) && !master_knows)

#define TO_FORGET(p) (ledger[p] & ended & ~cancels[p] & ~(ledger[0] & asked[p]))
#define WILL_FORGET(p) (TO_FORGET(p) == 0 || BROKEN(p) && !slave_knows)
#define MASTER_WILL(s) ((ledger[0] & ended & ~cancels[0] & (5 << s)) == 0 \
    || BROKEN(s + 1) && !master_knows)
#define ONCE(id) (answers[id] <= 1)

/* Safety. */

/* OPEN-9, BUS-ROUTE-17: no process gets its own search, nor any search twice. */
ltl no_search_goes_in_a_circle { [] !looped }

/* BUS-RELAY-3, BUS-ROUTE-11. */
ltl one_relay_for_a_registration_and_link { [] EACH_RELAY(SINGLE) }

/* BUS-ROUTE-9, BUS-ROUTE-18. */
ltl a_search_is_answered_once { [] EACH_ID(ONCE) }

/* BUS-ROUTE-10. */
ltl only_the_holder_answers { [] !impostor }

/* BUS-DEREG-7. */
ltl an_elimination_spares_the_newer { [] !wronged }

/* BUS-DEREG-3, BUS-DEREG-10: the ends are its own task and those it was made for. */
ltl no_relay_survives_both_ends { [] EACH_RELAY(HAS_AN_END) }

/* BUS-DEREG-2, BUS-DEREG-4, BUS-ROUTE-12: news is under way, or a deadline runs. */
ltl a_relay_of_who_is_gone_will_end {
    [] (IN_SLAVES(WILL_END) && IN_MASTER(MASTER_HEARS))
}

/* BUS-ROUTE-19, BUS-DEREG-11: if a search is over, news of that is under way. */
ltl no_ledger_keeps_a_ghost {
    [] (MASTER_WILL(0) && MASTER_WILL(1)
        && WILL_FORGET(1) && WILL_FORGET(2) && WILL_FORGET(3))
}

/* Liveness. */

/* BUS-ROUTE-19, BUS-DEREG-11: D's, which has a deadline. */
ltl a_search_with_a_deadline_ends { []<> (search[0] == 0) }

/* BUS-ROUTE-9, BUS-ROUTE-18: E's, which has none, and D's where it is PATIENT. */
#define THERE (is[F1] == PUBLIC && !BROKEN(3) || is[F2] == PUBLIC && !BROKEN(NEXT))
#define WAITS(s) (search[s] != 0 && !BROKEN(s + 1) && THERE)
#ifdef PATIENT
#define D_WAITS WAITS(0)
#else
#define D_WAITS false
#endif
ltl a_search_for_who_is_there_ends { []<> !(D_WAITS || WAITS(1)) }

/* OPEN-3, BUS-MOVE-7. */
ltl a_name_is_left_to_one {
    []<> !(is[F1] == PUBLIC && is[F2] == PUBLIC && !BROKEN(3) && !BROKEN(NEXT))
}

/* BUS-DEREG-3, BUS-DEREG-10. */
ltl garbage_relays_vanish { []<> EACH_RELAY(NO_GARBAGE) }

/* BUS-DEREG-11. */
ltl ledgers_forget_what_is_over {
    []<> (((ledger[0] | ledger[1] | ledger[2] | ledger[3]) & ended) == 0)
}
