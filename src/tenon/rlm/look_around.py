# Tells where an interpreter and what it loads are (sandbox.cc), as an object of JSON on descriptor 3.
# It is started as `python3 -I -S -B -c <this text>`. Python 3.9 and later.
import json
import os
import sys

# All modules that are written in C, so that their shared objects are seen below.
for name in (
    "_ctypes _ssl _hashlib _bz2 _lzma zlib _decimal _sqlite3 _uuid unicodedata _json math readline "
    "_zoneinfo _statistics _csv _pickle"
).split():
    try:
        __import__(name)
    except Exception:
        pass

with open(3, "w") as out:
    json.dump(
        {
            "program": os.path.realpath(sys.executable),
            "version": "%d.%d.%d" % sys.version_info[:3],
            "folders": [folder for folder in sys.path if folder and os.path.isdir(folder)],
            "shared": sorted(shared_folders()),
        },
        out,
    )
