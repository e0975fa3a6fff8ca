"""A reader looks and sleeps in two steps; it misses a notify between the two."""

from threading import Condition, Thread

letters, box = list[str](), Condition()


def read() -> None:
    with box:
        empty = not letters
    if empty:
        with box:
            box.wait()


def program() -> None:
    Thread(target=read, name="reader").start()
    with box:
        letters.append("hello")
        box.notify()
