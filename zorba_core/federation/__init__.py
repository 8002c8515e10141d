"""Federated fine-tuning between processes, as two small Flower apps: seeds and block ids down, scalars up, averages
down; never weights.

    server_app  the ServerApp: rounds over a Flower grid, and their log
    client_app  the ClientApp
    members     who takes part, and exchanges of messages with them
    replica     a client's rows and model: base model + averages = weights
    protocol    the messages, and how they are checked
    options     deadlines; median and trimmed mean
    request     what is asked for: Flower's run-config, and the terms that server and clients agree on
    simulate    virtual clients in one process: a grid without a network
    resident    a SuperNode that keeps its ClientApp; the ServerApp in the process that shows its progress
    loopback    SuperLink and SuperNodes as child processes, all ended with their parent
    app/        the folder that ``flwr run`` takes

README.md beside this file says how to deploy it on several hosts.
"""
