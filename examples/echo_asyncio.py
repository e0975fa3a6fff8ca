"""Echo: a server of coroutines; a coroutine and a thread are its clients."""

import asyncio

from queuebroker import QueueBroker, Task, aio

PORT = 7


async def serve(server: aio.QueueBroker) -> None:
    """Accept clients until the broker is closed; serve each in a task."""
    async with asyncio.TaskGroup() as group:
        async for queue in server.accept_iter(PORT):
            group.create_task(echo(queue))


async def echo(queue: aio.MessageQueue) -> None:
    """Send each message back, until the client disconnects."""
    async with queue:
        async for message in queue:
            await queue.send(message)


async def talk(client: aio.QueueBroker) -> None:
    async with await client.connect("server", PORT, required=True) as queue:
        await queue.send(b"a coroutine was here")
        print((await queue.receive()).decode())


def talk_from_a_thread(client: QueueBroker) -> None:
    with client.connect("server", PORT, required=True) as queue:
        queue.send(b"and so was a thread")
        print(queue.receive().decode())


async def main() -> None:
    # The broker is opened after the group, so it is closed first. That ends serve(); in
    # the other order the group would wait for serve() for ever.
    async with asyncio.TaskGroup() as group, aio.QueueBroker("server") as server:
        group.create_task(serve(server))
        async with aio.QueueBroker("client") as client:
            await talk(client)
            thread = Task(client.broker, talk_from_a_thread, client.broker)
            thread.start()
            await asyncio.to_thread(thread.join)


if __name__ == "__main__":
    asyncio.run(main())
