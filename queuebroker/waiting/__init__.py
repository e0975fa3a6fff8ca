"""How a caller waits, with or without a socket.

parking            wait lists, and the one loop by which callers wait
shared_parker      a parker that several wakers may release at once
readiness          a descriptor that is readable while a receive need not wait
adaptive_spin      the choice to spin or to sleep at once before a socket wait
"""
