#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "verify/question.h"

#include "tenon/json/value.h"

/// What a server answered, folded from a document or a stream of any dialect into one form.
namespace tenon::app::verify {

struct GivenCall {
  std::string id;
  std::string name;
  std::string arguments;  ///< The text; an object is written as text.
};

struct GivenUsage {
  std::int64_t prompt = 0;  ///< With the tokens that a cache had.
  std::int64_t completion = 0;
};

inline constexpr std::size_t kMostBytes = std::size_t{8} << 20;  ///< The most that a body may have.

/// A rule of the dialect that an answer breaks.
struct Flaw {
  std::string_view rule;  ///< The name of the check that is about it.
  std::string what;
  bool may_be_models = false;  ///< A weak model can write it so.
};

/// How an answer ended.
enum class Finish : std::uint8_t { unknown, stop, calls, length };

struct Answer {
  unsigned status = 0;        ///< 0: there was no answer, see `trouble`.
  std::string trouble{};      ///< Beside a status: a stream that was cut, read as far as it came.
  bool is_late = false;       ///< There was no answer within the time.
  std::string retry_after{};  ///< The header of this name.
  std::string content_type{};
  std::string body{};  ///< Empty once it is read.
  bool is_streamed = false;
  std::chrono::nanoseconds time{0};

  std::string text{};
  std::string reasoning{};
  std::vector<GivenCall> calls{};
  Finish finish = Finish::unknown;
  std::string finish_word{};  ///< As the dialect says it.
  std::optional<GivenUsage> usage{};
  std::string
      error{};         ///< The message of an error, in whatever form it came; "": there is no text.
  json::Value note{};  ///< Tenon's own member `tenon`, which tells what is not held to.
  std::size_t argument_pieces = 0;  ///< Events that had a part of arguments.
  std::vector<Flaw> flaws{};

  [[nodiscard]] bool is_ok() const { return status == 200 && error.empty(); }
  /// Too many requests, which says nothing about this one.
  [[nodiscard]] bool is_busy() const {
    return status == 429 || status == 529 || (status == 503 && !retry_after.empty());
  }
  [[nodiscard]] bool is_refused() const { return status >= 400 && status < 500 && !is_busy(); }
  /// The first flaw of each rule stays.
  void add_flaw(std::string_view rule, std::string what, bool may_be_models = false);
  [[nodiscard]] const Flaw* flaw(std::string_view rule) const;
  /// The server said itself that it did not hold the answer to its schema.
  [[nodiscard]] bool is_told_unenforced() const;
};

/// Reads `answer.body` by its status and content type. Every flaw that any dialect can have stands
/// in the same words afterwards.
void read_answer(Dialect dialect, bool was_stream_wanted, Answer& answer);

// For the readers of the dialects.

/// The text of a member; "" if it is missing. A member of another kind is a flaw of `rule`.
[[nodiscard]] std::string text_at(const json::Value& object, std::string_view key, Answer& answer,
                                  std::string_view rule);
[[nodiscard]] bool is_text(const json::Value& object, std::string_view key);
[[nodiscard]] std::int64_t count_at(const json::Value& object, std::string_view key);
[[nodiscard]] std::string_view word_at(const json::Value& object, std::string_view key);
/// Takes {"prompt_tokens": ...} by the dialect's names for the figures; "" for no total.
void read_usage(const json::Value* usage, std::string_view prompt, std::string_view completion,
                std::string_view total, Answer& answer);

}  // namespace tenon::app::verify
