"""How `make test` spreads the tests over processes (pytest-xdist, one process more than there are cores)."""

import re

import pytest

# A file's tests run in one process, which has its fixtures. These files take longest, the longest first: they start first, so that no
# process is left with a long one at the end.
LONGEST = [
    "test_python_package.py",
    "test_clients.py",
    "test_close_calls.py",
    "test_proofs.py",
    "test_sandbox.py",
    "test_install.py",
]


def group_of(nodeid):
    """The tests of a group run in one process: those of a file, or of a share of it where its tests have "share0" and so on in their ids."""
    file = nodeid.split("::")[0].split("/")[-1]
    share = re.search(r"\[(share\d+)-", nodeid)
    return f"{file}, {share[1]}" if share else file


def rank(item):
    file = item.path.name
    return LONGEST.index(file) if file in LONGEST else len(LONGEST)


def pytest_addoption(parser):
    # Not by -m, which a caller may want for other markers and which holds one expression.
    parser.addoption(
        "--serial",
        choices=["only", "never"],
        help="only tests with the marker `serial`, or only the others",
    )


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config, items):
    wanted = config.getoption("serial", None)
    if wanted:
        chosen = {True: [], False: []}
        for item in items:
            chosen[(item.get_closest_marker("serial") is not None) == (wanted == "only")].append(
                item
            )
        items[:] = chosen[True]
        config.hook.pytest_deselected(items=chosen[False])
    items.sort(key=rank)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config, log):
    from xdist.scheduler import LoadScopeScheduling

    class ByGroup(LoadScopeScheduling):
        def _split_scope(self, nodeid):
            return group_of(nodeid)

    config.option.loadscopereorder = (
        False  # groups start in the order above, not by the number of their tests
    )
    return ByGroup(config, log)
