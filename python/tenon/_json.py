"""How values become JSON on their way to the library."""

import json

dumps = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode
