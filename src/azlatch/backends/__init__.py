"""One module per store, behind the small protocol of `azlatch.backends.protocol`."""
