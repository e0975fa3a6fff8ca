"""Subscriptions and watches: the decisions, without threads."""
