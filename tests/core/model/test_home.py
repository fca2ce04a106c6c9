from pathlib import Path

import pytest

from corral.core.model.errors import Refused
from corral.core.model.home import SOCKET_PATH_BYTES, Home, find_home


def test_the_environment_names_the_home() -> None:
    assert find_home({"CORRAL_HOME": "/srv/gpu", "HOME": "/home/ann"}, "/").root == Path("/srv/gpu")


@pytest.mark.parametrize("env", [{"HOME": "/home/ann"}, {"HOME": "/home/ann", "CORRAL_HOME": ""}])
def test_without_a_name_the_home_is_in_the_users_directory(env: dict[str, str]) -> None:
    assert find_home(env, "/").root == Path("/home/ann/.corral")


def test_a_relative_home_starts_at_the_working_directory() -> None:
    assert find_home({"CORRAL_HOME": "here"}, "/work").root == Path("/work/here")


def test_a_tilde_that_no_shell_has_expanded_is_the_users_directory() -> None:
    assert find_home({"CORRAL_HOME": "~/gpu", "HOME": "/home/ann"}, "/").root == Path("/home/ann/gpu")


def test_without_any_directory_the_variable_to_set_is_named() -> None:
    with pytest.raises(Refused, match="set CORRAL_HOME"):
        find_home({}, "/")


def test_everything_of_a_server_lies_under_its_home() -> None:
    home = Home(Path("/h"))
    assert home.socket == Path("/h/corral.sock")
    assert home.pid_file == Path("/h/corral.pid")
    assert home.token_file == Path("/h/token")
    assert home.ledger_url == "sqlite:////h/ledger.db"
    assert home.log_of("7_2") == Path("/h/logs/7_2.log")
    assert home.scratch_of("7_2") == Path("/h/scratch/7_2")


def test_the_longest_socket_path_that_the_kernel_takes_is_taken() -> None:
    room = SOCKET_PATH_BYTES - len("/corral.sock")
    assert len(str(Home(Path("/" + "d" * (room - 1))).socket)) == SOCKET_PATH_BYTES


def test_a_longer_socket_path_is_refused_with_both_lengths_and_a_way_out() -> None:
    room = SOCKET_PATH_BYTES - len("/corral.sock")
    with pytest.raises(
        Refused, match=r"is 110 bytes long.* may have 107; set CORRAL_HOME to .* at least 3 bytes shorter"
    ):
        _ = Home(Path("/" + "d" * (room + 2))).socket


def test_a_socket_path_is_measured_in_bytes_not_in_letters() -> None:
    with pytest.raises(Refused, match="bytes long"):
        _ = Home(Path("/" + "ü" * 60)).socket
