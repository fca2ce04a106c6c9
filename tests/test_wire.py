import json
from base64 import b64encode

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from corral.core.model.devices import device
from corral.core.model.errors import Refused
from corral.core.model.jobs import job, submission
from corral.core.model.jobs.job import Job, JobSpec, Request
from corral.core.model.placing import allocation
from corral.core.model.queues import queue
from corral.wire import MAX_FLOAT, MAX_INTEGER, bytes_in, from_plain, to_plain

VALUES = (
    Job,
    JobSpec,
    Request,
    allocation.Allocation,
    device.Node,
    device.DeviceSample,
    device.DeviceCondition,
    submission.Submission,
    queue.Queue,
    queue.Project,
)


st.register_type_strategy(float, st.floats(-MAX_FLOAT, MAX_FLOAT))
st.register_type_strategy(int, st.integers(-MAX_INTEGER, MAX_INTEGER))


@pytest.mark.parametrize("cls", VALUES, ids=lambda cls: cls.__name__)
@settings(max_examples=15)
@given(data=st.data())
def test_every_model_value_survives_the_wire(cls: type[object], data: st.DataObject) -> None:
    value = data.draw(st.from_type(cls))
    carried = json.loads(json.dumps(to_plain(value)))
    assert from_plain(cls, carried) == value
    assert from_plain(cls, json.loads(json.dumps(to_plain(value, compact=True)))) == value


def test_an_unknown_field_is_refused_with_the_nearest_known_one() -> None:
    with pytest.raises(Refused, match=r"request\.device is not a known field; did you mean 'devices'\?"):
        from_plain(submission.Submission, {"request": {"device": 2}})


@pytest.mark.parametrize("devices", ["2", 2.0, True, None])
def test_a_value_of_the_wrong_type_is_refused_by_name(devices: object) -> None:
    with pytest.raises(Refused, match="devices must be an integer"):
        from_plain(Request, {"devices": devices})


def test_a_missing_field_without_default_is_refused() -> None:
    with pytest.raises(Refused, match="user is missing"):
        from_plain(job.JobSpec, {})


@pytest.mark.parametrize("text", ["no base64", "AAA", "AA==AA==", "é" * 4, "AAAA\n", "A" * 400])
def test_bytes_that_are_no_base64_or_too_many_are_refused(text: str) -> None:
    with pytest.raises(Refused, match=r"^data: it (is not base64|has more than 100 bytes)") as refused:
        bytes_in(text, 100, field="data")
    assert refused.value.field == "data"


@pytest.mark.parametrize("count", [0, 1, 98, 99, 100])
def test_bytes_up_to_the_limit_come_out_as_they_went_in(count: int) -> None:
    data = bytes(range(count))
    assert bytes_in(b64encode(data).decode(), 100, field="data") == data
    if count:
        with pytest.raises(Refused, match="more than"):
            bytes_in(b64encode(data).decode(), count - 1, field="data")
