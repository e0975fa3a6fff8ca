/*
 * Two masters that find each other end with one link, also if both dial.
 *
 * Master 0 is the lower one. Each discovers the other at any moment. The lower one then
 * dials; the higher one dials at any later moment, since its waiting time may pass.
 * With ONE_WAY the lower one receives no announcement, because a firewall drops them in
 * one direction. A master dials at most DIALS times, and only without a link. It dials
 * again only when no frame is in transit, since its delay is longer than any transit.
 * Link l is dialled by master l % 2. Each direction of a link keeps its
 * order; there is no order between links. With CUT, one link breaks for good at any
 * moment, with the frames on it.
 *
 * A step is the reaction of one master to one event. The functions that the steps
 * mirror, in bus/kernel/:
 *
 *   discovers            machine_dialler.MachineDialler.on_machine_found
 *   dials                machine_dialler.MachineDialler.dial
 *   on HELLO             link_table.LinkTable.on_hello, link_table.LinkTable.identify
 *   on WELCOME           link_table.LinkTable.identify
 *   BEATS                link.Link.beats
 *   on REFUSED           link_table.LinkTable.on_refused
 *   on END               link_table.LinkTable.on_link_lost
 *
 * Left out: restarts of a master, and so incarnations; links that do not open in time,
 * which end like broken ones.
 *
 * Fairness: the liveness properties assume only that some master takes a step while any
 * can; every run of these masters ends.
 *
 * Planted faults, each by its define:
 *
 *   KEEPS_OWN            each master keeps the link that it has dialled itself
 *   KEEPS_BOTH           a master keeps the former link, too
 *   HIGHER_WAITS         the higher master never dials
 *   NOT_PROBED           a master does not notice that a link is lost
 *   NOT_AGAIN            a lost link is not dialled again
 */

#ifndef DIALS
#define DIALS 3
#endif
#define LINKS (2 * DIALS)
#define NONE LINKS
#define ROOM 3

#define OWN(l) ((l) % 2 == me)
#define ON(l, m) ((l) * 2 + (m))

mtype = { HELLO, WELCOME, REFUSED, END };
mtype = { UNUSED, DIALLED, OPEN, CLOSED };  /* the state of one end of a link */

chan wire[2 * LINKS] = [ROOM] of { mtype }; /* by link and receiver */
mtype end_[2 * LINKS];                      /* by link and master */
byte used[2] = NONE;                        /* the link that each uses */
byte dials[2];
bool knows[2];
bool met, broken;                           /* for the properties alone */
bool waits[2];                              /* it has dialled, and has no answer yet */
#ifdef CUT
bool cut = true;                            /* one link may still break */
#else
bool cut = false;
#endif

/* Link l is kept, and the one in use is closed. */
#ifdef KEEPS_OWN
#define BEATS(l) (OWN(l))
#else
#define BEATS(l) ((l) % 2 != used[me] % 2 -> (l) % 2 == 0 : (l) >= used[me])
#endif

#define QUIET (len(wire[0]) + len(wire[1]) + len(wire[2]) + len(wire[3]) \
    + len(wire[4]) + len(wire[5]) + len(wire[6]) + len(wire[7]) \
    + len(wire[8]) + len(wire[9]) + len(wire[10]) + len(wire[11]) == 0)

inline hang_up(l) {
    end_[ON(l, me)] = CLOSED;
    wire[ON(l, 1 - me)]!END
}

inline use(l) {
    met = true;
    end_[ON(l, me)] = OPEN;
    used[me] = l
}

#ifdef NOT_AGAIN
#define MAY_DIAL (dials[me] == 0)
#else
#define MAY_DIAL (dials[me] == 0 || dials[me] < DIALS && QUIET)
#endif
#ifdef ONE_WAY
#define DISCOVERS (me == 1)
#else
#define DISCOVERS true
#endif
#ifdef HIGHER_WAITS
#define IS_DUE (me == 0)
#else
#define IS_DUE true
#endif

proctype Master(bit me) {
    byte l;
    mtype frame;

end:
    do
    :: atomic { !knows[me] && DISCOVERS -> knows[me] = true }
    :: atomic { knows[me] && IS_DUE && used[me] == NONE && !waits[me] && MAY_DIAL ->
        l = 2 * dials[me] + me;
        dials[me]++;
        waits[me] = true;
        end_[ON(l, me)] = DIALLED;
        wire[ON(l, 1 - me)]!HELLO;
        l = 0
    }
    :: atomic {
        if
        :: nempty(wire[ON(0, me)]) -> l = 0
        :: nempty(wire[ON(1, me)]) -> l = 1
        :: nempty(wire[ON(2, me)]) -> l = 2
        :: nempty(wire[ON(3, me)]) -> l = 3
        :: nempty(wire[ON(4, me)]) -> l = 4
        :: nempty(wire[ON(5, me)]) -> l = 5
        fi;
        wire[ON(l, me)]?frame;
        if
        :: end_[ON(l, me)] == CLOSED  /* hung up: dropped */
        :: else ->
            if
            :: OWN(l) -> waits[me] = false
            :: else
            fi;
            if
            :: frame == HELLO ->
                if
                :: used[me] != NONE ->
                    end_[ON(l, me)] = CLOSED;
                    wire[ON(l, 1 - me)]!REFUSED
                :: else ->
                    use(l);
                    wire[ON(l, 1 - me)]!WELCOME
                fi
            :: frame == WELCOME ->
                if
                :: used[me] == NONE -> use(l)
                :: used[me] != NONE && BEATS(l) ->
#ifndef KEEPS_BOTH
                    hang_up(used[me]);
#endif
                    use(l)
                :: used[me] != NONE && !BEATS(l) ->
#ifdef KEEPS_BOTH
                    end_[ON(l, me)] = OPEN
#else
                    hang_up(l)
#endif
                fi
            :: frame == REFUSED -> end_[ON(l, me)] = CLOSED
            :: frame == END ->
                end_[ON(l, me)] = CLOSED;
                if
                :: used[me] == l -> used[me] = NONE
                :: else
                fi
            fi
        fi;
        l = 0;
        frame = 0
    }
    od
}

inline lose(k) {
    do
    :: nempty(wire[ON(k, 0)]) -> wire[ON(k, 0)]?frame
    :: nempty(wire[ON(k, 1)]) -> wire[ON(k, 1)]?frame
    :: empty(wire[ON(k, 0)]) && empty(wire[ON(k, 1)]) -> break
    od;
    if
    :: end_[ON(k, 0)] != CLOSED -> wire[ON(k, 0)]!END
    :: else
    fi;
#ifndef NOT_PROBED
    if
    :: end_[ON(k, 1)] != CLOSED -> wire[ON(k, 1)]!END
    :: else
    fi
#endif
}

/* A link breaks once: one that some master has dialled. */
proctype Network() {
    byte k;
    mtype frame;

end:
    do
    :: atomic { cut && dials[0] > 0 -> cut = false; broken = true; k = 0; lose(k); frame = 0 }
    :: atomic { cut && dials[1] > 0 -> cut = false; broken = true; k = 1; lose(k); frame = 0 }
    od
}

init {
    byte k;
    atomic {
        do
        :: k < 2 * LINKS -> end_[k] = UNUSED; k++
        :: else -> break
        od;
        k = 0;
        run Master(0);
        run Master(1);
        run Network()
    }
}

#define IS_OPEN(l, m) (end_[ON(l, m)] == OPEN)
#define OPEN_AT(m) (IS_OPEN(0, m) + IS_OPEN(1, m) + IS_OPEN(2, m) \
    + IS_OPEN(3, m) + IS_OPEN(4, m) + IS_OPEN(5, m))

/* Safety. */

/* BUS-DISC-10, OPEN-20. */
ltl both_use_the_same_link { [] (QUIET -> used[0] == used[1]) }

/* BUS-DISC-10. */
ltl one_link_is_open { [] (QUIET -> OPEN_AT(0) <= 1 && OPEN_AT(1) <= 1) }

/* OPEN-20: of two links, both masters close the same one. */
ltl one_of_two_links_stays { [] (QUIET && met && !broken -> used[0] != NONE) }

/* Liveness. */

/* BUS-DISC-10: also if only one side discovers the other, and if a link breaks. */
ltl they_have_a_link_in_the_end { <> [] (used[0] != NONE && used[0] == used[1]) }
