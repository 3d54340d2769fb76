"""``python -m daesy`` is the program."""

import sys

from .program import main

if __name__ == "__main__":
    sys.exit(main())
