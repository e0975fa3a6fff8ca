"""A woken thread does not check again, though another may have taken the bread."""

from threading import Condition, Thread


def buy(bread: list[str], shop: Condition) -> None:
    with shop:
        if not bread:
            shop.wait()
        bread.pop()


def program() -> None:
    bread, shop = list[str](), Condition()
    for name in ("Ann", "Bob"):
        Thread(target=buy, name=name, args=(bread, shop)).start()
    for loaf in ("white", "brown"):
        with shop:
            bread.append(loaf)
            shop.notify()
