"""Local services that the unmodified Azure SDKs talk to, and the faults that production has.

`azurite` runs the blob service of Azurite; `proxy` stands between an SDK and a service and does what `faults`
says. Nothing here imports an Azure package.
"""
