#include "tenon/grammar/front/lark.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <iterator>
#include <map>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "tenon/base/utf8.h"
#include "tenon/grammar/front/commit_lazy.h"
#include "tenon/grammar/front/dispatch.h"
#include "tenon/grammar/front/source.h"
#include "tenon/json/value.h"
#include "tenon/regex/syntax.h"
#include "tenon/regex/unicode.h"

namespace tenon::grammar {
// Reads a Lark grammar in the dialect of llguidance and adds its rules. It is one pass over the
// text; open groups are on a stack on the heap, so nesting has no limit. Each group collects the
// items of the current conjunct (joined by &) and alternative, and its finished alternatives.
//
// A name is declared when it is first met, and every rule must be defined in the end. Terminals are
// regular and may not contain themselves, which check_terminals() verifies after the last line.
// Ignored text may come before every token of a rule (with_ignored), so rules refer to lexemes
// through a node that allows it.
//
// Rules with a parameter (`name::_`) are read once without a value to find their end, and then
// again for each value with which they are used: `todo_` holds these instances, and a limit bounds
// their number. `%if` drops the alternatives whose condition on the parameter is false.
//
// Lazy terminals, `stop` and `suffix` are collected in `lazy_`, and commit_lazy() makes them end
// their texts for good. Options of llguidance that only change how it computes are read and
// ignored; everything else that is not supported is refused by name.

namespace {

using regex::CodePointSet;

constexpr std::size_t kMaxLarkBytes = std::size_t{16} << 20;

struct CommonTerminal {
  std::string_view name;
  std::string_view pattern;
};
// The meaning of `%import common.X`: patterns with the same texts as those of Lark's library.
constexpr CommonTerminal kCommon[] = {
    {"DIGIT", "[0-9]"},
    {"HEXDIGIT", "[0-9a-fA-F]"},
    {"INT", "[0-9]+"},
    {"SIGNED_INT", "[+-]?[0-9]+"},
    {"DECIMAL", R"([0-9]+\.[0-9]*|\.[0-9]+)"},
    {"FLOAT", R"([0-9]+[eE][+-]?[0-9]+|(?:[0-9]+\.[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?)"},
    {"SIGNED_FLOAT",
     R"([+-]?(?:[0-9]+[eE][+-]?[0-9]+|(?:[0-9]+\.[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?))"},
    {"NUMBER", R"((?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?)"},
    {"SIGNED_NUMBER", R"([+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?)"},
    {"ESCAPED_STRING", R"("(?:[^"\\]|\\[\s\S])*")"},
    {"LCASE_LETTER", "[a-z]"},
    {"UCASE_LETTER", "[A-Z]"},
    {"LETTER", "[A-Za-z]"},
    {"WORD", "[A-Za-z]+"},
    {"CNAME", "[_A-Za-z][_A-Za-z0-9]*"},
    {"WS_INLINE", R"([ \t]+)"},
    {"WS", R"([ \t\f\r\n]+)"},
    {"CR", R"(\r)"},
    {"LF", R"(\n)"},
    {"NEWLINE", R"((?:\r?\n)+)"},
    {"SH_COMMENT", R"(#[^\n]*)"},
    {"CPP_COMMENT", R"(//[^\n]*)"},
    {"C_COMMENT", R"(/\*(?:[^*]|\*+[^*/])*\*+/)"},
    {"SQL_COMMENT", R"(--[^\n]*)"},
};

bool is_lark_name_character(char c) {
  return is_letter(c) || is_digit(c) || c == '_' || c == '-';
}
bool is_name_begin(char c) {
  return is_letter(c) || c == '_';
}
// "WORD" and "_WORD" are terminals; "word", "_word" and "_" are rules.
bool is_terminal_name(std::string_view name) {
  const std::size_t first = name.find_first_not_of('_');
  return first != std::string_view::npos && name[first] >= 'A' && name[first] <= 'Z';
}

// Reads the text; see the opening.
class LarkReader {
 public:
  // Whether anything is ignored must be known before the first rule is read. A %ignore in a comment
  // only costs an empty choice before each token.
  LarkReader(Rules& rules, std::string_view source)
      : rules_(rules), in_(source), has_ignored_(source.find("%ignore") != source.npos) {
    if (has_ignored_) ignored_rule_ = rules_.declare("ignored");
  }

  Expected<NodeId> read() {
    if (const Status checked = in_.check(kMaxLarkBytes); !checked)
      return Unexpected(checked.error());
    skip_space();
    while (!in_.is_at_end() && !error_) {
      if (in_.peek() == '%') {
        read_statement();
      } else {
        read_rule();
      }
      skip_space();
    }
    make_instances();
    if (has_ignored_) {
      rules_.define(ignored_rule_,
                    rules_.repeat(rules_.choice(std::move(ignored_)), 0, node::kUnbounded));
    }
    if (!error_) check_names();
    if (!error_) check_terminals();
    if (error_) return Unexpected(*error_);
    const NodeId start = rules_.add(node::Rule{names_[by_name_.at("start")].rule});
    return lazy_.empty() ? Expected<NodeId>(start) : commit_lazy(rules_, start, lazy_);
  }

 private:
  // A rule or terminal, from the first place where it is met, which may be before its definition.
  struct Name {
    std::string text;
    RuleId rule;
    std::size_t used_at;
    bool is_defined = false;
    std::vector<std::size_t> refers_to;  // in names_
    // For a rule with a parameter: where its body begins, and how long it is.
    std::optional<std::size_t> body_at;
    std::size_t body_bytes = 0;
    std::optional<std::size_t> used_with;     // a place where it is used with a parameter,
    std::optional<std::size_t> used_without;  // and one where it is used without
  };
  using InstanceKey = std::pair<std::size_t, std::uint64_t>;  // name and value
  struct Asked {
    RuleId rule = 0;
    bool is_asked = false;  // in an alternative that is kept
  };
  // A rule with one value of its parameter.
  struct Instance {
    std::size_t name;
    std::uint64_t value;
    RuleId rule;
  };
  struct Group {
    std::size_t opened_at;
    bool is_optional = false;        // [...]
    bool is_negated = false;         // after ~
    bool next_is_negated = false;    // a ~ was just read
    bool is_dropped = false;         // %if drops the alternative so far
    std::vector<InstanceKey> asks;   // of the alternative so far,
    std::vector<InstanceKey> asked;  // and of those that are kept
    std::vector<NodeId> alternatives;
    std::vector<NodeId> conjuncts;  // of the alternative so far
    std::vector<NodeId> items;      // of the conjunct so far
  };
  // What stands in brackets behind the name of a rule.
  struct Attributes {
    bool is_lazy = false;
    std::optional<NodeId> end;  // the end of `stop` or `suffix`
    std::optional<std::uint32_t> max_tokens;
    [[nodiscard]] bool makes_terminal() const { return is_lazy || end; }
  };

  void fail(Error error) {
    if (!error_) error_ = std::move(error);
  }
  void fail(std::string message) { fail(in_.error(std::move(message))); }
  void fail_at(std::size_t at, std::string message, Errc code = Errc::invalid) {
    fail(in_.error_at(at, std::move(message), code));
  }

  void skip_blanks() {
    in_.take_while([](char c) { return c == ' ' || c == '\t' || c == '\r'; });
  }
  // Skips spaces, line ends and comments; true if there was a line end.
  bool skip_space() {
    bool was_line_end = false;
    for (;;) {
      skip_blanks();
      if (in_.peek() == '#' || (in_.peek() == '/' && in_.peek(1) == '/')) {
        in_.take_while([](char c) { return c != '\n'; });
      } else if (!in_.take("\n")) {
        return was_line_end;
      } else {
        was_line_end = true;
      }
    }
  }

  // The number of the name in names_; a name that is met for the first time is declared.
  std::size_t index_of(std::string_view text, std::size_t at) {
    const auto [place, is_new] = by_name_.try_emplace(std::string(text), names_.size());
    if (is_new) {
      names_.push_back({std::string(text), rules_.declare(std::string(text)), at, false, {}});
    }
    return place->second;
  }
  // Takes the name of the definition at `at`.
  std::optional<std::size_t> define_name(std::string_view text, std::size_t at) {
    const std::size_t index = index_of(text, at);
    if (names_[index].is_defined) {
      fail_at(at, "'" + std::string(text) + "' is defined twice; join the two with |");
      return std::nullopt;
    }
    names_[index].is_defined = true;
    return index;
  }

  // ---- Statements -------------------------------------------------------------------------------

  void read_statement() {
    const std::size_t begin = in_.at();
    in_.skip();
    const std::string_view word = in_.take_while(is_letter);
    skip_blanks();
    if (word == "ignore") return read_ignore();
    if (word == "import") return read_import();
    if (word == "llguidance") {
      // Options of llguidance, which change how it computes but not what a grammar means.
      if (take_json()) return;
      return fail("after %llguidance comes a JSON object");
    }
    fail_at(begin,
            "%" + std::string(word) +
                " is not supported; there are %ignore, %import common.X and, "
                "in rules, %json",
            Errc::unsupported);
  }

  void read_ignore() {
    // It belongs to no name, and what it refers to cannot lead back to it.
    current_ = std::nullopt;
    in_terminal_ = true;
    ignored_.push_back(read_body());
  }

  void read_import() {
    const std::size_t begin = in_.at();
    const std::string_view library = in_.take_while(is_lark_name_character);
    skip_blanks();
    if (library != "common") {
      return fail_at(begin, "only `common` can be imported from", Errc::unsupported);
    }
    if (in_.take(".")) {
      const std::size_t at = in_.at();
      const std::string_view name = in_.take_while(is_lark_name_character);
      skip_blanks();
      if (!in_.take("->")) return import_terminal(name, name, at);
      skip_blanks();
      return import_terminal(name, in_.take_while(is_lark_name_character), at);
    }
    if (!in_.take("("))
      return fail("an import is written `%import common.X` or `%import common (X, Y)`");
    do {
      skip_blanks();
      const std::size_t at = in_.at();
      const std::string_view name = in_.take_while(is_lark_name_character);
      import_terminal(name, name, at);
      skip_blanks();
    } while (!error_ && in_.take(","));
    if (!in_.take(")")) fail("this list of imports is not closed");
  }
  void import_terminal(std::string_view name, std::string_view as, std::size_t at) {
    const auto* const found = std::ranges::find(kCommon, name, &CommonTerminal::name);
    if (found == std::end(kCommon)) {
      std::string list;
      for (const CommonTerminal& known : kCommon) {
        list += (list.empty() ? "" : ", ") + std::string(known.name);
      }
      return fail_at(at, "`common` has no '" + std::string(name) + "'; it has " + list);
    }
    if (as.empty()) return fail("after -> comes a name");
    if (const auto index = define_name(as, at)) {
      const NodeId pattern = rules_.add(node::Pattern{std::string(found->pattern)});
      rules_.define(names_[*index].rule, rules_.add(node::Lexeme{pattern}));
    }
  }

  // Takes the text of the JSON object that begins here.
  // Looks only for the matching bracket, outside of strings; json::parse() then says what is wrong
  // inside. Nothing: no object begins here, or it has no end.
  std::optional<std::string_view> take_json() {
    if (in_.peek() != '{') return std::nullopt;
    const std::string_view text = in_.rest();
    int depth = 0;
    bool in_string = false;
    for (std::size_t i = 0; i < text.size(); ++i) {
      const char c = text[i];
      if (in_string) {
        if (c == '\\') ++i;
        in_string = c != '"';
      } else if (c == '"') {
        in_string = true;
      } else if (c == '{' || c == '[') {
        ++depth;
      } else if ((c == '}' || c == ']') && --depth == 0) {
        in_.skip(i + 1);
        return text.substr(0, i + 1);
      }
    }
    return std::nullopt;
  }

  // ---- Rules ------------------------------------------------------------------------------------

  // Whether a rule or a statement begins here, at the beginning of a line: "name:", "?name[lazy]:",
  // "name::_ :", "%ignore". "name::0" is a reference, and "%json" a part of a rule.
  bool is_at_head() {
    if (in_.peek() == '%') {
      return !in_.rest().starts_with("%json") && !in_.rest().starts_with("%regex") &&
             !in_.rest().starts_with("%lark") && !in_.rest().starts_with("%if");
    }
    const std::size_t begin = in_.at();
    in_.take_while([](char c) { return c == '?' || c == '!'; });
    bool is_head = !in_.take_while(is_lark_name_character).empty();
    in_.take_while([](char c) { return c == '.' || is_digit(c); });
    if (in_.peek() == '[') {
      in_.take_while([](char c) { return c != ']' && c != '\n'; });
      is_head = is_head && in_.take("]");
    }
    // With a parameter: references have one too, but no ':' after it.
    if (in_.take("::")) is_head = is_head && in_.take("_");
    skip_blanks();
    is_head = is_head && in_.peek() == ':' && in_.peek(1) != ':';
    in_.move_to(begin);
    return is_head;
  }

  void read_rule() {
    // In Lark these signs shape the syntax tree, which is not made here.
    in_.take_while([](char c) { return c == '?' || c == '!'; });
    const std::size_t begin = in_.at();
    if (!is_name_begin(in_.peek())) {
      return fail("a rule begins with its name and ':', a statement with %, here is " + in_.here());
    }
    const std::string_view text = in_.take_while(is_lark_name_character);
    const auto index = define_name(text, begin);
    if (!index) return;
    if (in_.peek() == '.' && is_digit(in_.peek(1))) {
      return fail(in_.error_at(in_.at(),
                               "priorities are not supported; a text is read in every way",
                               Errc::unsupported));
    }
    Attributes attributes;
    if (in_.take("[")) attributes = read_attributes();
    skip_blanks();
    if (error_) return;
    const bool has_parameter = in_.take("::");
    if (has_parameter) {
      if (!in_.take("_")) return fail("after :: of the name of a rule comes _");
      skip_blanks();
    }
    if (!in_.take(":")) return fail("after the name of a rule comes ':', here is " + in_.here());
    current_ = *index;
    if (has_parameter) {
      if (is_terminal_name(text) || attributes.makes_terminal() || attributes.max_tokens) {
        return fail_at(begin, "a rule with a parameter is no terminal and has no limits",
                       Errc::unsupported);
      }
      return read_parametric_rule(*index);
    }
    in_terminal_ = is_terminal_name(text) || attributes.makes_terminal();
    const bool is_terminal = in_terminal_;
    NodeId body = read_body();
    if (error_) return;
    // `stop` and `suffix` are the same here: the text up to the first end, and the end.
    if (attributes.end) body = rules_.sequence({body, *attributes.end});
    const NodeId whole = body;
    if (attributes.makes_terminal()) body = add_shortest(rules_, body);
    if (is_terminal) {
      body = rules_.add(node::Lexeme{body});
      if (attributes.makes_terminal()) lazy_.push_back({body, whole});
      if (!attributes.makes_terminal()) terminals_.push_back(*index);
      // A reference to a rule does not say that it is a token of the text.
      if (!is_terminal_name(text)) body = with_ignored(body);
    }
    if (attributes.max_tokens) body = add_max_tokens(rules_, body, *attributes.max_tokens);
    rules_.define(names_[*index].rule, body);
  }

  // ---- Rules with a parameter -------------------------------------------------------------------

  // Read once without a value to find where it ends, and later for each value with which it is
  // used.
  void read_parametric_rule(std::size_t index) {
    const std::size_t begin = in_.at();
    in_terminal_ = false;
    rules_.define(names_[index].rule, rules_.choice({}));  // without a value it reads nothing
    is_in_parametric_ = true;
    read_body();
    is_in_parametric_ = false;
    names_[index].body_at = begin;
    names_[index].body_bytes = in_.at() - begin;
  }
  // Reading an instance may ask for others, so the list grows while it is worked off. Each reads
  // the body's text again: the number of instances and the bytes that they read are limited.
  void make_instances() {
    constexpr std::size_t kMaxInstances = 30'000;
    constexpr std::size_t kMaxReadBytes = std::size_t{32} << 20;
    std::size_t bytes = 0;
    while (!todo_.empty() && !error_) {
      const Instance instance = todo_.back();
      todo_.pop_back();
      const Name name = names_[instance.name];  // a copy, because names_ may grow
      if (!name.body_at) {
        return fail_at(*name.used_with, "'" + name.text + "' has no parameter; write no :: there");
      }
      bytes += name.body_bytes + 1;
      if (instances_.size() > kMaxInstances || bytes > kMaxReadBytes) {
        return fail_at(*name.used_with,
                       "the rules with a parameter have more than " +
                           std::to_string(kMaxInstances) + " values, or are too long for so many",
                       Errc::limit_exceeded);
      }
      in_.move_to(*name.body_at);
      current_ = instance.name;
      in_terminal_ = false;
      value_ = instance.value;
      const NodeId body = read_body();
      value_ = std::nullopt;
      if (!error_) rules_.define(instance.rule, body);
    }
    if (error_) return;
    for (const auto& [key, instance] : instances_) {
      // Only alternatives that %if drops refer to it, but a rule must have a body.
      if (!instance.is_asked) rules_.define(instance.rule, rules_.choice({}));
    }
    for (const Name& name : names_) {
      if (!name.body_at || !name.used_without) continue;
      return fail_at(*name.used_without,
                     "'" + name.text + "' has a parameter; write `" + name.text + "::0`");
    }
  }
  // Reads `::0x5`, `::_` or `::set_bit(3)` after a name; the first two characters have been taken.
  NodeId read_instance(std::string_view text, std::size_t at) {
    if (in_terminal_) fail_at(at, "a rule with a parameter cannot be part of a terminal");
    const std::size_t index = index_of(text, at);
    names_[index].used_with = at;
    if (current_ && !value_) names_[*current_].refers_to.push_back(index);
    const std::uint64_t value = read_value();
    // The first reading only finds the end; what it makes is not used.
    if (is_in_parametric_ || error_) return rules_.choice({});
    const auto [known, is_new] = instances_.try_emplace({index, value});
    if (is_new) known->second.rule = rules_.declare(std::string(text));
    groups_.back().asks.emplace_back(index, value);
    return rules_.add(node::Rule{known->second.rule});
  }
  // Asks for the instances of alternatives that are kept. With those that %if drops too, `a::_: "x"
  // a::incr(_) %if lt(_, 9)` would ask for one value after another up to the limit.
  void ask(const std::vector<InstanceKey>& keys) {
    for (const InstanceKey& key : keys) {
      Asked& instance = instances_.at(key);
      if (std::exchange(instance.is_asked, true)) continue;
      todo_.push_back({key.first, key.second, instance.rule});
    }
  }
  // The parameter of the rule that is being read.
  std::uint64_t parameter() {
    if (!value_ && !is_in_parametric_) {
      fail("this rule has no parameter; write `::_` behind its name");
    }
    return value_.value_or(0);
  }
  // Bits [first, first + count) of a parameter; `_` is all 64.
  struct Bits {
    unsigned first = 0;
    unsigned count = 64;
    [[nodiscard]] std::uint64_t ones() const {
      return count == 64 ? ~std::uint64_t{0} : (std::uint64_t{1} << count) - 1;
    }
    [[nodiscard]] std::uint64_t of(std::uint64_t value) const { return value >> first & ones(); }
  };
  static constexpr std::uint64_t kAllOnes = ~std::uint64_t{0};
  // Reads a number of at most `most`: decimal, or hexadecimal after 0x.
  std::uint64_t read_uint64(std::uint64_t most) {
    skip_blanks();
    const std::size_t begin = in_.at();
    const bool is_hex = in_.take("0x") || in_.take("0X");
    const auto digit_of = [&](char c) {
      if (is_digit(c)) return c - '0';
      const bool is_hex_letter = (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
      return is_hex && is_hex_letter ? (c | 0x20) - 'a' + 10 : -1;
    };
    const unsigned base = is_hex ? 16 : 10;
    std::uint64_t value = 0;
    bool has_digit = false;
    bool is_too_large = false;
    for (int digit = digit_of(in_.peek()); digit >= 0; digit = digit_of(in_.peek())) {
      has_digit = true;
      const auto more = static_cast<std::uint64_t>(digit);
      is_too_large = is_too_large || value > (kAllOnes - more) / base;
      value = value * base + more;
      in_.skip();
    }
    if (!has_digit) fail("here must be a number, and is " + in_.here());
    if (is_too_large || value > most) {
      fail_at(begin, "this number is above " + std::to_string(most));
    }
    skip_blanks();
    return error_ ? 0 : value;
  }
  void expect(std::string_view sign) {
    skip_blanks();
    if (!in_.take(sign)) fail("here must be '" + std::string(sign) + "', and is " + in_.here());
    skip_blanks();
  }
  // Reads `_` or `[2:5]`.
  Bits read_bits() {
    skip_blanks();
    if (in_.take("_")) return {};
    const std::size_t begin = in_.at();
    expect("[");
    const auto first = static_cast<unsigned>(read_uint64(63));
    expect(":");
    const auto end = static_cast<unsigned>(read_uint64(64));
    expect("]");
    if (end <= first) fail_at(begin, "bits are written _ or [2:5], the greater number last");
    return error_ ? Bits{} : Bits{first, end - first};
  }
  // The value that a reference hands on: a number, the own parameter `_`, or a function of it.
  std::uint64_t read_value() {
    if (is_digit(in_.peek())) return read_uint64(kAllOnes);
    const std::size_t begin = in_.at();
    const std::string_view name = in_.take_while(is_lark_name_character);
    const std::uint64_t before = parameter();
    if (name == "_") return before;
    expect("(");
    std::uint64_t value = 0;
    if (name == "set_bit") {
      value = before | std::uint64_t{1} << read_uint64(63);
    } else if (name == "clear_bit") {
      value = before & ~(std::uint64_t{1} << read_uint64(63));
    } else if (name == "bit_and") {
      value = before & read_uint64(kAllOnes);
    } else if (name == "bit_or") {
      value = before | read_uint64(kAllOnes);
    } else if (name == "incr" || name == "decr") {
      const bool is_up = name == "incr";
      const Bits bits = read_bits();
      const std::uint64_t one = std::uint64_t{1} << bits.first;
      const bool is_at_end = bits.of(before) == (is_up ? bits.ones() : 0);
      // At the end of its range a count stays where it is and does not carry into other bits.
      value = is_at_end ? before : is_up ? before + one : before - one;
    } else {
      fail_at(begin,
              "no such value of a parameter; there are numbers, _, "
              "set_bit, clear_bit, bit_and, "
              "bit_or, incr and decr");
    }
    expect(")");
    return value;
  }
  // Reads the condition behind %if and says whether it holds for the parameter. While the rule is
  // read for the first time, the parameter counts as 0.
  bool read_condition(int depth) {
    constexpr int kMaxConditions = 50;
    skip_blanks();
    const std::size_t begin = in_.at();
    if (depth > kMaxConditions) {
      fail_at(begin, "conditions in each other are too deep here", Errc::limit_exceeded);
      return false;
    }
    const std::string_view name = in_.take_while(is_lark_name_character);
    if (name == "true" && in_.peek() != '(') return true;
    expect("(");
    const std::uint64_t value = parameter();
    if (error_) return false;
    bool holds = false;
    if (name == "true") {
      holds = true;
    } else if (name == "and" || name == "or") {
      // Both are always read, because the text must be taken to its end.
      const bool first = read_condition(depth + 1);
      expect(",");
      const bool second = read_condition(depth + 1);
      holds = name == "and" ? first && second : first || second;
    } else if (name == "not") {
      holds = !read_condition(depth + 1);
    } else if (name == "bit_clear" || name == "bit_set") {
      holds = (value >> read_uint64(63) & 1U) == (name == "bit_set" ? 1U : 0U);
    } else if (name == "is_ones" || name == "is_zeros") {
      const Bits bits = read_bits();
      holds = bits.of(value) == (name == "is_ones" ? bits.ones() : 0);
    } else if (const auto order = order_of(name)) {
      const bool counts = name.size() > order->size();
      const Bits bits = read_bits();
      expect(",");
      const std::uint64_t other = read_uint64(counts ? 63 : kAllOnes);
      const std::uint64_t own = bits.of(value);
      holds = compare(*order, counts ? static_cast<std::uint64_t>(std::popcount(own)) : own, other);
    } else {
      fail_at(begin,
              "no such condition; there are true, bit_clear, bit_set, is_ones, "
              "is_zeros, eq, ne, "
              "lt, le, gt, ge, the same behind bit_count_, and, or and not");
    }
    expect(")");
    return holds;
  }
  // Returns "lt" for "lt" and for "bit_count_lt".
  static std::optional<std::string_view> order_of(std::string_view name) {
    constexpr std::string_view kCount = "bit_count_";
    constexpr std::string_view kOrders[] = {"eq", "ne", "lt", "le", "gt", "ge"};
    if (name.starts_with(kCount)) name.remove_prefix(kCount.size());
    const auto* const found = std::ranges::find(kOrders, name);
    return found == std::end(kOrders) ? std::nullopt : std::optional(*found);
  }
  static bool compare(std::string_view order, std::uint64_t a, std::uint64_t b) {
    if (order == "eq") return a == b;
    if (order == "ne") return a != b;
    if (order == "lt") return a < b;
    if (order == "le") return a <= b;
    return order == "gt" ? a > b : a >= b;
  }

  // Reads `lazy, stop="x", max_tokens=9` up to and with the "]".
  Attributes read_attributes() {
    Attributes attributes;
    do {
      skip_blanks();
      const std::size_t begin = in_.at();
      const std::string_view key = in_.take_while(is_lark_name_character);
      skip_blanks();
      const bool has_value = in_.take("=");
      skip_blanks();
      if (key == "lazy" && !has_value) {
        attributes.is_lazy = true;
      } else if ((key == "stop" || key == "suffix") && has_value) {
        if (in_.rest().starts_with("\"\"")) {
          fail_at(begin,
                  "an empty '" + std::string(key) + "' is not supported; name what ends the text",
                  Errc::unsupported);
        }
        attributes.end = read_end();
      } else if (key == "max_tokens" && has_value) {
        attributes.max_tokens = in_.take_number();
        if (!attributes.max_tokens) fail("max_tokens is a number");
      } else if (key == "capture" || key == "temperature" || key == "stop_capture") {
        // They do not change which texts are read.
        if (has_value) in_.take_while([](char c) { return c != ',' && c != ']' && c != '\n'; });
      } else {
        fail_at(begin,
                "the attribute '" + std::string(key) +
                    "' is not supported; there are lazy, stop=, suffix=, "
                    "max_tokens=, capture and "
                    "temperature=",
                Errc::unsupported);
      }
      skip_blanks();
    } while (!error_ && in_.take(","));
    if (!in_.take("]")) fail("this list of attributes is not closed");
    return attributes;
  }
  NodeId read_end() {
    if (in_.peek() == '"') return read_string();
    if (in_.peek() == '/') return read_regex();
    const std::size_t at = in_.at();
    const std::string_view name = in_.take_while(is_lark_name_character);
    if (!name.empty() && is_terminal_name(name)) return reference(name, at);
    fail("here must be \"...\", /.../ or the name of a terminal");
    return 0;
  }

  // Reads up to the end of the rule.
  NodeId read_body() {
    groups_.assign(1, Group{.opened_at = in_.at()});
    while (!error_ && read_item()) {
    }
    if (groups_.size() > 1) {
      fail_at(groups_.back().opened_at,
              groups_.back().is_optional ? "this '[' is not closed" : "this '(' is not closed");
    }
    return error_ ? 0 : end_group();
  }

  // Closes the innermost group. Instances of its kept alternatives are asked for only once the
  // group around it is kept too, so they are handed up.
  NodeId end_group() {
    end_alternative();
    Group group = std::move(groups_.back());
    groups_.pop_back();
    if (groups_.empty()) {
      ask(group.asked);
    } else {
      std::vector<InstanceKey>& asks = groups_.back().asks;
      asks.insert(asks.end(), group.asked.begin(), group.asked.end());
    }
    NodeId node = rules_.choice(std::move(group.alternatives));
    if (group.is_negated) node = rules_.add(node::Complement{node});
    return group.is_optional ? rules_.repeat(node, 0, 1) : node;
  }
  // One side of an &, which is also the whole alternative where there is no &.
  void end_conjunct() {
    Group& group = groups_.back();
    if (group.next_is_negated) fail("here is nothing for ~ to negate");
    group.conjuncts.push_back(rules_.sequence(std::exchange(group.items, {})));
  }
  void end_alternative() {
    end_conjunct();
    Group& group = groups_.back();
    const std::vector<NodeId> conjuncts = std::exchange(group.conjuncts, {});
    const std::vector<InstanceKey> asks = std::exchange(group.asks, {});
    if (std::exchange(group.is_dropped, false)) return;
    group.asked.insert(group.asked.end(), asks.begin(), asks.end());
    group.alternatives.push_back(conjuncts.size() == 1 ? conjuncts[0]
                                                       : rules_.add(node::Both{conjuncts}));
  }

  void add(NodeId node) {
    Group& group = groups_.back();
    if (std::exchange(group.next_is_negated, false)) node = rules_.add(node::Complement{node});
    group.items.push_back(node);
  }
  // Adds a token of the text: in a rule, ignored text may come before it.
  void add_lexeme(NodeId node) { add(in_terminal_ ? node : with_ignored(node)); }
  NodeId with_ignored(NodeId node) {
    if (!has_ignored_) return node;
    return rules_.sequence({rules_.add(node::Rule{ignored_rule_}), node});
  }

  // Instances of one rule refer to the same names, so only its first reading is noted
  // (check_terminals).
  NodeId reference(std::string_view name, std::size_t at) {
    const std::size_t index = index_of(name, at);
    if (current_ && !value_) names_[*current_].refers_to.push_back(index);
    return rules_.add(node::Rule{names_[index].rule});
  }

  // Returns false where the rule ends.
  bool read_item() {
    const std::size_t line = in_.at();
    const bool is_new_line = skip_space();
    if (in_.is_at_end()) return false;
    // A rule goes on over line ends until one begins with a head. In groups a head cannot come.
    if (is_new_line && groups_.size() == 1 && is_at_head()) {
      // The line end is left for skip_space() of read().
      in_.move_to(line);
      return false;
    }
    const std::size_t at = in_.at();
    const char c = in_.peek();
    if (is_name_begin(c)) {
      const std::string_view name = in_.take_while(is_lark_name_character);
      if (in_.take("::")) {
        add(read_instance(name, at));
        return true;
      }
      const NodeId node = reference(name, at);
      names_[by_name_.at(std::string(name))].used_without = at;
      if (is_terminal_name(name)) {
        add_lexeme(node);
      } else {
        add(node);
      }
      return true;
    }
    switch (c) {
      case '"':
        add_lexeme(read_string_or_range());
        return true;
      case '/':
        add_lexeme(read_regex());
        return true;
      case '<':
        add(read_token());
        return true;
      case '%':
        if (!in_.take("%if")) {
          read_nested();
        } else if (in_terminal_) {
          fail_at(at, "%if cannot be part of a terminal; use a rule");
        } else if (!read_condition(0)) {
          groups_.back().is_dropped = true;
        }
        return true;
      case '(':
      case '[': {
        const bool is_negated = std::exchange(groups_.back().next_is_negated, false);
        groups_.push_back({.opened_at = at, .is_optional = c == '[', .is_negated = is_negated});
        in_.skip();
        return true;
      }
      case ')':
      case ']': {
        if (groups_.size() == 1 || groups_.back().is_optional != (c == ']')) {
          fail("this " + in_.here() + " closes nothing");
          return false;
        }
        in_.skip();
        const NodeId node = end_group();
        add(node);
        return true;
      }
      case '|':
        in_.skip();
        end_alternative();
        return true;
      case '&':
        in_.skip();
        if (!in_terminal_) {
          fail_at(at, "& is for terminals; write the name of this rule in capitals");
        }
        end_conjunct();
        return true;
      case '-':
        if (in_.take("->")) {
          skip_blanks();
          // A name for the syntax tree, which is not made here.
          in_.take_while(is_lark_name_character);
          return true;
        }
        break;
      // "~2..5" repeats what stands before it, and "~x" negates what comes next: a digit tells
      // which.
      case '~':
        in_.skip();
        skip_blanks();
        if (is_digit(in_.peek())) {
          read_times(at);
        } else {
          groups_.back().next_is_negated = true;
        }
        return true;
      case '*':
      case '+':
      case '?':
        in_.skip();
        repeat(at, c == '+' ? 1 : 0, c == '?' ? 1 : node::kUnbounded);
        return true;
      case '{':
        in_.skip();
        read_braces(at);
        return true;
      case '@':
        fail(in_.error_at(at, "other grammars cannot be referred to", Errc::unsupported));
        return false;
      default:
        break;
    }
    fail("nothing in a rule begins with " + in_.here());
    return false;
  }

  void repeat(std::size_t at, std::uint32_t min, std::uint32_t max) {
    std::vector<NodeId>& items = groups_.back().items;
    if (items.empty()) return fail_at(at, "here is nothing to repeat");
    if (max < min) return fail_at(at, "the second number is less than the first");
    items.back() = rules_.repeat(items.back(), min, max);
  }
  // Reads ~2 and ~2..5.
  void read_times(std::size_t at) {
    const std::uint32_t min = in_.take_number().value_or(0);
    std::uint32_t max = min;
    if (in_.take("..")) {
      const auto most = in_.take_number();
      if (!most) return fail("after .. comes a number");
      max = *most;
    }
    repeat(at, min, max);
  }
  void read_braces(std::size_t at) {
    const auto number = [&] {
      skip_blanks();
      const auto value = in_.take_number();
      skip_blanks();
      return value;
    };
    const auto least = number();
    const auto most = in_.take(",") ? number() : least;
    if (!in_.take("}") || (!least && !most)) {
      return fail_at(at, "a repetition is written {2}, {2,}, {2,5} or {,5}");
    }
    repeat(at, least.value_or(0), most.value_or(node::kUnbounded));
  }

  // ---- Atoms ------------------------------------------------------------------------------------

  NodeId read_string_or_range() {
    const std::size_t begin = in_.at();
    const std::vector<char32_t> first = read_characters();
    if (!error_ && in_.take("..")) {
      if (in_.peek() != '"') {
        fail("a range is written \"a\"..\"z\"");
        return 0;
      }
      const std::vector<char32_t> last = read_characters();
      if (first.size() != 1 || last.size() != 1 || last[0] < first[0]) {
        fail_at(begin, "a range goes from one character to one that is not before it");
        return 0;
      }
      return rules_.add(node::Characters{{{first[0], last[0]}}});
    }
    return string_node(first, in_.take("i"));
  }
  NodeId read_string() {
    const std::vector<char32_t> characters = read_characters();
    return string_node(characters, in_.take("i"));
  }
  // "Ab"i reads each character in all its cases.
  NodeId string_node(const std::vector<char32_t>& characters, bool ignores_case) {
    if (!ignores_case) {
      std::string bytes;
      for (const char32_t c : characters) utf8::append(bytes, c);
      return rules_.literal(std::move(bytes));
    }
    std::vector<NodeId> parts;
    for (const char32_t c : characters) {
      parts.push_back(rules_.add(node::Characters{regex::case_closed({{c, c}})}));
    }
    return rules_.add(node::Lexeme{rules_.sequence(std::move(parts))});
  }
  std::vector<char32_t> read_characters() {
    const std::size_t begin = in_.at();
    in_.skip();
    std::vector<char32_t> characters;
    while (!error_ && in_.peek() != '"') {
      if (in_.is_at_end() || in_.peek() == '\n') {
        fail_at(begin, "this '\"' is not closed on its line");
        break;
      }
      characters.push_back(in_.peek() == '\\' ? read_escape() : in_.take_character().value_or(0));
    }
    in_.skip();
    return characters;
  }
  char32_t read_escape() {
    const std::size_t begin = in_.at();
    in_.skip();
    const char c = in_.peek();
    in_.skip();
    constexpr std::string_view kLetters = "ntrbf\\\"/'";
    constexpr std::string_view kMeanings = "\n\t\r\b\f\\\"/'";
    if (const std::size_t i = kLetters.find(c); c != '\0' && i != kLetters.npos) {
      return static_cast<unsigned char>(kMeanings[i]);
    }
    const int digits = c == 'x' ? 2 : c == 'u' ? 4 : c == 'U' ? 8 : 0;
    const auto code = digits == 0 ? std::nullopt : in_.take_hex(digits);
    if (!code || *code > CodePointSet::kLast || (*code >= 0xD800 && *code <= 0xDFFF)) {
      fail_at(begin,
              "no such escape; there are \\n \\t \\r \\b \\f \\\\ \\\" "
              "\\xFF \\uFFFF and "
              "\\U0010FFFF");
      return 0;
    }
    return *code;
  }

  NodeId read_regex() {
    const std::size_t begin = in_.at();
    in_.skip();
    const std::string_view text = in_.rest();
    std::size_t end = 0;
    while (end < text.size() && text[end] != '/' && text[end] != '\n') {
      // An escaped slash does not end the pattern. In a class it must be escaped too.
      end += text[end] == '\\' ? 2 : 1;
    }
    if (end >= text.size() || text[end] != '/') {
      fail_at(begin,
              "this '/' is not closed on its line; a slash in a regex "
              "is written \\/");
      return 0;
    }
    in_.skip(end + 1);
    std::string flags;
    for (const char flag : in_.take_while(is_letter)) {
      if (flag == 'i' || flag == 's') {
        flags += flag;
      } else if (flag != 'u') {
        fail(in_.error_at(
            begin, "the flag '" + std::string(1, flag) + "' is not supported; there are i, s and u",
            Errc::unsupported));
      }
    }
    // As in llguidance, \d, \w and \s are those of Unicode, which ecma262 does not have.
    node::Pattern pattern{std::string(text.substr(0, end)), regex::Dialect::fancy_regex};
    if (!flags.empty()) pattern.source = "(?" + flags + ":" + pattern.source + ")";
    Budget budget("regex", {.max_steps = 10'000'000, .max_bytes = 64 << 20});
    if (const auto parsed = regex::parse(pattern.source, pattern.dialect, budget); !parsed) {
      fail(in_.error_at(begin, parsed.error().message, parsed.error().code));
    }
    return rules_.add(std::move(pattern));
  }

  // Reads <|name|>, <[12]>, <[1-5,7]>, <[^12]>, <[*]>.
  NodeId read_token() {
    const std::size_t begin = in_.at();
    const std::string_view text =
        in_.take_while([](char c) { return c != '>' && c != '\n' && c != ' '; });
    if (!in_.take(">")) {
      fail_at(begin, "this '<' is not closed");
      return 0;
    }
    if (in_terminal_) fail_at(begin, "a special token cannot be part of a terminal; use a rule");
    if (!text.starts_with("<["))
      return rules_.add(node::Token{{std::string(text) + ">"}, {}, false});
    const std::size_t end = in_.at();
    in_.move_to(begin + 2);
    node::Token token;
    if (in_.take("*]>")) {
      token.is_negated = true;
      return rules_.add(std::move(token));
    }
    token.is_negated = in_.take("^");
    do {
      const auto first = in_.take_number();
      const auto last = in_.take("-") ? in_.take_number() : first;
      if (!first || !last) break;
      token.ids.push_back({*first, *last});
    } while (in_.take(","));
    // What is left must be "]>".
    if (in_.at() + 2 != end || token.ids.empty()) {
      fail_at(begin, "numbers of tokens are written <[12]>, <[1-5,7]>, <[^12]> or <[*]>");
    }
    in_.move_to(end);
    return rules_.add(std::move(token));
  }

  // Reads %json {...}.
  void read_nested() {
    const std::size_t begin = in_.at();
    if (in_.take("%regex")) return read_substring(begin);
    if (!in_.take("%json")) {
      in_.skip();
      return fail(in_.error_at(begin,
                               "%" + std::string(in_.take_while(is_letter)) +
                                   " is not supported within a rule; there are %json and %regex",
                               Errc::unsupported));
    }
    if (in_terminal_) return fail_at(begin, "%json cannot be part of a terminal; use a rule");
    skip_space();
    const std::size_t at = in_.at();
    const auto text = take_json();
    if (!text) return fail_at(at, "after %json comes a JSON object, and it must be closed");
    const auto value = json::parse(*text);
    if (!value) return fail_at(at, "the schema is no JSON: " + value.error().message);
    JsonOptions options{.whitespace = JsonOptions::Whitespace::any};
    if (const json::Value* guidance = value->find("x-guidance")) {
      if (const std::string refused = read_guidance(*guidance, options); !refused.empty()) {
        return fail(in_.error_at(at, "of x-guidance " + refused, Errc::unsupported));
      }
    }
    auto schema = schema::Schema::compile(*value);
    if (!schema) {
      return fail(in_.error_at(at, schema.error().message, schema.error().code));
    }
    add_lexeme(rules_.add(node::Json{std::move(*schema), options}));
  }

  // Translates llguidance's options of a schema; returns the name of one that is not supported.
  static std::string read_guidance(const json::Value& guidance, JsonOptions& options) {
    std::string item = ",";
    std::string key = ":";
    bool is_flexible = true;
    const json::Object none;
    const json::Object* const members = guidance.if_object();
    for (const json::Member& member : members != nullptr ? *members : none) {
      const bool* const truth = member.value.if_bool();
      const std::string* const text = member.value.if_string();
      if (member.key == "whitespace_flexible" && truth != nullptr) {
        is_flexible = *truth;
      } else if (member.key == "item_separator" && text != nullptr) {
        item = *text;
      } else if (member.key == "key_separator" && text != nullptr) {
        key = *text;
      } else if (member.key == "json_allow_general_unicode_escapes" && truth != nullptr) {
        options.unicode_escapes = *truth ? UnicodeEscapes::any : UnicodeEscapes::controls;
      } else if (member.key == "lenient" && truth != nullptr) {
        options.lenient = *truth;
      } else if (member.key != "coerce_one_of" || truth == nullptr) {
        // coerce_one_of allows more texts than oneOf does, and it need not be obeyed. Any other is
        // refused.
        return "'" + member.key +
               "' is not supported; there are whitespace_flexible, "
               "item_separator, key_separator, "
               "json_allow_general_unicode_escapes, lenient and coerce_one_of";
      }
    }
    if (members == nullptr) return "nothing but an object is supported";
    // Separators only matter where white space is fixed.
    if (is_flexible) return {};
    const bool is_spaced = item == ", " && key == ": ";
    if (!is_spaced && (item != "," || key != ":")) {
      return "the separators are \",\" and \":\", or \", \" and \": \"";
    }
    using Whitespace = JsonOptions::Whitespace;
    options.whitespace = is_spaced ? Whitespace::spaced : Whitespace::compact;
    return {};
  }

  // Reads %regex {"substring_chunks": [...]}, or "substring_words" or "substring_chars" of a text.
  void read_substring(std::size_t begin) {
    skip_space();
    const std::size_t at = in_.at();
    const auto text = take_json();
    if (!text) return fail_at(at, "after %regex comes a JSON object, and it must be closed");
    const auto value = json::parse(*text);
    if (!value) return fail_at(at, "this is no JSON: " + value.error().message);
    const auto refuse = [&] {
      fail(in_.error_at(begin,
                        "%regex is supported with one member, substring_chunks (a list of "
                        "strings), substring_words or substring_chars (a string)",
                        Errc::unsupported));
    };
    // take_json() takes objects only.
    const json::Object& members = *value->if_object();
    if (members.size() != 1) return refuse();
    const json::Member& member = *members.begin();
    std::vector<std::string> chunks;
    if (const json::Array* const list = member.value.if_array();
        list != nullptr && member.key == "substring_chunks") {
      for (const json::Value& one : *list) {
        if (one.if_string() == nullptr) return refuse();
        chunks.push_back(*one.if_string());
      }
    } else if (const std::string* const whole = member.value.if_string();
               whole != nullptr &&
               (member.key == "substring_words" || member.key == "substring_chars")) {
      chunks = chunks_of(*whole, member.key == "substring_words");
    } else {
      return refuse();
    }
    constexpr std::size_t kMaxChunks = 10'000;
    if (chunks.size() > kMaxChunks) {
      return fail(in_.error_at(at, "a text of more than 10000 chunks", Errc::limit_exceeded));
    }
    add_lexeme(rules_.add(node::Lexeme{add_substring(rules_, chunks)}));
  }
  // The characters of a text; `by_word`: its words, white space, and the text between them.
  static std::vector<std::string> chunks_of(std::string_view text, bool by_word) {
    static const auto kSpace = regex::characters_with("White_Space");
    static const auto kLetters = regex::characters_with("Alphabetic");
    static const auto kNumbers = regex::characters_with("N");
    // S: space, W: part of a word, O: anything else.
    const auto sort_of = [](char32_t c) {
      if (kSpace->contains(c)) return 'S';
      return c == U'_' || kLetters->contains(c) || kNumbers->contains(c) ? 'W' : 'O';
    };
    std::vector<std::string> chunks;
    Source in(text);
    // "Hello, you" by words is "Hello", ",", " " and "you".
    char before = 0;
    while (const auto c = in.take_character()) {
      const char sort = by_word ? sort_of(*c) : '\0';
      if (sort == '\0' || sort != before) chunks.emplace_back();
      utf8::append(chunks.back(), *c);
      before = sort;
    }
    return chunks;
  }

  // ---- At the end -------------------------------------------------------------------------------

  void check_names() {
    for (const Name& name : names_) {
      if (name.is_defined) continue;
      return fail_at(name.used_at, "'" + name.text + "' is not defined; add `" + name.text +
                                       ": ...`, or import it");
    }
    if (!by_name_.contains("start")) {
      fail({Errc::invalid, "the grammar has no rule 'start', with which texts begin"});
    }
  }

  // Refuses terminals that contain themselves, perhaps through rules.
  void check_terminals() {
    enum class Mark : std::uint8_t { fresh, open, done };
    std::vector<Mark> marks(names_.size(), Mark::fresh);
    struct Visit {
      std::size_t name;
      std::size_t next;
    };
    for (const std::size_t terminal : terminals_) {
      if (marks[terminal] != Mark::fresh) continue;
      std::vector<Visit> visits{{terminal, 0}};
      marks[terminal] = Mark::open;
      while (!visits.empty()) {
        const Name& name = names_[visits.back().name];
        if (visits.back().next == name.refers_to.size()) {
          marks[visits.back().name] = Mark::done;
          visits.pop_back();
          continue;
        }
        const std::size_t next = name.refers_to[visits.back().next++];
        // It is on the way from the terminal to here.
        if (marks[next] == Mark::open) {
          return fail_at(names_[terminal].used_at,
                         "the terminal '" + names_[terminal].text +
                             "' contains itself, or a rule that does; write "
                             "its name in small letters");
        }
        if (marks[next] == Mark::fresh) {
          marks[next] = Mark::open;
          visits.push_back({next, 0});
        }
      }
    }
  }

  Rules& rules_;
  Source in_;
  bool has_ignored_;
  RuleId ignored_rule_ = 0;
  std::vector<NodeId> ignored_;
  std::vector<Name> names_;
  std::unordered_map<std::string, std::size_t> by_name_;
  std::vector<std::size_t> terminals_;
  std::vector<LazyLexeme> lazy_;  // lexemes
  std::map<InstanceKey, Asked> instances_;
  std::vector<Instance> todo_;          // without a body so far
  std::optional<std::uint64_t> value_;  // the parameter, while such a rule is read
  bool is_in_parametric_ = false;       // such a rule is being read for the first time
  std::optional<std::size_t> current_;  // the name being defined
  bool in_terminal_ = false;
  std::vector<Group> groups_;
  std::optional<Error> error_;
};

}  // namespace

Expected<NodeId> add_lark(Rules& rules, std::string_view source) {
  return LarkReader(rules, source).read();
}

}  // namespace tenon::grammar
