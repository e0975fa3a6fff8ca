"""A cash machine checks, then pays: each step holds the lock, but not both together."""

from threading import Lock, Thread

account, lock = {"balance": 100}, Lock()


def withdraw(amount: int) -> None:
    with lock:
        enough = account["balance"] >= amount
    if enough:
        with lock:
            account["balance"] -= amount
    assert account["balance"] >= 0, account


def program() -> None:
    Thread(target=withdraw, name="Ann", args=(70,)).start()
    Thread(target=withdraw, name="Bob", args=(70,)).start()
