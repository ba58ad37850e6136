"""``python -m everview``."""

import sys

from everview.cli.main import main

sys.exit(main())
