"""Subscriptions: the notifications of tasks, and watches of their presence.

frames                SUBSCRIBE, UNSUBSCRIBE, UNEXPORT
interests             the subscriptions and watches of the own tasks, by name
presence              the public tasks of other processes, as watches report them
local_subscriptions   the decisions about subscriptions and watches
confirmations         subscriptions that have not yet reached all their destinations
matches               the own tasks that match subscriptions of other processes
remote_presence       which of these tasks are present, as peers announce them
remote_subscriptions  the subscriptions of other processes
api                   `subscribe`, `watch`, `wait_for_subscribers`
iterator              the iterator that `Bus.listen` returns
"""
