"""Our sockets beside those of nanomsg and NNG, in every mix.

peer         one socket of any library, as the tests use it
own_peer     one of ours, in the process of the test
worker       the program in which a foreign library runs; `nng_driver` and
             `nanomsg_driver` are its two halves. libnanomsg aborts its process on some
             input, and both libraries keep threads and descriptors
library      starts the program, and stands for its sockets
testbed      the sockets and addresses of one test
delivery     waits until messages are delivered, and checks those that arrive

`tests.pattern.raw_end` plays a peer byte by byte.
"""
