#include "tenon/regex/syntax.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "tenon/base/utf8.h"
#include "tenon/regex/unicode.h"

namespace tenon::regex {
namespace {

using Kind = Node::Kind;

constexpr char32_t kNone = 0xFFFFFFFF;  // past the end of the pattern, or no code point

CodePointSet one(char32_t code_point) {
  return {{code_point, code_point}};
}

bool is_digit(char32_t c) {
  return c >= '0' && c <= '9';
}
bool is_letter(char32_t c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

int hex_value(char32_t c) {
  if (is_digit(c)) return static_cast<int>(c - '0');
  if (c >= 'a' && c <= 'f') return static_cast<int>(c - 'a' + 10);
  if (c >= 'A' && c <= 'F') return static_cast<int>(c - 'A' + 10);
  return -1;
}

// Reads the pattern in one loop with a stack of open groups, so that nested parentheses cannot
// exhaust the machine's stack. Only nested classes recurse, and ECMA-262 does not have them.
//
// Each group collects the nodes of its current sequence and its finished choices; a quantifier
// replaces the last node of the sequence. When the group ends, its choices become one node of the
// kind that the group has: plain, atomic or look. Flags ("(?i)") belong to a group, and are applied
// while reading: a set is closed under case, "." and "^" become sets and looks. So the tree has no
// flags, and constructs with the same meaning have the same nodes.
//
// Sets are stored once each in Syntax::sets, because a property of Unicode has hundreds of ranges
// and large patterns name the same ones again and again. The three dialects differ in single rules,
// which ask is_ecma() or the dialect where they apply. The first error is kept with its place, and
// ends the loop.
class Parser {
 public:
  Parser(std::string_view pattern, Dialect dialect, Budget& budget)
      : pattern_(pattern), dialect_(dialect), budget_(budget) {}

  // One pass with a stack of open groups on the heap, so the nesting of a pattern costs no stack.
  // In Oniguruma's dialect `^` and `$` are about lines.
  Expected<Syntax> parse() {
    const std::size_t valid = utf8::valid_prefix(pattern_);
    if (valid < pattern_.size()) {
      at_ = valid;
      fail("not UTF-8");
    }
    flags_.multiline = dialect_ == Dialect::oniguruma;
    groups_.push_back({.flags = flags_});
    while (!failure_ && at_ < pattern_.size()) {
      if (!budget_.step() || !budget_.take_bytes(sizeof(Node))) return Unexpected(budget_.error());
      read_term();
    }
    if (!failure_ && groups_.size() > 1) fail("a group is not closed");
    if (failure_) return Unexpected(*std::move(failure_));
    syntax_.root = finish_choice();
    if (failure_) return Unexpected(*std::move(failure_));
    return std::move(syntax_);
  }

 private:
  struct Flags {
    bool ignore_case = false;
    bool multiline = false;
    bool dot_all = false;
  };
  struct Group {
    enum class Form : std::uint8_t { plain, atomic, look };
    Form form = Form::plain;
    bool is_negative = false;
    bool is_behind = false;
    Flags flags;  // the flags outside of it
    std::vector<NodeId> choices;
    std::vector<NodeId> sequence;
    bool can_repeat = false;  // whether the last of the sequence can
  };

  bool is_ecma() const { return dialect_ == Dialect::ecma262; }

  // ---- reading ----------------------------------------------------------------------------------

  char32_t peek() const { return peek_at(at_); }
  char32_t peek_at(std::size_t at) const {
    return at < pattern_.size() ? utf8::decode(pattern_.substr(at)).code_point : kNone;
  }
  char32_t next() {
    const utf8::Decoded decoded = utf8::decode(pattern_.substr(at_));
    if (decoded.length == 0) return kNone;
    at_ += decoded.length;
    return decoded.code_point;
  }
  bool skip(std::string_view text) {
    if (!pattern_.substr(at_).starts_with(text)) return false;
    at_ += text.size();
    return true;
  }

  void fail(std::string_view what, Errc code = Errc::invalid) {
    if (failure_) return;
    failure_ = Error{code, "pattern: " + std::string(what) + " at byte " + std::to_string(at_)};
  }

  // ---- the tree ---------------------------------------------------------------------------------

  // Adds a node and finds what it has from its parts, which are there already.
  NodeId add(Node node) {
    for (const NodeId part : node.parts) {
      const Node& inner = syntax_.nodes[part];
      node.depth = std::max(node.depth, inner.depth + 1);
      node.has_position |= inner.has_position;
      node.is_ordered |= inner.is_ordered;
    }
    node.has_position |=
        node.kind == Kind::begin || node.kind == Kind::end || node.kind == Kind::look;
    node.is_ordered |= node.kind == Kind::atomic;
    if (node.depth > Syntax::kMaxDepth) {
      fail("groups in more than " + std::to_string(Syntax::kMaxDepth) + " groups",
           Errc::limit_exceeded);
    }
    syntax_.nodes.push_back(std::move(node));
    return static_cast<NodeId>(syntax_.nodes.size() - 1);
  }
  NodeId add_set(CodePointSet set) {
    if (!budget_.step(set.ranges().size())) failure_ = budget_.error();
    const auto next = static_cast<std::uint32_t>(syntax_.sets.size());
    const auto [found, is_new] = set_numbers_.try_emplace(set, next);
    if (is_new) syntax_.sets.push_back(std::move(set));
    return add({.kind = Kind::set, .set = found->second});
  }
  NodeId add_look(NodeId part, bool is_negative, bool is_behind) {
    return add(
        {.kind = Kind::look, .is_negative = is_negative, .is_behind = is_behind, .parts = {part}});
  }
  NodeId add_sequence(std::vector<NodeId> parts) {
    if (parts.size() == 1) return parts.front();
    return add({.kind = Kind::sequence, .parts = std::move(parts)});
  }
  NodeId add_choice(std::vector<NodeId> parts) {
    if (parts.size() == 1) return parts.front();
    return add({.kind = Kind::choice, .parts = std::move(parts)});
  }

  void append(NodeId node, bool can_repeat = true) {
    groups_.back().sequence.push_back(node);
    groups_.back().can_repeat = can_repeat;
  }
  // Like append_set() of a set with this one character, without looking for a set of ranges.
  void append_character(char32_t c) {
    if (c >= characters_.size() || flags_.ignore_case) return append_set(one(c));
    if (!budget_.step()) failure_ = budget_.error();
    if (characters_[c] == 0) {
      syntax_.sets.push_back(one(c));
      characters_[c] = static_cast<std::uint32_t>(syntax_.sets.size());
    }
    append(add({.kind = Kind::set, .set = characters_[c] - 1}));
  }
  void append_set(CodePointSet set) {
    append(add_set(flags_.ignore_case ? case_closed(set) : std::move(set)));
  }

  void end_sequence() {
    Group& group = groups_.back();
    group.choices.push_back(add_sequence(std::exchange(group.sequence, {})));
    group.can_repeat = false;
  }
  NodeId finish_choice() {
    end_sequence();
    return add_choice(std::move(groups_.back().choices));
  }

  // ---- terms ------------------------------------------------------------------------------------

  // `{` is a quantifier only if numbers follow in the right form; otherwise it is a character, as
  // in ECMA-262's Annex B.
  void read_term() {
    const char32_t c = peek();
    switch (c) {
      case '|':
        ++at_;
        return end_sequence();
      case '(':
        return open_group();
      case ')':
        return close_group();
      case '^':
        ++at_;
        return append_assertion(flags_.multiline ? line_begin() : text_begin());
      case '$':
        ++at_;
        return append_assertion(flags_.multiline ? line_end() : text_end());
      case '*':
      case '+':
      case '?':
        return read_quantifier();
      case '{':
        if (bounds_at(at_)) return read_quantifier();
        ++at_;
        return append_character(c);
      case '[':
        ++at_;
        return append(add_set(read_class()));
      case '.':
        ++at_;
        return append(add_set(dot()));
      case '\\':
        ++at_;
        return read_escape();
      default:
        next();
        return append_character(c);
    }
  }

  // Repeating an assertion repeats nothing; ECMA-262 forbids it, except for looks.
  void append_assertion(NodeId node) { append(node, !is_ecma()); }

  NodeId text_begin() { return add({.kind = Kind::begin}); }
  NodeId text_end() { return add({.kind = Kind::end}); }
  CodePointSet line_breaks() const {
    if (is_ecma()) return {{'\n', '\n'}, {'\r', '\r'}, {0x2028, 0x2029}};
    return one('\n');
  }
  NodeId line_begin() { return add_look(add_set(line_breaks().complemented()), true, true); }
  NodeId line_end() { return add_look(add_set(line_breaks().complemented()), true, false); }
  CodePointSet dot() const {
    return flags_.dot_all ? CodePointSet::all() : line_breaks().complemented();
  }

  // \b: a word character stands before and none follows, or none stands before and one follows.
  NodeId word_boundary(bool is_negative) {
    const NodeId word = add_set(word_characters());
    const NodeId end =
        add_sequence({add_look(word, false, true), add_look(word, !is_negative, false)});
    const NodeId begin =
        add_sequence({add_look(word, true, true), add_look(word, is_negative, false)});
    return add_choice({end, begin});
  }

  // ---- groups -----------------------------------------------------------------------------------

  void open_group() {
    if (skip("(?#") && !is_ecma()) {
      at_ = std::min(pattern_.find(')', at_), pattern_.size());
      if (!skip(")")) fail("a comment is not closed");
      return;
    }
    Group group{.flags = flags_};
    // The longer openings come first: "(?<=" and "(?<!" before "(?<".
    if (skip("(?:")) {
    } else if (skip("(?=")) {
      group.form = Group::Form::look;
    } else if (skip("(?!")) {
      group.form = Group::Form::look;
      group.is_negative = true;
    } else if (skip("(?<=")) {
      group.form = Group::Form::look;
      group.is_behind = true;
    } else if (skip("(?<!")) {
      group.form = Group::Form::look;
      group.is_behind = group.is_negative = true;
    } else if (!is_ecma() && skip("(?>")) {
      group.form = Group::Form::atomic;
    } else if (skip("(?<") || (!is_ecma() && skip("(?P<"))) {
      read_group_name();
    } else if (skip("(?")) {
      if (!read_flags()) return;
    } else {
      ++at_;
    }
    groups_.push_back(std::move(group));
    if (!budget_.take_bytes(sizeof(Group))) failure_ = budget_.error();
  }

  // Names are not kept: they are for captures and back references only.
  void read_group_name() {
    const std::size_t begin = at_;
    while (peek() != '>' && peek() != kNone && peek() != ')') next();
    if (at_ == begin || !skip(">")) fail("a group's name is not closed");
  }

  // "i-s:" opens a group with other flags. "i)", which ECMA-262 does not have, changes them for the
  // rest of the enclosing group. False if no group was opened.
  bool read_flags() {
    Flags flags = flags_;
    bool value = true;
    while (true) {
      switch (peek()) {
        case '-':
          if (!std::exchange(value, false)) fail("unknown group");
          break;
        case 'i':
          flags.ignore_case = value;
          break;
        case 'm':
          // In Oniguruma, m lets "." match line breaks.
          (dialect_ == Dialect::oniguruma ? flags.dot_all : flags.multiline) = value;
          break;
        case 's':
          flags.dot_all = value;
          break;
        // Accepted outside ECMA-262; patterns are about Unicode anyway.
        case 'u':
          if (!is_ecma()) break;
          [[fallthrough]];
        default:
          fail("unknown group");
          return false;
        case ')':
          if (is_ecma()) fail("flags without a group");
          ++at_;
          flags_ = flags;
          return false;
        case ':':
          ++at_;
          flags_ = flags;
          return true;
      }
      if (failure_) return false;
      ++at_;
    }
  }

  void close_group() {
    if (groups_.size() == 1) return fail("a group is closed that was not opened");
    ++at_;
    const NodeId inner = finish_choice();
    const Group group = std::move(groups_.back());
    groups_.pop_back();
    flags_ = group.flags;
    switch (group.form) {
      case Group::Form::plain:
        return append(inner);
      case Group::Form::atomic:
        return append(add({.kind = Kind::atomic, .parts = {inner}}));
      case Group::Form::look:
        return append(add_look(inner, group.is_negative, group.is_behind));
    }
  }

  // ---- quantifiers ------------------------------------------------------------------------------

  struct Bounds {
    std::uint32_t min = 0;
    std::uint32_t max = Syntax::kUnbounded;
    std::size_t end = 0;  // where the quantifier ends in the pattern
  };

  // A number that is too large becomes the greatest count, so "{99999999999}" is a repetition that
  // reaches a limit, and no small one.
  std::optional<std::uint32_t> count_at(std::size_t& at) const {
    if (!is_digit(peek_at(at))) return std::nullopt;
    std::uint64_t count = 0;
    for (; is_digit(peek_at(at)); ++at) {
      count = std::min<std::uint64_t>(count * 10 + (peek_at(at) - '0'), Syntax::kUnbounded - 1);
    }
    return static_cast<std::uint32_t>(count);
  }

  // Reads "{2}", "{2,}", "{2,3}", and outside ECMA-262 also "{,3}".
  std::optional<Bounds> bounds_at(std::size_t at) const {
    ++at;
    Bounds bounds;
    const std::optional<std::uint32_t> min = count_at(at);
    if (!min && (is_ecma() || peek_at(at) != ',')) return std::nullopt;
    bounds.min = min.value_or(0);
    if (peek_at(at) == ',') {
      ++at;
      const std::optional<std::uint32_t> max = count_at(at);
      if (!min && !max) return std::nullopt;
      if (max) bounds.max = *max;
    } else {
      bounds.max = bounds.min;
    }
    if (peek_at(at) != '}') return std::nullopt;
    bounds.end = at + 1;
    return bounds;
  }

  void read_quantifier() {
    Group& group = groups_.back();
    if (!group.can_repeat) return fail("nothing to repeat");
    const bool is_braced = peek() == '{';
    Bounds bounds{.end = at_ + 1};
    if (peek() == '+') bounds.min = 1;
    if (peek() == '?') bounds.max = 1;
    if (is_braced) bounds = bounds_at(at_).value_or(bounds);
    if (bounds.min > bounds.max) return fail("a repetition's bounds are out of order");
    at_ = bounds.end;
    const bool is_lazy = skip("?");
    const bool is_possessive =
        !is_lazy && !is_ecma() && !(is_braced && dialect_ == Dialect::oniguruma) && skip("+");
    NodeId node = add({.kind = Kind::repeat,
                       .is_lazy = is_lazy,
                       .min = bounds.min,
                       .max = bounds.max,
                       .parts = {group.sequence.back()}});
    if (is_possessive) node = add({.kind = Kind::atomic, .parts = {node}});
    group.sequence.back() = node;
    // "a**" is an error in ECMA-262; elsewhere the repetition is repeated.
    group.can_repeat = !is_ecma();
  }

  // ---- escapes ----------------------------------------------------------------------------------

  // Reads what follows a backslash outside a class.
  void read_escape() {
    const char32_t c = peek();
    if (c == 'b' || c == 'B') {
      ++at_;
      return append_assertion(word_boundary(c == 'B'));
    }
    // The texts of a back reference are no regular language.
    if (c == 'k' || (c >= '1' && c <= '9')) return fail("a back reference", Errc::unsupported);
    if (!is_ecma() && (c == 'A' || c == 'z' || c == 'Z')) {
      ++at_;
      if (c == 'A') return append_assertion(text_begin());
      if (c == 'z') return append_assertion(text_end());
      // \Z also stands before a line feed at the end of the text.
      const NodeId last_break = add_sequence({add_set(one('\n')), text_end()});
      return append_assertion(add_choice({text_end(), add_look(last_break, false, false)}));
    }
    if (auto set = read_set_escape()) return append_set(*std::move(set));
    const char32_t code_point = read_character_escape();
    if (!failure_) append_set(one(code_point));
  }

  // The set of \d, \w, \s, \p{...} and their negations in capitals; nothing if another escape
  // stands here.
  std::optional<CodePointSet> read_set_escape() {
    const char32_t c = peek();
    CodePointSet set;
    switch (c) {
      case 'd':
      case 'D':
        set = is_ecma() ? CodePointSet{{'0', '9'}} : named("Nd");
        break;
      case 'w':
      case 'W':
        set = word_characters();
        break;
      case 's':
      case 'S':
        set = is_ecma() ? CodePointSet{{'\t', '\r'},     {' ', ' '},       {0xA0, 0xA0},
                                       {0x1680, 0x1680}, {0x2000, 0x200A}, {0x2028, 0x2029},
                                       {0x202F, 0x202F}, {0x205F, 0x205F}, {0x3000, 0x3000},
                                       {0xFEFF, 0xFEFF}}
                        : named("White_Space");
        break;
      case 'h':
      case 'H':
        if (is_ecma()) return std::nullopt;
        set = {{'0', '9'}, {'A', 'F'}, {'a', 'f'}};
        break;
      case 'p':
      case 'P':
        ++at_;
        return read_property(c == 'P');
      default:
        return std::nullopt;
    }
    ++at_;
    return c < 'a' ? set.complemented() : set;
  }

  static CodePointSet named(std::string_view property) {
    const auto set = characters_with(property);
    return set ? *set : CodePointSet();
  }
  // UTS 18, annex C, is used outside ECMA-262; Oniguruma leaves the joiners out.
  CodePointSet word_characters() const {
    if (is_ecma()) return {{'0', '9'}, {'A', 'Z'}, {'_', '_'}, {'a', 'z'}};
    CodePointSet set = named("Alphabetic");
    for (const char* property : {"M", "Nd", "Pc"}) set = set.united(named(property));
    return dialect_ == Dialect::oniguruma ? set : set.united(named("Join_Control"));
  }

  // Reads what follows "\p": "{L}", "{Script=Greek}"; outside ECMA-262 also "L" and "{^L}".
  CodePointSet read_property(bool is_negative) {
    std::string_view name;
    if (skip("{")) {
      const std::size_t end = pattern_.find('}', at_);
      if (end == std::string_view::npos) {
        fail("a property's name is not closed");
        return {};
      }
      name = pattern_.substr(at_, end - at_);
    } else if (!is_ecma() && is_letter(peek())) {
      name = pattern_.substr(at_, 1);
    }
    const std::size_t end = at_ + name.size() + (pattern_[at_ - 1] == '{' ? 1 : 0);
    if (!is_ecma() && name.starts_with('^')) {
      name.remove_prefix(1);
      is_negative = !is_negative;
    }
    const std::size_t equals = std::min(name.find('='), name.size());
    const std::string_view value = name.substr(std::min(equals + 1, name.size()));
    const auto set = characters_with(name.substr(0, equals), value);
    if (name.empty() || set == nullptr) {
      fail("an unknown property");
      return {};
    }
    at_ = end;
    return is_negative ? set->complemented() : *set;
  }

  char32_t read_character_escape() {
    const char32_t c = next();
    switch (c) {
      case 't':
        return '\t';
      case 'n':
        return '\n';
      case 'v':
        return '\v';
      case 'f':
        return '\f';
      case 'r':
        return '\r';
      case '0':
        if (!is_digit(peek())) return 0;
        break;
      case 'a':
        if (!is_ecma()) return 7;
        break;
      case 'e':
        if (!is_ecma()) return 27;
        break;
      case 'c':
        if (is_letter(peek())) return next() % 32;
        break;
      case 'x':
        return read_hex(2);
      case 'u':
        return read_unicode_escape();
      default:
        if (c != kNone && !is_letter(c) && !is_digit(c)) return c;
        break;
    }
    // The error names the letter of the escape, which is one byte.
    if (c != kNone) --at_;
    fail(c == kNone ? "a backslash at the end" : "an unknown escape");
    return kNone;
  }

  // Reads exactly `digits` digits, or "{...}" (not after "\x" in ECMA-262).
  char32_t read_hex(int digits) {
    const bool is_braced = (digits == 4 || !is_ecma()) && skip("{");
    char32_t value = 0;
    int read = 0;
    for (; (is_braced || read < digits) && hex_value(peek()) >= 0; ++read) {
      value = std::min<char32_t>(value * 16 + static_cast<char32_t>(hex_value(next())), 0x110000);
    }
    if (value > CodePointSet::kLast || (is_braced ? read == 0 || !skip("}") : read < digits)) {
      fail("not a hexadecimal code point");
      return kNone;
    }
    return value;
  }

  // Two escaped surrogates are one character.
  char32_t read_unicode_escape() {
    const char32_t high = read_hex(4);
    if (high < 0xD800 || high > 0xDBFF || !pattern_.substr(at_).starts_with("\\u")) return high;
    const std::size_t before = std::exchange(at_, at_ + 2);
    const char32_t low = hex_value(peek()) >= 0 ? read_hex(4) : kNone;
    if (low >= 0xDC00 && low <= 0xDFFF) return 0x10000 + ((high - 0xD800) << 10) + (low - 0xDC00);
    at_ = before;
    return high;
  }

  // ---- classes ----------------------------------------------------------------------------------

  // Reads what follows "[". Outside ECMA-262 classes nest, and "&&" intersects.
  CodePointSet read_class() {
    const Budget::Level level(budget_);
    if (!level || ++class_depth_ > kMaxClassDepth) {
      fail("classes in too many classes", Errc::limit_exceeded);
      return {};
    }
    const bool is_negative = skip("^");
    CodePointSet result = CodePointSet::all();
    std::vector<CodePointSet::Range> ranges;  // since the last "&&"
    const auto take = [&] {
      const CodePointSet set(std::exchange(ranges, {}));
      result = result.intersected(flags_.ignore_case ? case_closed(set) : set);
    };
    // In Oniguruma a "]" that comes first is a literal; in ECMA-262 "[]" is the empty set.
    if (!is_ecma() && skip("]")) ranges.push_back({']', ']'});
    while (!failure_ && !skip("]")) {
      if (!budget_.step()) {
        failure_ = budget_.error();
      } else if (at_ == pattern_.size()) {
        fail("a class is not closed");
      } else if (!is_ecma() && skip("&&")) {
        take();
      } else if (!is_ecma() && skip("[:")) {
        unite(ranges, read_posix_class());
      } else if (!is_ecma() && skip("[")) {
        unite(ranges, read_class());
      } else {
        read_class_item(ranges);
      }
    }
    --class_depth_;
    take();
    return is_negative ? result.complemented() : result;
  }

  // A property has hundreds of ranges but is written in five characters, so its ranges count as
  // steps.
  void unite(std::vector<CodePointSet::Range>& ranges, const CodePointSet& set) {
    if (!budget_.take_bytes(set.ranges().size_bytes())) failure_ = budget_.error();
    ranges.insert(ranges.end(), set.ranges().begin(), set.ranges().end());
  }

  CodePointSet read_posix_class() {
    const bool is_negative = skip("^");
    const std::size_t end = pattern_.find(":]", at_);
    const std::string_view name =
        end == std::string_view::npos ? std::string_view() : pattern_.substr(at_, end - at_);
    CodePointSet set;
    if (name == "punct") {
      set = named("P").united(named("S"));
    } else if (name == "space") {
      set = named("White_Space");
    } else if (name == "alpha") {
      set = named("Alphabetic");
    } else if (name == "digit") {
      set = named("Nd");
    } else if (name == "alnum") {
      set = named("Alphabetic").united(named("Nd"));
    } else if (name == "upper" || name == "lower") {
      set = named(name == "upper" ? "Uppercase" : "Lowercase");
    } else {
      fail("an unknown class name", Errc::unsupported);
      return {};
    }
    at_ = end + 2;
    return is_negative ? set.complemented() : set;
  }

  // Reads a set, a character or a range. "[\w-.]" contains "-", as in Annex B.
  void read_class_item(std::vector<CodePointSet::Range>& ranges) {
    const std::optional<char32_t> first = read_class_atom(ranges);
    // "[a-]" and, outside ECMA-262, "[a-[b]]" have no range.
    const bool is_range = peek() == '-' && peek_at(at_ + 1) != ']' && peek_at(at_ + 1) != kNone &&
                          (is_ecma() || !pattern_.substr(at_ + 1).starts_with("["));
    if (!first || !is_range || failure_) {
      if (first) ranges.push_back({*first, *first});
      return;
    }
    ++at_;
    const std::optional<char32_t> last = read_class_atom(ranges);
    if (!last) {
      ranges.push_back({*first, *first});
      ranges.push_back({'-', '-'});
    } else if (*last < *first) {
      fail("a range is out of order");
    } else {
      ranges.push_back({*first, *last});
    }
  }

  // Reads a character. Nothing if it was a set, which has been added to `ranges`.
  std::optional<char32_t> read_class_atom(std::vector<CodePointSet::Range>& ranges) {
    if (!skip("\\")) return next();
    // In a class \b is the backspace.
    if (skip("b")) return 8;
    if (skip("-")) return '-';
    if (const auto set = read_set_escape()) {
      unite(ranges, *set);
      return std::nullopt;
    }
    return read_character_escape();
  }

  static constexpr int kMaxClassDepth = 50;

  std::string_view pattern_;
  Dialect dialect_;
  Budget& budget_;
  std::size_t at_ = 0;
  Flags flags_;
  std::vector<Group> groups_;  // open ones, the whole pattern first
  int class_depth_ = 0;
  Syntax syntax_;
  std::map<CodePointSet, std::uint32_t> set_numbers_;  // indices in syntax_.sets
  // Of ASCII: 1 + index in syntax_.sets; 0: not used yet.
  std::array<std::uint32_t, 128> characters_{};
  std::optional<Error> failure_;
};

}  // namespace

Expected<Syntax> parse(std::string_view pattern, Dialect dialect, Budget& budget) {
  return Parser(pattern, dialect, budget).parse();
}

}  // namespace tenon::regex
