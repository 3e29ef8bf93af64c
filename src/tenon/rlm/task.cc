#include "tenon/rlm/task.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <utility>

#include <openssl/evp.h>

#include "tenon/base/hex.h"
#include "tenon/base/utf8.h"
#include "tenon/rlm/protocol.h"

// What of a request is the question, what is the context, and what is history (task_of); and what a
// request brings for calls of an earlier answer (results_of). A context that is no text is
// described to the root model by its shape, because the model never sees the context itself.

namespace tenon::rlm {
namespace {

using message::Message;
using message::Role;

bool is_system(const Message& message) {
  return message.role == Role::system || message.role == Role::developer;
}

// The text of a message, including its calls.
std::string said(const Message& message) {
  std::string text = message.text();
  for (const message::ToolCall& call : message.tool_calls) {
    if (!text.empty()) text += '\n';
    text += "[call of " + call.name + ": " + call.arguments + "]";
  }
  return text;
}

// An entry of `history` in the REPL: {"role": "user", "content": "...", "name": "..."}.
json::Value entry_of(const Message& message) {
  json::Object entry{{"role", message::role_name(message.role)}, {"content", said(message)}};
  if (!message.name.empty()) entry.set("name", message.name);
  return entry;
}

std::string counted(std::size_t count, std::string_view what) {
  return std::to_string(count) + " " + std::string(what) + (count == 1 ? "" : "s");
}

// In Python's words.
std::string kind_of(const json::Value& value) {
  if (const std::string* text = value.if_string()) {
    return "a str of " + counted(utf8::length(*text), "character");
  }
  if (value.if_array() != nullptr) return "a list of " + counted(value.if_array()->size(), "item");
  if (value.if_object() != nullptr) return "a dict of " + counted(value.if_object()->size(), "key");
  if (value.if_bool() != nullptr) return "a bool";
  if (value.if_number() != nullptr) return value.if_number()->is_integer() ? "an int" : "a float";
  return "None";
}

// With `tells_kinds`: `"a" (a str of 3 characters), "b" (an int)`; without: `("a", "b")`. At most
// `most` keys, then "...".
std::string keys_of(const json::Object& members, std::size_t most, std::size_t max_key,
                    bool tells_kinds) {
  std::string text = tells_kinds ? "" : "(";
  std::size_t shown = 0;
  for (const auto& [key, value] : members) {
    if (shown++ > 0) text += ", ";
    if (shown > most) {
      text += "...";
      break;
    }
    text += json::quoted(cut_text(key, max_key));
    if (tells_kinds) text += " (" + kind_of(value) + ")";
  }
  return tells_kinds ? text : text + ")";
}

// A list of one text, or of other values, is JSON for the REPL: as pieces it would become a str or
// lose its type.
void set_context(Task& task, const json::Value& context) {
  const json::Array* items = context.if_array();
  const auto is_text = [](const json::Value& item) { return item.if_string() != nullptr; };
  if (is_text(context)) {
    task.context = {*context.if_string()};
  } else if (items != nullptr && items->size() > 1 && std::ranges::all_of(*items, is_text)) {
    for (const json::Value& item : *items) task.context.push_back(*item.if_string());
  } else {
    task.context = {json::to_string(context)};
    task.shape = shape_of(context);
  }
}

}  // namespace

std::size_t Task::context_chars() const {
  std::size_t chars = 0;
  for (const std::string& piece : context) chars += utf8::length(piece);
  return chars;
}

std::string shape_of(const json::Value& value) {
  constexpr std::size_t kMostKeys = 20;
  constexpr std::size_t kMaxKey = 60;
  if (const json::Array* items = value.if_array(); items != nullptr) {
    std::string text = "a list of " + counted(items->size(), "item");
    if (!items->empty()) text += "; the first is " + kind_of(items->front());
    if (items->empty() || items->front().if_object() == nullptr) return text;
    return text + " " + keys_of(*items->front().if_object(), kMostKeys, kMaxKey, false);
  }
  const json::Object* members = value.if_object();
  if (members == nullptr) return kind_of(value);
  return "a dict of " + counted(members->size(), "key") + ": " +
         keys_of(*members, kMostKeys, kMaxKey, true);
}

Task task_of(const std::vector<Message>& messages, const json::Value* context) {
  if (context != nullptr && context->is_null()) context = nullptr;
  Task task;
  const auto last = std::find_if(messages.rbegin(), messages.rend(),
                                 [](const Message& message) { return message.role == Role::user; });
  // The place of the user's last message; messages.size(): there is no such message.
  const std::size_t question = last == messages.rend()
                                   ? messages.size()
                                   : static_cast<std::size_t>(messages.rend() - last) - 1;
  if (question < messages.size()) task.question = messages[question].text();
  if (context != nullptr) {
    set_context(task, *context);
  } else {
    for (const Message& message : messages) {
      if (is_system(message)) task.context.push_back(message.text());
    }
  }
  const bool has_context = context != nullptr || !task.context.empty();
  for (std::size_t i = 0; i < messages.size(); ++i) {
    if (i == question || (is_system(messages[i]) && context == nullptr)) continue;
    if (i < question && !has_context) task.context.push_back(said(messages[i]));
    // Without system messages the history records which role wrote each piece of the context.
    task.history.push_back(entry_of(messages[i]));
  }
  if (utf8::length(task.question) > kMaxQuestionChars) {
    task.context.push_back(task.question);
    task.is_question_context = true;
  }
  return task;
}

Results results_of(const std::vector<Message>& messages) {
  Results found;
  const auto last = std::find_if(messages.rbegin(), messages.rend(), [](const Message& message) {
    return message.role == Role::assistant;
  });
  // last.base() is the message after the last one of the assistant; without such a message it is
  // the first one.
  for (auto message = last.base(); message != messages.end(); ++message) {
    if (message->role == Role::tool) found.results.push_back(&*message);
    if (message->role == Role::user) found.others.push_back(&*message);
  }
  return found;
}

std::string Results::said() const {
  std::string text;
  for (const Message* other : others) text += (text.empty() ? "" : "\n\n") + other->text();
  return text;
}

std::string hash_of(const std::vector<std::string>& pieces) {
  std::array<unsigned char, EVP_MAX_MD_SIZE> digest{};
  unsigned size = 0;
  EVP_MD_CTX* const state = EVP_MD_CTX_new();
  if (state == nullptr) return {};
  EVP_DigestInit_ex(state, EVP_sha256(), nullptr);
  for (const std::string& piece : pieces) {
    // The lengths make the hashes of {"ab"} and {"a", "b"} differ.
    const std::string length = std::to_string(piece.size()) + ":";
    EVP_DigestUpdate(state, length.data(), length.size());
    EVP_DigestUpdate(state, piece.data(), piece.size());
  }
  EVP_DigestFinal_ex(state, digest.data(), &size);
  EVP_MD_CTX_free(state);
  std::string text;
  for (unsigned i = 0; i < size; ++i) append_hex(text, digest[i]);
  return text;
}

}  // namespace tenon::rlm
