"""``python -m azlatch``."""

import sys

from azlatch.cli import main

sys.exit(main())
