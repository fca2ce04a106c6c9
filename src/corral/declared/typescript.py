"""Writes the declarations that the web pages need, beside the types of the API: `make web-types`."""

import json
import sys
from pathlib import Path

from corral.core.model.answers.jobs import JobRow
from corral.declared.fields import untold_values

_HEAD = """\
/** Fields of a job's row that events leave out, as a new row has them. By `make web-types` from `JobRow`. */
import type { Schemas } from "./client";

export const UNTOLD = {
"""


def source() -> str:
    """The source of the module for the web pages."""
    values = "".join(f"  {name}: {json.dumps(value)},\n" for name, value in untold_values(JobRow).items())
    return f'{_HEAD}{values}}} satisfies Partial<Schemas["JobRow"]>;\n'


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(source())
