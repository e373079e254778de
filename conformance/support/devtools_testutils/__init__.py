"""The little that the suite uses of Azure's own test tools, which are in no package."""
