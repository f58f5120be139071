"""`python -m taddaa.cli`."""

import sys

from . import main

sys.exit(main())
