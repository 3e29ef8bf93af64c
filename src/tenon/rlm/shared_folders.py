# Stands before look_around.py and look_for_packages.py (sandbox.cc). Python 3.9 and later.
import os


def shared_folders():
    """The folders of the shared objects that this process has loaded."""
    with open("/proc/self/maps") as maps:
        paths = [line.split(None, 5)[5:] for line in maps]
    return {os.path.dirname(path[0].strip()) for path in paths if path and ".so" in path[0]}


