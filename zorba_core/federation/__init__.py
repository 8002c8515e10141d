"""The training protocol between processes: seeds and block ids down, scalars up, averages down; never weights.

    messages    what is said, checked strictly on arrival
    fleet       seats, members, and the plan made for them; membership: who takes part
    robust      averages that a few wrong scalars cannot move
    server      one round after another for whoever answers; client: the other side
    replica     base model + applied averages = weights, kept on disk by replica_store
    rounds      the loop, the same for every transport; session: from a request to a finished run folder
    in_process  the transport without processes; flower: the transport over Flower (extra ``flower``)

README.md beside this file has the threat model and how to deploy on several hosts.
"""
