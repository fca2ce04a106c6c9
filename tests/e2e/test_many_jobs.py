"""What `make soak` claims of 50,000 jobs, of a few."""

from tests.soak import many_jobs


def test_many_jobs_in_a_row_leave_nothing_behind_and_are_listed_as_they_ended_once_wait_returns() -> None:
    claims = many_jobs.run(200)
    assert len(claims) == 8
    assert [f"{claim.name}: {claim.said}" for claim in claims if not claim.holds] == []
