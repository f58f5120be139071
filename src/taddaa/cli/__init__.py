"""The command line."""

from .entry import KERNELS, SHELLS, WRONG_USE, main, parser

__all__ = ["KERNELS", "SHELLS", "WRONG_USE", "main", "parser"]
