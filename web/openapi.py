"""Writes the description of the server's API to a file, for the types of `src/api/schema.d.ts`."""

import json
import sys
from pathlib import Path

from corral.app.http_api import description

Path(sys.argv[1]).write_text(json.dumps(description(), indent=1, sort_keys=True))
