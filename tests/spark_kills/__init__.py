"""Sensors, queries and gateways that are killed: each message is published once."""
