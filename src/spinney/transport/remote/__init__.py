"""Jobs between organisations: gRPC over mutual TLS carries the frames of `frames`.

Only the coordinator opens a port. A party connects to it and stays; nobody can connect to a party.
"""
