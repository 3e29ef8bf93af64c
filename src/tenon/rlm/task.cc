#include "tenon/rlm/task.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <utility>

#include <openssl/evp.h>

#include "tenon/base/hex.h"
#include "tenon/base/utf8.h"

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

json::Value entry_of(const Message& message) {
  json::Object entry{{"role", message::role_name(message.role)}, {"content", said(message)}};
  if (!message.name.empty()) entry.set("name", message.name);
  return entry;
}

}  // namespace

std::size_t Task::context_chars() const {
  std::size_t chars = 0;
  for (const std::string& piece : context) chars += utf8::length(piece);
  return chars;
}

Task task_of(const std::vector<Message>& messages) {
  Task task;
  const auto last = std::find_if(messages.rbegin(), messages.rend(),
                                 [](const Message& message) { return message.role == Role::user; });
  const std::size_t question = last == messages.rend()
                                   ? messages.size()
                                   : static_cast<std::size_t>(messages.rend() - last) - 1;
  if (question < messages.size()) task.question = messages[question].text();
  for (const Message& message : messages) {
    if (is_system(message)) task.context.push_back(message.text());
  }
  const bool has_system = !task.context.empty();
  for (std::size_t i = 0; i < messages.size(); ++i) {
    if (i == question || is_system(messages[i])) continue;
    if (i < question && !has_system) task.context.push_back(said(messages[i]));
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
