"""A token shows which pod speaks; the API server is asked, and no other token counts."""

import base64
import json
from pathlib import Path

import pytest

from corral.clock import SystemClock
from corral.core.model.errors import CorralError
from corral.engines.kubernetes.agent_reports.token_reviews import TokenHolder, TokenRefused, TokenReviews, holder_in
from corral.engines.kubernetes.cluster.client import Cluster
from corral.engines.kubernetes.cluster.errors import ClusterUnreachable
from corral.engines.kubernetes.cluster.resource import PODS
from tests.certificates import needs_openssl
from tests.engines.kubernetes.agent_reports.agents import (
    expired,
    make_account,
    make_agent_pod,
    token_of,
)
from tests.engines.kubernetes.control_plane import ControlPlane

ELSEWHERE = "gpu-of-no-cluster"


def why_not(reviews: TokenReviews, token: str) -> str:
    with pytest.raises(TokenRefused) as refused:
        reviews.holder(token)
    return str(refused.value)


def test_the_token_of_an_agents_pod_is_that_pods_and_is_asked_about_once(
    cluster: Cluster, cluster_of_corral: Cluster, namespace: str
) -> None:
    account = make_account(cluster, namespace)
    uid = make_agent_pod(cluster, namespace, "agent-0", ELSEWHERE)
    reviews = TokenReviews(cluster_of_corral, account, SystemClock())
    token = token_of(cluster, namespace, ("agent-0", uid))
    assert reviews.known(token) is None
    assert reviews.holder(token) == TokenHolder(account, namespace, "agent-0", uid)
    assert reviews.known(token) == reviews.holder(token)


@needs_openssl
def test_other_tokens_are_refused_and_asked_about_again(
    cluster: Cluster, control_plane: ControlPlane, namespace: str
) -> None:
    account = make_account(cluster, namespace)
    make_account(cluster, namespace, "other")
    uid = make_agent_pod(cluster, namespace, "agent-0", ELSEWHERE)
    strange_uid = make_agent_pod(cluster, namespace, "other-0", ELSEWHERE, account="other")
    reviews = TokenReviews(cluster, account, SystemClock())
    good = token_of(cluster, namespace, ("agent-0", uid))

    for_others = token_of(cluster, namespace, ("agent-0", uid), audiences=("elsewhere",))
    assert "does not accept the token" in why_not(reviews, for_others)
    of_nobody = token_of(cluster, namespace, None)
    assert "bound to no pod" in why_not(reviews, of_nobody)
    of_another = token_of(cluster, namespace, ("other-0", strange_uid), account="other")
    assert f"service account '{namespace}/other', and agents run as {account}" in why_not(reviews, of_another)
    old = expired(good, Path(control_plane.directory) / "service-accounts.key")
    assert "does not accept the token" in why_not(reviews, old)
    head, claims, signature = good.split(".")
    assert "does not accept the token" in why_not(reviews, f"{head}.{claims}.{signature[::-1]}")
    assert reviews.known(old) is None

    cluster.delete(PODS, "agent-0", namespace, grace_s=0)
    assert "does not accept the token" in why_not(reviews, good)


@pytest.mark.parametrize("token", ["", "x", "a.b", "a.!.c", "a.W10.c", "é.é.é", "a." + "x" * 20_000 + ".c", "a.e30.c"])
def test_what_is_no_token_of_the_account_is_refused_without_asking(token: str, tmp_path: Path) -> None:
    # Nothing answers at this address.
    nowhere = ControlPlane("https://127.0.0.1:1", "", "", "").connect(tmp_path, url="http://127.0.0.1:1")
    reviews = TokenReviews(nowhere, "corral-system/corral-agent", SystemClock())
    why_not(reviews, token)
    nowhere.close()


def test_an_end_beyond_all_time_is_left_to_the_api_server(tmp_path: Path) -> None:
    claims = {"sub": "system:serviceaccount:corral-system:corral-agent", "exp": 10**400}
    token = f"a.{base64.urlsafe_b64encode(json.dumps(claims).encode()).decode()}.c"
    nowhere = ControlPlane("https://127.0.0.1:1", "", "", "").connect(tmp_path, url="http://127.0.0.1:1")
    with pytest.raises(ClusterUnreachable):
        TokenReviews(nowhere, "corral-system/corral-agent", SystemClock()).holder(token)
    nowhere.close()


def test_an_api_server_that_does_not_answer_is_no_refusal(cluster: Cluster, namespace: str, tmp_path: Path) -> None:
    account = make_account(cluster, namespace)
    token = token_of(cluster, namespace, None)
    nowhere = ControlPlane("https://127.0.0.1:1", "", "", "").connect(tmp_path, url="http://127.0.0.1:1")
    with pytest.raises(CorralError) as failed:
        TokenReviews(nowhere, account, SystemClock()).holder(token)
    assert not isinstance(failed.value, TokenRefused)
    nowhere.close()


def test_an_api_server_that_knows_no_audiences_lets_nobody_in() -> None:
    user = {"username": "system:serviceaccount:a:b", "extra": {}}
    with pytest.raises(TokenRefused, match="not for the audience corral"):
        holder_in({"authenticated": True, "user": user})
