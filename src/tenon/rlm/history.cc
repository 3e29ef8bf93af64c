#include "tenon/rlm/history.h"

#include <algorithm>
#include <charconv>
#include <string_view>
#include <utility>

#include "tenon/base/utf8.h"
#include "tenon/rlm/protocol.h"

namespace tenon::rlm {
namespace {

using message::Message;
using message::Role;

constexpr std::size_t kHead = 2;  // what the model is told, and the question
constexpr std::string_view kSummed =
    "(The turns before this are left out, because your context was nearly full. The notes above "
    "are yours, and stand for them. The variables of those turns are still there.";

// A summary is two messages, so that assistant and user go on taking turns: some templates refuse
// anything else.
std::size_t first_turn(const std::vector<Message>& messages) {
  const bool has_summary = messages.size() > kHead + 1 && messages[kHead + 1].role == Role::user &&
                           messages[kHead + 1].text().starts_with(kSummed);
  return std::min(messages.size(), has_summary ? kHead + 2 : kHead);
}

// Splits "... + [12 chars...]" off, and returns 12; 0: there is no mark.
std::size_t take_mark(std::string_view& text) {
  constexpr std::string_view kBegin = "... + [";
  constexpr std::string_view kEnd = " chars...]";
  if (!text.ends_with(kEnd)) return 0;
  const std::size_t begin = text.rfind(kBegin);
  if (begin == std::string_view::npos) return 0;
  std::size_t count = 0;
  const char* const digits = text.data() + begin + kBegin.size();
  const char* const end = text.data() + text.size() - kEnd.size();
  const auto [rest, error] = std::from_chars(digits, end, count);
  if (error != std::errc() || rest != end) return 0;
  text = text.substr(0, begin);
  return count;
}

}  // namespace

std::size_t size_of(const std::vector<Message>& messages) {
  std::size_t bytes = 0;
  for (const Message& message : messages) {
    bytes += message.text().size();
    for (const message::ToolCall& call : message.tool_calls) {
      bytes += call.name.size() + call.arguments.size();
    }
  }
  return bytes;
}

bool cut_turns(std::vector<Message>& messages, std::size_t most, std::size_t most_last) {
  constexpr std::size_t kMark = 40;  // a cut that only gains this much is not worth it
  bool is_cut = false;
  std::size_t last = messages.size();
  while (last > kHead && messages[last - 1].role != Role::assistant) --last;
  for (std::size_t i = first_turn(messages); i < messages.size(); ++i) {
    if (messages[i].role == Role::assistant) {
      is_cut = is_cut || !messages[i].reasoning.empty();
      messages[i].reasoning.clear();
    }
    const std::size_t room = i + 1 >= last ? most_last : most;
    if (!messages[i].content || messages[i].content->size() <= room + kMark) continue;
    std::string_view text = *messages[i].content;
    // A text that was cut before ends with its mark: "abc... + [12 chars...]". The mark is taken
    // off, and the new one tells the sum.
    const std::size_t gone = take_mark(text);
    std::string head = cut_text(text, room);
    if (gone > 0) {
      std::string_view kept = head;
      const std::size_t more = take_mark(kept);
      head = with_mark(kept, gone + more);
    }
    // The mark can be longer than what was taken away.
    if (head.size() >= messages[i].content->size()) continue;
    messages[i].content = std::move(head);
    is_cut = true;
  }
  return is_cut;
}

std::optional<std::size_t> end_of_old_turns(const std::vector<Message>& messages) {
  std::size_t last = messages.size();
  while (last > kHead && messages[last - 1].role != Role::assistant) --last;
  const std::size_t first = first_turn(messages);
  if (last <= first + 1) return std::nullopt;  // `last` counts from 1
  return last - 1;
}

bool are_old_turns_long(const std::vector<Message>& messages) {
  const auto end = end_of_old_turns(messages);
  if (!end) return false;
  const auto begin = messages.begin();
  const std::vector<Message> head(begin, begin + kHead);
  const std::vector<Message> before(begin, begin + static_cast<std::ptrdiff_t>(*end));
  return 5 * (size_of(before) - size_of(head)) >= size_of(messages);
}

std::string summary_question(std::size_t max_words, const std::string& variables) {
  std::string text =
      "Your context is nearly full. What you answer now takes the place of the turns above, which "
      "are left out after this. Write notes for yourself, as plain text without code, at most " +
      std::to_string(max_words) +
      " words:\n"
      "- what you have found so far, with exact names, numbers and quotations\n"
      "- what each variable holds that is still of use\n"
      "- what you have tried that did not work\n"
      "- what is left to do\n"
      "Do not run anything, and do not give the final answer yet.";
  if (!variables.empty()) text += "\n\n" + variables;
  return text;
}

void put_summary(std::vector<Message>& messages, std::size_t end, std::string summary,
                 const std::string& variables) {
  std::string note(kSummed);
  if (!variables.empty()) note += " " + variables + ".";
  note += " Go on from there.)";
  messages.erase(messages.begin() + kHead, messages.begin() + static_cast<std::ptrdiff_t>(end));
  messages.insert(messages.begin() + kHead,
                  {Message{.role = Role::assistant, .content = std::move(summary)},
                   Message{.role = Role::user, .content = std::move(note)}});
}

bool drop_oldest(std::vector<Message>& messages) {
  const std::size_t begin = first_turn(messages);
  if (messages.size() <= begin) return false;
  // Half of the messages, up to the beginning of the next turn, so that no result stays without the
  // output that it belongs to.
  std::size_t end = begin + (messages.size() - begin + 1) / 2;
  while (end < messages.size() && messages[end].role != Role::assistant) ++end;
  if (end >= messages.size()) return false;
  messages.erase(messages.begin() + static_cast<std::ptrdiff_t>(begin),
                 messages.begin() + static_cast<std::ptrdiff_t>(end));
  constexpr std::string_view kNote =
      "\n\n(Turns after this are left out, because your context was full. Variables that they made "
      "are still there: SHOW_VARS() lists them.)";
  // The question or the summary, which stands before the gap, says that there is one; once, however
  // often it grows.
  std::string& before = messages[begin - 1].content.emplace(messages[begin - 1].text());
  if (!before.ends_with(kNote)) before += kNote;
  return true;
}

bool drop_turns(std::vector<Message>& messages) {
  const std::size_t first = first_turn(messages);
  const std::size_t begin = first + 1 < messages.size() ? first : kHead;
  if (begin + 1 >= messages.size()) return false;
  messages.erase(messages.begin() + static_cast<std::ptrdiff_t>(begin), messages.end() - 1);
  return true;
}

}  // namespace tenon::rlm
