"""The command line. Commands import what they need when they run, so that help is quick."""

import argparse
import sys
from collections.abc import Sequence


def main(arguments: Sequence[str] | None = None) -> int:
    """Entry point; returns the exit code: 0 fine, 1 an error was found, 2 wrong use or bad input, 3 untrusted."""
    parser = argparse.ArgumentParser(prog="taddaa", description="Is your approximate posterior any good, for the numbers you care about?")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    demo = commands.add_parser("demo", help="diagnose a mean-field fit of a small hierarchical model and explain the report")
    demo.add_argument("--seed", type=int, default=0, help="random seed (default 0)")
    demo.set_defaults(run=_demo)
    chosen = parser.parse_args(arguments)
    from .errors import InputError

    try:
        return chosen.run(chosen)
    except InputError as error:
        print(f"taddaa: {error}", file=sys.stderr)
        return 2


def _demo(chosen: argparse.Namespace) -> int:
    from .demo import demo

    print(demo(chosen.seed))
    return 0


if __name__ == "__main__":
    sys.exit(main())
