"""The helpers that several folders of tests share; each file holds one noun.

buses         processes of one bus, in memory or over sockets; to test their cooperation
comm_threads  the comm thread of a process; to hold it, or to wait for its turn
tasks         a task that records or blocks, and plain callbacks; to receive messages
serving       the calling thread as one of a bus; to let its callbacks run and wait
inspection    the visible state of a bus; to check tasks, and that counters balance
journals      the journal of a bus in words; to compare its steps, and check its rules
systems       marks for tests of parts that only some systems have
station       an exchange, threads and clerks without the API; to test them alone
messages      a message, or commands that arrived together; to give one to a component
clock         a monotonic clock that the test sets; to let time pass without waiting
identities    the identity of a process; for a peer, or for the process under test
constants     constants of the bus, and settings with them; to shorten a time or a bound
discovery     settings, announcements and a free port; to test how machines are found
site          two machines on one host, with keys and TLS; to test their links
raw_peer      a plain socket connected to a process; to send bytes that break the rules
self_connect  a free port whose dialler connects to itself; to test that it is refused
stepped_loop  an event loop that runs one callback a step; to put events between them
cancels       a cancel before every step of a call; to test calls of `aio`
collector     a garbage collection in the middle of a call, to test finalizers there;
              or none at all, where a million objects are created
work          the bytecodes that a call executes; to test that its cost does not grow

All of them build on `tests.support`: threads that report, ordered steps, waiting. A
helper that only one folder uses stays in that folder.
"""
