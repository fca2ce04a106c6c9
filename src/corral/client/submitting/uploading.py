"""The options for a directory that is sent with a job, and for what comes back."""

import posixpath
from collections.abc import Callable
from glob import escape

from corral.client.submitting.calling_process import directory
from corral.client.submitting.option_values import Given
from corral.core.model.errors import Refused
from corral.core.model.files.upload import Upload


def upload_of(given: Given, spell: Callable[[str], str]) -> tuple[Upload | None, str]:
    """The directory to send, which is sent when the job is submitted, and the working directory of the job.

    That is in the directory, if one is sent. What earlier jobs have left in the directory that comes back is not sent.
    Raises Refused.
    """
    source, workdir = given.get("upload"), directory(given.get("workdir"), spell("workdir"))
    if source is None:
        for other in ("upload_exclude", "download"):
            if given.get(other):
                raise Refused(f"{spell(other)} is about the files of {spell('upload')}; add it", field=spell(other))
        return None, workdir
    excluded = tuple(given.get("upload_exclude", ()))
    upload = Upload(directory(source, spell("upload")), excluded)
    if upload.place_of(workdir) is None:
        if given.get("workdir") is not None:
            raise Refused(
                f"{spell('workdir')}: {workdir} is not in {upload.source}, which is sent to the node; name a directory "
                "in it, or upload one around both",
                field=spell("workdir"),
            )
        workdir = upload.source
    left = given.get("download")
    comes_back = left and upload.place_of(posixpath.normpath(posixpath.join(workdir, left)))
    return (Upload(upload.source, (*excluded, f"/{escape(comes_back)}/*")) if comes_back else upload), workdir
