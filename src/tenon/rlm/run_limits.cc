#include "tenon/rlm/run_limits.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

namespace tenon::rlm {
namespace {

// Every limit is a row of kLimits, with which `rlm` of a request is read, checked against the
// operator's most, and told in traces. Numbers pass as double: all of them are far below 2^53.
using chat::Refusal;

constexpr double kAll = 1e9;  // used where there is no limit

Failure<Refusal> refuse_limit(std::string message, std::string param, std::string code) {
  return Failure<Refusal>({.error = {Errc::invalid, std::move(message)},
                           .param = std::move(param),
                           .code = std::move(code)});
}

/// One number of `rlm`.
struct Limit {
  std::string_view name;
  bool is_whole = true;
  std::string_view unit{};
  double (*of)(const RunLimits& limits);
  void (*set)(RunLimits& limits, double value);
  // The smallest number that a request may give: 0 would often mean "no limit".
  double least = 1;
  bool is_told_at_0 = false;  // 0 is a value, and not the absence of a limit
};

template <auto member>
constexpr Limit count(std::string_view name, double least = 1) {
  return {.name = name,
          .of = [](const RunLimits& limits) { return static_cast<double>(limits.*member); },
          .set =
              [](RunLimits& limits, double value) {
                limits.*member = static_cast<std::decay_t<decltype(limits.*member)>>(value);
              },
          .least = least};
}

template <auto member>
constexpr Limit seconds(std::string_view name) {
  return {.name = name,
          .is_whole = false,
          .unit = " seconds",
          .of =
              [](const RunLimits& limits) {
                return static_cast<double>((limits.*member).count()) / 1000.0;
              },
          .set =
              [](RunLimits& limits, double value) {
                limits.*member = std::chrono::milliseconds(std::llround(value * 1000.0));
              },
          .least = 0.001};
}

const Limit kLimits[] = {
    count<&RunLimits::max_iterations>("max_iterations"),
    count<&RunLimits::max_depth>("max_depth"),
    count<&RunLimits::max_sub_calls>("max_sub_calls", 0),
    count<&RunLimits::max_concurrent>("max_concurrent"),
    count<&RunLimits::max_tokens>("max_tokens"),
    count<&RunLimits::max_errors>("max_errors"),
    count<&RunLimits::max_output_chars>("max_output_chars"),
    seconds<&RunLimits::max_time>("max_time"),
    seconds<&RunLimits::cell_timeout>("cell_timeout"),
    {.name = "max_cost",
     .is_whole = false,
     .of = [](const RunLimits& limits) { return limits.max_cost; },
     .set = [](RunLimits& limits, double value) { limits.max_cost = value; },
     .least = 1e-9},
    {.name = "compact_at",
     .is_whole = false,
     .of = [](const RunLimits& limits) { return limits.compact_at; },
     .set = [](RunLimits& limits, double value) { limits.compact_at = value; },
     .least = 0,
     .is_told_at_0 = true},
};

json::Value shown(const Limit& limit, double number) {
  if (limit.is_whole) return static_cast<std::int64_t>(number);
  return number;
}

}  // namespace

RunLimits default_most() {
  return {.max_iterations = 100,
          .max_depth = 4,
          .max_sub_calls = 10'000,
          .max_concurrent = 64,
          .max_tokens = 0,
          .max_errors = 0,
          .max_time = std::chrono::hours(24),
          .cell_timeout = std::chrono::minutes(10),
          .max_output_chars = 200'000,
          .compact_at = 1};
}

Result<void, Refusal> read_limits(const json::Value& rlm, const RunLimits& most,
                                  RunLimits& limits) {
  for (const auto& [key, value] : *rlm.if_object()) {
    // These fields are not limits; request_limits() looks at them.
    if (value.is_null() || key == "session" || key == "events" || key == "keep" ||
        key == "context") {
      continue;
    }
    const std::string param = "rlm." + key;
    const auto* const limit = std::ranges::find(kLimits, key, &Limit::name);
    if (limit == std::end(kLimits)) {
      std::string known = "session, events, keep, context";
      for (const Limit& each : kLimits) known += ", " + std::string(each.name);
      return refuse_limit(param + " is not a field of rlm, which has " + known, param,
                          "unknown_parameter");
    }
    const json::Number* number = value.if_number();
    if (number == nullptr || (limit->is_whole && !number->is_integer())) {
      return refuse_limit(param + " must be " + (limit->is_whole ? "an integer" : "a number"),
                          param, "invalid_type");
    }
    const double bound = limit->of(most) > 0 ? limit->of(most) : kAll;
    const double wanted = number->to_double();
    // Written so that NaN is refused too.
    if (!(wanted >= limit->least) || wanted > bound) {
      return refuse_limit(param + " must be from " + json::to_string(shown(*limit, limit->least)) +
                              " to " + json::to_string(shown(*limit, bound)) +
                              std::string(limit->unit),
                          param, "invalid_value");
    }
    limit->set(limits, wanted);
  }
  return {};
}

json::Object to_json(const RunLimits& limits) {
  json::Object out;
  for (const Limit& limit : kLimits) {
    const double value = limit.of(limits);
    if (value > 0 || limit.is_told_at_0) out.set(std::string(limit.name), shown(limit, value));
  }
  return out;
}

}  // namespace tenon::rlm
