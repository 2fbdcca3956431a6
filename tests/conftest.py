"""What holds in every test: nothing phones home, times are UTC, Prefect is the embedded one, hypothesis repeats itself in CI."""

import os
import tempfile
import time

from hypothesis import settings

# Before anything imports Prefect or Great Expectations: both read these once.
# The browser of the browser tests is no setting.
for _name in [
    name for name in os.environ if name.startswith(("PREFECT_", "TWICESHY_")) and name != "TWICESHY_CHROMIUM"
]:
    del os.environ[_name]
_prefect_home = tempfile.TemporaryDirectory(prefix="prefect-home-", ignore_cleanup_errors=True)
os.environ.update(
    {
        "TZ": "UTC",
        "DO_NOT_TRACK": "1",
        "GX_ANALYTICS_ENABLED": "false",
        # A profile of the person running the tests could name their server.
        "PREFECT_HOME": _prefect_home.name,
        "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
    }
)
time.tzset()

# Deadlines measure the machine, not the law; a loaded two-core machine fails them at random.
settings.register_profile("ci", derandomize=True, deadline=None, print_blob=True)
settings.register_profile("here", deadline=None)
settings.load_profile("ci" if os.environ.get("CI") else "here")
