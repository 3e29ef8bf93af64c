"""What schemathesis checks beside its own: that openapi.json takes no request which the decoders refuse by its shape."""
import schemathesis
from schemathesis.generation import GenerationMode

OF_THE_SHAPE = {"invalid_json", "invalid_type", "missing_required_parameter", "unknown_parameter"}


@schemathesis.check
def refusals_fit_the_document(ctx, response, case):
    """Values that do not go together (a tool_choice without tools) are no matter of a schema; kinds and names are."""
    is_valid = case.meta is not None and case.meta.generation.mode == GenerationMode.POSITIVE
    if not is_valid or response.status_code != 400:
        return
    error = response.json()["error"]
    assert error["code"] not in OF_THE_SHAPE, f"{error['code']} of {error['param']}: {error['message']}"
