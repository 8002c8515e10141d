"""The protocol over Flower (extra ``flower``): server and clients as Flower apps, and a federation on loopback.

records     payload <-> Flower's records
transport   messages through a Flower grid, with a deadline
server_app  the ServerApp; client_app  the ClientApp
app_folder  the folder that ``flwr run`` takes
loopback    SuperLink and SuperNodes as child processes, all ended with their parent
simulation  virtual clients in Flower's simulation runtime
"""
