"""`python -m coldness` is the command `coldness`."""

import sys

from coldness.cli.main import main

sys.exit(main())
