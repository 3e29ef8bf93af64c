#include <algorithm>
#include <cassert>
#include <string_view>
#include <utility>

#include "tenon/format/space.h"
#include "tenon/format/stream_parser_impl.h"

// Heads of messages, which say in words what a message is: reasoning, content or a call
// (`<|channel|>commentary to=functions.ping<|message|>`). Models write the words in any order and
// with others between them, so a head is held until its end and then searched for the words behind
// `channel` and `recipient`. A head that names a tool becomes a call: CallReader gets the tool's
// name in the form that the format itself writes.

namespace tenon::format {
namespace {

// The length of a message's head.
constexpr std::size_t kMaxHead = 512;

/// The meaning of a head; `text` is all of it except its end.
struct HeadWords {
  std::string_view channel;
  std::string_view recipient;
};

// The word after the last `before` that begins a word.
std::string_view last_word(std::string_view text, std::string_view before) {
  constexpr std::string_view kEnds = " \t\r\n<";
  if (before.empty()) return {};
  for (std::size_t at = text.rfind(before); at != std::string_view::npos;
       at = at > 0 ? text.rfind(before, at - 1) : std::string_view::npos) {
    const bool is_marker = before.starts_with('<');
    if (!is_marker && at > 0 && !is_space(text[at - 1]) && text[at - 1] != '>') continue;
    std::string_view word = text.substr(at + before.size());
    word.remove_prefix(std::min(word.find_first_not_of(kSpace), word.size()));
    return word.substr(0, std::min(word.find_first_of(kEnds), word.size()));
  }
  return {};
}

bool is_one_of(std::string_view word, const std::vector<std::string>& words) {
  return !word.empty() && std::ranges::find(words, word) != words.end();
}

}  // namespace

void StreamParser::Impl::start_head(LiteralId id) {
  assert(!head.is_open && !call.is_open);
  head = {.is_open = true, .opener = id, .held = format->literals[id]};
}

// A head of a message (`<|channel|>analysis<|message|>`) is held until its end is there. It fails
// as soon as it cannot become one, so text that begins like a head is not held for long.
std::size_t StreamParser::Impl::read_head(std::string_view bytes) {
  const std::uint64_t begin = place();
  std::size_t used = 0;
  while (used < bytes.size() && head.is_open) {
    head.held += bytes[used++];
    reread.earn(1);  // earned before it may have to be paid
    if (head.held.ends_with(format->head.end) &&
        has_its_controls(format->head.end_literal, begin + used)) {
      end_head();
    } else if (head.held.size() > kMaxHead || is_no_head()) {
      fail_head();
    }
  }
  return used;
}

// The last byte shows that this is a message: a head has words only, and no marker that ends one.
bool StreamParser::Impl::is_no_head() const {
  if (std::string_view("\n\r{}\"").find(head.held.back()) != std::string_view::npos) return true;
  const HeadRule& rule = format->head;
  bool is_over = false;
  (rule.closers | rule.between | format->ends).for_each([&](LiteralId id) {
    is_over = is_over || head.held.ends_with(format->literals[id]);
  });
  return is_over;
}

// The head is complete and decides what the message is.
void StreamParser::Impl::end_head() {
  const HeadRule& rule = format->head;
  const std::string_view whole(head.held.data(), head.held.size() - rule.end.size());
  const HeadWords words{last_word(whole, rule.channel), last_word(whole, rule.recipient)};
  const bool is_content = is_one_of(words.channel, rule.content);
  const bool is_reasoning = !is_content && (is_one_of(words.channel, rule.reasoning) ||
                                            is_one_of(words.recipient, rule.reasoning));
  const bool has_tool = rule.calls && !is_content && !words.recipient.empty() &&
                        !is_one_of(words.recipient, rule.readers) &&
                        !is_one_of(words.recipient, rule.reasoning);
  in_answer = is_content || is_one_of(words.recipient, rule.readers);
  if (has_tool && may_call(format->syntaxes.front())) return call_by_head(words.recipient);
  if (has_tool || (is_reasoning && !options.parse_reasoning)) return fail_head();
  head = {};
  if (reasoning) end_reasoning();
  lead.begin();
  at_marker();
  if (!is_reasoning) return;
  begin_reasoning();
  refresh();
}

void StreamParser::Impl::fail_head() {
  retry.tried |= heads();
  read_again(std::exchange(head, {}).held);
}

// The reader of calls gets the head in the form that the format itself writes.
void StreamParser::Impl::call_by_head(std::string_view recipient) {
  const std::string name(recipient);  // which lies in the head
  HeadState begun = std::exchange(head, {});
  call = {.is_open = true,
          .by_head = true,
          .syntax = &format->syntaxes.front(),
          .literal = begun.opener,
          .held = std::move(begun.held)};
  start_reader(/*is_marked=*/true, /*is_tag=*/true);
  std::string_view before;
  for (const Piece& piece : call.syntax->call) {
    if (piece.kind == Piece::Kind::name) break;
    if (piece.kind == Piece::Kind::literal) before = piece.text;
  }
  const std::size_t at = before.rfind(format->head.recipient);
  if (at != std::string_view::npos) before.remove_prefix(at + format->head.recipient.size());
  for (const Piece& piece : call.syntax->first.rest) {
    using Kind = Piece::Kind;
    const bool is_field = piece.kind == Kind::literal || piece.kind == Kind::space ||
                          piece.kind == Kind::word || piece.kind == Kind::skip;
    if (!is_field && piece.kind != Kind::name) break;
    reader.feed(is_field                   ? piece.text
                : name.starts_with(before) ? name.substr(before.size())
                                           : name);
  }
  settle_call();
}

}  // namespace tenon::format
