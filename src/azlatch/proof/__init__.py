"""The proof: real processes on guarded values, with faults, and a verdict that can be *fail*."""
