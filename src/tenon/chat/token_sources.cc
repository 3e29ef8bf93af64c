#include "tenon/chat/token_sources.h"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <optional>
#include <string>
#include <string_view>

#include "tenon/json/value.h"

// Where the tokens of a prompt come from
//
// The template engine tells which bytes are data (jinja::Span), but not whose: a template may trim,
// quote or escape a text, or write the messages in any order. So texts are compared by their
// letters and digits alone (letters_of), and data is looked for behind the data before it, as
// templates write messages in order (Finder::source_of). A token belongs to the span in which it
// begins. The bytes that are searched are bounded; beyond the bound, sources are `other`.

namespace tenon::chat {
namespace {

using message::TokenSource;
using From = message::TokenSource::From;

// What stays the same however a template writes a text.
std::string letters_of(std::string_view text) {
  std::string letters;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    const bool is_letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
    if (is_letter || (c >= '0' && c <= '9') || byte >= 0x80) letters += c;
  }
  return letters;
}

// Everything of a message that a template may write. Texts are kept apart, so that no data is found
// across two of them.
std::string letters_of(const message::Message& message) {
  std::string all;
  const auto add = [&all](std::string_view text) { all += letters_of(text) + '\n'; };
  add(message.text());
  add(message.reasoning);
  add(message.name);
  add(message.tool_call_id);
  for (const message::ToolCall& call : message.tool_calls) {
    add(call.id);
    add(call.name);
    add(call.arguments);
    const auto arguments = json::parse(call.arguments);
    if (!arguments || arguments->if_object() == nullptr) continue;
    for (const json::Member& member : *arguments->if_object()) {
      add(member.key);
      const std::string* text = member.value.if_string();
      add(text != nullptr ? *text : json::to_string(member.value));
    }
  }
  for (const json::Member& member : message.extra) add(json::to_string(member.value));
  return all;
}

// Finds the source of one piece of data after the other, in the order of the prompt.
class Finder {
 public:
  explicit Finder(const message::ChatRequest& request) : request_(request) {
    for (const message::Message& message : request.messages) {
      messages_.push_back(letters_of(message));
    }
    for (const message::Tool& tool : request.tools) tools_ += letters_of(json::to_string(tool.raw));
  }

  TokenSource source_of(std::string_view data) {
    const std::string letters = letters_of(data);
    // Marks and spaces alone belong to the message before.
    if (letters.empty() && at_) return message_at(*at_);
    // First behind the data before, so that an equal text of a later message is told from it; and
    // the next message before the tools, but the tools before later ones, whose calls name them.
    const std::size_t next = at_ ? *at_ + 2 : 1;
    if (const auto here = from(at_.value_or(0), next, letters)) return *here;
    const std::size_t in_tools = find(tools_, letters, tools_behind_);
    if (in_tools != std::string::npos) {
      tools_behind_ = in_tools + letters.size();
      return {.from = From::tools};
    }
    if (const auto later = from(next, messages_.size(), letters)) return *later;
    searched_ += data.size() * request_.tools.size();
    const bool names_tool = searched_ <= kMostSearched &&
                            std::ranges::any_of(request_.tools, [&](const message::Tool& tool) {
                              return data.find(tool.name) != std::string_view::npos;
                            });
    // What a template writes in another order: a call's id behind its arguments, or a system
    // message behind the tools.
    for (std::size_t i = at_ ? *at_ + 1 : 0; i-- > 0;) {
      if (find(messages_[i], letters, 0) != std::string::npos) return message_at(i);
    }
    if (names_tool || find(tools_, letters, 0) != std::string::npos) return {.from = From::tools};
    return {.from = From::other};
  }

 private:
  // The message among those from `first` to before `last` that has the letters.
  std::optional<TokenSource> from(std::size_t first, std::size_t last, const std::string& letters) {
    for (std::size_t i = first; i < std::min(last, messages_.size()); ++i) {
      const std::size_t found = find(messages_[i], letters, i == at_ ? behind_ : 0);
      if (found == std::string::npos) continue;
      at_ = i;
      behind_ = found + letters.size();
      return message_at(i);
    }
    return std::nullopt;
  }

  static constexpr std::size_t kMostSearched = std::size_t{64} << 20U;  // bytes

  TokenSource message_at(std::size_t i) const {
    return {.from = From::message,
            .message = static_cast<std::uint32_t>(i),
            .role = request_.messages[i].role};
  }
  std::size_t find(const std::string& text, const std::string& letters, std::size_t from) {
    const std::size_t rest = text.size() - std::min(text.size(), from);
    searched_ += rest + letters.size();
    if (searched_ > kMostSearched || rest < letters.size()) return std::string::npos;
    // Linear in both, as std::string::find is not.
    const void* const found = memmem(text.data() + from, rest, letters.data(), letters.size());
    if (found == nullptr) return std::string::npos;
    return static_cast<std::size_t>(static_cast<const char*>(found) - text.data());
  }

  const message::ChatRequest& request_;
  std::vector<std::string> messages_;
  std::string tools_;
  std::optional<std::size_t> at_;  // the message of the data before
  std::size_t behind_ = 0;         // where that data ends in its letters
  std::size_t tools_behind_ = 0;
  std::size_t searched_ = 0;
};

// How many bytes of the prompt's rest a token has. A tokenizer may add a token, or a space, that no
// text has.
std::size_t bytes_of(std::string_view token, std::string_view rest) {
  if (rest.starts_with(token)) return token.size();
  if (token.starts_with(' ') && rest.starts_with(token.substr(1))) return token.size() - 1;
  return 0;
}

}  // namespace

std::vector<TokenSource> token_sources(const prompt::Prompt& prompt,
                                       const message::ChatRequest& request,
                                       std::span<const vocab::TokenId> ids,
                                       const vocab::Tokenizer& tokenizer) {
  std::vector<TokenSource> runs;
  Finder finder(request);
  const std::string_view text = prompt.text;
  std::size_t at = 0;
  std::size_t span = 0;
  TokenSource present;
  std::optional<std::size_t> known;  // the span of `present`
  for (const vocab::TokenId id : ids) {
    while (span < prompt.spans.size() && prompt.spans[span].end <= at) ++span;
    if (known != span) {
      known = span;
      present = {};
      if (span < prompt.spans.size() && prompt.spans[span].is_data) {
        const jinja::Span& data = prompt.spans[span];
        present = finder.source_of(text.substr(data.begin, data.end - data.begin));
      }
    }
    if (runs.empty() || runs.back().from != present.from ||
        runs.back().message != present.message) {
      runs.push_back(present);
      runs.back().tokens = 0;
    }
    ++runs.back().tokens;
    at += bytes_of(tokenizer.bytes(id), text.substr(at));
  }
  return runs;
}

}  // namespace tenon::chat
