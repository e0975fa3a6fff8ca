"""Our sockets beside those of nanomsg and NNG, in every mix.

peer         one socket of any library, as the tests use it
own_peer     one of ours, in the process of the test
worker       the program in which a foreign library runs; `nng_driver` and
             `nanomsg_driver` are its two halves. libnanomsg aborts its process on some
             input, and both libraries keep threads and descriptors
library      starts the program, and stands for its sockets
party        the sockets and addresses of one test
meeting      waits until sockets are connected, by messages that arrive
raw_end      a plain socket that plays a peer byte by byte
"""
