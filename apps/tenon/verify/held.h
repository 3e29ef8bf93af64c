#pragma once

#include <cstdint>

#include "verify/check.h"
#include "verify/question.h"
#include "verify/session.h"

#include "tenon/json/value.h"

/// Whether a server holds what its model writes to a schema.
namespace tenon::app::verify {

enum class Held : std::uint8_t {
  arguments,     ///< Those of the first call.
  text,          ///< The answer's text.
  text_or_call,  ///< The text, or a call in its place.
};

struct HeldCase {
  Question right;  ///< A played model writes what fits.
  Question wrong;  ///< It asks for what does not fit, and a played model writes that.
  json::Value schema;
  Held held;
  bool is_remark = false;  ///< See SchemaRow: what does not fit is "not supported".
};

/// Passes if what comes fits. "Not supported": the server refuses the schema, or says in the answer
/// that it did not hold to it. A played engine is asked twice: what is right must come through
/// unchanged, and what is wrong must not come through in silence.
[[nodiscard]] Judgement check_held(Session& session, const HeldCase& held);

}  // namespace tenon::app::verify
