"""The keys of a bus between machines: its own authority, and the files of a machine.

secret_files   files that only their owner may read, replaced at once
certificates   X.509 certificates: made with the package cryptography, and read
machine_keys   the folder of one machine: certificate, trusted authorities, group key
authority      the folder of the bus's authority, which certifies machines

Every link that leaves a machine is mutual TLS 1.3 with these keys (BUS-SEC-5).
"""
