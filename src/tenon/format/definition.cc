#include "tenon/format/definition.h"

#include <algorithm>
#include <cctype>
#include <initializer_list>
#include <optional>
#include <span>
#include <tuple>
#include <utility>

#include "tenon/base/toml.h"
#include "tenon/format/read_back.h"
#include "tenon/format/space.h"
#include "tenon/json/value.h"

// Compiles a definition (TOML, docs/formats.md) to the tables of definition.h, in three steps.
//
// First the keys are read: TableReader reads one table, keeps the first error with its place, and
// refuses keys that were not read. parse_pattern() splits a pattern into literals, white space and
// slots. Then the parts are checked against each other (check_ functions): which slots a call
// needs, where a field ends, how a call begins in running text.
//
// Then link() compiles the tables. Each distinct literal gets a number, all of them become one
// automaton, and for each syntax it is found how a call begins (start_of) and ends (marks_of).
// Syntaxes that begin with the same text are split so that they share a literal
// (split_shared_openers), and those with the same head share its reading (shares_head). The same
// function links a format with the syntaxes of its fallbacks.
//
// Markers may still not work together: one may end inside another, or begin a call where none was
// meant. So nested_markers() looks for such pairs, and at last example calls are written and read
// back (why_unreadable).

namespace tenon::format {
namespace {

constexpr std::size_t kMaxLiterals = 64;  // in a definition
// Together with the forms of other formats.
constexpr std::size_t kMaxLinked = LiteralSet::kMax - 1;
// Bytes from which on a marker is taken not to occur in text by chance.
constexpr std::size_t kStrongSize = 4;
constexpr std::size_t kMaxQuote = 64;  // bytes of string_quote
// The length of a marker. The automaton can number twice that, for all literals together.
constexpr std::size_t kMaxMarker = 256;
// The length of a list. Definitions also come from models' own files, and linking compares all
// pairs.
constexpr std::size_t kMaxItems = 64;
constexpr std::string_view kTooLong = "has a marker that is too long";
constexpr std::string_view kTooMany = "has more than 64 of them";

/// Reads one table, keeps the first error, and refuses keys that were not read.
class TableReader {
 public:
  /// `position` is the table's place, for errors about missing keys.
  TableReader(const toml::Document& document, const toml::Table& table, toml::Position position,
              std::optional<Error>& error)
      : document_(document), table_(table), position_(position), error_(error) {}
  TableReader(const TableReader&) = delete;
  TableReader& operator=(const TableReader&) = delete;

  void read(std::string_view key, std::string& value) {
    if (const toml::Value* found = find(key)) {
      if (found->if_string() == nullptr) return fail(found->position(), key, "must be a string");
      value = *found->if_string();
    }
  }
  /// Reads a string that occurs in model output.
  void read_marker(std::string_view key, std::string& value) {
    read(key, value);
    if (value.size() > kMaxMarker) fail(key, kTooLong);
  }
  void read(std::string_view key, bool& value) {
    if (const toml::Value* found = find(key)) {
      if (found->if_boolean() == nullptr) {
        return fail(found->position(), key, "must be true or false");
      }
      value = *found->if_boolean();
    }
  }
  void read(std::string_view key, std::size_t& value, std::size_t least, std::size_t most) {
    if (const toml::Value* found = find(key)) {
      const std::int64_t* number = found->if_integer();
      if (number == nullptr || *number < static_cast<std::int64_t>(least) ||
          *number > static_cast<std::int64_t>(most)) {
        return fail(
            found->position(), key,
            "must be an integer from " + std::to_string(least) + " to " + std::to_string(most));
      }
      value = static_cast<std::size_t>(*number);
    }
  }
  void read(std::string_view key, std::vector<std::string>& value) {
    const toml::Value* found = find(key);
    if (found == nullptr) return;
    const toml::Array* items = found->if_array();
    if (items == nullptr) return fail(found->position(), key, "must be a list of strings");
    value.clear();
    for (const toml::Value& item : *items) {
      const std::string* text = item.if_string();
      if (text == nullptr || text->empty()) {
        return fail(item.position(), key, "must be a list of strings that are not empty");
      }
      if (text->size() > kMaxMarker) return fail(item.position(), key, kTooLong);
      if (value.size() == kMaxItems) return fail(item.position(), key, kTooMany);
      value.push_back(*text);
    }
  }
  void read(std::string_view key, Pattern& value);
  /// In patterns read from now on, `word` replaces `${each}`.
  void set_each(std::string word) { each_ = std::move(word); }

  /// Calls `read_table(reader)` for the table `key`, if it exists.
  template <class ReadTable>
  void table(std::string_view key, ReadTable&& read_table) {
    if (const toml::Value* found = find(key))
      read_as_table(*found, key, "must be a table", read_table);
  }
  /// Calls it for each table of a list.
  template <class ReadTable>
  void tables(std::string_view key, ReadTable&& read_table) {
    const toml::Value* found = find(key);
    if (found == nullptr) return;
    const std::string what = "must be [[" + std::string(key) + "]]";
    if (found->if_array() == nullptr) return fail(found->position(), key, what);
    std::size_t count = 0;
    for (const toml::Value& item : *found->if_array()) {
      if (++count > kMaxItems) return fail(item.position(), key, kTooMany);
      read_as_table(item, key, what, read_table);
    }
  }

  [[nodiscard]] bool has(std::string_view key) const { return table_.find(key) != nullptr; }
  void finish() {
    for (const toml::Entry& entry : table_.entries()) {
      if (std::find(known_.begin(), known_.end(), entry.key) == known_.end()) {
        if (std::exchange(misses_key_, false)) error_.reset();  // probably this key, misspelt
        fail(entry.value.position(), entry.key, "is not known here; there are " + known_keys());
      }
    }
  }
  void fail(std::string_view key, std::string_view what) {
    const toml::Value* found = table_.find(key);
    if (found == nullptr && !error_) misses_key_ = true;
    fail(found != nullptr ? found->position() : position_, key, what);
  }
  /// The same for an item of the list `key`.
  void fail(std::string_view key, std::size_t item, std::string_view what) {
    fail((*table_.find(key)->if_array())[item].position(), key, what);
  }

 private:
  const toml::Value* find(std::string_view key) {
    if (std::ranges::find(known_, key) == known_.end()) known_.push_back(key);
    return table_.find(key);
  }
  template <class ReadTable>
  void read_as_table(const toml::Value& value, std::string_view key, std::string_view what,
                     ReadTable&& read_table) {
    if (value.if_table() == nullptr) return fail(value.position(), key, what);
    TableReader reader(document_, *value.if_table(), value.position(), error_);
    read_table(reader);
    reader.finish();
  }
  [[nodiscard]] std::string known_keys() const {
    std::string keys;
    for (const std::string_view key : known_) keys += (keys.empty() ? "" : ", ") + std::string(key);
    return keys;
  }
  void fail(toml::Position position, std::string_view key, std::string_view what) {
    if (error_) return;
    error_ = document_.error(position, "'" + std::string(key) + "' " + std::string(what));
  }

  const toml::Document& document_;
  const toml::Table& table_;
  toml::Position position_;
  std::optional<Error>& error_;
  std::vector<std::string_view> known_;
  std::optional<std::string> each_;
  bool misses_key_ = false;  // the error is about a missing key
};

// The slots that a definition may name. `again` and `attributes` are not among them: name_again()
// and with_attributes() make them.
struct SlotName {
  std::string_view name;
  Piece::Kind kind;
};
constexpr SlotName kSlots[] = {
    {"name", Piece::Kind::name},       {"id", Piece::Kind::id},
    {"skip", Piece::Kind::skip},       {"word", Piece::Kind::word},
    {"index", Piece::Kind::index},     {"arguments", Piece::Kind::arguments},
    {"object", Piece::Kind::object},   {"keywords", Piece::Kind::keywords},
    {"members", Piece::Kind::members}, {"parameters", Piece::Kind::parameters},
    {"key", Piece::Kind::key},         {"type", Piece::Kind::type},
    {"value", Piece::Kind::value},     {"content", Piece::Kind::content},
    {"json", Piece::Kind::json}};

bool is_slot(const Piece& piece) {
  return piece.kind != Piece::Kind::literal && piece.kind != Piece::Kind::space;
}

/// Splits `text` into literals, runs of white space and `${slot}`s; `$$` is a dollar sign. If a
/// slot does not exist, returns nothing and sets `why`.
/// "<tool>\n${name}" gives a literal, white space and a slot. `$_` is a space that must come, as
/// part of a literal.
std::optional<Pattern> parse_pattern(std::string_view text, std::string& why) {
  Pattern pattern;
  const auto add = [&pattern](Piece::Kind kind, std::string_view bytes) {
    if (pattern.empty() || pattern.back().kind != kind || is_slot(pattern.back())) {
      pattern.push_back({kind, {}});
    }
    pattern.back().text += bytes;
  };
  while (!text.empty()) {
    if (text.starts_with("$$") || text.starts_with("$_")) {
      add(Piece::Kind::literal, text[1] == '$' ? "$" : " ");
      text.remove_prefix(2);
    } else if (text.starts_with("${")) {
      const std::size_t end = text.find('}');
      if (end == std::string_view::npos) {
        why = "has a '${' without its '}'";
        return std::nullopt;
      }
      const std::string_view inside = text.substr(2, end - 2);
      if (inside == "-") {  // white space may come here, but is not written
        add(Piece::Kind::space, {});
        text.remove_prefix(end + 1);
        continue;
      }
      const std::size_t colon = std::min(inside.find(':'), inside.size());
      const std::string_view name = inside.substr(0, colon);
      const auto* slot = std::find_if(std::begin(kSlots), std::end(kSlots),
                                      [name](const SlotName& s) { return s.name == name; });
      if (slot == std::end(kSlots)) {
        why = "has the unknown slot '${" + std::string(inside) + "}'";
        return std::nullopt;
      }
      pattern.push_back(
          {slot->kind, std::string(inside.substr(std::min(colon + 1, inside.size())))});
      text.remove_prefix(end + 1);
    } else {
      const bool is_space = kSpace.find(text.front()) != std::string_view::npos;
      const std::size_t end =
          is_space ? text.find_first_not_of(kSpace) : text.find_first_of(" \t\r\n$", 1);
      const std::size_t size = std::min(end, text.size());
      add(is_space ? Piece::Kind::space : Piece::Kind::literal, text.substr(0, size));
      text.remove_prefix(size);
    }
  }
  return pattern;
}

// `${each}` stands for one of the alternatives of a [[syntax]] with `each`, and is replaced before
// the pattern is parsed.
void TableReader::read(std::string_view key, Pattern& value) {
  if (find(key) == nullptr) return;
  std::string text;
  read(key, text);
  constexpr std::string_view kEach = "${each}";
  for (std::size_t at = 0; each_ && (at = text.find(kEach, at)) != std::string::npos;) {
    text.replace(at, kEach.size(), *each_);
    at += each_->size();
  }
  std::string why;
  if (auto pattern = parse_pattern(text, why)) {
    value = *std::move(pattern);
    for (const Piece& piece : value) {
      if (piece.text.size() > kMaxMarker) return fail(key, kTooLong);
    }
  } else {
    fail(key, why);
  }
}

// Keys of name, arguments and id must differ, or the parser could not tell which member it reads.
void read_object(TableReader& table, ObjectKeys& keys) {
  table.read("name", keys.name);
  table.read("arguments", keys.arguments);
  table.read("id", keys.id);
  table.read("wrapper", keys.wrapper);
  table.read("name_is_key", keys.name_is_key);
  table.read("writes_id", keys.writes_id);
  table.read("id_first", keys.id_first);
  if (keys.name.empty()) table.fail("name", "must have at least one key");
  if (keys.arguments.empty()) table.fail("arguments", "must have at least one key");
  if (keys.writes_id && keys.id.empty()) table.fail("id", "must have at least one key");
  // A given value wins over a default.
  const auto share = [](const std::vector<std::string>& a, const std::vector<std::string>& b) {
    return std::ranges::find_first_of(a, b) != a.end();
  };
  if (!keys.name_is_key && share(keys.arguments, keys.name)) {
    table.fail(table.has("arguments") ? "arguments" : "name",
               "cannot have a key of both the name and the arguments");
  }
  if (table.has("id") &&
      (share(keys.id, keys.arguments) || (!keys.name_is_key && share(keys.id, keys.name)))) {
    table.fail("id", "cannot have a key of the name or the arguments");
  }
}

std::size_t count(const Pattern& pattern, std::initializer_list<Piece::Kind> kinds) {
  return static_cast<std::size_t>(
      std::count_if(pattern.begin(), pattern.end(), [kinds](const Piece& piece) {
        return std::find(kinds.begin(), kinds.end(), piece.kind) != kinds.end();
      }));
}

constexpr auto kOfResult = {Piece::Kind::content, Piece::Kind::json};

void refuse_slots(TableReader& table,
                  std::initializer_list<std::pair<std::string_view, const Pattern&>> patterns) {
  for (const auto& [key, pattern] : patterns) {
    if (std::any_of(pattern.begin(), pattern.end(), is_slot)) table.fail(key, "cannot have slots");
  }
}

// How results are written where the template has no place for them. A result without a rule for
// errors is written like any other.
void read_result(TableReader& table, ResultRule& rule) {
  table.read("role", rule.role);
  table.read("open", rule.open);
  table.read("result", rule.result);
  table.read("error", rule.error);
  table.read("separator", rule.separator);
  table.read("close", rule.close);
  table.read("merge", rule.merge);
  if (rule.role.empty()) table.fail("role", "must not be empty");
  refuse_slots(table, {{"open", rule.open}, {"separator", rule.separator}, {"close", rule.close}});
  if (!table.has("error")) rule.error = rule.result;
  for (const auto& [key, pattern] :
       {std::pair<std::string_view, const Pattern&>{"result", rule.result},
        {"error", rule.error}}) {
    const auto slots = std::count_if(pattern.begin(), pattern.end(), is_slot);
    const std::size_t names = count(pattern, {Piece::Kind::name, Piece::Kind::id});
    if (count(pattern, kOfResult) != 1 || static_cast<std::size_t>(slots) != names + 1) {
      table.fail(key, "must have ${content} or ${json} once, and may have ${name} and ${id}");
    }
  }
}

/// Whether `byte` begins or separates values that are not strings.
bool begins_otherwise(char byte) {
  return std::isalnum(static_cast<unsigned char>(byte)) != 0 || is_space(byte) ||
         std::string_view("{}[],:-").find(byte) != std::string_view::npos;
}

bool is_body(const Piece& piece) {
  using Kind = Piece::Kind;
  return piece.kind == Kind::object || piece.kind == Kind::arguments ||
         piece.kind == Kind::keywords || piece.kind == Kind::members ||
         piece.kind == Kind::parameters;
}

/// Checks which slots the call has, and how often.
void check_slots(TableReader& table, const Syntax& syntax, bool id_holds_name) {
  using Kind = Piece::Kind;
  if (count(syntax.call, {Kind::key, Kind::type, Kind::value}) > 0) {
    table.fail("call", "cannot have slots of 'parameter'");
  }
  if (count(syntax.call, kOfResult) > 0) table.fail("call", "cannot have slots of [result]");
  const std::size_t names =
      count(syntax.call, {Kind::name}) + (id_holds_name ? count(syntax.call, {Kind::id}) : 0);
  const std::size_t objects = count(syntax.call, {Kind::object});
  const std::size_t arguments =
      count(syntax.call, {Kind::arguments, Kind::keywords, Kind::members, Kind::parameters});
  if (!(objects == 1 && names == 0 && arguments == 0) &&
      !(objects == 0 && names == 1 && arguments == 1)) {
    table.fail("call",
               "must have either ${object}, or ${name} and one of ${arguments}, ${keywords}, "
               "${members}, ${parameters}");
  }
  if ((count(syntax.call, {Kind::members}) > 0) == syntax.string_quote.empty()) {
    table.fail("string_quote", "and ${members} in 'call' must be given together");
  }
  const auto body = std::ranges::find_if(syntax.call, is_body);
  if (body != syntax.call.end() && std::any_of(std::next(body), syntax.call.end(), is_slot)) {
    table.fail("call", "cannot have slots behind the arguments");
  }
}

/// Checks how the call begins, alone and in its section.
void check_beginning(TableReader& table, const Syntax& syntax) {
  using Kind = Piece::Kind;
  Pattern open = syntax.open;
  std::erase_if(open, [](const Piece& piece) { return piece.kind == Kind::word; });
  refuse_slots(table, {{"open", open}, {"separator", syntax.separator}, {"close", syntax.close}});
  if (!syntax.open.empty() && syntax.close.empty() && syntax.separator.empty()) {
    table.fail("open", "begins a section: 'close' or 'separator' must say how it goes on");
  }
  if (syntax.open.empty() && !syntax.close.empty()) {
    table.fail("close", "ends a section that no 'open' begins; what ends a call stands in 'call'");
  }
  if (!syntax.open.empty() && count(syntax.open, {Kind::literal}) == 0) {
    table.fail("open", "must have a literal");
  }
  const auto first = std::find_if(syntax.call.begin(), syntax.call.end(),
                                  [](const Piece& p) { return p.kind != Kind::space; });
  const bool begins_with_name =
      first != syntax.call.end() && first == syntax.call.begin() && first->kind == Kind::name;
  if (first != syntax.call.end() && first->kind != Kind::literal && first->kind != Kind::object &&
      (syntax.open.empty() || !begins_with_name)) {
    table.fail("call", "must begin with a literal or with ${object}, or with ${name} after 'open'");
  }
  if (begins_with_name && (syntax.separator.empty() || syntax.separator.front().text.empty())) {
    table.fail("separator", "must be given where calls begin with ${name}");
  }
}

/// Checks that a field ends at what follows it: a literal, or the arguments. A word may also end at
/// the brace of an object.
void check_fields(TableReader& table, const Pattern& call) {
  using Kind = Piece::Kind;
  for (std::size_t i = 0; i + 1 < call.size(); ++i) {
    const Kind kind = call[i].kind;
    std::size_t next = i + 1;
    while (next + 1 < call.size() && call[next].kind == Kind::space) ++next;
    const bool is_field = kind == Kind::name || kind == Kind::id || kind == Kind::skip ||
                          kind == Kind::word || kind == Kind::index || kind == Kind::again;
    const bool ends =
        call[next].kind == Kind::literal ||
        (is_body(call[next]) && (call[next].kind != Kind::object || kind == Kind::word));
    if (is_field && !ends) {
      table.fail("call", "must have a literal after ${name}, ${id}, ${skip}, ${word} and ${index}");
    }
  }
}

/// Each `${name}` after the first is `again`.
void name_again(Pattern& call) {
  bool has_name = false;
  for (Piece& piece : call) {
    if (piece.kind != Piece::Kind::name) continue;
    if (std::exchange(has_name, true)) piece.kind = Piece::Kind::again;
  }
}

// Reads the keys first and checks them together afterwards, since most conditions are about two
// keys.
void read_syntax(TableReader& table, Syntax& syntax, bool id_holds_name) {
  std::string hold = "name";
  table.read("open", syntax.open);
  table.read("separator", syntax.separator);
  table.read("close", syntax.close);
  table.read("call", syntax.call);
  name_again(syntax.call);
  table.read("parameter", syntax.parameter);
  table.read_marker("quote_open", syntax.quote_open);
  table.read_marker("quote_close", syntax.quote_close);
  if (syntax.quote_open.empty() != syntax.quote_close.empty()) {
    table.fail("quote_open", "and 'quote_close' must be given together");
  }
  table.read("string_quote", syntax.string_quote);
  if (syntax.string_quote.size() > kMaxQuote) table.fail("string_quote", "is too long");
  if (!syntax.string_quote.empty() && begins_otherwise(syntax.string_quote.front())) {
    table.fail("string_quote", "cannot begin as a number, a word or a bracket does");
  }
  table.read_marker("item", syntax.item);
  table.read("entities", syntax.entities);
  table.read("hold", hold);
  table.read("section_optional", syntax.section_optional);
  table.read("needs_tools", syntax.needs_tools);
  table.read("parameter_end_optional", syntax.parameter_end_optional);
  table.read("borrowed", syntax.borrowed);
  table.read("written", syntax.written);
  table.table("object", [&syntax](TableReader& keys) { read_object(keys, syntax.object); });
  if (hold != "name" && hold != "call") table.fail("hold", "must be \"name\" or \"call\"");
  syntax.holds_call = hold == "call";

  check_beginning(table, syntax);
  check_slots(table, syntax, id_holds_name);
  Pattern whole = syntax.open;
  whole.insert(whole.end(), syntax.call.begin(), syntax.call.end());
  check_fields(table, whole);
}

/// Checks `${parameters}`: it ends at the literal after it, and a parameter is a literal, key, ...,
/// value, literal.
void check_parameters(TableReader& table, const Syntax& syntax) {
  using Kind = Piece::Kind;
  const auto is_literal = [](const Piece& piece) { return piece.kind == Kind::literal; };
  const auto slot = std::find_if(syntax.call.begin(), syntax.call.end(),
                                 [](const Piece& p) { return p.kind == Kind::parameters; });
  if (slot == syntax.call.end()) {
    if (!syntax.parameter.empty()) table.fail("parameter", "is for calls with ${parameters}");
    return;
  }
  if (!std::any_of(slot, syntax.call.end(), is_literal)) {
    table.fail("call", "must have a literal after ${parameters}");
  }
  const Pattern& pattern = syntax.parameter;
  if (pattern.empty() || !is_literal(pattern.front())) {
    return table.fail("parameter", "must be given and begin with a literal");
  }
  if (count(pattern, {Kind::key}) == 0 || count(pattern, {Kind::value}) != 1 ||
      count(pattern, {Kind::type}) > 1 ||
      count(pattern, {Kind::name, Kind::id, Kind::skip, Kind::word, Kind::index, Kind::arguments,
                      Kind::object, Kind::keywords, Kind::members, Kind::parameters}) > 0) {
    return table.fail("parameter", "must have ${key} and ${value}, and may have ${type}");
  }
  const auto type = std::ranges::find(pattern, Kind::type, &Piece::kind);
  if (type != pattern.end() && type->text.find('|') == std::string::npos) {
    return table.fail("parameter", "must say ${type:word for text|word for others}");
  }
  const auto value = std::find_if(pattern.begin(), pattern.end(),
                                  [](const Piece& p) { return p.kind == Kind::value; });
  const Pattern before(pattern.begin(), value);
  const Pattern behind(value, pattern.end());
  if (count(before, {Kind::key}) != 1 || count(behind, {Kind::key}) > 1 ||
      count(behind, {Kind::type}) > 0) {
    return table.fail("parameter",
                      "must have one ${key} before ${value}, and may have it once more behind");
  }
  for (std::size_t i = 0; i < pattern.size(); ++i) {
    if (!is_slot(pattern[i])) continue;
    std::size_t next = i + 1;
    while (next < pattern.size() && pattern[next].kind == Kind::space) ++next;
    if (next == pattern.size() || !is_literal(pattern[next])) {
      return table.fail("parameter", "must have a literal after each slot");
    }
  }
}

/// The other form in which models write `syntax`: the table's keys replace those of `syntax`.
Syntax read_form(TableReader& table, const Syntax& syntax) {
  using Kind = Piece::Kind;
  Syntax form = syntax;
  table.read("open", form.open);
  table.read("separator", form.separator);
  table.read("close", form.close);
  table.read("call", form.call);
  name_again(form.call);
  table.read("parameter", form.parameter);
  table.read_marker("before", form.before);
  table.read_marker("behind", form.behind);
  std::string layout = "asked";
  table.read("layout", layout);
  if (layout != "asked" && layout != "compact" && layout != "any") {
    table.fail("layout", "must be \"asked\", \"compact\" or \"any\"");
  }
  form.layout = layout == "any"       ? Layout::any
                : layout == "compact" ? Layout::compact
                                      : Layout::asked;
  refuse_slots(table, {{"open", form.open}, {"separator", form.separator}, {"close", form.close}});
  const std::size_t bodies = count(
      form.call, {Kind::object, Kind::arguments, Kind::keywords, Kind::members, Kind::parameters});
  if (bodies != 1 || count(form.call, {Kind::key, Kind::type, Kind::value}) > 0) {
    table.fail("call",
               "must have one of ${object}, ${arguments}, ${keywords}, ${members} and "
               "${parameters}");
  }
  check_parameters(table, form);
  return form;
}

/// Whether `name` can be typed, and written in a list of names, without quotes.
bool is_name(std::string_view name) {
  return !name.empty() && std::ranges::all_of(name, [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_' || c == '-' || c == '.';
  });
}

void check_names(TableReader& table, const FormatInfo& info) {
  constexpr std::string_view kRule = "must be small letters, digits, '_', '-' and '.'";
  if (!table.has("name")) return table.fail("name", "must be given");
  if (!is_name(info.name)) table.fail("name", kRule);
  for (std::size_t i = 0; i < info.aliases.size(); ++i) {
    if (!is_name(info.aliases[i])) table.fail("aliases", i, kRule);
  }
}

/// The text of the literals of `pattern`, without the slots.
/// A slot becomes a null byte, so that the texts around it do not join to a marker that is not
/// there.
std::string text_of(const Pattern& pattern) {
  std::string text;
  for (const Piece& piece : pattern) text += is_slot(piece) ? std::string(1, '\0') : piece.text;
  return text;
}

/// Every text that `format` reads or writes as it is.
std::vector<std::string> texts_of(const Format& format) {
  std::vector<std::string> texts = {format.prompt_end, text_of(format.between), format.head.end,
                                    format.head.channel};
  for (const auto* list :
       {&format.reasoning_open, &format.reasoning_close, &format.drop, &format.content_open,
        &format.content_close, &format.stop, &format.head.begin}) {
    texts.insert(texts.end(), list->begin(), list->end());
  }
  for (const Syntax& syntax : format.syntaxes) {
    for (const Pattern* pattern :
         {&syntax.open, &syntax.separator, &syntax.close, &syntax.call, &syntax.parameter}) {
      texts.push_back(text_of(*pattern));
    }
    texts.insert(texts.end(), {syntax.quote_open, syntax.quote_close, syntax.string_quote});
  }
  for (const Pattern* pattern : {&format.result.open, &format.result.result, &format.result.error,
                                 &format.result.separator, &format.result.close}) {
    texts.push_back(text_of(*pattern));
  }
  return texts;
}

void check_special(TableReader& table, const Format& format) {
  const std::vector<std::string> texts = texts_of(format);
  for (std::size_t i = 0; i < format.special.size(); ++i) {
    const auto has_it = [&marker = format.special[i]](const std::string& text) {
      return text.find(marker) != std::string::npos;
    };
    if (std::ranges::none_of(texts, has_it)) {
      table.fail("special", i, "names '" + format.special[i] + "', which stands nowhere else here");
    }
  }
}

/// The texts after which an answer continues, or after which it ends only at their own end
/// (`may_end`).
struct Inner {
  std::string text;
  bool may_end = false;
};
// The texts of the definition that come in the middle of an answer. One that contains a marker
// which ends the turn could never be written whole.
std::vector<Inner> inner_texts(const Format& format) {
  std::vector<Inner> texts{{format.prompt_end}, {text_of(format.between)}};
  for (const auto* list : {&format.reasoning_open, &format.reasoning_close, &format.content_open}) {
    for (const std::string& text : *list) texts.push_back({text});
  }
  for (const Syntax& syntax : format.syntaxes) {
    for (const Pattern* pattern : {&syntax.open, &syntax.separator, &syntax.parameter}) {
      texts.push_back({text_of(*pattern)});
    }
    for (const std::string* text :
         {&syntax.quote_open, &syntax.quote_close, &syntax.string_quote}) {
      texts.push_back({*text});
    }
    texts.push_back({text_of(syntax.call), syntax.close.empty()});
    texts.push_back({text_of(syntax.close), true});
  }
  return texts;
}

// An answer could not continue past it.
void check_stop(TableReader& table, const Format& format) {
  const std::vector<Inner> texts = inner_texts(format);
  for (std::size_t i = 0; i < format.stop.size(); ++i) {
    const std::string& marker = format.stop[i];
    const bool goes_on = std::ranges::any_of(texts, [&marker](const Inner& inner) {
      const std::size_t at = inner.text.find(marker);
      return at != std::string::npos && !(inner.may_end && at + marker.size() == inner.text.size());
    });
    if (goes_on) {
      table.fail("stop", i, "names '" + marker + "', behind which answers of this format go on");
    }
  }
}

void read_head(TableReader& table, HeadRule& rule) {
  table.read("begin", rule.begin);
  table.read("begin_first", rule.begin_first);
  table.read_marker("end", rule.end);
  table.read_marker("channel", rule.channel);
  table.read_marker("recipient", rule.recipient);
  table.read("reasoning", rule.reasoning);
  table.read("content", rule.content);
  table.read("readers", rule.readers);
  table.read("calls", rule.calls);
  if (rule.begin.empty() && rule.begin_first.empty()) {
    table.fail("begin", "or 'begin_first' must be given");
  }
  if (rule.end.empty()) table.fail("end", "must be given");
  if (rule.calls && rule.recipient.empty()) table.fail("recipient", "must be given");
}

/// Both read the same calls.
bool reads_alike(const Syntax& a, const Syntax& b) {
  const auto parts = [](const Syntax& s) {
    return std::tie(s.open, s.separator, s.close, s.call, s.parameter, s.quote_open, s.quote_close,
                    s.string_quote, s.item, s.entities, s.object.name, s.object.arguments,
                    s.object.id, s.object.wrapper, s.object.name_is_key, s.section_optional,
                    s.needs_tools, s.holds_call);
  };
  return parts(a) == parts(b);
}

// "<|channel|>${word:commentary} to=functions.${name} <|constrain|>json<|message|>${arguments}":
// the head holds recipient and name, and its end comes before the arguments.
bool has_head(const Format& format) {
  if (format.syntaxes.empty()) return false;
  const Pattern& call = format.syntaxes.front().call;
  const auto body = std::ranges::find_if(call, is_body);
  const Pattern head(call.begin(), body);
  const std::string text = text_of(head);
  return count(head, {Piece::Kind::name}) == 1 &&
         text.find(format.head.recipient) != std::string::npos && text.ends_with(format.head.end);
}

// In the order of the tables in docs/formats.md. What a table must be by itself is checked where it
// is read; the last part checks what depends on several tables.
void read_definition(TableReader& table, Format& format) {
  table.read("name", format.info.name);
  table.read("aliases", format.info.aliases);
  table.read("summary", format.summary);
  table.read("parallel", format.info.parallel);
  table.read("special", format.special);
  table.read("stop", format.stop);
  table.table("id", [&format](TableReader& id) {
    std::string prefix;
    id.read_marker("prefix", prefix);
    if (id.has("prefix")) format.id.prefix = prefix;
    id.read("length", format.id.length, 1, 64);
    id.read_marker("name_before", format.id.name_before);
    id.read_marker("name_after", format.id.name_after);
    id.read("holds_name", format.id.holds_name);
  });
  table.table("reasoning", [&format](TableReader& reasoning) {
    reasoning.read("open", format.reasoning_open);
    reasoning.read("close", format.reasoning_close);
    reasoning.read("ends_with_call", format.call_ends_reasoning);
    reasoning.read("starts_open", format.reasoning_starts_open);
    reasoning.read("anywhere", format.reasoning_anywhere);
    if (format.reasoning_open.empty()) reasoning.fail("open", "must be given");
    if (format.reasoning_close.empty()) reasoning.fail("close", "must be given");
  });
  table.table("content", [&format](TableReader& content) {
    content.read("drop", format.drop);
    content.read("open", format.content_open);
    content.read("close", format.content_close);
    content.read("between", format.between);
    refuse_slots(content, {{"between", format.between}});
    if (content.has("between") && count(format.between, {Piece::Kind::literal}) != 1) {
      content.fail("between", "must be one marker, with white space around it at most");
    }
  });
  table.table("head", [&format](TableReader& head) { read_head(head, format.head); });
  table.read_marker("prompt_end", format.prompt_end);
  table.tables("syntax", [&format, tables = std::size_t{0}](TableReader& syntax) mutable {
    // With `each = ["a", "b"]` the table becomes two syntaxes, which keep the number of the table.
    std::vector<std::string> each;
    syntax.read("each", each);
    const bool is_one = !syntax.has("each");
    for (std::size_t i = 0; i < (is_one ? 1 : each.size()); ++i) {
      if (!is_one) syntax.set_each(each[i]);
      Syntax read;
      read.table = tables;
      read_syntax(syntax, read, format.id.holds_name);
      check_parameters(syntax, read);
      const auto is_same = [&read](const Syntax& other) { return reads_alike(read, other); };
      if (std::ranges::any_of(format.syntaxes, is_same)) {
        syntax.fail("call", "is read by a [[syntax]] above, which begins, goes on and ends alike");
      }
      syntax.tables("form",
                    [&](TableReader& form) { format.forms.push_back(read_form(form, read)); });
      if (read.written) format.forms.push_back(read);
      format.syntaxes.push_back(std::move(read));
    }
    ++tables;
  });
  table.read("fallback", format.fallback);
  table.read("fallback_order", format.fallback_order, 1, kMaxItems);
  table.table("result", [&format](TableReader& result) { read_result(result, format.result); });
  table.tables("detect", [&format](TableReader& detect) {
    DetectRule& rule = format.detect.emplace_back();
    detect.read("all", rule.all);
    detect.read("none", rule.none);
    detect.read("model", rule.model);
    detect.read("tool_template", rule.tool_template);
    if (int{!rule.all.empty()} + int{!rule.model.empty()} + int{rule.tool_template} != 1) {
      detect.fail("all", "or 'model' or 'tool_template' must be given, one of them");
    }
    if (!rule.none.empty() && rule.all.empty()) detect.fail("none", "stands beside 'all'");
  });
  check_names(table, format.info);
  check_special(table, format);
  check_stop(table, format);
  if (format.head.calls && !has_head(format)) {
    table.fail("head",
               "with 'calls' needs a first [[syntax]] that has its 'recipient' before "
               "${name} and its 'end' before the arguments");
  }
  if (!format.syntaxes.empty() && format.syntaxes.front().borrowed) {
    table.fail("syntax", "begins with one that is borrowed");
  }
  if (format.fallback_order > 0 && format.syntaxes.empty()) {
    table.fail("fallback_order", "needs a [[syntax]]");
  }
  if (format.fallback_order > 0 && format.id.holds_name) {
    table.fail("fallback_order",
               "cannot stand beside id.holds_name: ids are read as the model's own format says");
  }
}

/// The end of the part that CallReader follows: after the last slot, and after the literal that
/// ends `${parameters}`.
Pattern::const_iterator body_end(const Pattern& pattern) {
  auto end = std::find_if(pattern.rbegin(), pattern.rend(), is_slot).base();
  if (end == pattern.begin() || std::prev(end)->kind != Piece::Kind::parameters) return end;
  while (end != pattern.end() && end->kind != Piece::Kind::literal) ++end;
  return end == pattern.end() ? end : std::next(end);
}

/// The name in `name="`; empty if `piece` does not begin an attribute in this way.
std::string attribute_name(const Piece& piece) {
  if (piece.kind != Piece::Kind::literal || !piece.text.ends_with("=\"")) return {};
  const std::string name = piece.text.substr(0, piece.text.size() - 2);
  const bool is_plain = std::ranges::all_of(name, [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '-' || c == ':';
  });
  return is_plain ? name : std::string();
}

/// `pattern` for reading: where it has ` name="${slot}" ...>`, attributes are read by their names.
Pattern with_attributes(const Pattern& pattern) {
  Pattern read;
  for (std::size_t i = 0; i < pattern.size(); ++i) {
    // ` name="${key}">` is white space, `name="`, the slot, `">`: four pieces for each attribute.
    // The last one holds the tag's end behind its quote.
    Piece head{Piece::Kind::attributes, {}, {}};
    std::size_t at = i;
    while (at + 3 < pattern.size() && pattern[at].kind == Piece::Kind::space) {
      const std::string name = attribute_name(pattern[at + 1]);
      const Piece& slot = pattern[at + 2];
      const Piece& behind = pattern[at + 3];
      const bool is_one = !name.empty() && is_slot(slot) && behind.kind == Piece::Kind::literal &&
                          behind.text.starts_with('"');
      if (!is_one) break;
      head.attributes.push_back({name, slot.kind});
      at += 4;
      if (behind.text.size() == 1) continue;
      head.text = behind.text.substr(1);
      break;
    }
    if (head.text.empty()) {
      read.push_back(pattern[i]);
    } else {
      read.push_back(std::move(head));
      i = at - 1;
    }
  }
  return read;
}

/// The call up to its arguments, which may differ in another syntax.
Pattern head_of(const Syntax& syntax) {
  const auto body = std::ranges::find(syntax.call, Piece::Kind::parameters, &Piece::kind);
  return {syntax.call.begin(), body};
}

/// `other` is not read by parameters, and begins like `syntax` up to them.
bool shares_head(const Syntax& syntax, const Syntax& other) {
  if (std::ranges::find(syntax.call, Piece::Kind::parameters, &Piece::kind) == syntax.call.end() ||
      &syntax == &other || syntax.open != other.open) {
    return false;
  }
  Pattern head = head_of(syntax);
  while (!head.empty() && head.back().kind == Piece::Kind::space) head.pop_back();
  // Without the last literal, which may be longer in the other syntax.
  if (!head.empty() && head.back().kind == Piece::Kind::literal) head.pop_back();
  if (head.size() >= other.call.size() ||
      !std::ranges::equal(head, std::span(other.call).first(head.size()))) {
    return false;
  }
  // The first byte distinguishes JSON from a marker.
  std::size_t behind = head.size() + 1;
  while (behind < other.call.size() && other.call[behind].kind == Piece::Kind::space) ++behind;
  return behind < other.call.size() && other.call[behind].kind == Piece::Kind::literal &&
         other.call[behind].text.front() == syntax.parameter.front().text.front();
}

/// Collects literals. Each has one number, however often it is used.
class Linker {
 public:
  explicit Linker(Format& format) : format_(format) {}

  /// Beyond the limit one more is kept, which makes link() fail.
  LiteralId id_of(std::string_view text) {
    const auto found = std::find(format_.literals.begin(), format_.literals.end(), text);
    if (found == format_.literals.end()) {
      if (format_.literals.size() > kMaxLinked) return 0;
      format_.literals.emplace_back(text);
      return static_cast<LiteralId>(format_.literals.size() - 1);
    }
    return static_cast<LiteralId>(found - format_.literals.begin());
  }
  LiteralSet set_of(const std::vector<std::string>& texts) {
    LiteralSet set;
    for (const std::string& text : texts) set |= LiteralSet::of(id_of(text));
    return set;
  }

  /// How `pattern` begins in running text. It ends with its last slot.
  Start start_of(Pattern pattern) {
    Start start;
    std::string space;
    if (pattern.front().kind == Piece::Kind::space) {
      space = pattern.front().text;
      pattern.erase(pattern.begin());
    }
    if (pattern.front().kind == Piece::Kind::object) {
      start.keeps_literal = true;
      start.literals = set_of({"{"});
    } else {
      start.literals = set_of({pattern.front().text});
      // "<tool_call>" and "\n<tool_call>": the white space belongs to the marker if it comes, and
      // is not content then.
      if (!space.empty()) start.literals |= set_of({space + pattern.front().text});
      pattern.erase(pattern.begin());
    }
    pattern.erase(body_end(pattern), pattern.end());
    start.rest = with_attributes(pattern);
    return start;
  }

  /// The literals after the last slot, each with the white space after it.
  std::vector<Mark> marks_of(const Pattern& pattern) {
    std::vector<Mark> marks;
    for (auto piece = body_end(pattern); piece != pattern.end(); ++piece) {
      if (piece->kind == Piece::Kind::literal) {
        marks.push_back({id_of(piece->text), {}});
      } else if (!marks.empty()) {
        marks.back().space = piece->text;
      }
    }
    return marks;
  }

 private:
  Format& format_;
};

/// The first literal of `syntax`, if it begins with one.
Piece* first_literal(Syntax& syntax) {
  Pattern& pattern = syntax.open.empty() ? syntax.call : syntax.open;
  for (Piece& piece : pattern) {
    if (piece.kind == Piece::Kind::literal) return &piece;
    if (piece.kind != Piece::Kind::space) return nullptr;
  }
  return nullptr;
}

bool is_fence(std::string_view text) {
  return text.size() >= 3 && text.find_first_not_of('`') == std::string_view::npos;
}

/// If one syntax begins with `[TOOL_CALLS]` and another with `[TOOL_CALLS][`, the second literal is
/// split. Then both begin with the same literal, and the text after it decides.
void split_shared_openers(std::vector<Syntax>& syntaxes) {
  for (Syntax& syntax : syntaxes) {
    Piece* literal = first_literal(syntax);
    if (literal == nullptr) continue;
    for (Syntax& other : syntaxes) {
      const Piece* shorter = first_literal(other);
      if (shorter == nullptr || shorter->text.size() >= literal->text.size() ||
          (shorter->text.size() < kStrongSize && !is_fence(shorter->text)) ||
          !literal->text.starts_with(shorter->text)) {
        continue;
      }
      Pattern& pattern = syntax.open.empty() ? syntax.call : syntax.open;
      const std::size_t size = shorter->text.size();
      Piece rest{Piece::Kind::literal, literal->text.substr(size)};
      literal->text.resize(size);
      pattern.insert(pattern.begin() + (literal - pattern.data()) + 1, std::move(rest));
      break;
    }
  }
}

}  // namespace

// The last opener or closer in the prompt decides; without one, the format says where its
// models begin.
bool starts_in_reasoning(const Format& format, std::string_view prompt_tail) {
  // nullopt is less than any place, so a prompt with an opener alone has opened it.
  std::optional<std::size_t> opened;
  std::optional<std::size_t> closed;
  const auto last_of = [&](const std::vector<std::string>& markers,
                           std::optional<std::size_t>& at) {
    for (const std::string& marker : markers) {
      const std::size_t found = prompt_tail.rfind(marker);
      if (found != std::string_view::npos) at = std::max(at, std::optional(found));
    }
  };
  last_of(format.reasoning_open, opened);
  last_of(format.reasoning_close, closed);
  return opened ? opened >= closed : !closed && format.reasoning_starts_open;
}

namespace {

/// The parser decides at once on a literal that it finds, so where one marker ends, another must
/// end or begin. Returns a pair of markers for which that is not so. Short ones are left to
/// why_unreadable().
std::optional<std::pair<std::string, std::string>> nested_markers(const Format& format) {
  for (const std::string& inner : format.literals) {
    for (const std::string& outer : format.literals) {
      // Strictly inside: neither the beginning nor the end of the longer marker.
      const std::size_t at = outer.find(inner, 1);
      if (inner.size() >= kStrongSize && at != std::string::npos &&
          at + inner.size() < outer.size()) {
        return std::pair(inner, outer);
      }
    }
  }
  return std::nullopt;
}

/// See Syntax::bracket.
char bracket_of(const Pattern& call) {
  char bracket = '\0';
  for (const Piece& piece : call) {
    using Kind = Piece::Kind;
    if (piece.kind == Kind::keywords) bracket = ')';
    if (piece.kind == Kind::object || piece.kind == Kind::arguments || piece.kind == Kind::members)
      bracket = '}';
  }
  return bracket;
}

/// See Syntax::guard; empty if the markers have no token in common.
std::string guard_of(const Format& format, const Syntax& syntax) {
  const auto literal_behind = [](const Pattern& pattern, Piece::Kind slot) {
    auto piece = std::ranges::find(pattern, slot, &Piece::kind);
    while (piece != pattern.end() && piece->kind != Piece::Kind::literal) ++piece;
    return piece == pattern.end() ? std::string_view() : std::string_view(piece->text);
  };
  if (syntax.parameter.empty()) return {};
  const std::string_view markers[] = {syntax.parameter.front().text,
                                      literal_behind(syntax.parameter, Piece::Kind::value),
                                      literal_behind(syntax.call, Piece::Kind::parameters)};
  for (const std::string& token : format.special) {
    if (std::ranges::all_of(markers,
                            [&](std::string_view marker) { return marker.starts_with(token); })) {
      return token;
    }
  }
  return {};
}

std::string text_of(Pattern::const_iterator from, Pattern::const_iterator to) {
  std::string text;
  for (; from != to; ++from) text += from->text;
  return text;
}

/// See Syntax::value_breaks, Syntax::call_ends and Syntax::call_breaks.
/// For `<tool_call>\n<function=${name}>\n${parameters}</function>\n</tool_call>` with the separator
/// "\n" the value_breaks are "</function>\n</tool_call>", "</tool_call>\n<tool_call>" and
/// "</tool_call><tool_call>", and the call_ends "</function>" and "</tool_call>".
void link_breaks(const Format& format, Syntax& syntax) {
  syntax.value_breaks.clear();
  syntax.call_ends.clear();
  syntax.call_breaks.clear();
  const Pattern& call = syntax.call;
  const auto parameters = std::ranges::find(call, Piece::Kind::parameters, &Piece::kind);
  if (parameters == call.end()) return;
  const auto end = std::find_if(parameters, call.end(), [](const Piece& piece) {
    return piece.kind == Piece::Kind::literal;
  });
  std::vector<std::string> followers;  // of the whole call
  // Each follower counts with its white space and without it.
  const auto add = [&followers](const std::string& text) {
    for (const std::string& way : {text, std::string(trimmed(text))}) {
      const bool is_new = !way.empty() && std::ranges::find(followers, way) == followers.end();
      if (is_new) followers.push_back(way);
    }
  };
  const Piece* const first = first_literal(syntax);
  add(text_of(syntax.close.begin(), syntax.close.end()));
  if (call.front().kind == Piece::Kind::literal) {
    add(text_of(syntax.separator.begin(), syntax.separator.end()) + call.front().text);
    add(call.front().text);
  }
  for (const std::string& stop : format.stop) add(stop);
  const std::string tail = text_of(std::next(end), call.end());
  if (!tail.empty()) syntax.value_breaks.push_back(end->text + tail);
  const std::string last = tail.empty() ? end->text : std::string(trimmed(tail));
  for (const std::string& follower : followers) syntax.value_breaks.push_back(last + follower);

  const auto add_end = [&syntax](std::string_view text) {
    const bool is_clear = text.size() >= kStrongSize &&
                          std::ranges::find(syntax.call_ends, text) == syntax.call_ends.end();
    if (is_clear) syntax.call_ends.emplace_back(text);
  };
  add_end(end->text);
  add_end(syntax.tail_text);
  const auto close = std::ranges::find(syntax.close, Piece::Kind::literal, &Piece::kind);
  if (close != syntax.close.end()) add_end(close->text);

  syntax.call_breaks = format.stop;
  std::vector<std::string> begins = {first != nullptr ? first->text : std::string()};
  const auto is_none = [&close](const std::string& text) {
    return text.starts_with(close->text);  // the section's end may begin like a parameter
  };
  if (close != syntax.close.end() && close->text.size() >= kStrongSize && !is_none(end->text) &&
      !is_none(syntax.parameter.front().text)) {
    syntax.call_breaks.push_back(close->text);
  }
  for (const Piece& piece : format.between) {
    if (piece.kind == Piece::Kind::literal) begins.push_back(piece.text);
  }
  for (const std::string& text : begins) {
    const auto is_like = [&text](const std::string& other) {
      return other.starts_with(text) || text.starts_with(other);
    };
    const bool is_clear = !is_like(end->text) && !is_like(syntax.parameter.front().text);
    if (text.size() >= kStrongSize && is_clear) syntax.call_breaks.push_back(text);
  }
}

/// Why the markers of a definition do not work together.
struct LinkError {
  Errc code = Errc::invalid;
  std::string what;
  std::string marker;  ///< the marker in question; empty: all of them
};

/// Compiles the tables of `format` from its patterns.
std::optional<LinkError> link(Format& format, std::size_t max_literals) {
  Linker linker(format);
  split_shared_openers(format.syntaxes);
  for (Syntax& syntax : format.syntaxes) {
    Pattern whole = syntax.open;
    if (!whole.empty()) whole.push_back({Piece::Kind::space, {}});
    whole.insert(whole.end(), syntax.call.begin(), syntax.call.end());
    syntax.first = linker.start_of(whole);
    if (syntax.call.front().kind == Piece::Kind::name) {  // only the separator announces it
      Pattern announced = syntax.separator;
      for (Piece& piece : announced) piece.kind = Piece::Kind::literal;
      announced.insert(announced.end(), syntax.call.begin(), syntax.call.end());
      if (announced.size() > 1 && announced[1].kind == Piece::Kind::literal)
        announced[1] = {Piece::Kind::space, {}};
      syntax.next = linker.start_of(announced);
    } else {
      syntax.next = linker.start_of(syntax.call);
      syntax.separator_marks = linker.marks_of(syntax.separator);
    }
    syntax.call_tail = linker.marks_of(syntax.call);
    if (!syntax.call_tail.empty()) syntax.tail_text = format.literals[syntax.call_tail[0].literal];
    syntax.bracket = bracket_of(syntax.call);
    syntax.close_marks = linker.marks_of(syntax.close);
    syntax.read_parameter = with_attributes(syntax.parameter);
    syntax.guard = guard_of(format, syntax);
    link_breaks(format, syntax);
    syntax.shares_head = std::ranges::any_of(
        format.syntaxes, [&](const Syntax& other) { return shares_head(syntax, other); });
  }
  // The parser reads a form's calls as those of its syntax.
  for (Syntax& form : format.forms) {
    for (const Syntax& syntax : format.syntaxes) {
      if (syntax.rank > 0 || syntax.table != form.table) continue;
      form.guard = syntax.guard;
      form.value_breaks = syntax.value_breaks;
      form.call_ends = syntax.call_ends;
    }
  }
  format.reasoning_openers = linker.set_of(format.reasoning_open);
  format.reasoning_closers = linker.set_of(format.reasoning_close);
  format.content_openers = linker.set_of(format.content_open);
  format.drops =
      linker.set_of(format.drop) | format.content_openers | linker.set_of(format.content_close);
  for (const Piece& piece : format.between) {
    if (piece.kind != Piece::Kind::literal) continue;
    format.head.between = linker.set_of({piece.text});
    format.drops |= format.head.between;
  }
  // A marker that also ends a call or a section is no end of the turn: more calls may follow it.
  format.ends = linker.set_of(format.stop);
  for (const Syntax& syntax : format.syntaxes) {
    for (const std::vector<Mark>* marks : {&syntax.call_tail, &syntax.close_marks}) {
      for (const Mark& mark : *marks) format.ends -= LiteralSet::of(mark.literal);
    }
  }
  if (!format.head.end.empty()) format.head.end_literal = linker.id_of(format.head.end);
  format.head.openers = linker.set_of(format.head.begin);
  format.head.first_openers = linker.set_of(format.head.begin_first);
  format.head.closers = format.reasoning_closers | linker.set_of(format.content_close);
  if (format.literals.size() > max_literals) {
    return LinkError{Errc::limit_exceeded,
                     "there are more than " + std::to_string(max_literals) + " different markers",
                     {}};
  }
  if (const auto nested = nested_markers(format)) {
    return LinkError{Errc::invalid,
                     "the marker '" + nested->first + "' lies inside '" + nested->second + "'",
                     nested->second};
  }
  for (std::size_t id = 0; id < format.literals.size(); ++id) {
    if (format.literals[id].size() >= kStrongSize) {
      format.strong |= LiteralSet::of(static_cast<LiteralId>(id));
    }
  }
  format.stray_ends = {};
  for (const Syntax& syntax : format.syntaxes) {
    if (syntax.rank > 0 || syntax.needs_tools) continue;
    for (const auto* marks : {&syntax.call_tail, &syntax.close_marks}) {
      for (const Mark& mark : *marks) format.stray_ends |= LiteralSet::of(mark.literal);
    }
  }
  format.stray_ends &= format.strong;
  format.automaton = Automaton(format.literals);
  return std::nullopt;
}

/// The place of the first string in `value` that contains `text`.
/// Depth first, so the error names the line where the marker is written.
std::optional<toml::Position> place_in(const toml::Value& value, std::string_view text) {
  if (const std::string* const found = value.if_string()) {
    return found->find(text) != std::string::npos ? std::optional(value.position()) : std::nullopt;
  }
  if (const toml::Array* const items = value.if_array()) {
    for (const toml::Value& item : *items) {
      if (const auto place = place_in(item, text)) return place;
    }
  }
  if (const toml::Table* const table = value.if_table()) {
    for (const toml::Entry& entry : table->entries()) {
      if (const auto place = place_in(entry.value, text)) return place;
    }
  }
  return std::nullopt;
}
/// The value at the path `keys`; in a list, the table `index`. Null if it is missing.
const toml::Value* value_at(const toml::Table& table, std::initializer_list<const char*> keys,
                            std::size_t index) {
  const toml::Table* inside = &table;
  const toml::Value* value = nullptr;
  for (const char* const key : keys) {
    value = inside != nullptr ? inside->find(key) : nullptr;
    if (value == nullptr) return nullptr;
    const toml::Array* const items = value->if_array();
    inside = items == nullptr        ? value->if_table()
             : index < items->size() ? (*items)[index].if_table()
                                     : nullptr;
  }
  return value;
}

// Parts that are valid by themselves may still not fit together: a marker may end too early inside
// another, or begin a call where none was meant. So an example is written and read.
std::optional<std::string> why_unreadable(const Format& format, const Syntax& syntax) {
  const message::Tool tool{
      .name = "get_weather",
      .parameters = *json::parse(
          R"({"type": "object", "properties": {"city": {"type": "string"}, "days": {"type": "integer"}}})")};
  const message::ToolCall one{
      .id = "abc123def", .name = tool.name, .arguments = R"({"city": "Paris", "days": 3})"};
  const message::ToolCall other{
      .id = "ghi456jkl", .name = tool.name, .arguments = R"({"city": "Rome", "days": 1})"};
  std::vector<std::vector<message::ToolCall>> answers{{one}};
  if (format.info.parallel) answers.push_back({one, other});
  for (const auto& calls : answers) {
    const Written written = write_and_read(format, syntax, std::span(&tool, 1), calls);
    if (written.is_read) continue;
    return std::string(calls.size() == 1 ? "a call" : "two calls") +
           " cannot be read as written: " + json::quoted(written.text);
  }
  return std::nullopt;
}

// In reasoning only markers that do not occur in text by chance end it.
bool has_strong_call(const Format& format) {
  return format.syntaxes.empty() || format.syntaxes.front().first.literals.shares(format.strong);
}

Expected<std::shared_ptr<const Format>> compile(const toml::Document& document,
                                                const toml::Table& table, toml::Position position,
                                                std::string_view text) {
  auto format = std::make_shared<Format>();
  format->toml = text;
  std::optional<Error> error;
  TableReader reader(document, table, position, error);
  read_definition(reader, *format);
  reader.finish();
  if (error) return Unexpected(*std::move(error));
  if (const auto why = link(*format, kMaxLiterals)) {
    std::optional<toml::Position> place;
    if (!why->marker.empty()) place = place_in(toml::Value(table, position), why->marker);
    Error refused = document.error(place.value_or(position), why->what);
    refused.code = why->code;
    return Unexpected(std::move(refused));
  }
  const auto fail_at = [&](std::initializer_list<const char*> keys, const std::string& what,
                           std::size_t index = 0) {
    const toml::Value* const value = value_at(table, keys, index);
    return Unexpected(document.error(value != nullptr ? value->position() : position,
                                     "'" + std::string(*std::prev(keys.end())) + "' " + what));
  };
  if (format->call_ends_reasoning && !has_strong_call(*format)) {
    return fail_at({"reasoning", "ends_with_call"},
                   "needs calls that begin with a marker of 4 bytes or more: a shorter one is text "
                   "in reasoning");
  }
  // Last, because it needs the whole tables: each way to write calls is written and read back.
  for (const auto* const ways : {&format->syntaxes, &format->forms}) {
    for (const Syntax& syntax : *ways) {
      const auto why = why_unreadable(*format, syntax);
      if (!why) continue;
      return fail_at({"syntax", ways == &format->forms ? "form" : "call"}, "does not fit: " + *why,
                     syntax.table);
    }
  }
  const auto place_at = [&](const char* key) {
    const toml::Value* const value = table.find(key);
    return document.error(value != nullptr ? value->position() : position, "").message;
  };
  format->alias_place = place_at("aliases");
  format->fallback_place = place_at("fallback");
  return std::shared_ptr<const Format>(std::move(format));
}

}  // namespace

std::optional<std::string> relink(Format& format) {
  format.literals.clear();
  format.strong = {};
  const auto why = link(format, kMaxLinked);
  return why ? std::optional(why->what) : std::nullopt;
}

Expected<std::shared_ptr<const Format>> compile(std::string_view text,
                                                std::string_view source_name) {
  const Expected<toml::Document> document = toml::parse(text, source_name);
  if (!document) return Unexpected(document.error());
  return compile(*document, document->root, {1, 1}, text);
}

Expected<std::shared_ptr<const Format>> compile(const toml::Document& document,
                                                const toml::Table& table, toml::Position position) {
  return compile(document, table, position, {});
}

}  // namespace tenon::format
