"""Federated fine-tuning between processes, as two small Flower apps. The server sends seeds, block ids and averages;
clients send scalars. No weights are sent.

    server_app  the ServerApp: begins or resumes a run
    remote      the clients behind the grid, for the loop of zorba_core.engine; trials: trial rounds with them
    client_app  the ClientApp
    members     the clients that take part, and the exchange of messages with them
    replica     a client's rows and model: base model + averages = weights
    protocol    the messages and their checks
    options     deadlines
    request     Flower's run-config, and the terms that server and clients share
    simulate    virtual clients in one process: a grid without a network
    resident    a SuperNode whose ClientApp stays loaded; a ServerApp in the process that shows its progress
    loopback    SuperLink and SuperNodes as child processes that end with their parent
    app/        the folder for ``flwr run``

README.md in this folder describes a deployment on several hosts.
"""
