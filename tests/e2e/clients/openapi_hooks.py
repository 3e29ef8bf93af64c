"""What schemathesis checks beside its own: that openapi.json takes no request which the decoders refuse by its shape, and
that errors are as docs/errors.md has them."""
import pathlib
import re

import schemathesis
from schemathesis.generation import GenerationMode

PAGE = pathlib.Path(__file__).resolve().parents[3] / "docs" / "errors.md"
ERRORS = {code: (int(status), param) for status, code, param in
          re.findall(r"^\| (\d+) \| `(\w+)` \| [^|]* \| ([^|]*?) ?\|", PAGE.read_text(), re.MULTILINE)}
OF_THE_SHAPE = {"invalid_json", "invalid_type", "missing_required_parameter", "unknown_parameter"}


@schemathesis.check
def refusals_fit_the_document(ctx, response, case):
    """Values that do not go together (a tool_choice without tools) are no matter of a schema; kinds and names are."""
    is_valid = case.meta is not None and case.meta.generation.mode == GenerationMode.POSITIVE
    if not is_valid or response.status_code != 400:
        return
    error = response.json()["error"]
    assert error["code"] not in OF_THE_SHAPE, f"{error['code']} of {error['param']}: {error['message']}"


@schemathesis.check
def errors_are_those_of_the_page(ctx, response, case):
    if response.status_code < 400 or (response.status_code == 503 and "error" not in response.json()):
        return
    error = response.json()["error"]
    status, param = ERRORS[error["code"]]
    assert response.status_code == status and error["message"]
    assert error["param"] is None or param, f"{error['code']} has a param: {error['param']}"
    is_nameless = error["message"].startswith('"" is')  # a field whose name is empty
    assert error["param"] or is_nameless or param != "the field", f"{error['code']} has no param: {error['message']}"
