"""The bus pattern: its parts, its sockets, and other libraries among the nodes."""
