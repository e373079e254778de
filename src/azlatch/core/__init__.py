"""The pure core: no I/O, no clock, no randomness, no SDK.

Time, nonces and jitter come in with the events; what should be done goes out as effects. The drivers in
`azlatch.runtime` carry the effects out, and the simulator runs those same drivers in virtual time.
"""
