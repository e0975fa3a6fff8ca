"""Two philosophers, two forks: each takes first the fork on the left."""

from threading import Lock, Thread

left_fork = Lock()
right_fork = Lock()


def eat(first: Lock, second: Lock) -> None:
    with first, second:
        pass


def program() -> None:
    Thread(target=eat, name="Plato", args=(left_fork, right_fork)).start()
    Thread(target=eat, name="Zeno", args=(right_fork, left_fork)).start()
