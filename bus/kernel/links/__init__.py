"""The links to other processes: set-up, loss, and the end of their use.

link            one link to another process, from the handshake to its end
master_dialler  dials the master of its machine, until there is a link with it
link_table      all links, from their first frame to their last
keep_alive      silent links, and the PING that finds them
idle            links and relays that neither side needs any more
"""
