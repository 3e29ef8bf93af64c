#include "tenon/prompt/shape.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "tenon/base/hash.h"
#include "tenon/format/render.h"
#include "tenon/prompt/schema_shape.h"

// Rewrites a conversation so that a template can express it (shape.h lists the rules). Each member
// function of Shaper applies one rule in one pass over the messages, and run() calls them in an
// order in which no later rule undoes an earlier one: content first, then which messages there are,
// then calls and results, ids and arguments, then the roles and their alternation, and at last the
// form of content that the template needs.
//
// answer_calls() is the pass that keeps state. `turn_` has the calls of the last message that is
// not a result, and whether the prompt will contain them. A result whose call is in the prompt
// stays. Other results wait in `results_`, and flush() writes them before the next message as one:
// as lines of the user, or in the format's own form.
//
// Each pass takes linear time. OpenCalls finds the call that a result answers by its id, and looks
// at each call a bounded number of times. Everything that was changed is counted and becomes one
// sentence of the log (say, say_count).
namespace tenon::prompt {
namespace {

// counted(2, "call") is "2 calls".
std::string counted(std::size_t count, std::string_view thing) {
  return std::to_string(count) + " " + std::string(thing) + (count == 1 ? "" : "s");
}

std::string_view text_at(const json::Value& object, std::string_view key) {
  const json::Value* value = object.find(key);
  if (value == nullptr || value->if_string() == nullptr) return {};
  return *value->if_string();
}

std::string_view role_of(const json::Value& message) {
  return text_at(message, "role");
}

// Null for a message without calls: also if the list is empty or no list at all.
json::Array* calls_of(json::Value& message) {
  json::Value* calls = message.find("tool_calls");
  json::Array* list = calls == nullptr ? nullptr : calls->if_array();
  return list == nullptr || list->empty() ? nullptr : list;
}

// Calls come as {"type": "function", "function": {...}} or bare.
json::Value& function_of(json::Value& call) {
  json::Value* function = call.find("function");
  return function != nullptr && function->if_object() != nullptr ? *function : call;
}

void set(json::Value& message, std::string_view key, json::Value value) {
  (*message.if_object())[key] = std::move(value);
}

// The text of content that is text or a list of parts, all of them text.
std::optional<std::string> text_of(const json::Value& content) {
  if (content.if_string() != nullptr) return *content.if_string();
  if (content.is_null()) return std::string();
  const json::Array* parts = content.if_array();
  if (parts == nullptr) return std::nullopt;
  std::string text;
  for (const json::Value& part : *parts) {
    const json::Value* piece = part.find("text");
    if (piece == nullptr || piece->if_string() == nullptr) return std::nullopt;
    if (&part != parts->data()) text += '\n';
    text += *piece->if_string();
  }
  return text;
}

// "" also for content with parts that are not text.
std::string text_of_message(const json::Value& message) {
  const json::Value* content = message.find("content");
  return content == nullptr ? std::string() : text_of(*content).value_or(std::string());
}

json::Value plain(std::string_view role, std::string text) {
  return json::Object{{"role", role}, {"content", std::move(text)}};
}

// Appends `later` to the content of `message`: text after a blank line, parts after the others.
void join_onto(json::Value& message, json::Value later) {
  json::Value& content = (*message.if_object())["content"];
  if (content.is_null()) content = "";
  if (later.is_null()) later = "";
  std::string* text = content.if_string();
  if (text != nullptr && later.if_string() != nullptr) {
    if (!text->empty() && !later.if_string()->empty()) *text += "\n\n";
    *text += *later.if_string();
    return;
  }
  const auto as_parts = [](json::Value& value) -> json::Array& {
    if (value.if_array() == nullptr) {
      value = json::Array{json::Object{{"type", "text"}, {"text", std::move(value)}}};
    }
    return *value.if_array();
  };
  json::Array& parts = as_parts(content);
  for (json::Value& part : as_parts(later)) parts.push_back(std::move(part));
}

json::Value take_content(json::Value& message) {
  json::Value* content = message.find("content");
  return content == nullptr ? json::Value() : std::move(*content);
}

bool has_content(const json::Value& message) {
  const json::Value* content = message.find("content");
  return content != nullptr && !content->is_null() && *content != json::Value("");
}

bool has_thoughts(const json::Value& message) {
  return !text_at(message, "reasoning_content").empty() || !text_at(message, "thinking").empty();
}

// Moves text, thoughts and calls of `later` behind those of `message`. Both have calls.
void take_over(json::Value& later, json::Value& message) {
  if (has_content(later)) join_onto(message, take_content(later));
  for (const std::string_view key : {"reasoning_content", "thinking"}) {
    std::string text(text_at(message, key));
    const std::string_view more = text_at(later, key);
    if (more.empty()) continue;
    if (!text.empty()) text += "\n\n";
    set(message, key, text.append(more));
  }
  for (json::Value& call : *calls_of(later)) calls_of(message)->push_back(std::move(call));
}

/// The calls of one message, and which of them have been answered.
class OpenCalls {
 public:
  void add(const std::string& id, std::string name) {
    by_id_[id].push_back(names_.size());
    names_.push_back(std::move(name));
    is_answered_.push_back(false);
  }
  [[nodiscard]] bool empty() const { return names_.empty(); }

  /// Marks the call that a result with `id` answers, and returns its name. It is the next open call
  /// with that id; a result without an id answers the next open call, and a call without an id may
  /// be answered by any result. Null if there is no such call. Each call is looked at a bounded
  /// number of times.
  const std::string* answer(const std::string& id) {
    if (id.empty()) return take(next_);
    // First calls with this id, then calls without one.
    for (const std::string& key : {id, std::string()}) {
      const auto found = by_id_.find(key);
      if (found == by_id_.end()) continue;
      // A call that a result without an id has answered is still in this list; it is passed here.
      while (!found->second.empty()) {
        std::size_t call = found->second.front();
        found->second.pop_front();
        if (!is_answered_[call]) return take(call);
      }
    }
    return nullptr;
  }

 private:
  const std::string* take(std::size_t& call) {
    while (call < names_.size() && is_answered_[call]) ++call;
    if (call == names_.size()) return nullptr;
    is_answered_[call] = true;
    return &names_[call];
  }

  std::vector<std::string> names_;  // by call, in order
  std::vector<bool> is_answered_;
  std::unordered_map<std::string, std::deque<std::size_t>> by_id_;  // calls that may be open
  std::size_t next_ = 0;  // all calls before it are answered
};

/// The last message that is not a result, and what it means for the results behind it.
struct Turn {
  OpenCalls calls;
  bool keeps_results = true;   ///< Their calls are in the prompt, and the template writes results.
  bool keeps_orphans = false;  ///< Results may stand without a call.
};

// The form of an id that every template accepts.
format::IdShape short_id() {
  return {.prefix = "", .length = 9};
}

// The form of ids that the model knows; absent: any.
std::optional<format::IdShape> id_shape(const Capabilities& can, const Writer& writer) {
  // What the template demands comes before what the format prefers.
  if (can.ids == IdForm::nine_alphanumerics) return short_id();
  if (writer.format == nullptr || !can.calls || can.ids != IdForm::any) return std::nullopt;
  return format::id_shape(*writer.format);
}

class Shaper {
 public:
  Shaper(json::Array& messages, const Capabilities& capabilities, const Writer& writer,
         Shaping& shaping)
      : messages_(messages),
        can_(capabilities),
        writer_(writer),
        shaping_(shaping),
        id_shape_(id_shape(capabilities, writer)) {}

  void run();
  /// Describes the tools in the system message.
  void describe(const std::vector<message::Tool>& tools);
  void show_call(json::Array::iterator first);

 private:
  [[nodiscard]] format::HistoryOptions text_options() const {
    return {
        .own_begin = writer_.own_begin, .own_end = writer_.own_end, .calls_before = calls_written_};
  }
  void fill_content();
  void name_developers();
  void leave_out_empty_answers();
  void join_calls();
  void gather_results();
  void order_results();
  void part_calls();
  void part_texts();
  [[nodiscard]] bool join_reasoning(json::Value& message) const;
  void answer_calls();
  [[nodiscard]] bool has_result_role() const { return !writer_.result_role.empty(); }
  [[nodiscard]] bool hides_calls(json::Value& message) const;
  [[nodiscard]] bool orphans_may_stay(std::size_t at) const;
  void begin_turn(json::Value& message);
  [[nodiscard]] bool write_or_remove_calls(json::Value& message);
  [[nodiscard]] bool remove_calls(json::Value& message);
  void write_calls(json::Value& message);
  void answer(json::Value& message, json::Array& kept);
  void flush(json::Array& kept);
  void rewrite_ids();
  std::string id_for(std::string_view id, std::string_view name);
  void write_arguments();
  void place_systems();
  void place_before_user(std::string text);
  void place_user();
  void begin_with_user();
  void alternate();
  void alternate_without_calls();
  void answer_results();
  void write_content();

  void say(std::string sentence) { shaping_.log.push_back(std::move(sentence)); }
  void say_count(std::size_t count, std::string_view what, std::string_view thing) {
    if (count != 0) say(std::string(what) + " in " + counted(count, thing));
  }

  json::Array& messages_;
  const Capabilities& can_;
  const Writer& writer_;
  Shaping& shaping_;
  const std::optional<format::IdShape> id_shape_;
  Turn turn_;
  std::vector<format::ToolResult> results_;  // cannot stay, and are not yet in a message
  bool are_lines_ = true;                    // they become lines, else the format's text
  std::size_t calls_written_ = 0;            // by the format
  std::size_t results_written_ = 0;
  std::unordered_map<std::string, std::string> names_;  // of all calls so far, by id
  std::unordered_set<std::string> used_ids_;
  std::size_t call_count_ = 0;
  std::size_t next_index_ = 0;  // for ids that are made
  std::size_t named_ = 0;       // results that got a name
};

// Templates read `content` in different ways: some fail for null, some print "None", some need null
// beside calls, some take no lists. What the template's capabilities say decides; what stays the
// same for it is left alone.
void Shaper::fill_content() {
  std::size_t nulls = 0;
  std::size_t emptied = 0;
  std::size_t lists = 0;
  std::size_t objects = 0;
  for (json::Value& message : messages_) {
    if (message.if_object() == nullptr) continue;
    // An empty list would count as calls in a template that only asks whether the key exists.
    const bool calls_none = message.find("tool_calls") != nullptr && calls_of(message) == nullptr;
    if (calls_none) message.if_object()->erase("tool_calls");
    json::Value* content = message.find("content");
    // Clients may leave content out beside calls. It then counts as null.
    if (content == nullptr) {
      if (calls_of(message) == nullptr && role_of(message) != "assistant") continue;
      set(message, "content", nullptr);
      content = message.find("content");
    }
    if (content->if_array() != nullptr && content->if_array()->empty()) *content = "";
    if (content->is_null()) {
      if (can_.null_beside_calls && calls_of(message) != nullptr) continue;
      *content = "";
      // Beside calls null is what APIs write, and nothing that a reader of the log could change.
      if (calls_of(message) == nullptr) ++nulls;
    } else if (can_.null_beside_calls && calls_of(message) != nullptr &&
               *content == json::Value("")) {
      *content = nullptr;
      ++emptied;
    } else if (content->if_object() != nullptr && role_of(message) == "tool") {
      *content = json::dumps(*content, {.ensure_ascii = false, .keep_numbers = true});
      ++objects;
    } else if (content->if_array() != nullptr && !can_.list_content) {
      std::optional<std::string> text = text_of(*content);
      if (!text) continue;  // the template must know pictures and similar parts
      *content = *std::move(text);
      ++lists;
    }
  }
  say_count(nulls, "content null made empty", "message");
  say_count(emptied, "empty content made null", "message");
  say_count(lists, "lists of text made text", "message");
  say_count(objects, "objects made JSON text", "tool result");
}

void Shaper::name_developers() {
  if (can_.developer) return;
  std::size_t count = 0;
  for (json::Value& message : messages_) {
    if (role_of(message) != "developer") continue;
    set(message, "role", "system");
    ++count;
  }
  say_count(count, "role developer made system", "message");
}

void Shaper::leave_out_empty_answers() {
  if (can_.empty_answers) return;
  const std::size_t count = std::erase_if(messages_, [&](json::Value& message) {
    return role_of(message) == "assistant" && calls_of(message) == nullptr &&
           !has_content(message) && !(can_.reasoning && has_thoughts(message));
  });
  say_count(count, "empty content left out", "assistant's message");
}

// Joins assistant's messages with calls that stand directly behind each other, as clients write
// them that have an item for each call, if the results stand behind the last of them. If the
// template takes one call per turn, each result goes behind its call instead.
void Shaper::join_calls() {
  const bool joins = can_.parallel_calls || can_.calls_apart || !can_.calls;
  std::size_t count = 0;
  json::Array kept;
  kept.reserve(messages_.size());
  for (std::size_t at = 0; at < messages_.size();) {
    std::unordered_map<std::string_view, std::size_t> callers;  // places in the run, by call
    // The run of messages with calls is [at, end), and the results behind it are [end, behind).
    std::size_t end = at;
    for (; end < messages_.size() && calls_of(messages_[end]) != nullptr; ++end) {
      for (const json::Value& call : *calls_of(messages_[end])) {
        callers.emplace(text_at(call, "id"), end - at);
      }
    }
    if (end - at < 2) {
      kept.push_back(std::move(messages_[at++]));
      continue;
    }
    const std::size_t last = end - at - 1;
    std::vector<std::vector<std::size_t>> results(end - at);  // places in messages_, by caller
    std::size_t behind = end;
    bool is_apart = false;
    for (; behind < messages_.size() && role_of(messages_[behind]) == "tool"; ++behind) {
      const auto found = callers.find(text_at(messages_[behind], "tool_call_id"));
      // A result that names no call of the run belongs to its last message.
      const std::size_t caller = found == callers.end() ? last : found->second;
      is_apart |= caller != last;
      results[caller].push_back(behind);
    }
    // All results answer the last message: the others are turns without results, and stay.
    if (!is_apart) {
      for (; at < end; ++at) kept.push_back(std::move(messages_[at]));
      continue;
    }
    count += last + 1;
    // One message with all calls, and then all results.
    if (joins) {
      json::Value first = std::move(messages_[at]);
      for (std::size_t i = at + 1; i < end; ++i) take_over(messages_[i], first);
      kept.push_back(std::move(first));
      for (std::size_t i = end; i < behind; ++i) kept.push_back(std::move(messages_[i]));
    } else {
      for (std::size_t i = 0; i <= last; ++i) {
        kept.push_back(std::move(messages_[at + i]));
        for (const std::size_t result : results[i]) kept.push_back(std::move(messages_[result]));
      }
    }
    at = behind;
  }
  messages_ = std::move(kept);
  say_count(count, joins ? "calls of one turn joined" : "results put behind the calls", "message");
}

// Puts results directly behind their calls, and the messages between them after the results, if the
// template would otherwise not know which call a result belongs to.
void Shaper::gather_results() {
  if (!can_.tool_results || (can_.orphan_results && !can_.alternation_skips_calls)) return;
  std::size_t count = 0;
  json::Array kept;
  json::Array between;  // messages since the last calls, without their results
  kept.reserve(messages_.size());
  OpenCalls open;
  // The messages between come back behind the results of the turn.
  const auto end_turn = [&] {
    for (json::Value& message : between) kept.push_back(std::move(message));
    between.clear();
  };
  for (json::Value& message : messages_) {
    const json::Array* calls = calls_of(message);
    // The assistant's next message ends the turn: later results cannot belong to it.
    if (calls != nullptr || role_of(message) == "assistant") {
      end_turn();
      open = OpenCalls();
    }
    if (calls != nullptr) {
      for (json::Value& call : *calls_of(message)) open.add(std::string(text_at(call, "id")), "");
    }
    const bool is_result = role_of(message) == "tool";
    if (is_result && open.answer(std::string(text_at(message, "tool_call_id"))) != nullptr) {
      count += between.empty() ? 0 : 1;
      kept.push_back(std::move(message));
    } else if (calls == nullptr && !open.empty()) {
      between.push_back(std::move(message));
    } else {
      kept.push_back(std::move(message));
    }
  }
  end_turn();
  messages_ = std::move(kept);
  say_count(count, "put behind its call", "tool result");
}

// If the prompt does not say which call a result answers, the place of the result must say it.
void Shaper::order_results() {
  if (can_.tool_results && can_.result_ids) return;
  std::size_t count = 0;
  for (std::size_t at = 0; at < messages_.size(); ++at) {
    const json::Array* calls = calls_of(messages_[at]);
    if (calls == nullptr || calls->size() < 2) continue;
    std::unordered_map<std::string, std::size_t> places;
    std::unordered_set<std::string_view> tools;
    for (json::Value& call : *calls_of(messages_[at])) {
      places.emplace(text_at(call, "id"), places.size());
      tools.insert(text_at(function_of(call), "name"));
    }
    // Such calls are left out, and each result has the name of its tool.
    if (can_.calls && !can_.parallel_calls && tools.size() == calls->size()) continue;
    if (places.size() != calls->size()) continue;              // ids are missing, or come twice
    std::vector<std::size_t> from;                             // places of results in messages_
    std::vector<std::pair<std::size_t, json::Value>> results;  // by call
    for (std::size_t i = at + 1; i < messages_.size() && role_of(messages_[i]) == "tool"; ++i) {
      const auto found = places.find(std::string(text_at(messages_[i], "tool_call_id")));
      if (found == places.end()) continue;
      from.push_back(i);
      results.emplace_back(found->second, std::move(messages_[i]));
    }
    const auto by_call = [](const auto& a, const auto& b) { return a.first < b.first; };
    if (!std::ranges::is_sorted(results, by_call)) ++count;
    std::ranges::stable_sort(results, by_call);
    // The results take the places that results had; other messages between them do not move.
    for (std::size_t i = 0; i < from.size(); ++i) messages_[from[i]] = std::move(results[i].second);
  }
  say_count(count, "put in the order of the calls", "turn's results");
}

// Gives each call of a turn a message of its own, with its results behind it, if the template would
// leave out all calls but the first. Templates that refuse several calls have another rule
// (remove_calls).
void Shaper::part_calls() {
  if (!can_.calls_apart) return;
  std::size_t count = 0;
  json::Array kept;
  kept.reserve(messages_.size());
  for (std::size_t at = 0; at < messages_.size(); ++at) {
    json::Array* calls = calls_of(messages_[at]);
    if (calls == nullptr || calls->size() < 2) {
      kept.push_back(std::move(messages_[at]));
      continue;
    }
    ++count;
    // The results by call; one that names none of them belongs to the last.
    std::unordered_map<std::string, std::size_t> places;
    for (const json::Value& call : *calls) places.emplace(text_at(call, "id"), places.size());
    const bool has_ids = places.size() == calls->size();
    std::vector<json::Array> results(calls->size());
    std::size_t end = at + 1;
    for (; end < messages_.size() && role_of(messages_[end]) == "tool"; ++end) {
      const auto found = places.find(std::string(text_at(messages_[end], "tool_call_id")));
      // Without usable ids, the first result answers the first call, and so on.
      const std::size_t place = !has_ids                ? end - at - 1
                                : found == places.end() ? calls->size() - 1
                                                        : found->second;
      results[std::min(place, calls->size() - 1)].push_back(std::move(messages_[end]));
    }
    json::Array each = std::move(*calls);
    for (std::size_t i = 0; i < each.size(); ++i) {
      // Text and reasoning stay with the first call.
      json::Value message = i == 0 ? std::move(messages_[at]) : plain("assistant", "");
      if (i > 0 && can_.null_beside_calls) set(message, "content", json::Value());
      set(message, "tool_calls", json::Array{std::move(each[i])});
      kept.push_back(std::move(message));
      for (json::Value& result : results[i]) kept.push_back(std::move(result));
    }
    at = end - 1;  // the loop adds one
  }
  messages_ = std::move(kept);
  say_count(count, "given one message for each call", "turn");
}

// Joins reasoning and text to one piece of reasoning, which the template can write beside calls.
bool Shaper::join_reasoning(json::Value& message) const {
  if (can_.reasoning_beside_text) return false;
  const std::string text = text_of_message(message);
  bool has_reasoning = false;
  for (const std::string_view key : {"reasoning_content", "thinking"}) {
    const std::string reasoning(text_at(message, key));
    if (reasoning.empty() || text.empty()) continue;
    set(message, key, reasoning + "\n\n" + text);
    has_reasoning = true;
  }
  if (has_reasoning) set(message, "content", "");
  return has_reasoning;
}

// Puts text that the template does not write beside calls into a message before them.
void Shaper::part_texts() {
  if (!can_.calls) return;
  // Such a template writes calls only beside null; with text, the format writes them into it.
  const bool by_format = can_.null_beside_calls && writer_.format != nullptr;
  std::size_t joined = 0;
  std::size_t parted = 0;
  json::Array kept;
  kept.reserve(messages_.size());
  for (json::Value& message : messages_) {
    json::Array* calls = calls_of(message);
    if (calls != nullptr && join_reasoning(message)) ++joined;
    const bool is_parted = calls != nullptr && !can_.text_beside_calls && !by_format &&
                           (can_.parallel_calls || calls->size() == 1) &&
                           !text_of_message(message).empty();
    if (is_parted) {
      // Reasoning goes with the text, which comes first.
      json::Value text = message;
      text.if_object()->erase("tool_calls");
      kept.push_back(std::move(text));
      set(message, "content", can_.null_beside_calls ? json::Value() : json::Value(""));
      for (const std::string_view key : {"reasoning_content", "thinking"}) {
        message.if_object()->erase(key);
      }
      ++parted;
    }
    kept.push_back(std::move(message));
  }
  messages_ = std::move(kept);
  say_count(joined, "reasoning and text joined", "message with calls");
  say_count(parted, "text put before the calls", "message");
}

// Finds the call of each result. Results that cannot stay become one message, the user's or of the
// format's role.
void Shaper::answer_calls() {
  json::Array kept;
  kept.reserve(messages_.size());
  are_lines_ = !has_result_role() || can_.tool_results;
  bool is_among_results = false;
  for (std::size_t at = 0; at < messages_.size(); ++at) {
    json::Value& message = messages_[at];
    const bool is_result = role_of(message) == "tool";
    if (is_result) {
      if (!is_among_results) turn_.keeps_orphans = orphans_may_stay(at);
      answer(message, kept);
    } else {
      flush(kept);
      begin_turn(message);
      if (write_or_remove_calls(message)) kept.push_back(std::move(message));
    }
    is_among_results = is_result;
  }
  flush(kept);
  messages_ = std::move(kept);
  say_count(calls_written_, "what the template does not write made text", "call");
  say_count(results_written_, "what the template does not write made text", "tool result");
  say_count(named_, "the name of its tool written", "tool result");
}

// A turn is a message of the assistant with calls and the results that answer it. Whether results
// keep their own messages depends on whether the template has a place for them, and on whether the
// calls themselves are written by the template or by the format.
void Shaper::begin_turn(json::Value& message) {
  const bool by_format = hides_calls(message);
  // A template that knows no tools writes a result as it writes any other message.
  const bool has_native_results = can_.tools || can_.calls || !has_result_role();
  are_lines_ = !has_result_role() || (can_.tool_results && !by_format);
  // Calls that the format writes are text to the template, so their results have no call there.
  turn_ = {.keeps_results =
               can_.tool_results && (!by_format || (can_.orphan_results && has_native_results))};
  json::Array* calls = calls_of(message);
  if (calls == nullptr) return;
  for (json::Value& call : *calls) {
    const std::string id(text_at(call, "id"));
    const std::string name(text_at(function_of(call), "name"));
    if (!id.empty()) names_[id] = name;
    turn_.calls.add(id, name);
  }
}

// False: the message has become empty and is left out.
bool Shaper::write_or_remove_calls(json::Value& message) {
  const json::Array* calls = calls_of(message);
  if (calls == nullptr) return true;
  if (can_.calls && !can_.parallel_calls && calls->size() > 1) return remove_calls(message);
  if (hides_calls(message)) write_calls(message);
  return true;
}

// The rule of Llama 3.1: several calls are left out if the template writes only one per turn.
bool Shaper::remove_calls(json::Value& message) {
  say("Removing " + std::to_string(calls_of(message)->size()) +
      " parallel tool_calls from assistant message (Llama 3.1 limitation)");
  message.if_object()->erase("tool_calls");
  // The results of calls that are gone can only be told in words.
  are_lines_ = true;
  turn_.keeps_results = false;
  // Parts that are not text count as content.
  const std::optional<std::string> text = text_of(*message.find("content"));
  return !text || !text->empty() || !text_at(message, "reasoning_content").empty();
}

// Whether `message` has calls that the template leaves out and the format can write.
bool Shaper::hides_calls(json::Value& message) const {
  if (writer_.format == nullptr || calls_of(message) == nullptr) return false;
  return !can_.calls || (can_.null_beside_calls && !message.find("content")->is_null());
}

// Whether results from `at` on may stay although they answer no call. If the template writes one
// call per turn, only a single result may.
bool Shaper::orphans_may_stay(std::size_t at) const {
  if (!can_.tool_results || !can_.orphan_results) return false;
  const bool is_alone = at + 1 == messages_.size() || role_of(messages_[at + 1]) != "tool";
  return is_alone || can_.parallel_calls || !can_.calls;
}

// A result stays as it is, or it goes to results_: because its call or the role of results is not
// in the prompt, or because it answers no call and the template cannot express that.
void Shaper::answer(json::Value& message, json::Array& kept) {
  const std::string id(text_at(message, "tool_call_id"));
  const bool has_calls = !turn_.calls.empty();
  const std::string* call = turn_.calls.answer(id);
  std::string name(text_at(message, "name"));
  const bool is_nameless = name.empty();
  if (is_nameless && call != nullptr) name = *call;
  if (is_nameless && call == nullptr && names_.contains(id)) name = names_[id];
  const bool may_be_orphan =
      turn_.keeps_orphans && !has_calls && (can_.nameless_orphans || !name.empty());
  if (call != nullptr ? turn_.keeps_results : may_be_orphan) {
    if (is_nameless && !name.empty() && can_.result_names) {
      set(message, "name", std::move(name));
      ++named_;
    }
    kept.push_back(std::move(message));
    return;
  }
  if (name.empty()) name = "unknown";
  if (are_lines_) say("Buffering tool result from '" + name + "'");
  const json::Value* failed = message.find("is_error");
  results_.push_back({.id = id,
                      .name = std::move(name),
                      .content = text_of_message(message),
                      .is_error = failed != nullptr && *failed == json::Value(true)});
}

// Results that the template has no place for become text: in the format's own way if it defines
// one, else as plain lines of a user's message.
void Shaper::flush(json::Array& kept) {
  if (results_.empty()) return;
  if (are_lines_) {
    std::string lines;
    for (const format::ToolResult& result : results_) {
      lines += (lines.empty() ? "" : "\n");
      lines += "Tool '" + result.name + "' returned: " + result.content;
    }
    kept.push_back(plain("user", std::move(lines)));
    say("Flushed " + std::to_string(results_.size()) + " tool results as single user message");
  } else {
    for (std::string& turn : format::render_results(*writer_.format, results_, text_options())) {
      kept.push_back(plain(writer_.result_role, std::move(turn)));
    }
    results_written_ += results_.size();
  }
  results_.clear();
}

// The arguments of a call as the text of a JSON object. Other text becomes the only member of such
// an object, so nothing is lost and the template can be rendered.
std::string arguments_of(json::Value& call) {
  const json::Value* arguments = function_of(call).find("arguments");
  if (arguments == nullptr || arguments->is_null()) return "{}";
  const std::string* text = arguments->if_string();
  if (text == nullptr && arguments->if_object() != nullptr) {
    return json::dumps(*arguments, {.ensure_ascii = false, .keep_numbers = true});
  }
  if (text != nullptr) {
    if (text->empty()) return "{}";
    // The text itself stays: it is what the model wrote, byte by byte.
    const Expected<json::Value> parsed = json::parse(*text);
    if (parsed && parsed->if_object() != nullptr) return *text;
  }
  return json::dumps(json::Object{{"arguments", *arguments}},
                     {.ensure_ascii = false, .keep_numbers = true});
}

// Writes the calls of `message` behind its text, as the model would have written them.
void Shaper::write_calls(json::Value& message) {
  std::vector<message::ToolCall> calls;
  for (json::Value& call : *calls_of(message)) {
    std::string id(text_at(call, "id"));
    // Formats that write ids need one; the number goes on over the conversation.
    if (id.empty()) id = "call_" + std::to_string(calls_written_ + calls.size());
    calls.push_back({.id = std::move(id),
                     .name = std::string(text_at(function_of(call), "name")),
                     .arguments = arguments_of(call)});
  }
  Expected<std::string> written = format::render_calls(*writer_.format, calls, text_options());
  if (!written) return;  // the format cannot write calls
  message.if_object()->erase("tool_calls");
  calls_written_ += calls.size();
  json::Value& content = (*message.if_object())["content"];
  if (std::string* text = content.if_string()) {
    if (!text->empty() && !text->ends_with('\n')) *text += '\n';
    *text += *written;
  } else {
    join_onto(message, *std::move(written));
  }
}

void Shaper::describe(const std::vector<message::Tool>& tools) {
  if (writer_.format == nullptr) return;
  const auto is_system = [](const json::Value& message) {
    return role_of(message) == "system" || role_of(message) == "developer";
  };
  // Behind the leading system messages; the tools are described in the last of them.
  auto last = std::find_if_not(messages_.begin(), messages_.end(), is_system);
  if (last == messages_.begin()) last = messages_.insert(last, plain("system", "")) + 1;
  join_onto(*std::prev(last), format::describe_tools(*writer_.format, tools, text_options()));
  say(counted(tools.size(), "tool") + " described in the system message");
  // Only before a user's question, so that the roles still alternate.
  if (writer_.shows_call && last != messages_.end() && role_of(*last) == "user") show_call(last);
}

// Small models that only read a description of calls answer in words or write a program. Models
// that have seen a call make one (docs/benchmarks.md).
void Shaper::show_call(json::Array::iterator first) {
  const auto call = format::render_calls(
      *writer_.format,
      {{.id = "example02", .name = "get_time", .arguments = R"({"city": "Oslo"})"}},
      text_options());
  if (!call) return;
  first = messages_.insert(first, plain("assistant", *call));
  messages_.insert(first, plain("user", "What time is it in Oslo?"));
  say("an example of a call put before the first message");
}

constexpr std::string_view kAlphanumerics =
    "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";

// The prefix and then so many letters and digits: "call_" and 24 of them, say.
bool has_shape(std::string_view id, const format::IdShape& shape) {
  return id.size() == shape.prefix.size() + shape.length && id.starts_with(shape.prefix) &&
         id.find_first_not_of(kAlphanumerics, shape.prefix.size()) == std::string_view::npos;
}

// True for "functions.get_weather:0" and the name "get_weather".
bool is_function_and_index(std::string_view id, std::string_view name) {
  const std::string before = "functions." + std::string(name) + ":";
  if (!id.starts_with(before) || id.size() == before.size()) return false;
  return std::all_of(id.begin() + static_cast<std::ptrdiff_t>(before.size()), id.end(),
                     [](char c) { return c >= '0' && c <= '9'; });
}

// The number in base 62, the last digit first, cut to the length.
std::string id_from(std::uint64_t number, const format::IdShape& shape) {
  std::string id = shape.prefix;
  for (std::size_t i = 0; i < shape.length; ++i, number /= kAlphanumerics.size()) {
    id += kAlphanumerics[number % kAlphanumerics.size()];
  }
  return id;
}

// An id in the form that is demanded. It is made from the client's id and from what stands before,
// so a longer history gives the same ids.
std::string Shaper::id_for(std::string_view id, std::string_view name) {
  const std::size_t index = call_count_++;
  if (can_.ids == IdForm::function_and_index) {
    if (is_function_and_index(id, name) && used_ids_.insert(std::string(id)).second) {
      return std::string(id);
    }
    // Ids count all calls of the conversation; those that the client's own ids have taken are
    // passed.
    for (next_index_ = std::max(next_index_, index);;) {
      std::string made = "functions." + std::string(name) + ":" + std::to_string(next_index_++);
      if (used_ids_.insert(made).second) return made;
    }
  }
  if (!id.empty() && (!id_shape_ || has_shape(id, *id_shape_))) {
    used_ids_.insert(std::string(id));
    return std::string(id);
  }
  // A call without an id is known by its place.
  const std::string seed = id.empty() ? "#" + std::to_string(index) : std::string(id);
  // A definition's ids may be too short for all calls of a conversation; then some are used again.
  constexpr std::uint64_t kMostTries = 1000;
  // With a fixed key: the same history must give the same prompt in every process.
  const std::uint64_t first = siphash13(seed, 0, 0);
  std::string made;
  for (std::uint64_t tries = 0; tries < kMostTries; ++tries) {
    made = id_from(first + tries, id_shape_.value_or(short_id()));
    if (used_ids_.insert(made).second) break;
  }
  return made;
}

// Ids of the client that the model has not been trained on are replaced by ids of its own form, for
// calls and their results alike. A result belongs to the newest call with its id, because clients
// use ids again; one without an id belongs to the next call that has no result.
void Shaper::rewrite_ids() {
  if (!id_shape_ && can_.ids != IdForm::function_and_index && can_.absent_ids) return;
  std::unordered_map<std::string, std::string> last;  // the newest id made for a client's id
  std::vector<std::string> unanswered;                // made ids of the last message with calls
  std::size_t next = 0;
  std::size_t count = 0;
  for (json::Value& message : messages_) {
    if (json::Array* calls = calls_of(message)) {
      unanswered.clear();
      next = 0;
      for (json::Value& call : *calls) {
        if (call.if_object() == nullptr) continue;
        const std::string id(text_at(call, "id"));
        const std::string name(text_at(function_of(call), "name"));
        // A client's id that comes again keeps the id that was made for it, except in the form that
        // counts.
        const auto known = last.find(id);
        const bool is_again = can_.ids != IdForm::function_and_index && known != last.end();
        std::string made = is_again ? known->second : id_for(id, name);
        if (made != id) {
          set(call, "id", made);
          if (!id.empty() && !is_again) shaping_.ids.emplace_back(id, made);
          ++count;
        }
        if (!id.empty()) last[id] = made;
        unanswered.push_back(std::move(made));
      }
    } else if (role_of(message) == "tool") {
      const std::string id(text_at(message, "tool_call_id"));
      if (const auto found = last.find(id); found != last.end()) {
        if (found->second != id) set(message, "tool_call_id", found->second);
      } else if (next < unanswered.size()) {
        set(message, "tool_call_id", unanswered[next]);
      } else if (!id.empty() || !can_.absent_ids) {
        // Its call is not in the history.
        std::string made = id_for(id, text_at(message, "name"));
        if (made != id) set(message, "tool_call_id", made);
        if (!id.empty()) last[id] = std::move(made);
      }
      ++next;
    }
  }
  say_count(count, "ids written in the model's form", "call");
}

// Some templates need arguments as an object, some as text, and some print both well. Arguments
// that are no JSON object, in a template that needs one, become a member of one, so that nothing of
// them is lost.
void Shaper::write_arguments() {
  std::size_t opened = 0;
  std::size_t wrapped = 0;
  std::size_t closed = 0;
  for (json::Value& message : messages_) {
    json::Array* calls = calls_of(message);
    if (calls == nullptr) continue;
    for (json::Value& call : *calls) {
      json::Value* arguments = function_of(call).find("arguments");
      if (arguments == nullptr) continue;
      if (const std::string* text = arguments->if_string()) {
        // Some clients write empty text for a call without arguments.
        if (text->empty()) *arguments = "{}";
        if (can_.arguments == Arguments::either || can_.arguments == Arguments::text) continue;
        Expected<json::Value> parsed = json::parse(*text);
        // Encoded twice, as some clients do.
        if (parsed && parsed->if_string() != nullptr) parsed = json::parse(*parsed->if_string());
        if (parsed && parsed->if_object() != nullptr) {
          *arguments = *std::move(parsed);
          ++opened;
        } else {
          *arguments = json::Object{{"arguments", std::move(*arguments)}};
          ++wrapped;
        }
      } else if (can_.arguments == Arguments::text && arguments->if_object() != nullptr) {
        *arguments = json::dumps(*arguments, {.ensure_ascii = false, .keep_numbers = true});
        ++closed;
      }
    }
  }
  say_count(opened, "JSON text made an object", "call");
  say_count(wrapped, "arguments that are no JSON object made a member of one", "call");
  say_count(closed, "an object made JSON text", "call");
}

// Puts `text` into the first message if that is a user's, else in front of it.
void Shaper::place_before_user(std::string text) {
  if (messages_.empty() || role_of(messages_[0]) != "user") {
    messages_.insert(messages_.begin(), plain("user", std::move(text)));
    return;
  }
  json::Value first = plain("user", std::move(text));
  join_onto(first, take_content(messages_[0]));
  set(messages_[0], "content", take_content(first));
}

// System messages that the template does not take where they stand: several at the beginning become
// one, later ones become the user's, and where there is no role for them the text goes before the
// first user's.
void Shaper::place_systems() {
  std::size_t leading = 0;
  while (leading < messages_.size() && role_of(messages_[leading]) == "system") ++leading;
  if (leading > 1 && (!can_.several_systems || !can_.system)) {
    for (std::size_t i = 1; i < leading; ++i) join_onto(messages_[0], take_content(messages_[i]));
    messages_.erase(messages_.begin() + 1,
                    messages_.begin() + static_cast<std::ptrdiff_t>(leading));
    say(counted(leading, "system message") + " made one");
    leading = 1;
  }
  if (!can_.middle_system || !can_.system) {
    std::size_t count = 0;
    for (std::size_t i = leading; i < messages_.size(); ++i) {
      if (role_of(messages_[i]) != "system") continue;
      set(messages_[i], "role", "user");
      ++count;
    }
    say_count(count, "role system made user", "message");
  }
  if (can_.system || leading == 0) return;
  std::string text = text_of_message(messages_[0]);
  messages_.erase(messages_.begin());
  if (!text.empty()) place_before_user(std::move(text));
  say("system text put before the first user's");
}

// Some templates need a user message, or write the system's text only if there is one.
void Shaper::place_user() {
  if (can_.without_user == WithoutUser::nothing || messages_.empty()) return;
  const auto is_user = [](const json::Value& message) { return role_of(message) == "user"; };
  if (std::ranges::any_of(messages_, is_user)) return;
  // Behind the system messages.
  const auto first =
      std::find_if(messages_.begin(), messages_.end(),
                   [](const json::Value& message) { return role_of(message) != "system"; });
  if (can_.without_user == WithoutUser::system_text && first != messages_.begin()) {
    set(*std::prev(first), "role", "user");
    say("system text made the user's, since there is no user message");
  } else {
    messages_.insert(first, plain("user", ""));
    say("an empty user message put behind the system's, since there is no other");
  }
}

void Shaper::begin_with_user() {
  if (can_.assistant_first) return;
  const auto first = std::find_if(messages_.begin(), messages_.end(),
                                  [](const json::Value& m) { return role_of(m) != "system"; });
  if (first == messages_.end() || role_of(*first) != "assistant") return;
  messages_.insert(first, plain("user", ""));
  say("an empty user message put before the first assistant's");
}

// Makes user and assistant messages alternate without counting turns of calls. Neighbours with one
// role are joined. Between two messages of one role that turns of calls separate, an empty message
// of the other role is put.
void Shaper::alternate_without_calls() {
  std::size_t joined = 0;
  std::size_t filled = 0;
  json::Array kept;
  kept.reserve(messages_.size());
  // If the assistant may not come first, the first message must differ from an assistant's.
  std::string_view last = can_.assistant_first ? "" : "assistant";  // role of a counted message
  std::string_view before_last = last;
  const auto is_counted = [](json::Value& message) {
    const std::string_view role = role_of(message);
    return role == "user" || (role == "assistant" && calls_of(message) == nullptr);
  };
  const auto fill = [&] {
    const bool is_user = last == "user";
    kept.push_back(is_user ? plain("assistant", can_.answer_to_results.value_or(""))
                           : plain("user", ""));
    last = is_user ? "assistant" : "user";
    ++filled;
  };
  for (json::Value& message : messages_) {
    if (is_counted(message)) {
      const std::string_view role = role_of(message) == "user" ? "user" : "assistant";
      // Neighbours are joined; a turn of calls between them keeps them apart.
      if (role == last && !kept.empty() && role_of(kept.back()) == role &&
          is_counted(kept.back())) {
        join_onto(kept.back(), take_content(message));
        ++joined;
        continue;
      }
      if (role == last) fill();
      before_last = last;
      last = role;
    } else if (calls_of(message) != nullptr && !kept.empty() &&
               role_of(kept.back()) == "assistant" && is_counted(kept.back())) {
      // An answer before calls becomes the text beside them, so it no longer counts as a turn.
      if (can_.text_beside_calls) {
        json::Value text = std::move(kept.back());
        kept.pop_back();
        last = before_last;
        join_onto(text, take_content(message));
        set(message, "content", take_content(text));
        ++joined;
      } else {
        fill();
      }
    }
    kept.push_back(std::move(message));
  }
  messages_ = std::move(kept);
  say_count(joined, "joined to the one beside it, since roles alternate,", "message");
  say_count(filled, "an empty message put between two of one role", "place");
}

// Templates that raise an error unless user and assistant take turns: neighbours with one role
// become one message.
void Shaper::alternate() {
  begin_with_user();
  if (!can_.alternation) return;
  if (can_.alternation_skips_calls) return alternate_without_calls();
  std::size_t count = 0;
  json::Array kept;
  kept.reserve(messages_.size());
  for (json::Value& message : messages_) {
    const std::string_view role = role_of(message);
    // Messages with calls are never joined: their results must stay behind them.
    const bool is_same = !kept.empty() && role == role_of(kept.back()) &&
                         (role == "user" || role == "assistant") && calls_of(message) == nullptr &&
                         calls_of(kept.back()) == nullptr;
    if (is_same) {
      join_onto(kept.back(), take_content(message));
      ++count;
    } else {
      kept.push_back(std::move(message));
    }
  }
  messages_ = std::move(kept);
  if (count != 0)
    say(counted(count, "message") + " joined to the one before, since roles alternate");
}

// Templates whose alternation does not count turns of tools need an answer to them.
void Shaper::answer_results() {
  if (!can_.answer_to_results) return;
  std::size_t count = 0;
  json::Array kept;
  kept.reserve(messages_.size());
  for (json::Value& message : messages_) {
    if (!kept.empty() && role_of(kept.back()) == "tool" && role_of(message) == "user") {
      kept.push_back(plain("assistant", *can_.answer_to_results));
      ++count;
    }
    kept.push_back(std::move(message));
  }
  messages_ = std::move(kept);
  say_count(count, "an empty answer put between results and a user's message", "place");
}

void Shaper::write_content() {
  if (can_.string_content) return;
  std::size_t count = 0;
  for (json::Value& message : messages_) {
    json::Value* content = message.find("content");
    if (content == nullptr || content->if_string() == nullptr) continue;
    *content = json::Array{json::Object{{"type", "text"}, {"text", *content->if_string()}}};
    ++count;
  }
  say_count(count, "text made a list of text", "message");
}

// The order matters: later steps rely on what earlier ones have settled (results stand behind their
// calls before ids are written, content is text before messages are joined).
void Shaper::run() {
  fill_content();
  name_developers();
  leave_out_empty_answers();
  join_calls();
  gather_results();
  order_results();
  part_calls();
  part_texts();
  answer_calls();
  rewrite_ids();
  write_arguments();
  place_systems();
  place_user();
  alternate();
  answer_results();
  write_content();
}

// A tool as clients send it, wrapped in "function" or bare.
message::Tool tool_of(const json::Value& tool) {
  const json::Value* inside = tool.find("function");
  const json::Value& function = inside == nullptr ? tool : *inside;
  const json::Value* parameters = function.find("parameters");
  return {.name = std::string(text_at(function, "name")),
          .description = std::string(text_at(function, "description")),
          .parameters = parameters == nullptr ? json::Value() : *parameters};
}

}  // namespace

// A model whose template knows no tools gets their description as text first, so that the steps on
// messages see it as part of the system message.
Shaping shape(json::Object& context, const Capabilities& capabilities, const Writer& writer) {
  Shaping shaping;
  json::Value* messages = context.find("messages");
  const bool has_messages = messages != nullptr && messages->if_array() != nullptr;
  if (has_messages && !capabilities.tools && writer.format != nullptr) {
    json::Value& tools = context["tools"];
    std::vector<message::Tool> described;
    if (const json::Array* list = tools.if_array()) {
      for (const json::Value& tool : *list) described.push_back(tool_of(tool));
    }
    if (!described.empty()) {
      // They are in the text now, so the template must not write them again.
      tools = nullptr;
      messages = context.find("messages");
      Shaper(*messages->if_array(), capabilities, writer, shaping).describe(described);
    }
  }
  json::Value& none = context["tools"];
  // "No tools" as the template reads it: null, or an empty list.
  if (none.is_null() && !capabilities.null_tools) {
    none = json::Array{};
  } else if (none.if_array() != nullptr && none.if_array()->empty() && capabilities.null_tools) {
    none = nullptr;
  }
  if (json::Value* tools = context.find("tools");
      tools != nullptr && tools->if_array() != nullptr) {
    std::size_t count = 0;
    for (json::Value& tool : *tools->if_array()) count += shape_tool(tool, capabilities);
    if (count != 0) {
      shaping.log.push_back("what the template cannot take changed in " + counted(count, "tool"));
    }
  }
  if (has_messages) {
    messages = context.find("messages");
    Shaper(*messages->if_array(), capabilities, writer, shaping).run();
  }
  return shaping;
}

}  // namespace tenon::prompt
