#include "tenon/grammar/gbnf.h"

#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "tenon/base/utf8.h"
#include "tenon/grammar/source.h"

namespace tenon::grammar {

namespace {

using regex::CodePointSet;

constexpr std::size_t kMaxGbnfBytes = std::size_t{16} << 20;

bool is_gbnf_name_character(char c) {
  return is_letter(c) || is_digit(c) || c == '-' || c == '_';
}
bool is_surrogate(char32_t c) {
  return c >= 0xD800 && c <= 0xDFFF;
}

// One pass; groups are on a stack of our own, so that nesting has no limit.
class GbnfReader {
 public:
  GbnfReader(Rules& rules, std::string_view source) : rules_(rules), in_(source) {}

  Expected<NodeId> read() {
    if (const Status checked = in_.check(kMaxGbnfBytes); !checked)
      return Unexpected(checked.error());
    skip_space();
    while (!in_.is_at_end() && !error_) read_rule();
    if (!error_) check_names();
    if (error_) return Unexpected(*error_);
    return rules_.add(node::Rule{names_.at("root").rule});
  }

 private:
  struct Name {
    RuleId rule;
    std::size_t used_at;
    bool is_defined = false;
  };
  struct Group {
    std::size_t opened_at;
    std::vector<NodeId> alternatives;
    std::vector<NodeId> items;
  };

  void fail(Error error) {
    if (!error_) error_ = std::move(error);
  }
  void fail(std::string message) { fail(in_.error(std::move(message))); }

  void skip_space() {
    for (;;) {
      in_.take_while([](char c) { return c == ' ' || c == '\t' || c == '\r' || c == '\n'; });
      if (in_.peek() != '#') return;
      in_.take_while([](char c) { return c != '\n'; });
    }
  }

  Name& name_of(std::string_view text, std::size_t at) {
    const auto [place, is_new] = names_.try_emplace(std::string(text), Name{0, at});
    if (is_new) place->second.rule = rules_.declare(std::string(text));
    return place->second;
  }

  // The name of a rule that begins here, which is left.
  std::optional<std::string_view> take_head() {
    const std::size_t begin = in_.at();
    const std::string_view name = in_.take_while(is_gbnf_name_character);
    skip_space();
    if (!name.empty() && in_.take("::=")) return name;
    in_.move_to(begin);
    return std::nullopt;
  }
  bool is_at_head() {
    const std::size_t begin = in_.at();
    const bool is_head = take_head().has_value();
    in_.move_to(begin);
    return is_head;
  }

  void read_rule() {
    const std::size_t begin = in_.at();
    const auto text = take_head();
    if (!text) return fail("a rule must begin with its name and ::=, here is " + in_.here());
    Name& name = name_of(*text, begin);
    if (name.is_defined) {
      return fail(in_.error_at(
          begin, "rule '" + std::string(*text) + "' is defined twice; join the two with |"));
    }
    name.is_defined = true;
    const RuleId rule = name.rule;
    groups_.assign(1, Group{begin, {}, {}});
    while (!error_ && read_item()) {
    }
    if (error_) return;
    if (groups_.size() > 1) {
      return fail(in_.error_at(groups_.back().opened_at, "this '(' is not closed"));
    }
    rules_.define(rule, end_group());
  }

  NodeId end_group() {
    end_alternative();
    const NodeId node = rules_.choice(std::move(groups_.back().alternatives));
    groups_.pop_back();
    return node;
  }
  void end_alternative() {
    Group& group = groups_.back();
    group.alternatives.push_back(rules_.sequence(std::exchange(group.items, {})));
  }
  void add(NodeId node) { groups_.back().items.push_back(node); }

  // False where the rule ends.
  bool read_item() {
    skip_space();
    const char c = in_.peek();
    if (in_.is_at_end()) return false;
    if (is_gbnf_name_character(c)) {
      if (groups_.size() == 1 && is_at_head()) return false;
      const std::size_t at = in_.at();
      add(rules_.add(node::Rule{name_of(in_.take_while(is_gbnf_name_character), at).rule}));
      return true;
    }
    switch (c) {
      case '"':
        read_literal();
        return true;
      case '[':
        read_class();
        return true;
      case '.':
        in_.skip();
        add(rules_.add(node::Characters{CodePointSet::all()}));
        return true;
      case '<':
      case '!':
        read_token();
        return true;
      case '(':
        groups_.push_back({in_.at(), {}, {}});
        in_.skip();
        return true;
      case ')':
        if (groups_.size() == 1) {
          fail("this ')' closes no '('");
          return false;
        }
        in_.skip();
        {
          const NodeId node = end_group();
          add(node);
        }
        return true;
      case '|':
        in_.skip();
        end_alternative();
        return true;
      case '*':
      case '+':
      case '?':
      case '{':
        read_repetition();
        return true;
      default:
        fail("nothing in a rule begins with " + in_.here() +
             "; texts are written in \"...\", sets of characters in [...]");
        return false;
    }
  }

  void read_literal() {
    const std::size_t begin = in_.at();
    in_.skip();
    std::string bytes;
    while (!error_ && in_.peek() != '"') {
      if (in_.is_at_end()) return fail(in_.error_at(begin, "this '\"' is not closed"));
      utf8::append(bytes, read_character());
    }
    in_.skip();
    add(rules_.literal(std::move(bytes)));
  }

  void read_class() {
    const std::size_t begin = in_.at();
    in_.skip();
    const bool is_negated = in_.take("^");
    std::vector<CodePointSet::Range> ranges;
    while (!error_ && in_.peek() != ']') {
      if (in_.is_at_end()) return fail(in_.error_at(begin, "this '[' is not closed"));
      const std::size_t at = in_.at();
      const char32_t first = read_character();
      char32_t last = first;
      if (in_.peek() == '-' && in_.peek(1) != ']' && in_.peek(1) != '\0') {
        in_.skip();
        last = read_character();
      }
      if (last < first) {
        return fail(in_.error_at(at, "this range ends before it begins; turn it round"));
      }
      ranges.push_back({first, last});
    }
    in_.skip();
    if (ranges.empty() && !is_negated) {
      return fail(in_.error_at(begin, "[] is no character at all; name some, or write \"\""));
    }
    const CodePointSet set(std::move(ranges));
    add(rules_.add(node::Characters{is_negated ? set.complemented() : set}));
  }

  char32_t read_character() {
    const std::size_t begin = in_.at();
    if (in_.peek() != '\\') return in_.take_character().value_or(0);
    in_.skip();
    const char c = in_.peek();
    in_.skip();
    std::optional<std::uint32_t> code;
    switch (c) {
      case 'x':
        code = in_.take_hex(2);
        break;
      case 'u':
        code = in_.take_hex(4);
        break;
      case 'U':
        code = in_.take_hex(8);
        break;
      case 't':
        return '\t';
      case 'r':
        return '\r';
      case 'n':
        return '\n';
      case '\\':
      case '"':
      case '[':
      case ']':
      case '-':
      case '^':
      case '\'':
      case '/':
        return static_cast<unsigned char>(c);
      default:
        fail(in_.error_at(begin,
                          "no such escape; there are \\n \\r \\t \\\\ \\\" \\[ \\] \\xFF \\uFFFF "
                          "and \\U0010FFFF"));
        return 0;
    }
    if (!code || *code > CodePointSet::kLast || is_surrogate(*code)) {
      fail(in_.error_at(begin,
                        "this escape is no character: \\x has 2 hexadecimal digits, \\u has 4, \\U "
                        "has 8 and reaches U+10FFFF; surrogates are none"));
      return 0;
    }
    return *code;
  }

  // <[12]>, <think>, and !<...> for any other token.
  void read_token() {
    const std::size_t begin = in_.at();
    node::Token token{.is_negated = in_.take("!")};
    const std::size_t name_begin = in_.at();
    if (!in_.take("<")) return fail("after ! comes a token, as in !<[12]> or !<think>");
    if (in_.take("[")) {
      const auto id = in_.take_number();
      if (!id || !in_.take("]>")) return fail("a token's number is written <[12]>");
      token.ids.push_back({*id, *id});
    } else {
      in_.take_while([](char c) { return c != '>' && c != '\n'; });
      if (!in_.take(">")) return fail(in_.error_at(begin, "this '<' is not closed"));
      const std::size_t end = in_.at();
      in_.move_to(name_begin);
      token.names.emplace_back(in_.rest().substr(0, end - name_begin));
      in_.move_to(end);
    }
    add(rules_.add(std::move(token)));
  }

  void read_repetition() {
    const std::size_t begin = in_.at();
    std::vector<NodeId>& items = groups_.back().items;
    if (items.empty()) return fail("here is nothing to repeat; write it before the " + in_.here());
    std::uint32_t min = 0;
    std::uint32_t max = node::kUnbounded;
    const char c = in_.peek();
    in_.skip();
    if (c == '+') min = 1;
    if (c == '?') max = 1;
    if (c == '{') {
      const auto number = [&] {
        skip_space();
        const auto value = in_.take_number();
        skip_space();
        return value;
      };
      const auto least = number();
      const bool is_range = in_.take(",");
      const auto most = is_range ? number() : least;
      if (!in_.take("}") || (!least && !most)) {
        return fail(in_.error_at(begin, "a repetition is written {2}, {2,}, {2,5} or {,5}"));
      }
      min = least.value_or(0);
      max = most.value_or(node::kUnbounded);
      if (max < min) return fail(in_.error_at(begin, "the second number is less than the first"));
    }
    items.back() = rules_.repeat(items.back(), min, max);
  }

  void check_names() {
    const Name* first = nullptr;  // in the text
    std::string text;
    for (const auto& [name, info] : names_) {
      if (info.is_defined || (first != nullptr && first->used_at < info.used_at)) continue;
      first = &info;
      text = name;
    }
    if (first != nullptr) {
      return fail(in_.error_at(first->used_at,
                               "rule '" + text + "' is not defined; add `" + text + " ::= ...`"));
    }
    if (!names_.contains("root")) {
      fail({Errc::invalid, "the grammar has no rule 'root', with which texts begin"});
    }
  }

  Rules& rules_;
  Source in_;
  std::unordered_map<std::string, Name> names_;
  std::vector<Group> groups_;
  std::optional<Error> error_;
};

}  // namespace

Expected<NodeId> add_gbnf(Rules& rules, std::string_view source) {
  return GbnfReader(rules, source).read();
}

}  // namespace tenon::grammar
