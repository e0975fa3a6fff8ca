/*
 * At most once over restarts: each message is delivered once at most, and has one
 * outcome, although either process restarts, clocks step back and links break.
 *
 * A sender sends MESSAGES messages to a receiver, over one link at a time. BREAKS times
 * a link breaks. The frames of its former link stay readable until the sender has dialled
 * twice more, also by the next life of the receiver: the frames of two links, and of two
 * lives, arrive in any order. Those of one link keep their order. A message that was
 * never sent may expire, EXPIRIES times. With SENDER_ANEW the sender restarts once, in a
 * later epoch; with SET_BACK its clock was set back, so that the epoch which it offers
 * is an earlier one. With RECEIVER_ANEW the receiver restarts until it has had LIVES
 * incarnations, each of which knows nothing. With DURABLE, each knows the horizons that
 * were synced, which lie AHEAD numbers above the messages. The sender then
 * continues its epoch, and sends again all messages that the horizon does not cover, as
 * AMO-20 allows; `bus` itself begins another epoch, and so relies on less.
 *
 * Clauses: AMO-3, AMO-5 to AMO-8, AMO-16, AMO-17, AMO-19, AMO-20, AMO-22, AMO-24 and
 * BUS-MOVE-8. The functions that the steps mirror, in bus/kernel/ and bus/features/durable/:
 *
 *   dial                 link_table.LinkTable.on_dialled
 *   on_welcome           relays.Relays.peer_for, remote_manager.RemoteManager.receive,
 *                        session.Session.attach, session.Session.open
 *   renew                session.Session.renew
 *   doubt                outbound_messages.UndeliveredMessages.lose
 *   expiry               outbound_messages.UndeliveredMessages._expire
 *   acknowledged         outgoing_stream.OutgoingStream.acknowledge
 *   on HELLO             link_table.LinkTable.identify,
 *                        incoming_streams.IncomingStreams.newest_epoch
 *   on OPEN              inbound_messages.InboundMessages.on_link_open,
 *                        incoming_streams.IncomingStreams.open
 *   on MSG               inbound_messages.InboundMessages.on_batch,
 *                        incoming_streams.IncomingStreams.accept
 *   raise                horizons.Horizons.raise_over, horizons.Horizons.covers
 *   sync                 store.HorizonLog.store
 *   RECEIVER_ANEW        store.HorizonLog._load,
 *                        incoming_streams.IncomingStreams._at_horizon
 *
 * Left out: gaps, windows and deadlines of messages on their way (stream.pml); two live
 * processes with one name (AMO-18); a durable sender, whose epochs grow whatever its
 * clock says; a process that gives up another one that lives, and tombstones (AMO-21).
 * WELCOME and the OPEN_STREAM that follows it are one frame. It names the next number
 * also after a restart; `bus` names that in its first acknowledgement. A sender that
 * learns of a greater epoch after its messages were sent reports these as in doubt.
 * `bus` closes the link instead, and the case cannot occur there: it reads no frame of a
 * former link once it has accepted another one.
 *
 * Fairness: the liveness property assumes only that some process takes a step while any
 * can. Restarts, breaks and expiries are bounded, so that every run ends.
 *
 * Planted faults, each by its define:
 *
 *   HORIZON_UNSYNCED     a message is delivered before its horizon is synced
 *   HORIZON_IGNORED      after a restart a stream begins where its sender says
 *   EPOCH_IGNORED        an OPEN_STREAM of an older epoch opens a stream
 *   INCARNATION_IGNORED  a frame for an earlier incarnation is accepted
 *   RESENDS_IN_DOUBT     messages in doubt are sent to the next incarnation
 *   KNOWN_IGNORED        the sender keeps its epoch although the receiver knows a
 *                        greater one
 *   NUMBER_IGNORED       a message below the next number is accepted
 *   ACKS_EARLY           a message is acknowledged before it is delivered
 *   EXPIRES_SENT         a message that was sent expires, and is reported as undelivered
 */

#ifndef MESSAGES
#define MESSAGES 3
#endif
#ifndef BREAKS
#define BREAKS 1
#endif
#ifndef EXPIRIES
#define EXPIRIES 1
#endif
#ifndef LIVES
#define LIVES 2
#endif
#ifndef AHEAD
#define AHEAD 0
#endif
#define ROOM 2

/* Epochs of the sender's first life; of its second, with and without SET_BACK. */
#define FIRST 3
#define EARLIER 1
#define LATER 6

mtype = { HELLO, OPEN, MSG, WELCOME, ACK };

/* The outcome of a message; LEFT if the life that sent it has ended. */
#define UNSENT 0
#define SENT 1
#define ACKNOWLEDGED 2
#define IN_DOUBT 3
#define UNDELIVERED 4
#define LEFT 5

/* By link: the kind, epoch, incarnation and number of a frame, and its message. */
chan to_receiver[2] = [ROOM] of { mtype, byte, byte, byte, byte };
/* On the present link: the kind, the incarnation, the epoch and its next number. */
chan to_sender = [ROOM] of { mtype, byte, byte, byte };
bit present;                    /* the link that was dialled last */
bool up;                        /* the sender has not noticed its end */

byte breaks = BREAKS;
byte expiries = EXPIRIES;

/* The sender. */
byte outcome[MESSAGES + 1];     /* by message, from 1 */
byte number[MESSAGES + 1];      /* in its epoch; 0 for none */
byte epochs = FIRST;            /* the next one of this life */
byte epoch;                     /* 0 before the first link */
byte next_to_send = 1;
byte peer;                      /* the incarnation of the receiver; 0 if unknown */
bool ready;                     /* the stream is open on the present link */
byte cursor;                    /* the next message to consider for this link */
bool anew;

/* The receiver. */
byte incarnation = 1;
byte known;                     /* the newest epoch of the sender; 0 for none */
byte next_number;
bool opened;                    /* by this incarnation */
byte accepted;                  /* a message that is not delivered yet; 0 for none */
byte accepted_number;
bit accepted_link;
byte raised_epoch, raised_number;   /* the horizon in memory */
byte synced_epoch, synced_number;   /* the horizon on stable storage */

/* Variables for the properties; no step reads them. */
bool delivered[MESSAGES + 1];
bool told[MESSAGES + 1];
bool twice;
bool told_twice;
bool told_wrongly;
bool unfounded;
bool uncovered;

#define COVERS(at, upto, n) ((at) > known || (at) == known && (n) <= (upto))
#define IS_COVERED COVERS(synced_epoch, synced_number, accepted_number)
#define OPEN_MESSAGE(m) (outcome[m] == UNSENT || outcome[m] == SENT)
#define SETTLED (!OPEN_MESSAGE(1) && !OPEN_MESSAGE(2) && !OPEN_MESSAGE(MESSAGES))

inline lose_link() {
    up = false;
    ready = false;
    cursor = 0;
    do
    :: nempty(to_sender) -> to_sender?_, _, _, _
    :: empty(to_sender) -> break
    od
}

inline drain(l) {
    do
    :: nempty(to_receiver[l]) -> to_receiver[l]?_, _, _, _, _
    :: empty(to_receiver[l]) -> break
    od
}

/* Inform the sender's task of an outcome. */
inline tell(m, result) {
    told_twice = told_twice || told[m];
    told_wrongly = told_wrongly || (result == UNDELIVERED && delivered[m]);
    unfounded = unfounded || (result == ACKNOWLEDGED && !delivered[m]);
    told[m] = true;
    outcome[m] = result
}

inline acknowledged(next, result) {
    m = 1;
    do
    :: m <= MESSAGES ->
        if
        :: outcome[m] == SENT && number[m] != 0 && number[m] < next -> tell(m, result)
        :: else
        fi;
        m++
    :: else -> break
    od;
    m = 0
}

inline doubt() {
    m = 1;
    do
    :: m <= MESSAGES ->
        if
        :: outcome[m] == SENT ->
            tell(m, IN_DOUBT);
#ifdef RESENDS_IN_DOUBT
            outcome[m] = SENT;
#endif
            number[m] = 0
        :: else
        fi;
        m++
    :: else -> break
    od;
    m = 0
}

inline begin(new) {
    epoch = new;
    next_to_send = 1
}

inline find_floor() {
    floor = next_to_send;
    m = 1;
    do
    :: m <= MESSAGES ->
        if
        :: outcome[m] == SENT && number[m] != 0 && number[m] < floor ->
            floor = number[m]
        :: else
        fi;
        m++
    :: else -> break
    od;
    m = 0
}

inline on_welcome() {
    if
    :: peer == 0 -> begin(epochs); epochs++
#ifndef DURABLE
    :: peer != 0 && peer != inc -> doubt(); begin(epochs); epochs++
    :: peer == inc
#else
    :: peer != 0
#endif
    fi;
    if
#ifndef KNOWN_IGNORED
    :: e > epoch -> doubt(); begin(e + 1); peer = inc; lose_link()
    :: e <= epoch ->
#else
    :: true ->
#endif
        if
        :: e == epoch && peer == inc -> acknowledged(n, ACKNOWLEDGED)
        :: e == epoch && peer != inc ->
            acknowledged(n, IN_DOUBT);  /* below the horizon */
            next_to_send = (n > next_to_send -> n : next_to_send)
        :: else
        fi;
        peer = inc;
        find_floor();
        to_receiver[present]!OPEN, epoch, peer, floor, 0;
        floor = 0;
        ready = true;
        cursor = 1
    fi
}

#ifdef EXPIRES_SENT
#define EXPIRES(m) OPEN_MESSAGE(m)
#else
#define EXPIRES(m) (outcome[m] == UNSENT)
#endif

proctype Sender() {
    byte e, inc, n, m, floor;
    mtype kind;

    do
    /* dial */
    :: atomic { !up && !SETTLED ->
        present = 1 - present;
        drain(present);
        to_receiver[present]!HELLO, 0, 0, 0, 0;
        up = true
    }
    :: atomic { up && nempty(to_sender) ->
        to_sender?kind, inc, e, n;
        if
        :: kind == WELCOME -> on_welcome()
        :: kind == ACK && inc == peer && e == epoch -> acknowledged(n, ACKNOWLEDGED)
        :: else
        fi;
        kind = 0;
        inc = 0;
        e = 0;
        n = 0
    }
    /* The next message, for the first time or again. */
    :: atomic { ready && cursor <= MESSAGES && nfull(to_receiver[present]) ->
        if
        :: outcome[cursor] == UNSENT || outcome[cursor] == SENT ->
            if
            :: number[cursor] == 0 ->
                number[cursor] = next_to_send;
                next_to_send++;
                outcome[cursor] = SENT
            :: else
            fi;
            to_receiver[present]!MSG, epoch, peer, number[cursor], cursor
        :: else
        fi;
        cursor++
    }
    :: atomic { up && breaks > 0 -> breaks--; lose_link() }
    /* expiry */
    :: atomic { expiries > 0 && EXPIRES(1) -> expiries--; tell(1, UNDELIVERED) }
    :: atomic { expiries > 0 && EXPIRES(2) -> expiries--; tell(2, UNDELIVERED) }
#ifdef SENDER_ANEW
    :: atomic { !anew && next_to_send > 1 ->
        anew = true;
        m = 1;
        do
        :: m <= MESSAGES ->
            if
            :: outcome[m] == SENT -> outcome[m] = LEFT
            :: else
            fi;
            m++
        :: else -> break
        od;
        m = 0;
#ifdef SET_BACK
        epochs = EARLIER;
#else
        epochs = LATER;
#endif
        epoch = 0;
        peer = 0;
        next_to_send = 1;
        lose_link()
    }
#endif
    od
}

inline close_link(l) {
    drain(l);
    if
    :: l == present && up -> lose_link()
    :: else
    fi
}

inline acknowledge(l) {
    if
    :: l == present && up && len(to_sender) < ROOM ->
        to_sender!ACK, incarnation, known, next_number
    :: else
    fi
}

inline raise() {
#ifdef DURABLE
    if
    :: !COVERS(raised_epoch, raised_number, n) ->
        raised_epoch = known;
        raised_number = n + AHEAD
    :: else
    fi
#else
    skip
#endif
}

inline on_open() {
    if
#ifndef INCARNATION_IGNORED
    :: inc != incarnation -> close_link(l)
    :: inc == incarnation ->
#else
    :: true ->
#endif
        if
#ifdef EPOCH_IGNORED
        :: e != known ->
#else
        :: e < known -> close_link(l)
        :: e > known ->
#endif
            known = e;
            next_number = n;
            opened = true
        :: e == known ->
            opened = true
        fi
    fi
}

inline on_message() {
    if
#ifdef INCARNATION_IGNORED
    :: !opened || e != known -> close_link(l)
    :: opened && e == known ->
#else
    :: !opened || e != known || inc != incarnation -> close_link(l)
    :: opened && e == known && inc == incarnation ->
#endif
        if
#ifdef NUMBER_IGNORED
        :: true ->
#else
        :: n < next_number -> acknowledge(l)
        :: n >= next_number ->
#endif
            raise();
            accepted = m;
            accepted_number = n;
            accepted_link = l;
            next_number = n + 1;
#ifdef ACKS_EARLY
            acknowledge(l)
#endif
        fi
    fi
}

#ifdef DURABLE
#ifdef HORIZON_UNSYNCED
#define MAY_DELIVER true
#else
#define MAY_DELIVER IS_COVERED
#endif
#else
#define MAY_DELIVER true
#endif

#define ARRIVED (nempty(to_receiver[0]) || nempty(to_receiver[1]))

proctype Receiver() {
    byte e, inc, n, m;
    bit l;
    mtype kind;

end:
    do
    :: atomic { accepted == 0 && nfull(to_sender) && ARRIVED ->
        if
        :: nempty(to_receiver[0]) -> l = 0
        :: nempty(to_receiver[1]) -> l = 1
        fi;
        to_receiver[l]?kind, e, inc, n, m;
        if
        :: kind == HELLO ->
            if
            :: l == present && up -> to_sender!WELCOME, incarnation, known, next_number
            :: else
            fi
        :: kind == OPEN -> on_open()
        :: kind == MSG -> on_message()
        fi;
        l = 0;
        kind = 0;
        e = 0;
        inc = 0;
        n = 0;
        m = 0
    }
    :: atomic { accepted != 0 && MAY_DELIVER ->
        twice = twice || delivered[accepted];
        told_wrongly = told_wrongly || outcome[accepted] == UNDELIVERED;
#ifdef DURABLE
        uncovered = uncovered || !IS_COVERED;
#endif
        delivered[accepted] = true;
#ifndef ACKS_EARLY
        acknowledge(accepted_link);
#endif
        accepted = 0;
        accepted_number = 0;
        accepted_link = 0
    }
#ifdef DURABLE
    /* sync */
    :: atomic { raised_epoch != synced_epoch || raised_number != synced_number ->
        synced_epoch = raised_epoch;
        synced_number = raised_number
    }
#endif
#ifdef RECEIVER_ANEW
    :: atomic { incarnation < LIVES && opened ->
        incarnation++;
        opened = false;
        accepted = 0;
        accepted_number = 0;
        accepted_link = 0;
        raised_epoch = synced_epoch;
        raised_number = synced_number;
#ifdef HORIZON_IGNORED
        known = 0;
#else
        known = synced_epoch;
#endif
        next_number = (known > 0 -> synced_number + 1 : 0);
        lose_link()
    }
#endif
    od
}

init {
    atomic { run Sender(); run Receiver() }
}

/* Safety. */

/* AMO-8, AMO-16, AMO-19, AMO-20: by either life of the receiver. */
ltl nothing_is_delivered_twice { [] !twice }

/* AMO-23, BUS-MOVE-8: neither before nor after the report. */
ltl undelivered_messages_stay_undelivered { [] !told_wrongly }

/* AMO-20, AMO-24. */
ltl acknowledged_messages_were_delivered { [] !unfounded }

/* AMO-19, BUS-MOVE-8. */
ltl each_message_has_one_outcome { [] !told_twice }

/* AMO-20. */
ltl a_synced_horizon_covers_each_delivery { [] !uncovered }

/* Liveness. */

/* AMO-17, AMO-19: acknowledged, in doubt, undelivered, or its sender has restarted. */
ltl every_message_has_an_outcome { <> SETTLED }
