"""Echo: a server of coroutines, and clients of both sorts: a coroutine and a thread."""

import asyncio

from queuebroker import QueueBroker, Task, aio

PORT = 7


async def serve(server: aio.QueueBroker) -> None:
    """Accept whoever comes, until the broker is closed; each is served by a task."""
    async with asyncio.TaskGroup() as group:
        async for queue in server.accept_iter(PORT):
            group.create_task(echo(queue))


async def echo(queue: aio.MessageQueue) -> None:
    """Send back whatever comes, until the client hangs up."""
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
    # The broker stands inside the group: so it is closed first, which ends serve(). The
    # other way round the group would wait for serve() for ever.
    async with asyncio.TaskGroup() as group, aio.QueueBroker("server") as server:
        group.create_task(serve(server))
        async with aio.QueueBroker("client") as client:
            await talk(client)
            thread = Task(client.broker, talk_from_a_thread, client.broker)
            thread.start()
            await asyncio.to_thread(thread.join)


if __name__ == "__main__":
    asyncio.run(main())
