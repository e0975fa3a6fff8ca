"""Sensors, recorders, queries and gateways that are killed."""
