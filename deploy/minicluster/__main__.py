"""See cli.py."""

import sys

from deploy.minicluster.cli import main

sys.exit(main())
