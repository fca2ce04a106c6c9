"""What `import corral` offers."""

import corral


def test_the_public_names_are_listed_for_completion_before_their_first_use() -> None:
    assert {"Client", "gpu"} <= set(dir(corral))
    assert all(hasattr(corral, name) for name in corral.__all__)
