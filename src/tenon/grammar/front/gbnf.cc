#include "tenon/grammar/front/gbnf.h"

#include <algorithm>
#include <optional>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "tenon/base/utf8.h"
#include "tenon/grammar/front/dispatch.h"
#include "tenon/grammar/front/source.h"

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

// Reads the grammar in one pass. Open groups are on a stack on the heap, so nesting has no limit.
// Each group collects the nodes of its current sequence and its finished alternatives; a repetition
// sign replaces the last node.
//
// Two dialects are read as one: GBNF of llama.cpp, and the EBNF of xgrammar, which has names with
// dots, options of rules, macros and look-ahead. A dot is ambiguous: "a.b" is one name in EBNF and
// two parts in GBNF. So find_heads() first collects the names at the beginnings of rules, and a
// reference takes the longest name among them (take_name).
//
// Macros such as Regex(...) and TagDispatch(...) have arguments that are texts, numbers, rules or
// lists; for_named() and the `read_` function of each macro check them and call the functions of
// dispatch.h that several front ends share. The first error is kept with line and column.
class GbnfReader {
 public:
  GbnfReader(Rules& rules, std::string_view source) : rules_(rules), in_(source) {
    find_heads(source);
  }

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
  // A rule, from the first place where its name is met, which may be before its definition.
  struct Name {
    RuleId rule;
    std::size_t used_at;
    bool is_defined = false;
  };
  // An open "(", or the body of the rule itself, which is the first group.
  struct Group {
    std::size_t opened_at;
    std::vector<NodeId> alternatives;
    std::vector<NodeId> items;
    bool is_behind = false;  // (=...), which says what follows the rule
  };
  // Options of a rule in xgrammar's EBNF.
  struct RuleOptions {
    bool is_lazy = false;
    std::optional<std::uint32_t> max_chars;
    std::optional<std::uint32_t> max_tokens;
  };
  // An argument of a macro.
  struct Argument {
    enum class Kind : std::uint8_t { text, number, truth, rule, tuple };
    Kind kind = Kind::number;
    std::size_t at = 0;
    std::string text;
    std::uint32_t number = 0;  // 1 also stands for true
    NodeId rule = 0;
    std::vector<Argument> parts;
  };
  struct Arguments {
    std::vector<Argument> list;
    std::vector<std::pair<std::string, Argument>> named;
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

  // The rule of this name, declared when it is met for the first time.
  Name& name_of(std::string_view text, std::size_t at) {
    const auto [place, is_new] = names_.try_emplace(std::string(text), Name{0, at});
    if (is_new) place->second.rule = rules_.declare(std::string(text));
    return place->second;
  }

  // Collects the names of all rules, because "a.b" is one name in EBNF and two parts in GBNF, and
  // so is a macro.
  void find_heads(std::string_view source) {
    // It goes backwards from each "::=", over blanks, options in [...] and the name.
    const auto is_part = [](char c) { return is_gbnf_name_character(c) || c == '.'; };
    for (std::size_t at = source.find("::="); at != source.npos; at = source.find("::=", at + 3)) {
      std::size_t end = at;
      const auto skip_back = [&] {
        while (end > 0 && (source[end - 1] == ' ' || source[end - 1] == '\t')) --end;
      };
      skip_back();
      if (end > 0 && source[end - 1] == ']') {
        constexpr std::size_t kLongestOptions = 512;  // bounds the cost of hostile texts
        const std::size_t from = end > kLongestOptions ? end - kLongestOptions : 0;
        std::string_view line = source.substr(from, end - from);
        line.remove_prefix(line.rfind('\n') + 1);
        const std::size_t open = line.find('[');
        if (open == line.npos) continue;
        end -= line.size() - open;
        skip_back();
      }
      std::size_t begin = end;
      while (begin > 0 && is_part(source[begin - 1])) --begin;
      heads_.emplace(source.substr(begin, end - begin));
    }
  }
  // Takes the longest name of a rule that matches; otherwise up to the first dot.
  std::string_view take_name() {
    const std::size_t begin = in_.at();
    const std::string_view whole =
        in_.take_while([](char c) { return is_gbnf_name_character(c) || c == '.'; });
    std::string_view name = whole;
    while (name.find('.') != name.npos && !heads_.contains(std::string(name))) {
      name = name.substr(0, name.rfind('.'));
    }
    in_.move_to(begin + name.size());
    return name;
  }
  // Takes the name of a rule if one begins here. Its options follow.
  std::optional<std::string_view> take_head() {
    const std::size_t begin = in_.at();
    const std::string_view name = take_name();
    skip_space();
    options_at_.reset();
    if (!name.empty() && in_.peek() == '[') {
      options_at_ = in_.at();
      // A "]" in a quoted value, as in capture="a]b", does not end the options.
      bool in_quotes = false;
      in_.take_while([&](char c) {
        in_quotes = in_quotes != (c == '"');
        return (in_quotes || c != ']') && c != '\n';
      });
      // Not closed on its line, so these are no options.
      if (!in_.take("]")) options_at_.reset();
      skip_space();
    }
    if (!name.empty() && in_.take("::=")) return name;
    in_.move_to(begin);
    return std::nullopt;
  }
  // Rules end where the next one begins and not at a line end, so each name at the outermost level
  // may be the head of another rule. Looking costs as much as the name and its options are long.
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
    RuleOptions options;
    if (options_at_) {
      // take_head() has only skipped the options, to see whether "::=" comes. Now they are read.
      const std::size_t body = in_.at();
      in_.move_to(*options_at_ + 1);
      options = read_options();
      if (error_) return;
      in_.move_to(body);
    }
    Name& name = name_of(*text, begin);
    if (name.is_defined) {
      return fail(in_.error_at(
          begin, "rule '" + std::string(*text) + "' is defined twice; join the two with |"));
    }
    name.is_defined = true;
    const RuleId rule = name.rule;
    groups_.assign(1, Group{begin, {}, {}, false});
    while (!error_ && read_item()) {
    }
    if (error_) return;
    if (groups_.size() > 1) {
      return fail(in_.error_at(groups_.back().opened_at, "this '(' is not closed"));
    }
    NodeId body = end_group();
    // The shortest texts first, then the limits: of `[lazy, max_chars=3]` the limit is for what
    // lazy leaves.
    if (options.is_lazy) body = add_shortest(rules_, body);
    if (options.max_chars) body = add_max_chars(rules_, body, *options.max_chars);
    if (options.max_tokens) body = add_max_tokens(rules_, body, *options.max_tokens);
    rules_.define(rule, body);
  }

  // [max_tokens=32, capture="answer", lazy]
  RuleOptions read_options() {
    RuleOptions options;
    do {
      skip_space();
      const std::size_t at = in_.at();
      const std::string_view key = in_.take_while(is_gbnf_name_character);
      skip_space();
      const bool has_value = in_.take("=");
      skip_space();
      if (key == "lazy" && !has_value) {
        options.is_lazy = true;
      } else if ((key == "max_tokens" || key == "max_chars") && has_value) {
        const auto number = in_.take_number();
        if (!number) fail("a limit is a number");
        (key == "max_chars" ? options.max_chars : options.max_tokens) = number;
      } else if (key == "capture" || key == "temperature" || key == "stop_capture" ||
                 key.starts_with("capture_hidden_")) {
        // They do not change which texts are read.
        if (in_.peek() == '"') {
          read_text();
        } else {
          in_.take_while([](char c) { return c != ',' && c != ']' && c != '\n'; });
        }
      } else {
        fail(
            in_.error_at(at,
                         "a rule has no option '" + std::string(key) +
                             "'; there are lazy, max_tokens=, max_chars=, capture and temperature=",
                         Errc::unsupported));
      }
      skip_space();
    } while (!error_ && in_.take(","));
    if (!in_.take("]")) fail("this list of options is not closed");
    return options;
  }

  // Closes the innermost group and returns its node. An alternative without items is the empty
  // text: `"a" | ` reads "a" or nothing.
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

  // Returns false where the rule ends.
  bool read_item() {
    skip_space();
    const char c = in_.peek();
    if (in_.is_at_end()) return false;
    if (is_gbnf_name_character(c)) {
      if (groups_.size() == 1 && is_at_head()) return false;
      const std::size_t at = in_.at();
      const std::string_view name = take_name();
      if (in_.peek() == '(' && !heads_.contains(std::string(name)) && is_macro(name)) {
        add(read_macro(name, at));
      } else {
        add(rules_.add(node::Rule{name_of(name, at).rule}));
      }
      return true;
    }
    switch (c) {
      case '"':
        add(rules_.literal(read_text()));
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
        groups_.push_back({in_.at(), {}, {}, in_.peek(1) == '='});
        in_.skip(groups_.back().is_behind ? 2 : 1);
        return true;
      case ')':
        if (groups_.size() == 1) {
          fail("this ')' closes no '('");
          return false;
        }
        in_.skip();
        {
          // What follows a rule is decided by the rules that refer to it. A look-ahead is a hint
          // for xgrammar's compiler and does not change which texts are read.
          const bool is_behind = groups_.back().is_behind;
          const NodeId node = end_group();
          if (!is_behind) add(node);
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

  // Reads the inside of "...".
  std::string read_text() {
    const std::size_t begin = in_.at();
    in_.skip();
    std::string bytes;
    while (!error_ && in_.peek() != '"') {
      if (in_.is_at_end()) {
        fail(in_.error_at(begin, "this '\"' is not closed"));
        break;
      }
      utf8::append(bytes, read_character());
    }
    in_.skip();
    return bytes;
  }

  // ---- Macros of xgrammar -----------------------------------------------------------------------

  // A macro and the method that makes its node from its arguments, which began at `at`.
  struct Macro {
    std::string_view name;
    NodeId (GbnfReader::*read)(const Arguments& arguments, std::size_t at);
  };
  static std::span<const Macro> macros() {
    static constexpr Macro kMacros[] = {
        {"Regex", &GbnfReader::regex_macro},
        {"Substring", &GbnfReader::substring_macro},
        {"TagDispatch", &GbnfReader::tag_dispatch_macro},
        {"Token", &GbnfReader::token_macro},
        {"ExcludeToken", &GbnfReader::exclude_token_macro},
        {"TokenTagDispatch", &GbnfReader::token_tag_dispatch_macro},
    };
    return kMacros;
  }
  static bool is_macro(std::string_view name) {
    return std::ranges::find(macros(), name, &Macro::name) != macros().end();
  }
  NodeId read_macro(std::string_view name, std::size_t at) {
    const Arguments arguments = read_arguments();
    if (error_) return 0;
    return (this->*std::ranges::find(macros(), name, &Macro::name)->read)(arguments, at);
  }
  NodeId fail_at(std::size_t at, std::string message, Errc code = Errc::invalid) {
    fail(in_.error_at(at, std::move(message), code));
    return 0;
  }

  // Reads `("<a>", rule, excludes=("x", "y"), loop_after_dispatch=false)` up to and with the last
  // ")". A comma may stand before it, as in Python's tuples of one.
  Arguments read_arguments() {
    Arguments arguments;
    in_.skip();
    skip_space();
    while (!error_ && !in_.take(")")) {
      const std::size_t begin = in_.at();
      const std::string_view key = in_.take_while(is_gbnf_name_character);
      skip_space();
      if (!key.empty() && in_.take("=")) {
        skip_space();
        arguments.named.emplace_back(std::string(key), read_argument(true));
      } else {
        in_.move_to(begin);
        arguments.list.push_back(read_argument(true));
      }
      skip_space();
      if (!in_.take(",") && in_.peek() != ')')
        fail("here must be ',' or ')', and is " + in_.here());
      skip_space();
    }
    return arguments;
  }
  // Tuples hold no tuples, so there is no depth to limit.
  Argument read_argument(bool may_be_tuple) {
    Argument argument{.at = in_.at()};
    if (in_.peek() == '"') {
      argument.kind = Argument::Kind::text;
      argument.text = read_text();
    } else if (is_digit(in_.peek())) {
      argument.number = in_.take_number().value_or(0);
    } else if (in_.peek() == '(' && may_be_tuple) {
      argument.kind = Argument::Kind::tuple;
      in_.skip();
      skip_space();
      while (!error_ && !in_.take(")")) {
        argument.parts.push_back(read_argument(false));
        skip_space();
        if (!in_.take(",") && in_.peek() != ')') fail("this '(' is not closed");
        skip_space();
      }
    } else if (const std::string_view name = take_name(); name == "true" || name == "false") {
      argument.kind = Argument::Kind::truth;
      argument.number = name == "true" ? 1 : 0;
    } else if (!name.empty()) {
      argument.kind = Argument::Kind::rule;
      argument.rule = rules_.add(node::Rule{name_of(name, argument.at).rule});
    } else {
      fail("here must be a text, a number, true, false, the name of a rule, or such in '(...)'");
    }
    return argument;
  }
  // Passes each named argument to `take`, which returns whether it is known and valid.
  template <class Take>
  void take_named(const Arguments& arguments, Take take) {
    for (const auto& [name, argument] : arguments.named) {
      if (error_ || take(name, argument)) continue;
      fail_at(argument.at, "the macro has no such argument '" + name + "'", Errc::unsupported);
    }
  }
  std::vector<std::string> texts_of(const std::vector<Argument>& list, bool may_be_empty) {
    std::vector<std::string> texts;
    for (const Argument& argument : list) {
      if (argument.kind != Argument::Kind::text || (argument.text.empty() && !may_be_empty)) {
        fail_at(argument.at, "here must be a text");
        break;
      }
      texts.push_back(argument.text);
    }
    return texts;
  }
  node::Token tokens_of(const std::vector<Argument>& list, bool is_negated) {
    node::Token token{.is_negated = is_negated};
    for (const Argument& argument : list) {
      if (argument.kind != Argument::Kind::number) fail_at(argument.at, "here must be a number");
      token.ids.push_back({argument.number, argument.number});
    }
    return token;
  }

  NodeId regex_macro(const Arguments& arguments, std::size_t at) {
    const std::vector<std::string> texts = texts_of(arguments.list, true);
    bool in_json = false;
    std::optional<std::string> flags;
    take_named(arguments, [&](std::string_view name, const Argument& argument) {
      if (name == "json_string" && argument.kind == Argument::Kind::truth) {
        in_json = argument.number == 1;
      } else if (name == "flags" && argument.kind == Argument::Kind::text) {
        flags = argument.text;
      } else {
        return false;
      }
      return true;
    });
    if (error_) return 0;
    if (texts.size() != 1) return fail_at(at, "Regex has one pattern");
    // Without flags a dot matches any character.
    std::string names = flags ? "" : "s";
    // The flag u says nothing: patterns are about Unicode anyway.
    for (const char flag : flags.value_or("")) {
      if (flag == 'i' || flag == 's') {
        names += flag;
      } else if (flag != 'u') {
        return fail_at(at, "there are the flags i, s and u");
      }
    }
    const auto pattern = add_pattern(rules_, texts[0], names);
    if (!pattern) return fail_at(at, pattern.error().message, pattern.error().code);
    const NodeId node = *pattern;
    if (!in_json) return node;
    // Characters that stand for themselves; texts that a JSON string must escape are not among
    // them.
    const NodeId plain = rules_.add(node::Characters{
        CodePointSet{{0x20, '"' - 1}, {'"' + 1, '\\' - 1}, {'\\' + 1, CodePointSet::kLast}}});
    const NodeId all = rules_.repeat(plain, 0, node::kUnbounded);
    return rules_.add(node::Lexeme{rules_.add(node::Both{{all, node}})});
  }
  NodeId substring_macro(const Arguments& arguments, std::size_t at) {
    constexpr std::size_t kMaxChunks = 10'000;
    const std::vector<std::string> chunks = texts_of(arguments.list, true);
    take_named(arguments, [](std::string_view, const Argument&) { return false; });
    if (chunks.size() > kMaxChunks) {
      return fail_at(at, "Substring has more than 10000 chunks", Errc::limit_exceeded);
    }
    return error_ ? 0 : add_substring(rules_, chunks);
  }
  NodeId token_macro(const Arguments& arguments, std::size_t at) {
    return token_of(arguments, at, false);
  }
  NodeId exclude_token_macro(const Arguments& arguments, std::size_t at) {
    return token_of(arguments, at, true);
  }
  NodeId token_of(const Arguments& arguments, std::size_t at, bool is_negated) {
    take_named(arguments, [](std::string_view, const Argument&) { return false; });
    if (arguments.list.empty()) return fail_at(at, "here must be the number of a token");
    return rules_.add(tokens_of(arguments.list, is_negated));
  }
  // Further arguments of two macros; some names are those of earlier releases.
  struct DispatchOptions {
    bool loops = true;
    bool may_end = true;
    std::vector<Argument> excludes;
    std::vector<Argument> ends;
  };
  // loop_after_dispatch=false ends the text after the first rule; stop_eos=false lets it end at a
  // stop_str only.
  DispatchOptions dispatch_options(const Arguments& arguments) {
    DispatchOptions options;
    take_named(arguments, [&](std::string_view name, const Argument& argument) {
      const bool is_truth = argument.kind == Argument::Kind::truth;
      const bool is_tuple = argument.kind == Argument::Kind::tuple;
      if (name == "loop_after_dispatch" && is_truth) {
        options.loops = argument.number == 1;
      } else if (name == "stop_eos" && is_truth) {
        options.may_end = argument.number == 1;
      } else if (name == "excludes" && is_tuple) {
        options.excludes = argument.parts;
      } else if (name == "stop_str" && is_tuple) {
        options.ends = argument.parts;
      } else if (name == "stop_str" && argument.kind == Argument::Kind::text) {
        options.ends = {argument};
      } else {
        return false;
      }
      return true;
    });
    return options;
  }
  template <class F>
  void for_each_pair(const Arguments& arguments, Argument::Kind first, F f) {
    for (const Argument& pair : arguments.list) {
      if (pair.kind != Argument::Kind::tuple || pair.parts.size() != 2 ||
          pair.parts[0].kind != first || pair.parts[1].kind != Argument::Kind::rule) {
        fail_at(pair.at, "here must be a trigger and the name of a rule in '(...)'");
        return;
      }
      f(pair.parts[0], pair.parts[1].rule);
    }
  }
  // TagDispatch(("<a>", rule), excludes=("x",)): free text without "<a>" and "x", and behind each
  // "<a>" the rule.
  NodeId tag_dispatch_macro(const Arguments& arguments, std::size_t at) {
    const DispatchOptions options = dispatch_options(arguments);
    Dispatch dispatch{.only_first = !options.loops};
    for_each_pair(arguments, Argument::Kind::text, [&](const Argument& trigger, NodeId rule) {
      if (trigger.text.empty()) fail_at(trigger.at, "a trigger is a text that is not empty");
      dispatch.ways.push_back({trigger.text, rule});
      dispatch.stops.push_back(trigger.text);
    });
    for (std::string& text : texts_of(options.excludes, false)) {
      dispatch.stops.push_back(std::move(text));
    }
    std::vector<NodeId> ends;
    if (options.may_end) ends.push_back(rules_.literal(""));
    for (std::string& text : texts_of(options.ends, false)) {
      dispatch.stops.push_back(text);
      ends.push_back(rules_.literal(std::move(text)));
    }
    if (error_) return 0;
    if (ends.empty()) return fail_at(at, "without stop_eos there must be a stop_str");
    if (std::string much = excess(dispatch); !much.empty()) {
      return fail_at(at, std::move(much), Errc::limit_exceeded);
    }
    // stop_str ends the free text and is part of the text, like a trigger without a rule.
    const NodeId all = add_dispatch(rules_, std::move(dispatch));
    return rules_.sequence({all, rules_.choice(std::move(ends))});
  }
  // The same with tokens by their numbers in the place of free text and triggers.
  NodeId token_tag_dispatch_macro(const Arguments& arguments, std::size_t) {
    const DispatchOptions options = dispatch_options(arguments);
    node::Token others = tokens_of(options.excludes, true);
    std::vector<NodeId> tags;
    for_each_pair(arguments, Argument::Kind::number, [&](const Argument& trigger, NodeId rule) {
      const node::Token token{{}, {{trigger.number, trigger.number}}, false};
      others.ids.push_back(token.ids[0]);
      tags.push_back(rules_.sequence({rules_.add(token), rule}));
    });
    if (error_) return 0;
    const NodeId text = rules_.repeat(rules_.add(std::move(others)), 0, node::kUnbounded);
    return add_dispatch(rules_, text, rules_.choice(std::move(tags)), false, !options.loops);
  }

  // ---- Characters -------------------------------------------------------------------------------

  // Reads [a-z], [^"], and escapes within them. [^] is every character, and [] is refused.
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
      // A "-" before the "]" stands for itself: [a-] is "a" and "-".
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
    constexpr std::string_view kSigns = "\\\"[]-^'/?$.*+(){}|";
    if (c != '\0' && kSigns.find(c) != kSigns.npos) return static_cast<unsigned char>(c);
    switch (c) {
      case '0':
        return 0;
      case 'a':
        return '\a';
      case 'b':
        return '\b';
      case 'e':
        return 0x1B;
      case 'f':
        return '\f';
      case 'v':
        return '\v';
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
      default:
        fail(in_.error_at(
            begin,
            "no such escape; there are \\n \\r \\t \\0 \\\\ \\\" \\[ \\] \\xFF \\uFFFF "
            "and \\U0010FFFF"));
        return 0;
    }
    if (!code || *code > CodePointSet::kLast || is_surrogate(*code)) {
      fail(in_.error_at(begin,
                        "this escape is no character: \\x has 2 hexadecimal digits, \\u has 4, \\U "
                        "has 8 and reaches U+10FFFF, without surrogates"));
      return 0;
    }
    return *code;
  }

  // Reads <[12]>, <think>, and !<...> for any other token.
  void read_token() {
    const std::size_t begin = in_.at();
    node::Token token{.is_negated = in_.take("!")};
    // The name of a token includes its brackets: <think> has the name "<think>".
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
      // {2} is both bounds; {2,} and {2,-1} have no upper one; {,5} has no lower one.
      const auto least = number();
      const bool is_range = in_.take(",");
      skip_space();
      const bool is_any = least && is_range && in_.take("-1");
      const auto most = is_any ? std::nullopt : is_range ? number() : least;
      skip_space();
      if (!in_.take("}") || (!least && !most)) {
        return fail(in_.error_at(begin, "a repetition is written {2}, {2,}, {2,5} or {,5}"));
      }
      min = least.value_or(0);
      max = most.value_or(node::kUnbounded);
      if (max < min) return fail(in_.error_at(begin, "the second number is less than the first"));
    }
    items.back() = rules_.repeat(items.back(), min, max);
  }

  // The first place in the text where a rule is used that is never defined, whatever the order in
  // the table.
  void check_names() {
    const Name* first = nullptr;  // the first in the text
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
  std::unordered_set<std::string> heads_;  // names of all rules
  std::optional<std::size_t> options_at_;  // of the rule whose name was taken last
  std::vector<Group> groups_;
  std::optional<Error> error_;
};

}  // namespace

Expected<NodeId> add_gbnf(Rules& rules, std::string_view source) {
  return GbnfReader(rules, source).read();
}

}  // namespace tenon::grammar
