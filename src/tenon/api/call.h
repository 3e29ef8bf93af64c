#pragma once

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tenon/api/error.h"
#include "tenon/api/keys.h"
#include "tenon/api/metrics.h"
#include "tenon/base/expected.h"
#include "tenon/base/trace.h"
#include "tenon/http/server.h"
#include "tenon/json/value.h"
#include "tenon/message/event.h"

namespace tenon::api {

/// A request under way: what is needed to answer it and to count it. It moves from thread to
/// thread and is used by one at a time.
struct Call {
  std::shared_ptr<http::Exchange> exchange;
  std::string tail;                   ///< The part of the path that the route leaves open.
  std::vector<http::Header> headers;  ///< For every answer.
  RunningRequest running;
  Dialect dialect = Dialect::openai;
  KeyUse key;
  bool is_apart = false;  ///< It runs on the workers of its model.
  std::string about;      ///< The beginning of its log lines: ids, and the key's owner.
  trace::Context trace;
};

/// What is to be done with a call next. It answers the call, or moves it away.
using Task = std::function<void(Call& call)>;

/// The body as JSON, within limits that no request needs to exceed.
[[nodiscard]] Result<json::Value, ApiError> body_of(const Call& call);

void respond(Call& call, http::Response response);
void respond_json(Call& call, const json::Value& value);
void respond_error(Call& call, const ApiError& error);
void respond_result(Call& call, const Result<json::Value, ApiError>& result);

/// Tells in a header what of the request was left out; the answer's `tenon.repairs` come later.
void add_left_out(Call& call, const std::vector<message::Diagnostic>& left_out);

[[nodiscard]] ApiError overloaded();
[[nodiscard]] ApiError is_stopping();
[[nodiscard]] ApiError invalid_value(std::string param, std::string message);

}  // namespace tenon::api
