#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include "tenon/api/answer_encoder.h"
#include "tenon/api/answer_parts.h"
#include "tenon/api/input_reader.h"
#include "tenon/api/responses_request.h"

/// Encodes OpenAI's Responses. Source: the types of the Python package `openai` 3.52.0.
namespace tenon::api {

inline constexpr FieldName kResponsesNames[] = {{"messages", "input"},
                                                {".function.", "."},
                                                {".custom.format.grammar", ".format"},
                                                {"response_format", "text.format"},
                                                {"max_tokens", "max_output_tokens"}};

/// What is known of a response before it is written.
struct ResponseHead {
  std::string id;               ///< "resp_..."
  std::int64_t created_at = 0;  ///< Unix time in seconds.
  json::Object echo;            ///< ResponsesRequest::echo
  std::string format;           ///< Name of the tool-call format; "" if the model has none.
  std::vector<std::string> custom_tools;  ///< Names of the tools whose calls have an input.
  CalledAsByName called_as{};             ///< ResponsesRequest::called_as
  bool logprobs = false;                  ///< For the answer's text.
  bool is_json = false;  ///< Text is in a response format, which the guarantee covers.
  /// Keeps the whole response for clients that come back to it; false: it could not. It may take
  /// long. Empty: the response is not kept.
  std::function<bool(const json::Value& response)> keep;
  std::function<std::int64_t()> now;  ///< Unix time in seconds, for when it was completed.
  /// Encrypts reasoning, which the client keeps; empty: the client does not.
  std::function<std::string(std::string_view text)> seal{};
};

/// The usage as Responses reports it.
[[nodiscard]] json::Object encode_response_usage(const message::Usage& usage);

/// A response is a list of items, in the order in which the model wrote them: reasoning, messages,
/// calls. A stream opens, extends and closes the same items, and its last event has the whole
/// response, so both are equal. An item that was cut is `incomplete` and has what came of it.
class ResponsesEncoder final : public AnswerEncoder {
 public:
  explicit ResponsesEncoder(ResponseHead head)
      : head_(std::move(head)), note_(head_.format, head_.is_json) {}

  [[nodiscard]] Dialect dialect() const override { return Dialect::openai; }
  [[nodiscard]] std::span<const FieldName> field_names() const override { return kResponsesNames; }
  [[nodiscard]] bool ends_slowly() const override { return head_.keep != nullptr; }
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
  enum class Kind : std::uint8_t {
    message,
    reasoning,
    function_call,
    custom_tool_call,
    client_call,  // a call of a ClientTool
    // From servers of tools:
    server_tools,
    server_call,
    approval_request,
    // Code that the model writes:
    program,
    program_output
  };
  enum class State : std::uint8_t { in_progress, completed, incomplete, failed };
  struct Item {
    Kind kind = Kind::message;
    State state = State::in_progress;
    std::string id;
    std::string call_id;     // for a call, for code and its output
    std::string code_id;     // for a call that code makes: the code's call_id
    std::string server;      // the label, for an item of a server of tools
    std::string approval;    // for a server_call: the item that asked for it; "": none did
    json::Value result;      // for a server_call its output; for server_tools the tools
    std::string name;        // for a call
    std::string name_space;  // for a call
    const ClientTool* tool = nullptr;  // for a client_call
    std::string text;                  // text, reasoning, arguments or input
    std::string sealed;                // finished reasoning, encrypted for the client to keep
    json::Array logprobs;
    InputReader reader;  // for a custom tool's arguments
  };
  struct Wording;

  static const Wording& wording(Kind kind);
  static json::Value encode(const Item& item);
  static json::Object encode_of_server(const Item& item);
  static json::Object encode_of_code(const Item& item);
  static std::string_view item_type(const Item& item);
  static json::Value part_of(const Item& item);
  void add_event(const message::ChatEvent& event,
                 const std::vector<message::TokenLogprob>& logprobs, std::string* out);
  bool add_server_event(const message::ChatEvent& event, std::string* out);
  bool add_code_event(const message::ChatEvent& event, std::string* out);
  void end_program(std::string* out);
  Item& add_item(Kind kind, std::string* out);
  void append_of(const Item& item, std::string_view type, std::initializer_list<json::Member> more,
                 std::string* out);
  void begin_item(const Item& item, std::string* out);
  void end_item(const Item& item, std::string* out);
  void end_server_call(Item& item, std::string* out);
  void add_text(Kind kind, std::string_view text,
                const std::vector<message::TokenLogprob>& logprobs, std::string* out);
  void add_arguments(std::string_view arguments, std::string* out);
  void open(Kind kind, const message::CallBegin* call, std::string* out);
  void close(State state, std::string* out);
  void append_delta(std::string_view text, const json::Array& logprobs, std::string& out);
  void append_event(std::string_view type, std::initializer_list<json::Member> members,
                    std::string& out);
  [[nodiscard]] json::Object response(std::string_view status, json::Array output) const;
  [[nodiscard]] json::Object finished(const message::Usage& usage);

  const ResponseHead head_;
  std::vector<Item> items_;  // the last one may be open
  // begin() writes the first two events, even if others have been made before.
  std::uint64_t sequence_ = 2;
  bool is_open_ = false;
  std::string data_;  // of the present event
  message::Finish finish_;
  AnswerNote note_;
};

}  // namespace tenon::api
