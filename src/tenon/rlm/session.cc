#include "tenon/rlm/session.h"

#include <algorithm>
#include <cstdlib>
#include <optional>
#include <utility>

#include "tenon/base/ids.h"
#include "tenon/message/build.h"

// A session as JSON and back, and the ids of sessions and calls. The id of a call ends with the id
// of its session, so that a request with results finds its session without any table. The context
// is not in this JSON: Host stores it as a document of its own.

namespace tenon::rlm {
namespace {

using json::Value;

constexpr std::size_t kSessionChars = 16;  // 95 bits
constexpr std::size_t kCallChars = 8;      // of the calls of one session
// Grows when an older release could not read a session; a new member that may be missing needs no
// new version.
constexpr int kVersion = 1;

Value write_calls(const std::vector<message::ToolCall>& calls) {
  json::Array out;
  for (const message::ToolCall& call : calls) {
    out.emplace_back(
        json::Object{{"id", call.id}, {"name", call.name}, {"arguments", call.arguments}});
  }
  return out;
}

Value write_texts(const std::vector<std::string>& texts) {
  return json::Array(texts.begin(), texts.end());
}

/// Reads members of an object. A member that is missing or of another kind sets `is_right` to
/// false.
class Members {
 public:
  explicit Members(const Value& from) : from_(from) {}

  // A missing text stays "", so that sessions of earlier releases can be read.
  bool text(std::string_view key, std::string& out) {
    const Value* found = from_.find(key);
    if (found == nullptr) return true;
    if (found->if_string() == nullptr) return is_right = false;
    out = *found->if_string();
    return true;
  }
  // No number of a session is negative.
  template <class Number>
  void number(std::string_view key, Number& out) {
    const Value* found = from_.find(key);
    const auto value =
        found != nullptr && found->if_number() ? found->if_number()->to_int64() : std::nullopt;
    if (!value || *value < 0) {
      is_right = false;
    } else {
      out = static_cast<Number>(*value);
    }
  }
  void flag(std::string_view key, bool& out) {
    const Value* found = from_.find(key);
    if (found == nullptr || found->if_bool() == nullptr) {
      is_right = false;
    } else {
      out = *found->if_bool();
    }
  }
  const json::Array& list(std::string_view key) {
    static const json::Array kNone;
    const Value* found = from_.find(key);
    if (found != nullptr && found->if_array() != nullptr) return *found->if_array();
    is_right = false;
    return kNone;
  }
  void texts(std::string_view key, std::vector<std::string>& out) {
    for (const Value& item : list(key)) {
      if (item.if_string() == nullptr) {
        is_right = false;
        return;
      }
      out.push_back(*item.if_string());
    }
  }
  void calls(std::string_view key, std::vector<message::ToolCall>& out) {
    for (const Value& item : list(key)) {
      message::ToolCall& call = out.emplace_back();
      Members members(item);
      members.text("id", call.id);
      members.text("name", call.name);
      members.text("arguments", call.arguments);
      is_right = is_right && members.is_right;
    }
  }

  bool is_right = true;

 private:
  const Value& from_;
};

}  // namespace

// The kind is that which the cell asked for, before the depth makes a model of a child, so a cell
// that runs again finds its record.
std::string hash_of(const SubCall& call) {
  std::vector<std::string> pieces = call.prompts;
  pieces.push_back(call.kind == SubCall::Kind::llm ? "llm" : "rlm");
  pieces.push_back(call.model.value_or(""));
  return hash_of(pieces);
}

// The seed is text, because JSON numbers of 64 bits are rounded by many readers.
std::string write_session(const Session& session) {
  json::Array messages;
  for (const message::Message& message : session.messages) {
    messages.emplace_back(message::to_json(message));
  }
  json::Array cells;
  for (const CellRecord& cell : session.cells) {
    json::Array asked;
    for (const AskedRecord& record : cell.asked) {
      asked.emplace_back(json::Object{{"hash", record.hash}, {"texts", write_texts(record.texts)}});
    }
    cells.emplace_back(json::Object{{"code", cell.code},
                                    {"results", std::uint64_t{cell.results}},
                                    {"error", cell.error},
                                    {"asked", std::move(asked)}});
  }
  const message::Usage& usage = session.spent.usage;
  return json::to_string(
      json::Object{{"version", kVersion},
                   {"id", session.id},
                   {"owner", session.owner},
                   {"model", session.model},
                   {"root", session.root},
                   {"sub", session.sub},
                   {"seed", std::to_string(session.seed)},
                   {"state", static_cast<int>(session.state)},
                   {"question", session.task.question},
                   {"is_question_context", session.task.is_question_context},
                   {"history", session.task.history},
                   {"shape", session.task.shape},
                   {"context_hash", session.context_hash},
                   {"messages", std::move(messages)},
                   {"cells", std::move(cells)},
                   {"is_replayable", session.is_replayable},
                   {"tool_results", write_texts(session.tool_results)},
                   {"turns", session.turns},
                   {"errors", session.errors},
                   {"compactions", session.compactions},
                   {"note", session.note},
                   {"usage", json::Array{usage.prompt_tokens, usage.completion_tokens,
                                         usage.cached_tokens, usage.reasoning_tokens}},
                   {"sub_calls", session.spent.sub_calls},
                   {"cost", session.spent.cost},
                   {"calls", write_calls(session.calls)},
                   {"answered", write_texts(session.answered)},
                   {"answered_hash", session.answered_hash},
                   {"guarantee", static_cast<int>(session.guarantee)},
                   {"format", session.format},
                   {"final", session.final_text},
                   {"forced", session.forced},
                   {"reason", static_cast<int>(session.reason)}});
}

// Everything is checked although Tenon wrote it: the store may have been edited, or be that of
// another version.
Expected<std::unique_ptr<Session>> read_session(std::string_view text) {
  const Unexpected wrong(Error{Errc::invalid, "this is no session of a recursive model"});
  const auto document = json::parse(text);
  if (!document) return wrong;
  Members members(*document);
  auto session = std::make_unique<Session>();
  int version = 0;
  members.number("version", version);
  if (version != kVersion) return wrong;
  members.text("id", session->id);
  members.text("owner", session->owner);
  members.text("model", session->model);
  members.text("root", session->root);
  members.text("sub", session->sub);
  std::string seed;
  members.text("seed", seed);
  session->seed = std::strtoull(seed.c_str(), nullptr, 10);
  unsigned state = 0;
  members.number("state", state);
  if (state > 3) return wrong;
  session->state = static_cast<Session::State>(state);
  members.text("question", session->task.question);
  members.flag("is_question_context", session->task.is_question_context);
  session->task.history = members.list("history");
  members.text("shape", session->task.shape);
  members.text("context_hash", session->context_hash);
  for (const Value& item : members.list("messages")) {
    auto message = message::message_from_json(item);
    if (!message) return wrong;
    session->messages.push_back(*std::move(message));
  }
  for (const Value& item : members.list("cells")) {
    CellRecord& cell = session->cells.emplace_back();
    Members from(item);
    from.text("code", cell.code);
    from.number("results", cell.results);
    from.text("error", cell.error);
    for (const Value& each : from.list("asked")) {
      AskedRecord& asked = cell.asked.emplace_back();
      Members record(each);
      record.text("hash", asked.hash);
      record.texts("texts", asked.texts);
      from.is_right = from.is_right && record.is_right;
    }
    if (!from.is_right) return wrong;
  }
  members.flag("is_replayable", session->is_replayable);
  members.texts("tool_results", session->tool_results);
  members.number("turns", session->turns);
  members.number("errors", session->errors);
  // Sessions of earlier releases have none.
  if (document->find("compactions") != nullptr) members.number("compactions", session->compactions);
  members.text("note", session->note);
  std::vector<std::uint32_t> usage;
  for (const Value& count : members.list("usage")) {
    const auto number = count.if_number() ? count.if_number()->to_int64() : std::nullopt;
    usage.push_back(static_cast<std::uint32_t>(number.value_or(0)));
  }
  if (usage.size() != 4) return wrong;
  session->spent.usage = {usage[0], usage[1], usage[2], usage[3]};
  members.number("sub_calls", session->spent.sub_calls);
  if (const Value* cost = document->find("cost"); cost != nullptr && cost->if_number()) {
    session->spent.cost = cost->if_number()->to_double();
  }
  members.calls("calls", session->calls);
  members.texts("answered", session->answered);
  members.text("answered_hash", session->answered_hash);
  unsigned guarantee = 0;
  unsigned reason = 0;
  members.number("guarantee", guarantee);
  members.number("reason", reason);
  if (guarantee > static_cast<unsigned>(message::Guarantee::masked) ||
      reason > static_cast<unsigned>(message::FinishReason::error)) {
    return wrong;
  }
  session->guarantee = static_cast<message::Guarantee>(guarantee);
  session->reason = static_cast<message::FinishReason>(reason);
  members.text("format", session->format);
  members.text("final", session->final_text);
  members.text("forced", session->forced);
  if (!members.is_right || session->id.size() != kSessionChars) return wrong;
  return session;
}

RunFacts& RunFacts::operator+=(const RunFacts& other) {
  usage += other.usage;
  sub_calls += other.sub_calls;
  cost += other.cost;
  return *this;
}

std::string new_session_id() {
  return random_id("", kSessionChars);
}

// "call_" and session "aaaabbbbccccdddd" give "call_aaaabbbbccccdddd" with 8 random characters
// behind it.
std::string new_call_id(std::string_view prefix, std::string_view session) {
  return random_id(std::string(prefix) + std::string(session), kCallChars);
}

// Looks at the last 24 characters only, because the client chooses the prefix (call_id_prefix).
// Another server's id of that shape is taken for ours and names a session that is not found.
std::string session_of_call(std::string_view call_id) {
  constexpr std::size_t kChars = kSessionChars + kCallChars;
  if (call_id.size() < kChars) return {};
  const std::string_view own = call_id.substr(call_id.size() - kChars);
  const bool is_ours = std::ranges::all_of(own, [](char c) {
    return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z');
  });
  return is_ours ? std::string(own.substr(0, kSessionChars)) : std::string();
}

}  // namespace tenon::rlm
