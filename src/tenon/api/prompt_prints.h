#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "tenon/message/message.h"

/// Why a prompt does not begin as an earlier one did, so that a cache of prompts is of no use:
/// `diagnostics` of Anthropic's Messages.
namespace tenon::api {

/// What a prompt is made of, as hashes: enough to say in which part another one differs.
struct PromptPrint {
  struct Part {
    std::uint64_t hash = 0;
    std::uint64_t bytes = 0;  ///< The length of its texts.

    bool operator==(const Part&) const = default;
  };
  std::string model;
  Part tools;
  Part system;                 ///< The messages of the system that come first.
  std::vector<Part> messages;  ///< All others.
};

/// It is read from a decoded request, so that the marks of `cache_control` do not count.
[[nodiscard]] PromptPrint print_of(const message::ChatRequest& request);

/// The first difference, in the order of a prompt.
struct CacheMiss {
  /// `previous_message_not_found`, `model_changed`, `tools_changed`, `system_changed`, or
  /// `messages_changed`: an earlier message is another one, or is gone.
  std::string_view type;
  /// How many tokens of the earlier prompt are of no use, in proportion to the bytes behind the
  /// difference; no value where the earlier prompt is not known.
  std::optional<std::uint64_t> tokens;
};

/// The prints of the latest answers whose clients asked for a diagnosis. Thread-safe.
class PromptPrints {
 public:
  /// Answers that are remembered, and the messages of all of them together.
  static constexpr std::size_t kMostAnswers = 4096;
  static constexpr std::size_t kMostMessages = std::size_t{1} << 20;

  /// `owner`: whose answer it is; others do not find it. `tokens`: of the whole prompt.
  void keep(std::string_view owner, std::string_view id, PromptPrint print, std::uint64_t tokens);
  /// No value: `now` begins with all that the prompt of answer `id` was made of.
  [[nodiscard]] std::optional<CacheMiss> compare(std::string_view owner, std::string_view id,
                                                 const PromptPrint& now) const;

 private:
  struct Kept {
    PromptPrint print;
    std::uint64_t tokens = 0;
  };
  static std::string key_of(std::string_view owner, std::string_view id);

  mutable std::mutex mutex_;  // guards the members below
  std::unordered_map<std::string, Kept> kept_;
  std::deque<std::string> order_;  // keys, the oldest first
  std::size_t messages_ = 0;
};

}  // namespace tenon::api
