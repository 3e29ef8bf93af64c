#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "tenon/base/expected.h"
#include "tenon/json/value.h"

/// What an answer is made of: what its events do not say, for those who watch it being made
/// (ChatSink::watches).
namespace tenon::message {

struct TokenLogprob;
struct Tool;
struct Usage;
enum class FinishReason : std::uint8_t;

struct PromptSpan {
  std::size_t begin = 0;  ///< In bytes of the prompt's text.
  std::size_t end = 0;
  bool is_data = false;  ///< From a message or a tool; otherwise the template's own text.
};

/// A model begins to answer. An answer whose tools the server runs has several runs.
/// So has an answer of a recursive model (ChatSink::inside).
struct RunBegin {
  /// What makes the answer, as docs/recording.md has it; the runs of one model share it.
  std::shared_ptr<const json::Object> made_by;
  std::string text;  ///< The prompt; "" if the engine makes it.
  std::vector<PromptSpan> spans;
  std::vector<std::int32_t> tokens;
  std::vector<std::uint32_t> lengths;  ///< Bytes of each token; empty if only a server knows.
  std::vector<std::string> changes;    ///< What shaping changed.
  std::string opening;  ///< What was written for the model as the beginning of its answer.
};

/// A generated token. Views are valid only during the call.
struct MadeToken {
  std::int32_t id = 0;
  std::string_view bytes;  ///< "" for a token that ends the turn.
  bool is_control = false;
  std::uint32_t count = 1;             ///< How many tokens it stands for.
  std::optional<std::uint32_t> legal;  ///< How many tokens the mask allowed; none: no mask.
  const TokenLogprob* logprob = nullptr;
  std::span<const bool> top_is_legal;  ///< For logprob->top; empty: no mask.
};

/// Something that an engine reports itself: reasoning, or a part of a call.
struct MadePiece {
  bool is_reasoning = false;
  std::string_view text;    ///< The reasoning.
  std::uint32_t index = 0;  ///< The call's, as engine::CallPiece has it.
  std::string_view name;
  std::string_view arguments;
};

/// One of several servers was asked to make a run.
struct Attempt {
  std::string server;                ///< Its URL.
  std::chrono::milliseconds took{};  ///< Until its first token, or until it failed.
  std::string error;                 ///< "": it answers, or the client cancelled.

  bool operator==(const Attempt&) const = default;
};

/// What an upstream sends for a run, as it comes: the head of its answer, pieces of the body, the
/// end. A head that follows an end is another attempt's. Views are valid only during the call.
struct UpstreamHead {
  unsigned status = 0;              ///< HTTP.
  std::string_view type;            ///< The body's content type.
  std::string_view coding;          ///< Its content encoding; "": none.
  std::uint32_t retry_after_s = 0;  ///< When the upstream wants to be asked again; 0: not told.
  std::size_t asked_bytes = 0;      ///< The size of the body that it was asked with.
};
struct UpstreamEnd {
  const Error* error = nullptr;  ///< Why the transfer broke off; null: the answer is whole.
};
using UpstreamPart = std::variant<UpstreamHead, std::string_view, UpstreamEnd>;

/// A run is over: engine::RunEnd, as far as the answer depends on it.
struct RunEnded {
  FinishReason reason{};
  const Usage& usage;
  bool is_constrained = false;
  std::string_view unconstrained_because;
  const Error& error;
  std::span<const Attempt> attempts{};
  std::uint32_t closed_loops = 0;
};

/// The tools that the server runs itself, beside those of the client.
struct OwnTools {
  struct One {
    const Tool* tool = nullptr;  ///< As the model sees it.
    std::string_view server;     ///< Whose tool it is; "": of this process.
    std::string_view name;       ///< That server's name for it.
    bool needs_approval = false;
    bool is_hosted = false;  ///< Its server is one that the request names.
  };
  std::vector<One> tools;
  bool are_shown = false;  ///< The client sees their calls.
  bool are_remembered = false;
  std::size_t max_rounds = 0;
  std::size_t max_calls = 0;
  bool searches = false;        ///< Deferred tools are searched for.
  std::size_t search_from = 0;  ///< From so many tools on all are deferred; 0: never.
  std::size_t most_found = 0;
};

/// The server has run a call of such a tool, or has not been allowed to. Views are valid only
/// during the call.
struct ToolRun {
  std::string_view id;    ///< The call's.
  std::string_view name;  ///< As the model calls the tool.
  std::string_view arguments;
  std::string_view decision;  ///< As the audit log has it.
  bool is_shown = false;      ///< The client sees it.
  bool has_run = false;       ///< The members below say what came of it.
  std::string_view output{};
  bool is_error = false;
  bool is_remembered = false;
  std::chrono::milliseconds took{};
};

}  // namespace tenon::message
