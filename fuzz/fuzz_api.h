#pragma once

#include <string>

#include "fuzz.h"

#include "tenon/api/error.h"
#include "tenon/json/value.h"

namespace tenon::fuzz {

/// What every decoder promises of what it refuses.
inline void promise_refusal(const api::ApiError& error,
                            api::Dialect dialect = api::Dialect::openai) {
  promise(error.status() == 400, "a refusal is the client's fault");
  promise(!error.message.empty(), "a refusal says why");
  const std::string written = json::to_string(api::to_json(error, dialect, "req_1"));
  promise(json::parse(written).has_value(), "a refusal is JSON");
}

}  // namespace tenon::fuzz
