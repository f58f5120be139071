"""Which taddaa this is."""


def own_version() -> str:
    """The installed version; `source` where the package is not installed."""
    from importlib import metadata  # slow to import, and help does not need it

    try:
        return metadata.version("taddaa")
    except metadata.PackageNotFoundError:
        return "source"
