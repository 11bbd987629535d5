"""The program around the engine: sources, the live path, its store, alerts, commands."""

import os

# Arrow reads this when it is loaded, which importing anything of this package does. Its own pool (mimalloc) keeps the
# pages of buffers that one thread makes and another one drops: 40 to 100 MiB more with each hour of live work, of which
# 5 MiB are in use. The system's allocator gives them back.
os.environ.setdefault("ARROW_DEFAULT_MEMORY_POOL", "system")
