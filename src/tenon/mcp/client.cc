#include "tenon/mcp/client.h"

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <map>
#include <mutex>
#include <set>
#include <string_view>
#include <utility>

#include "tenon/base/log.h"
#include "tenon/base/span.h"
#include "tenon/base/utf8.h"
#include "tenon/http/client.h"
#include "tenon/mcp/transport.h"

// A session with one MCP server over any transport. Two eras of the protocol differ in their
// beginning: since 2026-07-28 every request names its revision, before that a session begins with
// `initialize`. agree() asks `server/discover` first and shakes hands if the server does not know
// that question; connect() starts the program again if the question made it end.
//
// Callers wait in await() on a condition variable; the transport's thread delivers messages to
// on_message() and its siblings, which store the answer in pending_ under the mutex. Progress and
// questions of the server are handed to the caller's functions on the caller's own thread, without
// the lock. A caller that stops waiting tells the server (give_up), and an answer that comes later
// is dropped.
//
// A tool call may become several requests: answers to what the server asks for (with_answers), and
// the result of a task (follow_task). Everything that a server sends is bounded, and text of its
// errors is cut to kMaxText.

namespace tenon::mcp {
namespace {

using Clock = std::chrono::steady_clock;

// Revisions without a handshake, and with one; the newest first.
constexpr std::string_view kModern[] = {"2026-07-28"};
constexpr std::string_view kShaken[] = {"2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"};
// The first code is that of JSON-RPC 2.0. The others are those of 2026-07-28; servers from before
// it do not send them.
constexpr std::int64_t kNoSuchMethod = -32601;
constexpr std::int64_t kHeaderMismatch = -32020;
constexpr std::int64_t kMissingCapability = -32021;
constexpr std::int64_t kUnsupportedVersion = -32022;
constexpr std::size_t kMaxPages = 100;
constexpr std::size_t kMaxLeftOut = 100;  // faulty tools of a list that are told
constexpr int kMaxQuestions = 10;         // from a server, before it gives a result
constexpr int kMaxRefusals = 2;           // of a request that gets another token each time
constexpr std::size_t kMaxText = 4096;    // bytes of an error or of progress
constexpr std::size_t kMaxBatch = 1000;   // messages in one batch, which 2025-03-26 allows

json::Value notification(std::string_view method, json::Object params = {}) {
  json::Object message{{"jsonrpc", "2.0"}, {"method", method}};
  if (!params.empty()) message.set("params", std::move(params));
  return message;
}

// The same options, with a deadline of at most `most` from now.
CallOptions within(std::chrono::milliseconds most, CallOptions options) {
  options.deadline = std::min(options.deadline, Clock::now() + most);
  return options;
}

// `time + by`. A caller without a deadline has time_point::max(), to which nothing can be added.
Clock::time_point later(Clock::time_point time, Clock::duration by) {
  return time > Clock::time_point::max() - by ? Clock::time_point::max() : time + by;
}

Unexpected failed(Errc code, std::string message) {
  return Unexpected(Error{code, std::move(message)});
}

const std::string* text_at(const json::Value& value, std::string_view key) {
  const json::Value* const found = value.find(key);
  return found == nullptr ? nullptr : found->if_string();
}

std::string text_or(const json::Value& value, std::string_view key, std::string_view otherwise) {
  const std::string* const found = text_at(value, key);
  return std::string(found == nullptr ? otherwise : *found);
}

// The first kMaxText bytes of `text`.
std::string excerpt(std::string_view text) {
  if (text.size() <= kMaxText) return std::string(text);
  text = text.substr(0, kMaxText);
  return std::string(text.substr(0, text.size() - utf8::open_tail(text))) + "...";
}

// The lines of `text`, trimmed, with "; " between them: "a\n  b\n" -> "a; b".
std::string in_one_line(std::string_view text) {
  constexpr std::string_view kBlank = " \t\r";
  std::string joined;
  while (!text.empty()) {
    std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(line.size() + 1, text.size()));
    line.remove_prefix(std::min(line.find_first_not_of(kBlank), line.size()));
    line = line.substr(0, line.find_last_not_of(kBlank) + 1);
    if (!line.empty()) joined += (joined.empty() ? "" : "; ") + std::string(line);
  }
  return joined;
}

// The part of a content block that a model can read:
//   {"type": "text", "text": "hi"}                        -> hi
//   {"type": "resource_link", "name": "a", "uri": "f:a"}  -> [a: f:a]
//   {"type": "resource", "resource": {"text": "hi"}}      -> hi
//   {"type": "image", "mimeType": "image/png", ..}   -> [image, image/png, 300 bytes: not shown]
std::string shown(const json::Value& block) {
  if (const std::string* const text = block.if_string()) return *text;
  if (block.if_object() == nullptr) return json::to_string(block);
  const std::string type = text_or(block, "type", "content");
  if (type == "text" && text_at(block, "text") != nullptr) return *text_at(block, "text");
  if (type == "resource_link") {
    return "[" + text_or(block, "name", "resource") + ": " + text_or(block, "uri", "") + "]";
  }
  const json::Value* const resource = block.find("resource");
  if (resource != nullptr && text_at(*resource, "text") != nullptr) {
    return *text_at(*resource, "text");
  }
  const json::Value& holder = resource != nullptr ? *resource : block;
  const std::string* data = text_at(holder, "data");
  if (data == nullptr) data = text_at(holder, "blob");
  // A block without data may be text in a form that Tenon does not know.
  if (data == nullptr && resource == nullptr) return json::to_string(block);
  constexpr std::size_t kIn = 4;  // characters of base64 for kOut bytes
  constexpr std::size_t kOut = 3;
  return "[" + type + ", " + text_or(holder, "mimeType", "unknown type") + ", " +
         std::to_string(data == nullptr ? 0 : data->size() / kIn * kOut) + " bytes: not shown]";
}

// The members of a result that the protocol does not define, as JSON; "" without any. Servers of
// 2024-10-07 put the result of a tool there (`toolResult`).
std::string rest_of(const json::Object& told) {
  json::Object rest;
  for (const json::Member& member : told) {
    const bool is_known = member.key == "content" || member.key == "isError" ||
                          member.key == "_meta" || member.key == "resultType" ||
                          member.value.is_null();
    if (!is_known) rest.set(member.key, member.value);
  }
  return rest.empty() ? "" : json::to_string(rest);
}

// The text is the first of these that is not empty: the content, the structured content, the other
// members. An empty array of content is a result without text; no content at all is an error,
// because the model would otherwise read "" as the result.
CallResult result_of(const json::Object& told) {
  CallResult result;
  const json::Value* const is_error = told.find("isError");
  result.is_error = is_error != nullptr && *is_error == json::Value(true);
  if (const json::Value* const structured = told.find("structuredContent")) {
    result.structured = *structured;
  }
  const json::Value* const content = told.find("content");
  const json::Array* const blocks = content == nullptr ? nullptr : content->if_array();
  if (blocks != nullptr) {
    for (const json::Value& block : *blocks) {
      if (&block != blocks->data()) result.text += '\n';
      result.text += shown(block);
    }
  } else if (content != nullptr && !content->is_null()) {
    result.text = shown(*content);
  }
  if (result.text.empty() && !result.structured.is_null()) {
    result.text = json::to_string(result.structured);
  }
  if (result.text.empty()) result.text = rest_of(told);
  if (result.text.empty() && blocks == nullptr) {
    result.text = "the server gave a result without content; the tool may have run";
    result.is_error = true;
  }
  return result;
}

// The `code` of an error of JSON-RPC. `error` may be null: the request failed without an answer.
std::optional<std::int64_t> code_of(const json::Value& error) {
  const json::Value* const code = error.find("code");
  return code == nullptr || code->if_number() == nullptr ? std::nullopt
                                                         : code->if_number()->to_int64();
}

bool is_listed(const json::Value* list, std::string_view version) {
  if (list == nullptr || list->if_array() == nullptr) return false;
  return std::ranges::any_of(*list->if_array(), [version](const json::Value& one) {
    return one.if_string() != nullptr && *one.if_string() == version;
  });
}

// The newest of `ours` that the server lists.
template <std::size_t kCount>
std::optional<std::string> common_version(const std::string_view (&ours)[kCount],
                                          const json::Value* theirs) {
  for (const std::string_view version : ours) {
    if (is_listed(theirs, version)) return std::string(version);
  }
  return std::nullopt;
}

/// Finds the parameters of a tool that are sent as headers (2026-07-28, `x-mcp-header`):
/// {"properties": {"region": {"type": "string", "x-mcp-header": "Region"}}} gives the name "Region"
/// and the path {"region"}. A schema with a faulty one has a fault(), and its tool is left out.
class HeaderFinder {
 public:
  explicit HeaderFinder(const json::Value& schema) { look(schema, /*is_reachable=*/true, 0); }

  const std::string& fault() const { return fault_; }
  std::vector<Tool::Header> take() { return std::move(found_); }

 private:
  // A parameter can be reached only by a chain of `properties`: below `items` or `anyOf` its place
  // in the arguments is not known. Values that are data (`enum`, `default`) are not looked into,
  // since a member of theirs may have any name. json::parse() bounds the depth.
  void look(const json::Value& schema, bool is_reachable, std::size_t depth) {
    if (const json::Array* const list = schema.if_array()) {
      for (const json::Value& one : *list) look(one, false, depth + 1);
    }
    const json::Object* const members = schema.if_object();
    if (members == nullptr) return;
    for (const json::Member& member : *members) {
      if (member.key == "x-mcp-header") {
        add(schema, member.value, is_reachable && depth > 0);
      } else if (member.key == "properties" && member.value.if_object() != nullptr) {
        for (const json::Member& property : *member.value.if_object()) {
          path_.push_back(property.key);
          look(property.value, is_reachable, depth + 1);
          path_.pop_back();
        }
      } else if (member.key != "enum" && member.key != "const" && member.key != "default" &&
                 member.key != "examples") {
        look(member.value, false, depth + 1);
      }
    }
  }
  void add(const json::Value& schema, const json::Value& name, bool is_reachable) {
    const std::string type = text_or(schema, "type", "");
    constexpr std::string_view kMarks = "!#$%&'*+-.^_`|~";
    const std::string* const text = name.if_string();
    if (!is_reachable) return fail("stands where no parameter is");
    if (type != "string" && type != "integer" && type != "boolean") {
      return fail("is that of a parameter which is no string, integer or boolean");
    }
    // The characters of a header's name: RFC 9110, section 5.6.2.
    const auto is_token = [kMarks](char c) {
      return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
             kMarks.find(c) != kMarks.npos;
    };
    if (text == nullptr || text->empty() || !std::ranges::all_of(*text, is_token)) {
      return fail("is no name of a header");
    }
    const auto lower = [](std::string_view word) {
      std::string out(word);
      for (char& c : out) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
      return out;
    };
    // Names of headers are equal in any case, so "Region" and "region" would be one header.
    for (const Tool::Header& one : found_) {
      if (lower(one.name) == lower(*text)) return fail("is there twice");
    }
    found_.push_back({.name = *text, .path = path_});
  }
  void fail(std::string_view what) {
    if (fault_.empty()) fault_ = "an x-mcp-header of it " + std::string(what);
  }

  std::vector<std::string> path_;
  std::vector<Tool::Header> found_;
  std::string fault_;
};

// The value of the header; nothing if the arguments do not have it, or have one that a header
// cannot hold.
std::optional<std::string> value_at(const json::Object& arguments,
                                    const std::vector<std::string>& path) {
  const json::Object* at = &arguments;
  const json::Value* found = nullptr;
  for (const std::string& key : path) {
    found = at == nullptr ? nullptr : at->find(key);
    if (found == nullptr) return std::nullopt;
    at = found->if_object();
  }
  if (found == nullptr) return std::nullopt;
  if (const std::string* const text = found->if_string()) return *text;
  if (const bool* const is_true = found->if_bool()) return *is_true ? "true" : "false";
  if (found->if_number() == nullptr) return std::nullopt;
  // 1.0 and 1 are the same integer, and the header has it without a point.
  const auto whole = found->if_number()->to_int64();
  return whole ? std::to_string(*whole) : found->if_number()->text;
}

// The capability to ask a user, by forms.
json::Object can_ask() {
  return {{"form", json::Object{}}};
}

// `content` with the defaults of members that it does not have.
json::Object with_defaults(json::Object content, const json::Value* properties) {
  if (properties == nullptr || properties->if_object() == nullptr) return content;
  for (const json::Member& one : *properties->if_object()) {
    const json::Value* const value = one.value.find("default");
    if (value != nullptr && !content.contains(one.key)) content.set(one.key, *value);
  }
  return content;
}

// The answer to a server that wants to know something of the user. What has no answer is declined.
json::Object answer_to(const json::Value& params, const CallOptions& options) {
  auto content = options.on_question && text_or(params, "mode", "form") == "form"
                     ? options.on_question(params)
                     : std::nullopt;
  if (!content) return {{"action", "decline"}};
  return {{"action", "accept"},
          {"content", with_defaults(*std::move(content),
                                    json::at_pointer(params, "/requestedSchema/properties"))}};
}

class Session final : public Client {
 public:
  Session(std::string name, const ClientOptions& options)
      : name_(std::move(name)), options_(options) {}
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;
  ~Session() override {
    // Destroyed without the lock, because its thread takes the lock.
    std::unique_ptr<Transport> gone;
    const std::lock_guard lock(mutex_);
    gone.swap(transport_);
  }

  Status connect(const OpenTransport& open, const CallOptions& call);
  Expected<std::vector<Tool>> list_tools(const CallOptions& options) override;
  Result<CallResult, CallFailure> call_tool(const std::string& name, const json::Object& arguments,
                                            const CallOptions& options) override;
  Expected<std::vector<Prompt>> list_prompts(const CallOptions& options) override;
  Expected<std::vector<Resource>> list_resources(const CallOptions& options) override;
  Expected<std::vector<PromptMessage>> get_prompt(const std::string& name,
                                                  const json::Object& arguments,
                                                  const CallOptions& options) override;
  Expected<std::string> read_resource(const std::string& uri, const CallOptions& options) override;
  std::vector<std::pair<std::string, std::string>> left_out() const override {
    const std::lock_guard lock(mutex_);
    return left_out_;
  }
  std::uint64_t tools_version() const override;
  std::string instructions() const override { return instructions_; }
  std::string revision() const override { return version_; }
  bool has_handshake() const override { return !is_modern_; }
  bool is_open() const override {
    const std::lock_guard lock(mutex_);
    return !closed_;
  }

 private:
  /// What a server asks while it works (before 2026-07-28).
  struct Question {
    json::Value id;
    json::Value params;
  };
  struct Pending {
    // Nothing: the request has not ended. Once set, it stays: later answers are dropped.
    std::optional<Expected<json::Value>> answer;
    json::Value error;                   // the error of the server, as JSON-RPC writes it
    bool ran_nothing = false;            // the server has not begun the call
    std::optional<Challenge> challenge;  // it was refused for want of a token
    bool takes_questions = false;        // the caller can ask a user
    std::vector<Question> questions;     // not yet passed to the caller
    int asked = 0;                       // how many were passed
    bool wants_progress = false;         // else progress is dropped
    std::vector<Progress> progress;      // not yet passed to the caller
  };
  /// How a request ended.
  struct Reply {
    Expected<json::Value> answer;
    json::Value error{};
    bool ran_nothing = false;
    std::optional<Challenge> challenge{};
  };

  Status open_transport(const OpenTransport& open);
  // `refusals` counts how often the server has asked for a token or for another revision.
  Status agree(const CallOptions& call, std::string_view version = kModern[0], int refusals = 0);
  Status shake_hands(std::optional<std::int64_t> discovering, const CallOptions& call);
  Status take_discovered(const json::Value& told);
  void take_capabilities(const json::Value& told);
  void take_instructions(const json::Value& told);
  void subscribe();

  Expected<std::int64_t> begin(std::string_view method, json::Object params,
                               const CallOptions& options,
                               const std::vector<http::Header>& headers = {});
  Reply await(std::int64_t id, std::string_view method, const CallOptions& options);
  Reply request(std::string_view method, json::Object params, const CallOptions& options,
                const std::vector<http::Header>& headers = {});
  Reply request_once(std::string_view method, json::Object params, const CallOptions& options,
                     const std::vector<http::Header>& headers);
  void describe(std::string_view method, trace::Span& span) const;
  static void tell_end(const Reply& reply, trace::Span& span);
  Expected<json::Value> ask(std::string_view method, json::Object params,
                            const CallOptions& options);
  void give_up(std::int64_t id, std::string_view method);
  std::optional<Reply> taken(std::int64_t id);

  using LeftOut = std::vector<std::pair<std::string, std::string>>;  // names, and why
  using TakePage = std::function<bool(const json::Value& page, const json::Array& items)>;
  Expected<std::string> read_pages(std::string_view method, std::string_view member,
                                   const CallOptions& call, const TakePage& take);
  Expected<json::Array> list_all(std::string_view method, std::string_view member,
                                 const CallOptions& call);
  void add_page(const json::Array& page, std::vector<Tool>& tools, LeftOut& left_out,
                std::size_t& bytes);
  std::string add_tool(const json::Value& told, std::vector<Tool>& tools) const;
  Reply run_tool(const std::string& name, const json::Object& arguments,
                 const CallOptions& options);
  Reply with_answers(std::string_view method, json::Object params, const CallOptions& call,
                     const std::vector<http::Header>& headers = {});
  Reply follow_task(const json::Value& task, const CallOptions& options);
  static json::Object answers_to(const json::Object& questions, const CallOptions& options);
  [[nodiscard]] std::vector<http::Header> headers_of(const std::string& name,
                                                     const json::Object& arguments) const;

  static void tell_progress(Pending& pending, const CallOptions& options,
                            std::unique_lock<std::mutex>& lock);
  Clock::duration put_questions(Pending& pending, const CallOptions& options,
                                std::unique_lock<std::mutex>& lock);
  bool keep_question(const json::Value& message);
  void refuse(std::int64_t id, Challenge challenge, Error why);
  void on_message(json::Value message);
  void on_one(json::Value message);
  void on_request(const json::Value& message, std::string_view method);
  void on_notification(const json::Value& message, std::string_view method);
  void on_unreadable(std::string_view text, Error why);
  void answer(std::int64_t id, Expected<json::Value> answer, json::Value error = {});
  void close(const Closing& closing);

  const std::string name_;
  const ClientOptions options_;
  mutable std::atomic<std::uint64_t> tools_version_ = 0;
  // Set by connect():
  bool has_tools_ = false;
  bool has_prompts_ = false;
  bool has_resources_ = false;
  bool is_modern_ = false;
  bool may_change_ = false;  // its tools may change, and it tells subscribers
  bool has_tasks_ = false;   // calls can be tasks
  std::string version_;
  std::string instructions_;

  mutable std::mutex mutex_;  // guards the members below
  std::condition_variable changed_;
  std::map<std::int64_t, Pending> pending_;
  std::int64_t last_id_ = 0;
  std::optional<Error> closed_;
  std::string last_words_;   // the last output of a program that ended
  std::vector<Tool> tools_;  // listed last; calls need their schemas
  LeftOut left_out_;         // of the same list
  // Nothing: until the server says that they have changed.
  mutable std::optional<Clock::time_point> fresh_until_;
  std::int64_t subscription_ = 0;  // the request's id; 0: there is no subscription
  Clock::time_point next_subscription_;

  std::unique_ptr<Transport> transport_;  // last, because its thread uses the others
};

// Gives the caller the progress that has come. `lock` is held again afterwards. `pending` stays
// valid without the lock, because only the caller that waits for it removes it.
void Session::tell_progress(Pending& pending, const CallOptions& options,
                            std::unique_lock<std::mutex>& lock) {
  const std::vector<Progress> told = std::exchange(pending.progress, {});
  if (told.empty()) return;
  lock.unlock();
  for (const Progress& one : told) options.on_progress(one);
  lock.lock();
}

// Asks the caller what the server wants to know, and sends the answers. Returns how long that took.
Clock::duration Session::put_questions(Pending& pending, const CallOptions& options,
                                       std::unique_lock<std::mutex>& lock) {
  const std::vector<Question> questions = std::exchange(pending.questions, {});
  if (questions.empty()) return {};
  const auto begun = Clock::now();
  lock.unlock();
  for (const Question& one : questions) {
    (void)transport_->send(
        json::Object{
            {"jsonrpc", "2.0"}, {"id", one.id}, {"result", answer_to(one.params, options)}},
        0, {});
  }
  lock.lock();
  return Clock::now() - begun;
}

// Sends a request and returns its id.
Expected<std::int64_t> Session::begin(std::string_view method, json::Object params,
                                      const CallOptions& options,
                                      const std::vector<http::Header>& headers) {
  std::unique_lock lock(mutex_);
  if (closed_) return Unexpected(*closed_);
  const std::int64_t id = ++last_id_;
  // Before the request is sent: its answer may come on the transport's thread before send()
  // returns.
  pending_[id].wants_progress = static_cast<bool>(options.on_progress);
  pending_[id].takes_questions = static_cast<bool>(options.on_question);
  lock.unlock();
  json::Object meta;
  if (options.on_progress) meta.set("progressToken", id);  // on_notification() finds the call by it
  if (is_modern_) {
    json::Object capabilities;
    if (options.on_question) capabilities.set("elicitation", can_ask());
    meta.set("io.modelcontextprotocol/protocolVersion", version_);
    meta.set("io.modelcontextprotocol/clientInfo",
             json::Object{{"name", "tenon"}, {"version", options_.version}});
    meta.set("io.modelcontextprotocol/clientCapabilities", std::move(capabilities));
  }
  // The names are those of SEP-414, and of 2026-07-28.
  if (const trace::Context& context = trace::current(); !context.parent.empty()) {
    meta.set("traceparent", context.parent);
    if (!context.state.empty()) meta.set("tracestate", context.state);
  }
  if (!meta.empty()) params.set("_meta", std::move(meta));
  const json::Value message = json::Object{
      {"jsonrpc", "2.0"}, {"id", id}, {"method", method}, {"params", std::move(params)}};
  // If the connection has closed, why it closed says more than that the message could not be sent.
  if (Status sent = transport_->send(message, id, headers); !sent) {
    lock.lock();
    pending_.erase(id);
    return Unexpected(closed_ ? *closed_ : std::move(sent.error()));
  }
  return id;
}

// Called with the mutex: how the request ended, if it has.
std::optional<Session::Reply> Session::taken(std::int64_t id) {
  const auto found = pending_.find(id);
  if (found == pending_.end() || (!found->second.answer && !closed_)) return std::nullopt;
  Pending pending = std::move(found->second);
  pending_.erase(found);
  if (!pending.answer) pending.answer = Unexpected(*closed_);
  return Reply{.answer = *std::move(pending.answer),
               .error = std::move(pending.error),
               .ran_nothing = pending.ran_nothing,
               .challenge = std::move(pending.challenge)};
}

// Ends a request for which the caller no longer waits.
void Session::give_up(std::int64_t id, std::string_view method) {
  {
    const std::lock_guard lock(mutex_);
    pending_.erase(id);
  }
  // The handshake must not be cancelled (2025-11-25, utilities/cancellation), and a server that is
  // still asked which era it is from need not know the notification.
  const bool is_told = is_modern_ && transport_->cancels_by_abandoning();
  if (method != "initialize" && method != "server/discover" && !is_told) {
    (void)transport_->send(
        notification("notifications/cancelled",
                     {{"requestId", id}, {"reason", "the client no longer waits for it"}}),
        0, {});
  }
  transport_->abandon(id);
}

// Waits for the answer to a request. It looks every kMoment, because a CancelToken wakes no one and
// the transport may have work that is due (tend). Time in which the user thinks about a question of
// the server does not count.
Session::Reply Session::await(std::int64_t id, std::string_view method,
                              const CallOptions& options) {
  constexpr std::chrono::milliseconds kMoment{20};
  std::unique_lock lock(mutex_);
  Pending& pending = pending_[id];
  Clock::time_point deadline = options.deadline;
  while (!pending.answer && !closed_) {
    const auto now = Clock::now();
    if (now >= deadline || options.cancel.is_cancelled()) break;
    changed_.wait_until(lock, std::min(now + kMoment, deadline));
    lock.unlock();
    transport_->tend();
    lock.lock();
    tell_progress(pending, options, lock);
    deadline = later(deadline, put_questions(pending, options, lock));
  }
  tell_progress(pending, options, lock);  // it came with the answer
  if (auto reply = taken(id)) return *std::move(reply);
  lock.unlock();
  give_up(id, method);
  if (options.cancel.is_cancelled()) {
    return {.answer = failed(Errc::unavailable, name_ + ": it was cancelled")};
  }
  return {.answer = failed(Errc::limit_exceeded,
                           name_ + " did not answer " + std::string(method) + " in time")};
}

namespace {

// "tools/call NAME" for a tool or a prompt, else the method alone.
trace::Span request_span(std::string_view method, const json::Object& params) {
  const json::Value* const name = params.find("name");
  const std::string* const target = name == nullptr ? nullptr : name->if_string();
  trace::Span span(std::string(method) + (target == nullptr ? "" : " " + *target),
                   trace::SpanKind::client);
  if (!span || target == nullptr) return span;
  const bool is_tool = method == "tools/call";
  span.set(is_tool ? "gen_ai.tool.name" : "gen_ai.prompt.name", *target);
  if (is_tool) span.set("gen_ai.operation.name", "execute_tool");
  return span;
}

}  // namespace

Session::Reply Session::request(std::string_view method, json::Object params,
                                const CallOptions& options,
                                const std::vector<http::Header>& headers) {
  // The run of a tool has a span already, which says that it is a server's.
  trace::Span* const outer = trace::current_span();
  const bool has_one = method == "tools/call" && outer != nullptr &&
                       outer->text("gen_ai.operation.name") == "execute_tool";
  trace::Span own = has_one ? trace::Span() : request_span(method, params);
  trace::Span& span = has_one ? *outer : own;
  describe(method, span);
  const trace::SpanScope scope(own);
  Reply reply = request_once(method, std::move(params), options, headers);
  tell_end(reply, span);
  return reply;
}

// What a span says of this server, by the semantic conventions for MCP.
void Session::describe(std::string_view method, trace::Span& span) const {
  if (!span) return;
  span.set("mcp.method.name", method);
  if (!version_.empty()) span.set("mcp.protocol.version", version_);
  if (method == "tools/call") span.set("gen_ai.tool.type", "extension");
  const auto url = http::parse_url(options_.url);
  span.set("network.transport", url ? "tcp" : "pipe");
  if (!url) return;
  span.set("server.address", url->host);
  span.set("server.port", std::int64_t{url->port});
}

// Marks the span as failed if the request has no answer, or if its answer is the error of a tool.
// The message may have words of the server, so it is written only where contents may be.
void Session::tell_end(const Reply& reply, trace::Span& span) {
  if (!span) return;
  if (!reply.answer) {
    const auto code = code_of(reply.error);
    if (code) span.set("rpc.response.status_code", std::to_string(*code));
    const std::string type =
        code ? std::to_string(*code) : std::string(errc_name(reply.answer.error().code));
    return span.fail(type, span.takes_contents() ? reply.answer.error().message : std::string());
  }
  const json::Value* const is_error = reply.answer->find("isError");
  if (is_error != nullptr && *is_error == json::Value(true)) span.fail("tool_error");
}

// A request that the server refuses for want of a token is sent again once there is another one.
Session::Reply Session::request_once(std::string_view method, json::Object params,
                                     const CallOptions& options,
                                     const std::vector<http::Header>& headers) {
  for (int refusals = 0;; ++refusals) {
    const auto id = begin(method, params, options, headers);
    if (!id) return {.answer = Unexpected(id.error())};
    Reply reply = await(*id, method, options);
    if (!reply.challenge || refusals == kMaxRefusals) return reply;
    if (Status may = transport_->authorize(*reply.challenge, options); !may) {
      return {.answer = Unexpected(std::move(may.error()))};
    }
  }
}

Expected<json::Value> Session::ask(std::string_view method, json::Object params,
                                   const CallOptions& options) {
  return std::move(request(method, std::move(params), options).answer);
}

Status Session::open_transport(const OpenTransport& open) {
  auto transport = open(
      {.on_message = [this](json::Value message) { on_message(std::move(message)); },
       .on_failed = [this](std::int64_t id, Error why) { answer(id, Unexpected(std::move(why))); },
       .on_refused = [this](std::int64_t id, Challenge challenge,
                            Error why) { refuse(id, std::move(challenge), std::move(why)); },
       .on_unreadable = [this](std::string_view text,
                               Error why) { on_unreadable(text, std::move(why)); },
       .on_closed = [this](const Closing& closing) { close(closing); }});
  if (!transport) return Unexpected(std::move(transport.error()));
  const std::lock_guard lock(mutex_);
  transport_ = *std::move(transport);
  return {};
}

Status Session::connect(const OpenTransport& open, const CallOptions& call_options) {
  const CallOptions call = within(
      options_.connect_timeout, {.deadline = call_options.deadline, .cancel = call_options.cancel});
  if (Status opened = open_transport(open); !opened) return opened;
  Status agreed = agree(call);
  if (!agreed && !is_open() && !options_.expects_handshake && !call.cancel.is_cancelled()) {
    // Some servers from before 2026-07-28 end at any message other than `initialize`.
    // Its destructor waits for its thread, which may wait for the lock in close().
    std::unique_ptr<Transport> gone;
    {
      const std::lock_guard lock(mutex_);
      gone.swap(transport_);
    }
    gone.reset();
    {
      const std::lock_guard lock(mutex_);
      closed_.reset();
      pending_.clear();
    }
    if (Status opened = open_transport(open); !opened) return opened;
    agreed = shake_hands(std::nullopt, call);
  }
  if (agreed) return {};
  const std::lock_guard lock(mutex_);
  return failed(agreed.error().code,
                agreed.error().message + (last_words_.empty() ? "" : "; it said: " + last_words_));
}

// The answer to `server/discover` shows which era the server is from.
Status Session::agree(const CallOptions& call, std::string_view version, int refusals) {
  if (options_.expects_handshake) return shake_hands(std::nullopt, call);
  is_modern_ = true;
  version_ = version;
  const auto id = begin("server/discover", {}, call);
  if (!id) return Unexpected(id.error());
  const auto latest = std::min(call.deadline, Clock::now() + options_.discover_timeout);
  std::optional<Reply> reply;
  {
    std::unique_lock lock(mutex_);
    constexpr std::chrono::milliseconds kMoment{20};
    while (!(reply = taken(*id)) && Clock::now() < latest && !call.cancel.is_cancelled()) {
      changed_.wait_for(lock, kMoment);
    }
  }
  // No answer so far. The server may still be starting, so the question stays open meanwhile.
  if (!reply) return shake_hands(*id, call);
  if (reply->challenge && refusals < kMaxRefusals) {
    if (Status may = transport_->authorize(*reply->challenge, call); !may) return may;
    return agree(call, version, refusals + 1);
  }
  if (reply->answer && reply->answer->find("supportedVersions") != nullptr) {
    return take_discovered(*reply->answer);
  }
  if (!is_open()) return Unexpected(reply->answer ? *closed_ : reply->answer.error());
  // Any other error, such as kNoSuchMethod, is how servers from before 2026-07-28 answer.
  const auto code = code_of(reply->error);
  if (code == kUnsupportedVersion) {
    const json::Value* const theirs = json::at_pointer(reply->error, "/data/supported");
    if (const auto common = common_version(kModern, theirs); common && refusals < kMaxRefusals) {
      return agree(call, *common, refusals + 1);
    }
    if (!common_version(kShaken, theirs)) return Unexpected(reply->answer.error());
  } else if (code == kMissingCapability || code == kHeaderMismatch) {
    return Unexpected(reply->answer.error());
  }
  return shake_hands(std::nullopt, call);
}

// Takes the answer to `server/discover`. It sets the era anew, since shake_hands() may have begun.
Status Session::take_discovered(const json::Value& told) {
  const json::Value* const theirs = told.find("supportedVersions");
  const auto version = common_version(kModern, theirs);
  if (!version) {
    return failed(Errc::unsupported,
                  name_ + " speaks the versions " +
                      excerpt(theirs == nullptr ? "" : json::to_string(*theirs)) +
                      " of the protocol, and not " + std::string(kModern[0]));
  }
  is_modern_ = true;
  version_ = *version;
  take_capabilities(told);
  const json::Value* const changes = json::at_pointer(told, "/capabilities/tools/listChanged");
  may_change_ = changes != nullptr && *changes == json::Value(true);
  take_instructions(told);
  subscribe();
  return {};
}

// `discovering`: a request that may still be answered, because a server may begin to read long
// after it was started.
Status Session::shake_hands(std::optional<std::int64_t> discovering, const CallOptions& call) {
  is_modern_ = false;
  version_.clear();
  json::Object capabilities;
  if (options_.asks_user) capabilities.set("elicitation", can_ask());
  // The newest revision is offered; the server answers with it, or with an older one of its own.
  const json::Object params{
      {"protocolVersion", kShaken[0]},
      {"capabilities", std::move(capabilities)},
      {"clientInfo", json::Object{{"name", "tenon"}, {"version", options_.version}}}};
  const auto id = begin("initialize", params, call);
  if (!id) return Unexpected(id.error());
  std::optional<Reply> reply;
  // A server without a handshake answers `initialize` with an error, and may do so before it has
  // answered the first question.
  while (discovering && !(reply && reply->answer)) {
    constexpr std::chrono::milliseconds kMoment{20};
    std::unique_lock lock(mutex_);
    if (auto discovered = taken(*discovering)) {
      discovering.reset();
      if (discovered->answer && discovered->answer->find("supportedVersions") != nullptr) {
        lock.unlock();
        if (!reply) give_up(*id, "initialize");
        return take_discovered(*discovered->answer);
      }
    } else if (Clock::now() >= call.deadline || call.cancel.is_cancelled() || closed_) {
      break;
    } else if (reply || !(reply = taken(*id))) {
      changed_.wait_for(lock, kMoment);
    }
  }
  if (!reply) reply = await(*id, "initialize", call);
  if (discovering) give_up(*discovering, "server/discover");
  if (reply->challenge) {
    if (Status may = transport_->authorize(*reply->challenge, call); !may) return may;
    reply = request("initialize", params, call);
  }
  if (!reply->answer) return Unexpected(reply->answer.error());
  const json::Value& told = *reply->answer;
  const std::string version = text_or(told, "protocolVersion", "none");
  if (std::ranges::find(kShaken, version) == std::end(kShaken)) {
    return failed(Errc::unsupported, name_ + " speaks version " +
                                         json::quoted(version.substr(0, 100)) +
                                         " of the protocol, and not " + std::string(kShaken[0]));
  }
  version_ = version;
  take_capabilities(told);
  has_tasks_ = json::at_pointer(told, "/capabilities/tasks/requests/tools/call") != nullptr;
  take_instructions(told);
  // The server must hear that the handshake is over before it gets any other request.
  transport_->begin(version, notification("notifications/initialized"), call);
  return {};
}

void Session::take_capabilities(const json::Value& told) {
  has_tools_ = json::at_pointer(told, "/capabilities/tools") != nullptr;
  has_prompts_ = json::at_pointer(told, "/capabilities/prompts") != nullptr;
  has_resources_ = json::at_pointer(told, "/capabilities/resources") != nullptr;
}

void Session::take_instructions(const json::Value& told) {
  std::string text = text_or(told, "instructions", "");
  if (text.size() > kMaxInstructions) {
    log::warn(name_ + " gives instructions of " + std::to_string(text.size()) +
              " bytes: the first " + std::to_string(kMaxInstructions) + " are read");
    text.resize(kMaxInstructions);
    text.resize(text.size() - utf8::open_tail(text));
  }
  instructions_ = std::move(text);
}

// Asks to be told when the tools change. The server may end this at any time; the next call then
// asks again, but not within kBetween, or a server that ends it at once would be asked with every
// call. While the request is on its way, subscription_ is -1, so that no other thread makes one.
void Session::subscribe() {
  constexpr std::chrono::seconds kBetween{5};
  {
    const std::lock_guard lock(mutex_);
    if (!is_modern_ || !may_change_ || subscription_ != 0 || closed_) return;
    if (Clock::now() < next_subscription_) return;
    next_subscription_ = Clock::now() + kBetween;
    subscription_ = -1;
  }
  const auto id = begin("subscriptions/listen",
                        {{"notifications", json::Object{{"toolsListChanged", true}}}}, {});
  const std::lock_guard lock(mutex_);
  // The server may have answered before subscription_ had the id; then the answer lies in pending_.
  const auto found = id ? pending_.find(*id) : pending_.end();
  const bool is_over = found == pending_.end() || found->second.answer.has_value();
  if (found != pending_.end() && is_over) pending_.erase(found);
  subscription_ = is_over ? 0 : *id;
}

// Adds a tool. Returns what is wrong with it, or "". If a name comes twice, the first tool counts.
std::string Session::add_tool(const json::Value& told, std::vector<Tool>& tools) const {
  const std::string* const name = text_at(told, "name");
  if (name == nullptr || name->empty()) return "it has no name";
  if (std::ranges::find(tools, *name, &Tool::name) != tools.end()) {
    return "a tool before it in the list has the same name";
  }
  const auto member = [&told](std::string_view key) {
    const json::Value* const found = told.find(key);
    return found == nullptr ? json::Value() : *found;
  };
  Tool tool{.name = *name,
            .title = text_or(told, "title", ""),
            .description = text_or(told, "description", text_or(told, "title", "")),
            .input_schema = member("inputSchema"),
            .output_schema = member("outputSchema"),
            .annotations = member("annotations")};
  if (!tool.input_schema.is_null() && tool.input_schema.if_object() == nullptr) {
    return "its inputSchema is no object";
  }
  if (tool.output_schema.if_object() == nullptr) tool.output_schema = {};
  // Only HTTP, whose requests end by being abandoned, has headers. A tool with a faulty
  // x-mcp-header must be left out there.
  if (is_modern_ && transport_->cancels_by_abandoning()) {
    HeaderFinder finder(tool.input_schema);
    if (!finder.fault().empty()) return finder.fault();
    tool.headers = finder.take();
  }
  const json::Value* const tasks = json::at_pointer(told, "/execution/taskSupport");
  tool.is_task = has_tasks_ && tasks != nullptr && *tasks == json::Value("required");
  tools.push_back(std::move(tool));
  return "";
}

// A server may list any number of faulty tools, so only the first ones are told. `bytes` is the
// size of all tools so far, as JSON; list_tools() stops once it is over the limit.
void Session::add_page(const json::Array& page, std::vector<Tool>& tools, LeftOut& left_out,
                       std::size_t& bytes) {
  for (const json::Value& one : page) {
    if (tools.size() >= options_.max_tools) {
      return log::warn(name_ + " has more than " + std::to_string(options_.max_tools) +
                       " tools: those behind them are left out");
    }
    bytes += json::to_string(one).size();
    if (bytes > options_.max_message_bytes) {
      return log::warn(name_ + " has tools of more than " +
                       std::to_string(options_.max_message_bytes) +
                       " bytes: those behind them are left out");
    }
    std::string fault = add_tool(one, tools);
    if (fault.empty() || left_out.size() >= kMaxLeftOut) continue;
    std::string name = excerpt(text_or(one, "name", ""));
    log::warn(name_ + ": the tool " + json::quoted(log::content(name)) + " is left out: " + fault);
    if (left_out.size() + 1 == kMaxLeftOut) {
      fault += "; further ones are not told";
      log::warn(name_ + ": further tools that are left out are not told");
    }
    left_out.emplace_back(std::move(name), std::move(fault));
  }
}

// Gives the pages of a list to `take`, until it returns false. Returns why the list ends early, ""
// if it is whole; fails if there is nothing before the fault.
Expected<std::string> Session::read_pages(std::string_view method, std::string_view member,
                                          const CallOptions& call, const TakePage& take) {
  const CallOptions options =
      within(options_.list_timeout, {.deadline = call.deadline, .cancel = call.cancel});
  std::set<std::string> cursors;
  std::optional<std::string> cursor;
  std::size_t items = 0;
  for (std::size_t pages = 0;; ++pages) {
    json::Object params;
    if (cursor) params.set("cursor", *cursor);
    const auto page = ask(method, std::move(params), options);
    const json::Value* const list = page ? page->find(member) : nullptr;
    if (list == nullptr || list->if_array() == nullptr) {
      Error why =
          page ? Error{Errc::invalid, name_ + ": " + std::string(member) + " must be an array"}
               : page.error();
      if (items == 0 || !is_open() || call.cancel.is_cancelled()) return Unexpected(why);
      return why.message;
    }
    items += list->if_array()->size();
    const std::string* const next = text_at(*page, "nextCursor");
    if (!take(*page, *list->if_array()) || next == nullptr) return "";
    // A server that gives a cursor twice would give its pages for ever.
    if (!cursors.insert(*next).second) return "the same page comes again";
    if (pages + 1 == kMaxPages) return "it has more than " + std::to_string(kMaxPages) + " pages";
    cursor = *next;
  }
}

Expected<std::vector<Tool>> Session::list_tools(const CallOptions& call) {
  std::vector<Tool> tools;
  if (!has_tools_) return tools;
  subscribe();
  LeftOut left_out;
  std::size_t bytes = 0;
  std::optional<std::int64_t> fresh;  // ms; the shortest time that any page gives
  const auto fault = read_pages(
      "tools/list", "tools", call, [&](const json::Value& page, const json::Array& items) {
        add_page(items, tools, left_out, bytes);
        if (const json::Value* const ttl = page.find("ttlMs"); ttl && ttl->if_number() != nullptr) {
          const std::int64_t told = ttl->if_number()->to_int64().value_or(0);
          fresh = fresh ? std::min(*fresh, told) : told;
        }
        return tools.size() < options_.max_tools && bytes <= options_.max_message_bytes;
      });
  if (!fault) return Unexpected(fault.error());
  if (!fault->empty()) {
    log::warn(name_ + ": its list of tools ends after " + std::to_string(tools.size()) + ": " +
              std::string(log::content(*fault)));
  }
  const std::lock_guard lock(mutex_);
  // Calls look here for what must be sent as a header, and for tools that run as tasks.
  tools_ = tools;
  left_out_ = std::move(left_out);
  fresh_until_.reset();
  if (fresh) {
    constexpr std::chrono::milliseconds kLongest = std::chrono::hours(24);
    fresh_until_ = Clock::now() +
                   std::clamp<std::chrono::milliseconds>(
                       std::chrono::milliseconds(std::min<std::int64_t>(*fresh, kLongest.count())),
                       kMinFresh, kLongest);
  }
  return tools;
}

// Once `ttlMs` is over, the number rises once: list_tools() sets the next time.
std::uint64_t Session::tools_version() const {
  const std::lock_guard lock(mutex_);
  if (fresh_until_ && Clock::now() >= *fresh_until_) {
    fresh_until_.reset();
    ++tools_version_;
  }
  return tools_version_;
}

// The headers of a call, "Mcp-Param-Region: eu" for example. Empty for a tool that was not listed.
std::vector<http::Header> Session::headers_of(const std::string& name,
                                              const json::Object& arguments) const {
  std::vector<http::Header> headers;
  const std::lock_guard lock(mutex_);
  const auto tool = std::ranges::find(tools_, name, &Tool::name);
  if (tool == tools_.end()) return headers;
  for (const Tool::Header& one : tool->headers) {
    if (const auto value = value_at(arguments, one.path)) {
      headers.push_back({"Mcp-Param-" + one.name, header_value(*value)});
    }
  }
  return headers;
}

// The answers to all questions of a server (2026-07-28), by the server's own names for them. There
// are no folders to list (`roots/list`); a question that Tenon does not know is declined.
json::Object Session::answers_to(const json::Object& questions, const CallOptions& options) {
  static const json::Value kNone;
  json::Object answers;
  for (const json::Member& question : questions) {
    const json::Value* const params = question.value.find("params");
    const std::string method = text_or(question.value, "method", "");
    json::Object answer;
    if (method == "roots/list") {
      answer.set("roots", json::Array{});
    } else if (method == "elicitation/create") {
      answer = answer_to(params == nullptr ? kNone : *params, options);
    } else {
      answer.set("action", "decline");
    }
    answers.set(question.key, std::move(answer));
  }
  return answers;
}

// Asks, and answers what the server asks for before it gives a result (2026-07-28).
Session::Reply Session::with_answers(std::string_view method, json::Object params,
                                     const CallOptions& call,
                                     const std::vector<http::Header>& headers) {
  CallOptions options = call;
  for (int questions = 0; questions < kMaxQuestions; ++questions) {
    Reply reply = request(method, params, options, headers);
    if (!reply.answer) return reply;
    if (const json::Value* const task = reply.answer->find("task"); task && params.find("task")) {
      return follow_task(*task, options);
    }
    const json::Value* const type = reply.answer->find("resultType");
    if (type == nullptr || *type == json::Value("complete")) return reply;
    if (*type != json::Value("input_required")) {
      return {.answer = failed(Errc::unsupported, name_ + " gave a result of the type " +
                                                      excerpt(json::to_string(*type)))};
    }
    // `requestState` is the server's own note, which goes back to it unread. Neither member of an
    // earlier round may be sent again.
    params.erase("inputResponses");
    params.erase("requestState");
    const json::Value* const asked = reply.answer->find("inputRequests");
    const json::Value* const state = reply.answer->find("requestState");
    if (asked != nullptr && asked->if_object() != nullptr) {
      const auto begun = Clock::now();
      params.set("inputResponses", answers_to(*asked->if_object(), options));
      options.deadline = later(options.deadline, Clock::now() - begun);  // the user's time
    }
    if (state != nullptr) params.set("requestState", *state);
  }
  return {.answer = failed(Errc::limit_exceeded, name_ + " asks for more and more before it gives "
                                                         "a result")};
}

Session::Reply Session::run_tool(const std::string& name, const json::Object& arguments,
                                 const CallOptions& options) {
  json::Object params{{"name", name}, {"arguments", arguments}};
  const std::vector<http::Header> headers = headers_of(name, arguments);
  {
    const std::lock_guard lock(mutex_);
    const auto tool = std::ranges::find(tools_, name, &Tool::name);
    if (tool != tools_.end() && tool->is_task) params.set("task", json::Object{});
  }
  return with_answers("tools/call", std::move(params), options, headers);
}

// Waits for the result of a task: a server answers `tasks/result` (2025-11-25) only once the task
// has ended. If the caller no longer waits, the task is cancelled, and the answer to that is not
// waited for.
Session::Reply Session::follow_task(const json::Value& task, const CallOptions& options) {
  const std::string id = text_or(task, "taskId", "");
  Reply reply = request("tasks/result", {{"taskId", id}}, options);
  const bool is_over = Clock::now() >= options.deadline || options.cancel.is_cancelled();
  if (!reply.answer && is_over && is_open()) {
    const auto cancelled = begin("tasks/cancel", {{"taskId", id}}, {});
    const std::lock_guard lock(mutex_);
    if (cancelled) pending_.erase(*cancelled);
  }
  return reply;
}

Result<CallResult, CallFailure> Session::call_tool(const std::string& name,
                                                   const json::Object& arguments,
                                                   const CallOptions& options) {
  subscribe();
  Reply reply = run_tool(name, arguments, options);
  if (!reply.answer && code_of(reply.error) == kHeaderMismatch) {
    // Its tools may have changed since they were listed, and nothing was run.
    ++tools_version_;
    if (list_tools(options)) reply = run_tool(name, arguments, options);
  }
  if (!reply.answer) {
    return Failure<CallFailure>(CallFailure{{std::move(reply.answer.error())}, reply.ran_nothing});
  }
  const json::Object* const told = reply.answer->if_object();
  if (told == nullptr) {
    return Failure<CallFailure>(
        CallFailure{{Errc::invalid, name_ + ": the result of a tool must be an object, and is " +
                                        excerpt(json::to_string(*reply.answer))}});
  }
  return result_of(*told);
}

// Prompts or resources: as many as there may be tools, and as long.
Expected<json::Array> Session::list_all(std::string_view method, std::string_view member,
                                        const CallOptions& call) {
  json::Array all;
  std::size_t bytes = 0;
  const auto fault =
      read_pages(method, member, call, [&](const json::Value&, const json::Array& items) {
        for (const json::Value& one : items) {
          bytes += json::to_string(one).size();
          if (all.size() == options_.max_tools || bytes > options_.max_message_bytes) return false;
          all.push_back(one);
        }
        return true;
      });
  if (!fault) return Unexpected(fault.error());
  if (!fault->empty()) {
    log::warn(name_ + ": its list of " + std::string(member) + " ends after " +
              std::to_string(all.size()) + ": " + std::string(log::content(*fault)));
  }
  return all;
}

Expected<std::vector<Prompt>> Session::list_prompts(const CallOptions& options) {
  std::vector<Prompt> prompts;
  if (!has_prompts_) return prompts;
  const auto all = list_all("prompts/list", "prompts", options);
  if (!all) return Unexpected(all.error());
  for (const json::Value& told : *all) {
    Prompt prompt{.name = text_or(told, "name", ""),
                  .title = text_or(told, "title", ""),
                  .description = text_or(told, "description", text_or(told, "title", ""))};
    if (prompt.name.empty()) continue;
    const json::Value* const arguments = told.find("arguments");
    if (arguments != nullptr && arguments->if_array() != nullptr) {
      for (const json::Value& one : *arguments->if_array()) {
        const json::Value* const required = one.find("required");
        prompt.arguments.push_back(
            {.name = text_or(one, "name", ""),
             .description = text_or(one, "description", ""),
             .is_required = required != nullptr && *required == json::Value(true)});
      }
    }
    prompts.push_back(std::move(prompt));
  }
  return prompts;
}

Expected<std::vector<Resource>> Session::list_resources(const CallOptions& options) {
  std::vector<Resource> resources;
  if (!has_resources_) return resources;
  const auto all = list_all("resources/list", "resources", options);
  if (!all) return Unexpected(all.error());
  for (const json::Value& told : *all) {
    if (text_or(told, "uri", "").empty()) continue;
    resources.push_back({.uri = text_or(told, "uri", ""),
                         .name = text_or(told, "name", ""),
                         .title = text_or(told, "title", ""),
                         .description = text_or(told, "description", ""),
                         .mime_type = text_or(told, "mimeType", "")});
  }
  return resources;
}

Expected<std::vector<PromptMessage>> Session::get_prompt(const std::string& name,
                                                         const json::Object& arguments,
                                                         const CallOptions& options) {
  json::Object params{{"name", name}};
  if (!arguments.empty()) params.set("arguments", arguments);
  const Reply reply = with_answers("prompts/get", std::move(params), options);
  if (!reply.answer) return Unexpected(reply.answer.error());
  const json::Value* const messages = reply.answer->find("messages");
  if (messages == nullptr || messages->if_array() == nullptr) {
    return failed(Errc::invalid, name_ + ": the messages of a prompt must be an array");
  }
  std::vector<PromptMessage> told;
  for (const json::Value& message : *messages->if_array()) {
    const json::Value* const content = message.find("content");
    told.push_back({.role = text_or(message, "role", "user"),
                    .text = content == nullptr ? "" : shown(*content)});
  }
  return told;
}

Expected<std::string> Session::read_resource(const std::string& uri, const CallOptions& options) {
  const Reply reply = with_answers("resources/read", {{"uri", uri}}, options);
  if (!reply.answer) return Unexpected(reply.answer.error());
  const json::Value* const contents = reply.answer->find("contents");
  if (contents == nullptr || contents->if_array() == nullptr) {
    return failed(Errc::invalid, name_ + ": the contents of a resource must be an array");
  }
  std::string text;
  for (const json::Value& one : *contents->if_array()) {
    if (&one != contents->if_array()->data()) text += '\n';
    text += shown(json::Object{{"type", "resource"}, {"resource", one}});
  }
  return text;
}

// The handlers from here to close() run on the transport's thread.
void Session::on_message(json::Value message) {
  json::Array* const batch = message.if_array();
  if (batch == nullptr) return on_one(std::move(message));
  if (batch->size() > kMaxBatch) return;
  for (json::Value& one : *batch) on_one(std::move(one));
}

void Session::on_one(json::Value message) {
  const json::Value* const id = message.find("id");
  if (const std::string* const method = text_at(message, "method")) {
    return id != nullptr ? on_request(message, *method) : on_notification(message, *method);
  }
  // An answer. One to a request that is not ours, or no longer waited for, is dropped.
  const auto number = own_id(id);
  if (!number) return;
  // Some servers write both members; `"error": null` beside a result is no error.
  json::Value* const error = message.find("error");
  if (error != nullptr && (!error->is_null() || message.find("result") == nullptr)) {
    std::string words = name_ + ": " + excerpt(text_or(*error, "message", "error without words"));
    return answer(*number, failed(Errc::unavailable, std::move(words)), std::move(*error));
  }
  json::Value* const result = message.find("result");
  if (result == nullptr) {
    return answer(*number, failed(Errc::invalid, name_ + " answered without a result"));
  }
  answer(*number, std::move(*result));
}

// Hands a question to the caller who waits for the latest call: the server does not say which call
// it works for. False: no caller takes it.
bool Session::keep_question(const json::Value& message) {
  const json::Value* const params = message.find("params");
  const std::lock_guard lock(mutex_);
  // Ids rise, so the latest call comes first.
  for (auto one = pending_.rbegin(); one != pending_.rend(); ++one) {
    Pending& pending = one->second;
    if (!pending.takes_questions || pending.answer || pending.asked >= kMaxQuestions) continue;
    ++pending.asked;
    pending.questions.push_back({*message.find("id"), params == nullptr ? json::Value() : *params});
    changed_.notify_all();
    return true;
  }
  return false;
}

// The server may ask whether we are alive, and the user of a call that waits. It must not ask
// anything else, because we announce no other capability.
void Session::on_request(const json::Value& message, std::string_view method) {
  json::Object reply{{"jsonrpc", "2.0"}, {"id", *message.find("id")}};
  if (method == "ping") {
    reply.set("result", json::Object{});
  } else if (method == "elicitation/create" && options_.asks_user) {
    if (keep_question(message)) return;
    reply.set("result", json::Object{{"action", "decline"}});
  } else {
    reply.set("error", json::Object{{"code", kNoSuchMethod}, {"message", "not supported"}});
  }
  // Before connect() has stored the transport, no question matters.
  Transport* transport = nullptr;
  {
    const std::lock_guard lock(mutex_);
    transport = transport_.get();
  }
  if (transport != nullptr) (void)transport->send(std::move(reply), 0, {});
}

void Session::on_notification(const json::Value& message, std::string_view method) {
  if (method == "notifications/tools/list_changed") {
    ++tools_version_;
    return;
  }
  if (method != "notifications/progress") return;
  const auto token = own_id(json::at_pointer(message, "/params/progressToken"));
  const json::Value* const progress = json::at_pointer(message, "/params/progress");
  const json::Value* const total = json::at_pointer(message, "/params/total");
  if (!token || progress == nullptr || progress->if_number() == nullptr) return;
  Progress told{.progress = progress->if_number()->to_double(),
                .message = excerpt(text_or(*message.find("params"), "message", ""))};
  if (total != nullptr && total->if_number() != nullptr)
    told.total = total->if_number()->to_double();
  constexpr std::size_t kMaxUntold = 1000;
  const std::lock_guard lock(mutex_);
  const auto found = pending_.find(*token);
  if (found == pending_.end() || !found->second.wants_progress) return;
  if (found->second.progress.size() >= kMaxUntold) return;
  found->second.progress.push_back(std::move(told));
  changed_.notify_all();
}

// The caller that waits for this answer learns of it now, and not when its time is over. If the
// text does not name the request, it can only belong to a caller if exactly one is waiting.
void Session::on_unreadable(std::string_view text, Error why) {
  std::optional<std::int64_t> id = glance_at(text).id;
  {
    const std::lock_guard lock(mutex_);
    const auto is_waiting = [this](const auto& one) {
      return one.first != subscription_ && !one.second.answer;
    };
    if (!id && std::ranges::count_if(pending_, is_waiting) == 1) {
      id = std::ranges::find_if(pending_, is_waiting)->first;
    }
  }
  if (id)
    answer(*id, failed(Errc::invalid,
                       name_ + " sent an answer that cannot be read: " + excerpt(why.message)));
}

void Session::answer(std::int64_t id, Expected<json::Value> answer, json::Value error) {
  const std::lock_guard lock(mutex_);
  if (id == subscription_) {
    subscription_ = 0;
    pending_.erase(id);
    return;
  }
  const auto found = pending_.find(id);
  if (found == pending_.end() || found->second.answer) return;
  found->second.answer = std::move(answer);
  found->second.error = std::move(error);
  changed_.notify_all();
}

// The request ends with an error and a challenge; request_once() gets a token and sends it again.
void Session::refuse(std::int64_t id, Challenge challenge, Error why) {
  const std::lock_guard lock(mutex_);
  if (id == subscription_) {
    subscription_ = 0;
    pending_.erase(id);
    return;
  }
  const auto found = pending_.find(id);
  // Only the first answer to a request counts.
  if (found == pending_.end() || found->second.answer) return;
  found->second.answer = Unexpected(std::move(why));
  found->second.challenge = std::move(challenge);
  changed_.notify_all();
}

// Wakes all callers, whose requests then fail with closed_ (taken). The first reason is kept. A
// request that the transport knows was never run has an error of its own, so that the caller may
// repeat it.
void Session::close(const Closing& closing) {
  const std::string words(log::content(in_one_line(closing.said)));
  log::info("mcp: " + closing.why.message + (words.empty() ? "" : "; it said: " + words));
  const std::lock_guard lock(mutex_);
  if (!closed_) closed_ = closing.why;
  last_words_ = words;
  const auto refused = pending_.find(closing.refused);
  if (refused != pending_.end() && !refused->second.answer) {
    refused->second.answer =
        failed(closing.why.code, closing.why.message + " and ran nothing: call again");
    refused->second.ran_nothing = true;
  }
  changed_.notify_all();
}

}  // namespace

Expected<std::unique_ptr<Client>> connect_over(std::string name, const OpenTransport& open,
                                               const ClientOptions& options,
                                               const CallOptions& call) {
  auto session = std::make_unique<Session>(std::move(name), options);
  if (Status connected = session->connect(open, call); !connected) {
    return Unexpected(std::move(connected.error()));
  }
  return session;
}

Expected<std::unique_ptr<Client>> Client::connect(const ServerConfig& server,
                                                  const ClientOptions& options,
                                                  const CallOptions& call) {
  ClientOptions how = options;
  how.url = server.url;
  // Over HTTP a server of any era answers the first question, so there is no need to guess soon.
  if (!server.url.empty()) {
    how.discover_timeout = std::max(options.discover_timeout, options.connect_timeout / 2);
  }
  const auto open = [&](TransportHandlers handlers) {
    return (server.url.empty() ? start_stdio : open_http)(server, options, std::move(handlers));
  };
  return connect_over(server.name, open, how, call);
}

}  // namespace tenon::mcp
