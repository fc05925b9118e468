"""How long tests wait for what should come."""

import os
from typing import Final

# Only what does not hold is waited for so long. Replays of broken rules have less patience: there, most does not come.
WAIT_SECONDS: Final = float(os.environ.get("TEST_WAIT_SECONDS", "60"))
