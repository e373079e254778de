"""``python -m azlatch.cli``."""

import sys

from azlatch.cli import main

sys.exit(main())
