#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tenon/api/answer_encoder.h"
#include "tenon/api/answer_parts.h"

/// Encodes Anthropic Messages. Source: the types of the Python package `anthropic` 2.11.0.
namespace tenon::api {

inline constexpr FieldName kMessagesNames[] = {{".function.parameters", ".input_schema"},
                                               {"response_format", "output_config.format"}};

/// What is known of a message before it is written.
struct MessageHead {
  std::string id;  ///< "msg_..."
  std::string model;
  std::string format;  ///< Name of the tool-call format; "" if the model has none.
  std::string request_id;
  bool omits_thinking = false;       ///< Thinking is counted but not shown.
  bool is_json = false;              ///< Text must fit a schema, which the guarantee covers.
  json::Value context_management{};  ///< `{"applied_edits"}`; null: no edits were asked for.
  std::uint64_t guessed_tokens = 0;  ///< The prompt's, if not known before the answer.
  std::string code_type{};           ///< message::CodeTool::type; "": no code is run.
  std::optional<json::Value> diagnostics{};  ///< No value: none were asked for.
  /// Called once the answer's usage is known; empty: not called.
  std::function<void(const message::Usage& usage)> ended{};
};

/// A message is a list of blocks, in the order in which the model wrote them: text, thinking, and
/// calls (`tool_use`). A stream opens, extends and closes the same blocks, so both are equal. If a
/// call was cut, the stream has the bytes that came, and the whole answer has an object made from
/// them.
///
/// `message_start` has the number of the prompt's tokens if it is known before the answer, else the
/// head's guess.
/// `message_delta` says how many were cached and has the final number, which the SDKs use.
class MessagesEncoder final : public AnswerEncoder {
 public:
  explicit MessagesEncoder(MessageHead head)
      : head_(std::move(head)), note_(head_.format, head_.is_json) {}

  [[nodiscard]] Dialect dialect() const override { return Dialect::anthropic; }
  [[nodiscard]] std::span<const FieldName> field_names() const override { return kMessagesNames; }
  void set_prompt_tokens(std::uint64_t count) override {
    prompt_tokens_ = count > 0 ? count : head_.guessed_tokens;
  }
  void begin(std::string& out) override;
  void add(unsigned choice, const message::ChatEvent& event,
           const std::vector<message::TokenLogprob>& logprobs, std::string& out) override;
  void end(const message::Usage& usage, std::string& out) override;
  void fail(const ApiError& error, std::string& out) override;
  void keep_alive(std::string& out) override;
  void keep(unsigned choice, const message::ChatEvent& event,
            const std::vector<message::TokenLogprob>& logprobs) override;
  [[nodiscard]] json::Value whole(const message::Usage& usage) override;

 private:
  enum class Kind : std::uint8_t { none, text, thinking, tool_use, server_call, server_result };
  struct Block {
    Kind kind = Kind::none;
    std::string id;         // for a call, or its result
    std::string name;       // for a call
    std::string text;       // text, thinking, arguments or result; of a stream only results
    std::string server{};   // for a server_call
    bool is_error = false;  // for a server_result
    std::string code_id{};  // for a tool_use: the call whose code makes it
    std::optional<std::string> error_output{};  // for the result of code
  };

  void add_event(const message::ChatEvent& event, std::string* out);
  bool add_server_event(const message::ChatEvent& event, std::string* out);
  static json::Object result_of(const Block& block);
  [[nodiscard]] json::Object call_of(const Block& block, json::Value input) const;
  [[nodiscard]] json::Object caller_of(const Block& block) const;
  [[nodiscard]] json::Value container() const;
  void add_text(Kind kind, std::string_view text, std::string* out);
  void open(Block block, std::string* out);
  void close(std::string* out);
  void append_delta(Kind kind, std::string_view text, std::string& out) const;
  [[nodiscard]] json::Value message(json::Array content, const message::Usage* usage) const;
  [[nodiscard]] json::Value stop_reason() const;
  [[nodiscard]] json::Value stop_sequence() const;

  const MessageHead head_;
  std::vector<Block> blocks_;        // of a whole answer; empty for a stream
  std::uint64_t prompt_tokens_ = 0;  // used until there is a usage
  std::size_t opened_ = 0;
  Kind open_ = Kind::none;
  message::Finish finish_;
  bool waits_ = false;     // for approvals
  bool has_code_ = false;  // the answer shows code, or what it gave
  AnswerNote note_;
};

}  // namespace tenon::api
