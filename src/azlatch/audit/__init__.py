"""What happened: events, where they go, what they add up to, and whether they can be true."""
