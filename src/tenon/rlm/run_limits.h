#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>

#include "tenon/chat/refusal.h"
#include "tenon/json/value.h"

namespace tenon::rlm {

/// The limits of one run with all its sub-calls and children.
struct RunLimits {
  unsigned max_iterations = 20;  ///< Outputs of the root model; after that it must give its answer.
  unsigned max_depth = 1;        ///< 1: rlm_query is llm_query; 2: it starts a child; and so on.
  std::uint64_t max_sub_calls = 1000;
  unsigned max_concurrent = 16;                   ///< Sub-calls under way at the same time.
  std::uint64_t max_tokens = 0;                   ///< For all models together; 0: no limit.
  double max_cost = 0;                            ///< By the models' prices; 0: no limit.
  unsigned max_errors = 0;                        ///< Turns in a row whose code fails; 0: no limit.
  std::chrono::milliseconds max_time{3'600'000};  ///< Pauses do not count.
  std::chrono::milliseconds cell_timeout{30'000};
  std::size_t max_output_chars = 20'000;
  /// The part of the root model's context at which earlier turns are summed up; 0: only where a
  /// prompt did not fit, they are cut and left out.
  double compact_at = 0.75;

  bool operator==(const RunLimits&) const = default;
};

/// The most that requests may ask for, if the configuration says nothing.
[[nodiscard]] RunLimits default_most();

/// Reads the limits in `rlm` of a request into `limits`. Each must be within `most`, where 0 means
/// no limit. Fails with the refusal for the client.
[[nodiscard]] Result<void, chat::Refusal> read_limits(const json::Value& rlm, const RunLimits& most,
                                                      RunLimits& limits);

/// Writes the limits with the names that requests use.
[[nodiscard]] json::Object to_json(const RunLimits& limits);

}  // namespace tenon::rlm
