"""The main job: index a folder of files with tasks on a bus, and prove the result.

A lister hands out files by command. Workers read them and send content and digest to a
collector, which keeps the totals and notifies of progress; a console subscribes to it.
Content is recorded, and the result is compared with a plain serial run over the same
list.

General layout, each on those before it:

files        the list of files to read
inventory    the result: totals, largest files, duplicates; and the serial run
messages     the messages between the tasks
carrier      the interface of a queue that the tasks need
work_list    the files that are still to be done
lister       the task that hands them out
worker       the tasks that read them
collector    the task that receives their content
worker_group  starts the workers; decides which one leaves and which one is killed
faults       faults injected into one queue
threads      workers in threads of this process
cable        all connections between two machines, which it forwards until it is cut
machines     two machines on this host: their keys, networks and run directories
outage       cuts the cable once, and heals it
recorded_queue   a queue between processes, recorded at both ends
queue_faults     faults injected into such a queue
job          the first message to a worker process
worker_process   one worker in a process of its own
processes    workers in processes of their own
outcome      the result of a run, beside that of a plain serial one
run          a whole run, with either kind of workers
checks       checks the record
"""
