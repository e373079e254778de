"""For tests, azlatch's own and yours: a public part of the package.

`contract` is the suite that every store passes; `virtual` runs real code in virtual time; `simulate` runs the
engine in worlds with faults, and `mutants` breaks its rules one by one to show that this is noticed.
`plugin` has fixtures for pytest.
"""
