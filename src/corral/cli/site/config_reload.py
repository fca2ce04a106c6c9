"""`corral config reload`: let the running server read its settings again."""

from corral.cli.commands import serving
from corral.cli.screen import print_json, write_lines
from corral.client import ChangedSetting, Client
from corral.client.connecting.machine_server import how_to_restart


def reload(given: serving.ConfigReloadCommand) -> None:
    """Run `corral config reload`."""
    with Client() as client:
        answer, at = client.reload(), client.address
    if given.json:
        print_json(answer)
        return
    for changed in answer.changed:
        write_lines(_in_words(changed))
    for later in answer.after_restart:
        write_lines(f"after a restart: {_in_words(later)}")
    for remark in answer.remarks:
        write_lines(f"note: {remark}")
    if not answer.changed:
        write_lines("no setting has changed that a running server can apply")
    if answer.after_restart:
        how = "restart the server (jobs run on)" if at.url else how_to_restart(at.home)
        write_lines(f"for the rest: {how}")


def _in_words(one: ChangedSetting) -> str:
    return f"{one.setting}: {one.old or 'not set'} -> {one.new or 'not set'}"
