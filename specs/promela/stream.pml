/*
 * A stream between two processes: each message is handed over once at most, in order,
 * even if the link loses, doubles or reorders frames, and either process restarts.
 *
 * A sender numbers MESSAGES messages and sends them over a link that holds LINK frames
 * and delivers them in any order. LOSSES of them, or of the acknowledgements, are lost,
 * DOUBLES are doubled. The sender abandons EXPIRIES messages before they are
 * acknowledged. With SENDER_ANEW the sender may restart, once, in a new epoch that
 * numbers from 1 again; with RECEIVER_ANEW the receiver may, as a new incarnation that
 * knows nothing. The functions that the steps mirror, in bus/kernel/:
 *
 *   send, LOST           outgoing_stream.OutgoingStream.send; for re-sending,
 *                        outgoing_stream.OutgoingStream.outstanding
 *   acknowledged         outgoing_stream.OutgoingStream.acknowledge
 *   raise_floor          outgoing_stream.OutgoingStream._keep_only; for abandoning,
 *                        outgoing_stream.OutgoingStream.abandon
 *   Sender, if not OPEN  incoming_streams.IncomingStreams.open
 *   Receiver             incoming_streams.IncomingStreams.accept, and ._refusal
 *   take, give_up_below  incoming_stream.IncomingStream.accept, and ._is_new
 *   release              incoming_stream.IncomingStream._take_in_order
 *
 * Left out: windows in the receiver, against a faulty sender (AMO-14); the end of the
 * numbers; tombstones of closed streams; several links at a time, which are equivalent
 * to one that reorders.
 *
 * Every run ends: a frame is sent again only if neither a frame with its number nor an
 * acknowledgement is on its way, which only a loss can cause.
 *
 * Frames for an earlier incarnation are refused (AMO-19), and no fault is planted in
 * that: a new stream begins above all numbers ever sent, so these frames would be
 * refused as old here, too. A frame could slip in only if opening took several steps.
 *
 * Planted faults, each by its define:
 *
 *   HOLDS_ON             messages that waited for a gap stay held when it is filled
 *   KEEPS_MISSING        a number that arrived late stays missing
 *   OVERTAKES            a message above a gap is handed over with the gap open
 *   EPOCH_IGNORED        a frame of an older epoch is accepted
 *   RESENDS_IN_DOUBT     messages that the old incarnation may have had are sent to the
 *                        new one
 *   WINDOW_OFF_BY_ONE    the sender assigns one number more than the window allows
 *   FLOOR_IGNORED        the receiver does not abandon the numbers that the sender has
 *                        abandoned
 *   SILENT_TO_DOUBLES    a message that was received before is not acknowledged again
 */

#ifndef MESSAGES
#define MESSAGES 3
#endif
#ifndef LINK
#define LINK 2
#endif
#ifndef LOSSES
#define LOSSES 1
#endif
#ifndef DOUBLES
#define DOUBLES 1
#endif
#ifndef EXPIRIES
#define EXPIRIES 1
#endif
#define WINDOW 2
#ifdef WINDOW_OFF_BY_ONE
#define MOST (WINDOW + 1)
#else
#define MOST WINDOW
#endif
#define LAST (MESSAGES + 1)

#define BIT(n) (1 << (n))
#define HAS(set, n) ((set) & BIT(n))

/* The link: frames in flight, and at most one acknowledgement. */
bool frame[LINK];
byte frame_epoch[LINK];
byte frame_incarnation[LINK];
byte frame_number[LINK];
byte frame_floor[LINK];
bool answer;
byte answer_incarnation;
byte answer_epoch;
byte answer_next;
byte answer_missing;

byte losses = LOSSES;
byte doubles = DOUBLES;
byte expiries = EXPIRIES;

/* The sender. */
byte epoch = 1;
byte next_to_send = 1;
byte floor = 1;
byte outstanding;               /* a set of numbers */
byte known_incarnation;         /* of the receiver; 0 before the stream is open */

/* The receiver, of one epoch. */
byte incarnation = 1;
byte open_epoch;                /* 0 before it is open */
byte first;
byte next_number;
byte missing;                   /* sets of numbers */
byte held;
byte given_up;
byte accepted;                  /* how many, of this epoch */

#define OPEN (known_incarnation == incarnation && open_epoch == epoch)

/* Variables for the properties; no step reads them. */
byte taken[3];                  /* by epoch: the accepted numbers */
byte heard_floor;               /* the highest that a frame of this stream carried */
bool busy;                      /* in the middle of a step */
bool twice;
bool disordered;
byte highest;                   /* handed over in this epoch, by this incarnation */
bool anew_sender, anew_receiver;

inline clear(k) {
    frame[k] = false;
    frame_epoch[k] = 0;
    frame_incarnation[k] = 0;
    frame_number[k] = 0;
    frame_floor[k] = 0
}

inline raise_floor() {
    do
    :: floor < next_to_send && !HAS(outstanding, floor) -> floor++
    :: else -> break
    od
}

inline acknowledged(has_next, has_missing) {
    n = floor;
    do
    :: n < has_next ->
        if
        :: !HAS(has_missing, n) -> outstanding = outstanding & ~BIT(n)
        :: else
        fi;
        n++
    :: else -> break
    od;
    n = 0;
    raise_floor()
}

#define IN(k, n) (frame[k] && frame_number[k] == n && frame_epoch[k] == epoch \
    && frame_incarnation[k] == known_incarnation)
#define ROOM (!frame[0] || !frame[LINK - 1])
/* Outstanding, with no frame and no acknowledgement under way for it. */
#define LOST(n) (HAS(outstanding, n) && !answer && !IN(0, n) && !IN(LINK - 1, n))

inline send(number) {
    k = (frame[0] -> LINK - 1 : 0);
    frame[k] = true;
    frame_epoch[k] = epoch;
    frame_incarnation[k] = known_incarnation;
    frame_number[k] = number;
    frame_floor[k] = floor;
    k = 0
}

proctype Sender() {
    byte k, n;

    do
    /* IncomingStreams.open, and the sender's reaction to the answer. */
    :: atomic { (!OPEN) ->
        busy = true;
        if
        :: known_incarnation != incarnation && known_incarnation != 0 ->
#ifndef RESENDS_IN_DOUBT
            outstanding = 0;    /* in doubt: abandoned, and its sender informed */
#endif
            raise_floor()
        :: else
        fi;
        known_incarnation = incarnation;
        if
        :: open_epoch != epoch ->
            open_epoch = epoch;
            first = floor;
            next_number = floor;
            missing = 0;
            held = 0;
            given_up = 0;
            accepted = 0;
            highest = 0;
            heard_floor = 0
        :: else -> acknowledged(next_number, missing)
        fi;
        busy = false
    }
    /* A new message. */
    :: atomic { (next_to_send < LAST && next_to_send - floor < MOST && OPEN && ROOM) ->
        outstanding = outstanding | BIT(next_to_send);
        send(next_to_send);
        next_to_send++
    }
    /* A lost message is sent again. */
    :: atomic { (OPEN && ROOM && LOST(1)) -> send(1) }
    :: atomic { (OPEN && ROOM && LOST(2)) -> send(2) }
    :: atomic { (OPEN && ROOM && LOST(3)) -> send(3) }
    /* An acknowledgement, or its loss. */
    :: atomic { answer ->
        if
        :: answer_incarnation == known_incarnation && answer_epoch == epoch ->
            acknowledged(answer_next, answer_missing)
        :: else
        fi;
        answer = false
    }
    :: atomic { answer && losses > 0 -> answer = false; losses-- }
    /* The sender abandons a message. */
    :: atomic { expiries > 0 && outstanding != 0 ->
        expiries--;
        n = floor;
        do
        :: !HAS(outstanding, n) -> n++
        :: HAS(outstanding, n) -> break
        od;
        outstanding = outstanding & ~BIT(n);
        n = 0;
        raise_floor()
    }
#ifdef SENDER_ANEW
    :: atomic { !anew_sender && next_to_send > 1 ->
        anew_sender = true;
        epoch++;
        next_to_send = 1;
        floor = 1;
        outstanding = 0;
        known_incarnation = 0
    }
#endif
    :: atomic { (next_to_send == LAST && outstanding == 0 && !answer && OPEN) -> break }
    od
}

inline hand_over(number) {
    disordered = disordered || number < highest;
    highest = number
}

inline release() {
    n = first;
    do
    :: n < next_number && !HAS(missing, n) ->
        if
        :: HAS(held, n) ->
            held = held & ~BIT(n);
            hand_over(n)
        :: else
        fi;
        n++
    :: else -> break
    od;
    n = 0
}

inline give_up_below(limit) {
#ifndef FLOOR_IGNORED
    n = first;
    do
    :: n < limit && n < next_number ->
        if
        :: HAS(missing, n) -> missing = missing & ~BIT(n); given_up++
        :: else
        fi;
        n++
    :: n < limit && n >= next_number -> given_up++; next_number++; n++
    :: else -> break
    od;
    n = 0
#else
    skip
#endif
}

inline take(sent_in, number, limit) {
    fresh = false;
    heard_floor = (limit > heard_floor -> limit : heard_floor);
    give_up_below(limit);
    if
    :: number < next_number && HAS(missing, number) ->
        fresh = true;
#ifndef KEEPS_MISSING
        missing = missing & ~BIT(number)
#endif
    :: number < next_number && !HAS(missing, number)
    :: number >= next_number ->
        fresh = true;
        do
        :: next_number < number -> missing = missing | BIT(next_number); next_number++
        :: else -> break
        od;
        next_number++
    fi;
    if
    :: fresh ->
        accepted++;
        twice = twice || HAS(taken[sent_in], number);
        taken[sent_in] = taken[sent_in] | BIT(number);
#ifdef OVERTAKES
        hand_over(number)
#else
        held = held | BIT(number)
#endif
    :: else
    fi;
#ifdef HOLDS_ON
    if
    :: number + 1 == next_number -> release()
    :: else
    fi
#else
    release()
#endif
}

inline acknowledge() {
    answer = true;
    answer_incarnation = incarnation;
    answer_epoch = open_epoch;
    answer_next = next_number;
    answer_missing = missing
}

proctype Receiver() {
    byte k, n;
    bool fresh;

end:
    do
    :: atomic {
        if
        :: frame[0] -> k = 0
        :: frame[LINK - 1] -> k = LINK - 1
        fi;
        busy = true;
        if
        :: losses > 0 -> losses--; clear(k)
        :: true ->
            if
#ifdef EPOCH_IGNORED
            :: frame_epoch[k] <= open_epoch && frame_incarnation[k] == incarnation ->
#else
            :: frame_epoch[k] == open_epoch && frame_incarnation[k] == incarnation ->
#endif
                take(frame_epoch[k], frame_number[k], frame_floor[k]);
#ifdef SILENT_TO_DOUBLES
                if
                :: fresh -> acknowledge()
                :: else
                fi
#else
                acknowledge()
#endif
            :: else
            fi;
            fresh = false;
            if
            :: doubles > 0 -> doubles--
            :: true -> clear(k)
            fi
        fi;
        k = 0;
        busy = false
    }
#ifdef RECEIVER_ANEW
    :: atomic { !anew_receiver && open_epoch != 0 ->
        busy = true;
        anew_receiver = true;
        incarnation++;
        open_epoch = 0;
        missing = 0;
        held = 0;
        given_up = 0;
        accepted = 0;
        next_number = 0;
        first = 0;
        highest = 0;
        heard_floor = 0;
        busy = false
    }
#endif
    od
}

init {
    atomic { run Sender(); run Receiver() }
}

#define COUNT(set) ((HAS(set, 1) != 0) + (HAS(set, 2) != 0) + (HAS(set, 3) != 0))
#define SETTLED (next_to_send == LAST && outstanding == 0)

/* Safety. */

/* AMO-3, AMO-4, AMO-8, AMO-16, AMO-19: in one life of the receiver or in two. */
ltl nothing_is_accepted_twice { [] !twice }

/* AMO-10. */
ltl handed_over_in_order { [] !disordered }

/* AMO-9. */
ltl each_number_is_one_of_three {
    [] (busy || open_epoch == 0
        || accepted + COUNT(missing) + given_up == next_number - first)
}

/* AMO-13. */
ltl no_more_is_outstanding_than_the_window { [] (next_to_send - floor <= WINDOW) }

/* AMO-12. */
ltl nothing_is_missing_below_the_floor {
    [] (busy || (missing & (BIT(heard_floor) - 1)) == 0)
}

/* AMO-10. */
ltl nothing_is_held_without_a_gap { [] (busy || held == 0 || missing != 0) }

/* Liveness. */

/* AMO-23, AMO-24: each message is acknowledged or abandoned. */
ltl every_message_is_settled { <> SETTLED }
