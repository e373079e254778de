"""A local Cosmos DB: the service that the unmodified SDK talks to, with the faults that production has.

The engine is one object without threads, sockets or a clock of its own: a request and the time go in, a reply
comes out. What is around it (HTTP, the admin interface, the command line) only carries requests to it.
"""
