"""What drives the core: the connection, the heart, and the two drivers."""
