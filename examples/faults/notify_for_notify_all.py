"""The door opens for all waiting threads, but only one of them is woken."""

from threading import Condition, Thread

open_doors: list[str] = []
hall = Condition()


def enter() -> None:
    with hall:
        hall.wait_for(lambda: open_doors)


def program() -> None:
    for name in ("Ann", "Bob"):
        Thread(target=enter, name=name).start()
    with hall:
        open_doors.append("front")
        hall.notify()
