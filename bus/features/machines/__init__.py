"""Machines: how masters find, trust and reach one another (BUS-DISC, BUS-SEC).

certificates       X.509 certificates: made with the package cryptography, and read
machine_keys       the folder of keys of one machine
authority          the folder of the bus's authority, which certifies machines
network            how the processes of one machine reach other machines
announcement       the datagram between machines that may not know each other
machine_table      the machines that have announced themselves
discovery          the announcements and the table of one master
name_conflicts     machines of one name
any_machine        names whose machine is ``*``
machine_dialler    dials to the masters of other machines
gateway_address    addresses that other machines reach only through a master
gateway            the requests to a gateway, and the process that makes them
gateway_server     the master that serves them
announcer          the sockets for announcements
probe              tries the steps to a link with another machine
machine_discovery  the discovery of one master, and its files
binding            messages and callers that wait for a name of any machine
doctor_verb        ``bus doctor --network``
keys_verb          ``bus keys``
verb               ``bus machines``
"""
