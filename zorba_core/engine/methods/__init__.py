"""The federated methods: the clients' reports and the server's update."""
