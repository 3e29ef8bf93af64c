#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tenon/json/value.h"

/// What `tenon verify` asks a server, in a form that no dialect has. A check is written once;
/// body_of() writes it in the dialect of the server.
///
///     Question question = asking("What is the weather in Lisbon?");
///     question.tools = {weather_tool()};
///     question.choice = {Choice::Kind::required};
///     json::Object body = body_of(question, Dialect::chat, "qwen");
namespace tenon::app::verify {

enum class Dialect : std::uint8_t { chat, responses, messages };
[[nodiscard]] std::string_view dialect_name(Dialect dialect);
[[nodiscard]] std::optional<Dialect> find_dialect(std::string_view name);
/// "/v1/chat/completions" and its like.
[[nodiscard]] std::string_view path_of(Dialect dialect);

/// A call, as history has it or as a played model is to write it.
struct PlainCall {
  std::string name;
  std::string arguments;  ///< JSON.
  std::string id{};       ///< Not for a played model.
};

struct Turn {
  std::string role;  ///< system, developer, user, assistant or tool
  std::string text{};
  std::vector<PlainCall> calls{};
  std::string call_id{};  ///< For a tool's result: its call.
};

struct OfferedTool {
  std::string name;
  std::string description;
  json::Value parameters;
  bool strict = false;
};

struct Choice {
  enum class Kind : std::uint8_t { absent, automatic, none, required, named, allowed };
  Kind kind = Kind::absent;
  std::vector<std::string> names{};  ///< One for `named`; for `allowed` one of them is demanded.
};

/// What a played engine says to a question. It stands as a line of JSON at the end of the last
/// message of the user, behind kPlayMark, and the engine finds it in its prompt: docs/verify.md.
struct Play {
  std::string text{};
  std::string reasoning{};
  std::vector<PlainCall> calls{};
  std::string find{};        ///< It tells what this pattern matches in the rest of its prompt.
  bool is_drawn = false;     ///< It draws its words at random, by the request's seed.
  std::int64_t pace_ms = 0;  ///< It waits so long between two pieces of its text.

  [[nodiscard]] json::Object to_json() const;
};
inline constexpr std::string_view kPlayMark = "tenon-verify-play:";

struct Question {
  std::vector<Turn> turns;
  std::vector<OfferedTool> tools{};
  Choice choice{};
  std::optional<bool> is_parallel{};
  std::optional<json::Value> answer_schema{};  ///< What the text must fit.
  bool is_json_wanted = false;                 ///< JSON of any schema.
  std::optional<std::int64_t> max_tokens{};    ///< No value: Target::max_tokens.
  std::optional<double> temperature = 0.0;     ///< No value: the server refuses it.
  /// How Chat names the limit: "max_tokens", or "max_completion_tokens" where that is refused.
  std::string limit_key = "max_tokens";
  std::optional<std::int64_t> seed{};
  std::string stop{};  ///< "": none.
  bool is_streamed = false;
  Play play{};
  /// Changes the body, for what only some clients write. Empty: it stays.
  std::function<void(json::Object& body)> bend{};
  std::optional<std::string> raw{};  ///< The body itself, where it is no JSON.
  /// A server that refuses the choice is asked without it.
  bool is_choice_optional = false;
  bool may_be_cut = false;  ///< The answer may end at max_tokens and is judged all the same.
};

/// A question with this message of a user.
[[nodiscard]] Question asking(std::string text);
[[nodiscard]] Question streamed(Question question);

/// The request's body. `is_played` adds what a played engine is to say.
[[nodiscard]] json::Object body_of(const Question& question, Dialect dialect,
                                   const std::string& model, bool is_played);

/// A JSON text of our own, which has no mistakes.
[[nodiscard]] json::Value json_of(std::string_view text);

}  // namespace tenon::app::verify
