"""What `import corral` offers."""

import inspect
import pydoc
import re
import subprocess
import sys

import pytest

import corral
from corral import client
from corral.client.submitting.options import RequestOptions
from corral.core.model import errors


def test_the_public_names_are_listed_for_completion_before_their_first_use() -> None:
    assert {"Client", "gpu"} <= set(dir(corral))
    assert all(hasattr(corral, name) for name in corral.__all__)


def test_every_error_that_a_user_may_catch_can_be_imported_from_corral() -> None:
    raised = {
        name
        for module in (errors, client)
        for name, one in vars(module).items()
        if isinstance(one, type) and issubclass(one, errors.CorralError)
    }
    between_nodes_and_their_server = {"NodeUnreachable", "NodeRefused", "NodeLacks", "DevicesTaken"}
    assert raised - between_nodes_and_their_server == raised & set(corral.__all__)
    assert corral.Refused is errors.Refused
    assert issubclass(corral.NoServer, corral.CorralError)


def test_importing_corral_loads_nothing_else() -> None:
    code = "import sys, corral; print([name for name in sys.modules if name.startswith('corral.')])"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout == "[]\n"


@pytest.mark.parametrize("name", ["submit", "dry_run", "reserve"])
def test_help_shows_each_option_of_a_job_with_its_type_and_meaning(name: str) -> None:
    shown = pydoc.plain(pydoc.render_doc(getattr(corral.Client, name)))
    keys = inspect.cleandoc(RequestOptions.__doc__ or "").partition("Keys:")[2]
    said = {key.strip() for keys in re.findall(r"^    (\w[\w, ]*):", keys, re.MULTILINE) for key in keys.split(",")}
    assert said == set(RequestOptions.__annotations__)
    assert keys.strip().splitlines()[-1] in shown
    assert "gpus: int | float | str | None = ..." in shown
    assert "options:" not in shown
