"""One message for three recipients: the control blocks, step by step.

Read it beside docs/explanation/control-blocks.md, which shows this output. Here two
bytearrays are the regions of the pool; on a bus they are shared memory.
"""

from collections.abc import Iterator

from bus.features.memory import Excerpt, Mode, Pool, PoolLayout
from bus.features.memory.blocks import END, INDIRECT

LAYOUT = PoolLayout(buffers=6, buffer_bytes=8, icbs=3, users=3)
HEADINGS = "block   dup  used  off  next  last  msg  target  mode   total  gen  data"


def make_pool() -> tuple[Pool, bytearray]:
    """Return an empty pool, and its data region."""
    data = bytearray(LAYOUT.data_bytes)
    return Pool(LAYOUT, bytearray(LAYOUT.control_bytes), data), data


def one_for_three() -> Iterator[tuple[str, str]]:
    """Publish one message to three recipients; each releases it."""
    pool, data = make_pool()
    yield "All blocks are free.", draw(pool, data)

    pool.publish(b"one copy for all of us", [0, 1, 2])
    yield "One message is published to the recipients 0, 1 and 2.", draw(pool, data)

    leases = []
    for recipient in (0, 1, 2):
        message = pool.dequeue(recipient)
        assert message is not None
        leases.append(message.lease)
    pool.release(0, leases[0])
    yield "All have dequeued it, and recipient 0 releases it.", draw(pool, data)

    pool.release(2, leases[2])
    yield "Recipient 2 releases it.", draw(pool, data)

    pool.release(1, leases[1])
    yield "Recipient 1 releases it, the last one.", draw(pool, data)


def a_new_header() -> Iterator[tuple[str, str]]:
    """Publish one message, and a variant of it with another first buffer."""
    pool, data = make_pool()
    pool.publish(b"Dear Ann, soup, bread & a salad.", [0], mode=Mode.BY_BUFFER)
    original = pool.dequeue(0)
    assert original is not None
    pool.publish_variant(0, original.lease, [b"Dear Bob", Excerpt(1), Excerpt(3)], [1])
    yield (
        "Recipient 0 has leased a letter; recipient 1 gets a variant.",
        draw(pool, data),
    )

    pool.release(0, original.lease)
    yield "Recipient 0 releases the original.", draw(pool, data)


def steps() -> list[tuple[str, str]]:
    """Return what happens in each step, and the blocks after it."""
    return [*one_for_three(), *a_new_header()]


# Drawing: all of it is read from the control region.


def draw(pool: Pool, data: bytearray) -> str:
    """Draw the queues, then each block with its fields."""
    free_direct = walk(pool, LAYOUT.free_direct_at, "next_buffer")
    free_indirect = walk(pool, LAYOUT.free_indirect_at, "next_buffer")
    lines = [f"free DCBs   {chain(free_direct)}", f"free ICBs   {chain(free_indirect)}"]
    for user in range(LAYOUT.users):
        queued = walk(pool, LAYOUT.user_queue_at(user), "next_message")
        lines.append(f"queue {user}     {chain(queued)}")
    lines += ["", HEADINGS]
    free = {*free_direct, *free_indirect}
    for index in range(LAYOUT.blocks):
        lines.append(draw_block(pool, data, index, is_free=index in free))
    return "\n".join(line.rstrip() for line in lines)


def walk(pool: Pool, at: int, link: str) -> list[int]:
    """Return the blocks of a queue, from its head to its tail."""
    queue = pool.control.queue(at)
    blocks = []
    index = queue.head
    while index != END:
        blocks.append(index)
        index = getattr(pool.control.block(index), link)
    return blocks


def chain(blocks: list[int]) -> str:
    return " -> ".join(name(index) for index in blocks) or "empty"


def name(index: int) -> str:
    return f"{'DCB' if LAYOUT.is_direct(index) else 'ICB'} {index}"


def draw_block(pool: Pool, data: bytearray, index: int, *, is_free: bool) -> str:
    """Draw one row of the table; of a free block the fields that still count."""
    block = pool.control.block(index).read()
    dup = "all 1" if block.dup == INDIRECT else str(block.dup)
    following = link(block.next_buffer)
    row: tuple[object, ...]
    if is_free:
        row = (dup, "", "", following, "", "", "", "", "", block.generation, "free")
    else:
        indirect = block.dup == INDIRECT
        at = LAYOUT.buffer_at(block.target if indirect else index) + block.data_offset
        text = repr(data[at : at + block.bytes_used].decode())
        row = (
            *(dup, block.bytes_used, block.data_offset, following),
            *(link(block.last_buffer), link(block.next_message)),
            name(block.target) if indirect else "",
            "whole" if block.mode == Mode.WHOLE else "buffer",
            *(block.total_bytes, block.generation),
            f"({text})" if indirect else text,
        )
    widths = (6, 5, 5, 6, 6, 5, 8, 8, 6, 5)
    cells = [f"{cell:>{width}}" for cell, width in zip(row[:-1], widths, strict=True)]
    return f"{name(index)}{''.join(cells)}  {row[-1]}"


def link(index: int) -> str:
    return "end" if index == END else str(index)


def main() -> None:
    for number, (title, drawing) in enumerate(steps(), start=1):
        print(f"{number}. {title}\n\n{drawing}\n")


if __name__ == "__main__":
    main()
