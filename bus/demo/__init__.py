"""The main job: index a folder of files with tasks on a bus, and prove the result.

A lister hands out files by command. Workers read them and send content and digest to a
collector, which keeps the totals and notifies of progress; a console subscribes to it.
Content is recorded, and the result is compared with a plain serial run over the same
list.

General layout, each on those before it:

files        the list of files to read
inventory    the result: totals, largest files, duplicates; and the serial run
messages     the messages between the tasks
lister       the files that are still to be done, and the task that hands them out
worker       the tasks that read them, and the queue that they need
collector    the task that receives their content
worker_group  starts the workers; decides which one leaves and which one is killed
faults       faults injected into one queue
threads      workers in threads of this process
cable        all connections between two machines, which it forwards until it is cut
machines     two machines on this host: their keys, networks and run directories
outage       cuts the cable once, and heals it
recorded_queue   a queue between processes, recorded at both ends
worker_process   one worker in a process of its own, and its job
processes    workers in processes of their own, and faults in their queues
run          a whole run, with either kind of workers, and its result
checks       checks the record
"""
