"""The program ``daesy`` of the wheel."""

from __future__ import annotations

import sys

from . import _daesy


def main() -> int:
    """Runs the program with the arguments of the command line and returns its exit status."""
    try:
        return _daesy.run_program(["daesy", *sys.argv[1:]])
    except KeyboardInterrupt:
        return 130


if __name__ == "__main__":
    sys.exit(main())
