"""The conformance suite over our own code, a control, and planted faults."""
