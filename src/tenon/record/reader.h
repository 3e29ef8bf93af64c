#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tenon/base/expected.h"
#include "tenon/engine/upstream/kept_answer.h"
#include "tenon/json/value.h"
#include "tenon/message/event.h"

namespace tenon::record {

/// The line of what never came, behind all others.
inline constexpr std::size_t kNoLine = std::numeric_limits<std::size_t>::max();

/// The most tokens that `top` has (record_logprobs, and top_logprobs of requests).
inline constexpr std::size_t kMostTop = 20;

/// The log probabilities of a token.
struct KeptLogprob {
  message::TokenLogprob logprob;
  std::array<bool, kMostTop> top_is_legal{};  ///< The first `legal_tops` are known, for its `top`.
  std::size_t legal_tops = 0;
};

/// A token or a piece of a run, as the engine made it. A file may have millions, so that what few
/// of them have lies elsewhere.
struct Step {
  enum class Kind : std::uint8_t { token, reasoning, call };
  Kind kind = Kind::token;
  std::size_t line = 0;  ///< Its place in the file, from 1 on.
  std::int64_t at_us = 0;
  std::int32_t id = 0;
  std::string bytes;  ///< The token's, or the text of reasoning.
  bool is_control = false;
  std::uint32_t count = 1;
  std::unique_ptr<KeptLogprob> logprob{};  ///< Null: it has none.
  std::optional<std::uint32_t> legal{};    ///< How many tokens the mask allowed; none: no mask.
  std::uint32_t index = 0;                 ///< The call's; name and arguments are, too.
  std::string name{};
  std::string arguments{};
};

struct Run {
  unsigned choice = 0;
  std::size_t made_by = 0;  ///< In Read::makers.
  std::uint32_t prompt_tokens = 0;
  std::vector<Step> steps;
  /// What the last server that was asked sent; none: the run was made in the process.
  std::optional<engine::KeptAnswer> upstream{};
  json::Value end{};  ///< The line `run_end`; null: the recording ends before the run does.
  std::size_t end_line = kNoLine;
};

/// A call that the server ran itself.
struct ToolRun {
  unsigned choice = 0;
  std::string name;       ///< As the model calls the tool.
  std::string arguments;  ///< JSON text.
  std::string output;
  bool is_error = false;
  bool is_remembered = false;
};

/// What a recording holds, as far as replaying needs it.
struct Read {
  json::Value heading;              ///< The first line.
  std::vector<json::Value> makers;  ///< The values of `made_by`.
  std::vector<Run> runs;
  json::Value own_tools;            ///< The line `tools`; null: the server ran none itself.
  std::vector<ToolRun> tool_runs;   ///< In order.
  std::vector<json::Value> events;  ///< The lines `event`, `tool` and `finish`, in order.
  std::string sent;                 ///< What the client got.
  std::int64_t status = 0;          ///< HTTP; 0: the recording ends before the answer does.
  bool is_cut = false;              ///< The file was full, or its last line is not whole.
  /// Why its answer cannot be made again: it has no contents, or is that of a recursive model. "":
  /// nothing that is known here.
  std::string why_not_played;
};

/// Reads the text of a recording. A last line that is not whole is left out. Fails with `invalid`,
/// and the line, if it is no recording, has a newer version, or a known member has a value of
/// another type (a damaged file).
[[nodiscard]] Expected<Read> read_recording(std::string_view text);

}  // namespace tenon::record
