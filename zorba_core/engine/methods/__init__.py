"""The federated methods: what clients report, and how the server moves the weights."""
