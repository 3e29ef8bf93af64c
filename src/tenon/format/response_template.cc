#include "tenon/format/response_template.h"

#include <algorithm>
#include <cctype>
#include <optional>
#include <utility>
#include <vector>

#include "tenon/format/space.h"
#include "tenon/format/write_definition.h"

// Translates a `response_template` of a tokenizer_config.json to a definition in TOML. The format
// of response templates is described in transformers' documentation, "Response Parsing" (version
// 1).
//
// A response template lists fields, each with an `open` and a `close` delimiter (a literal, a list,
// or a regular expression) and a kind of content. Here each field becomes a section of a
// definition: the one with calls a [[syntax]], the others [reasoning] and [content]. Regular
// expressions are read by PatternReader, which accepts the part that patterns can express:
// literals, optional white space and named groups. A group becomes the slot that `name` or
// `arguments` of the template refer to.
//
// What a definition cannot express is refused with its key, because a format that ignored it would
// read other calls than the template says. The result is compiled like any definition, so its own
// checks apply too.
namespace tenon::format {
namespace {

Unexpected invalid_template(std::string what) {
  return Unexpected(Error{Errc::invalid, "response_template: " + std::move(what)});
}
Unexpected unsupported(std::string what) {
  return Unexpected(Error{Errc::unsupported, "response_template: " + std::move(what)});
}

/// A piece of a delimiter's regular expression.
struct Part {
  enum class Kind { literal, space, group };
  Kind kind = Kind::literal;
  std::string text;  // for a group, its name
};
using Parts = std::vector<Part>;

/// Reads the part of the regular expressions that patterns can express: literals, optional white
/// space, and named groups.
class PatternReader {
 public:
  PatternReader(std::string_view pattern, std::string where)
      : pattern_(pattern), where_(std::move(where)) {}

  // `<tool_call>\s*(?P<name>\w+)\(` becomes a literal, white space, the group "name" and a literal.
  Expected<Parts> run() {
    while (at_ < pattern_.size()) {
      Status read = pattern_[at_] == '(' ? read_group() : read_character();
      if (!read) return Unexpected(read.error());
    }
    return std::move(parts_);
  }

 private:
  Unexpected cannot(std::string_view what) const {
    return unsupported(where_ + " " + json::quoted(pattern_) + " has " + std::string(what) +
                       "; literals, \\s*, and groups with names are supported");
  }
  Unexpected is_none() const {
    return invalid_template(where_ + " " + json::quoted(pattern_) + " is no regular expression");
  }
  // The end of the group with which `rest` begins; npos if it has no end.
  static std::size_t group_end(std::string_view rest);

  Status read_group() {
    std::string_view rest = pattern_.substr(at_);
    if (!rest.starts_with("(?P<") &&
        !(rest.starts_with("(?<") && rest.size() > 3 && rest[3] != '=' && rest[3] != '!')) {
      return cannot("a group without a name");
    }
    const std::size_t name = rest.find('<') + 1;
    const std::size_t name_end = rest.find('>');
    const std::size_t end = group_end(rest);
    if (end == std::string_view::npos || name_end > end) return is_none();
    // What may stand in the group is not looked at: a slot of a pattern ends at the literal after
    // it.
    parts_.push_back({Part::Kind::group, std::string(rest.substr(name, name_end - name))});
    at_ += end;
    if (is_quantified()) return cannot("a group that may be absent");
    return {};
  }

  Status read_character() {
    char c = pattern_[at_++];
    if (c == '\\') {
      if (at_ == pattern_.size()) return is_none();
      c = pattern_[at_++];
      if (c == 's') {
        is_quantified();
        parts_.push_back({Part::Kind::space, {}});
        return {};
      }
      constexpr std::string_view kEscapes = "ntr";
      constexpr std::string_view kMeant = "\n\t\r";
      const std::size_t escape = kEscapes.find(c);
      if (escape != std::string_view::npos) {
        c = kMeant[escape];
      } else if (std::isalnum(static_cast<unsigned char>(c)) != 0) {
        return cannot(std::string("'\\") + c + "'");
      }
    } else if (std::string_view("[].^$|)*+?{").find(c) != std::string_view::npos) {
      return cannot("'" + std::string(1, c) + "'");
    }
    if (is_quantified()) {
      if (!is_space(c)) return cannot("a character that may be absent or come again");
      parts_.push_back({Part::Kind::space, std::string(1, c)});
      return {};
    }
    if (parts_.empty() || parts_.back().kind != Part::Kind::literal) parts_.emplace_back();
    parts_.back().text += c;
    return {};
  }

  // Takes any of `*`, `+` and `?` at the present place, also a lazy `*?`.
  bool is_quantified() {
    const std::size_t begin = at_;
    at_ = std::min(pattern_.find_first_not_of("*+?", at_), pattern_.size());
    return at_ > begin;
  }

  const std::string_view pattern_;
  const std::string where_;
  std::size_t at_ = 0;
  Parts parts_;
};

// A parenthesis in a class or behind a backslash does not count.
std::size_t PatternReader::group_end(std::string_view rest) {
  std::size_t depth = 0;
  bool in_class = false;
  for (std::size_t i = 0; i < rest.size(); ++i) {
    if (rest[i] == '\\') {
      ++i;
    } else if (in_class) {
      in_class = rest[i] != ']';
    } else if (rest[i] == '[') {
      in_class = true;
    } else if (rest[i] == '(') {
      ++depth;
    } else if (rest[i] == ')' && --depth == 0) {
      return i + 1;
    }
  }
  return std::string_view::npos;
}

/// `parts` as a pattern of a definition; `slot_of` returns the slot for a group.
template <class SlotOf>
std::string pattern_of(const Parts& parts, const SlotOf& slot_of) {
  std::string text;
  for (const Part& part : parts) {
    switch (part.kind) {
      case Part::Kind::literal:
        text += as_pattern(part.text);
        break;
      case Part::Kind::space:
        text += part.text.empty() ? "${-}" : part.text;
        break;
      case Part::Kind::group:
        text += slot_of(part.text);
        break;
    }
  }
  return text;
}

bool is_true(const json::Value* value) {
  return value != nullptr && *value == json::Value(true);
}

const std::string* text_at(const json::Value& value, std::string_view key) {
  const json::Value* found = value.find(key);
  return found == nullptr ? nullptr : found->if_string();
}

/// `open` or `close` of a field: a literal, a list of literals, or a regular expression.
struct Delimiter {
  std::vector<std::string> literals;
  std::optional<Parts> pattern;

  [[nodiscard]] bool is_absent() const { return literals.empty() && !pattern; }
};

// Nothing if `value` is neither a text nor a list of texts, or if a text is empty.
std::vector<std::string> literals_of(const json::Value& value) {
  if (value.if_string() != nullptr && !value.if_string()->empty()) return {*value.if_string()};
  std::vector<std::string> literals;
  if (value.if_array() == nullptr) return literals;
  for (const json::Value& one : *value.if_array()) {
    if (one.if_string() == nullptr || one.if_string()->empty()) return {};
    literals.push_back(*one.if_string());
  }
  return literals;
}

// Reads `open` or `open_pattern` (or `close...`) of a field; neither of them gives an empty
// delimiter.
Expected<Delimiter> delimiter(const json::Value& field, const std::string& field_name,
                              const std::string& key) {
  Delimiter found;
  const std::string where = "fields." + field_name + "." + key;
  if (const json::Value* literal = field.find(key)) {
    found.literals = literals_of(*literal);
    if (found.literals.empty()) {
      return invalid_template(where + " must be a text or a list of texts, none of them empty");
    }
  } else if (const json::Value* pattern = field.find(key + "_pattern")) {
    if (pattern->if_string() == nullptr) return invalid_template(where + "_pattern must be a text");
    auto parts = PatternReader(*pattern->if_string(), where + "_pattern").run();
    if (!parts) return Unexpected(parts.error());
    found.pattern = *std::move(parts);
  }
  return found;
}

/// The path in a placeholder: "{content.name}" is content.name; "" if it is not a placeholder.
std::string placeholder(const json::Value* value) {
  const std::string* text = value == nullptr ? nullptr : value->if_string();
  if (text == nullptr || !text->starts_with('{') || !text->ends_with('}')) return "";
  return text->substr(1, text->size() - 2);
}

/// Where the name and the arguments of a call come from.
struct Sources {
  std::string name;       // a path such as content.name, or the name of a group
  std::string arguments;  // the same
  std::string id;
};

// {"function": {"name": "{content.name}", "arguments": "{content.parameters}"}} gives the paths
// content.name and content.parameters; without `transform` the content has OpenAI's shape.
Expected<Sources> sources_of(const json::Value& field) {
  const json::Value* transform = field.find("transform");
  if (transform == nullptr) {
    return Sources{"content.function.name", "content.function.arguments", {}};
  }
  if (const std::string whole = placeholder(transform); !whole.empty()) {
    return Sources{whole + ".function.name", whole + ".function.arguments", {}};
  }
  const json::Value* function = transform->find("function");
  if (function == nullptr) function = transform;
  Sources sources{placeholder(function->find("name")), placeholder(function->find("arguments")),
                  placeholder(transform->find("id"))};
  if (const std::string whole = placeholder(function); !whole.empty()) {
    sources = {whole + ".name", whole + ".arguments", sources.id};
  }
  if (sources.name.empty() || sources.arguments.empty()) {
    return unsupported(
        "fields.tool_calls.transform must give function.name and function.arguments as "
        "placeholders: \"{content.name}\", or a group's name in open_pattern");
  }
  return sources;
}

/// The last key of a path into the content; "" if the path does not lead into it.
/// "content.name" gives "name". With `transform_each` paths are those of one item, without
/// "content.".
std::string key_in_content(std::string_view path, bool is_each) {
  constexpr std::string_view kContent = "content.";
  if (path.starts_with(kContent)) {
    path.remove_prefix(kContent.size());
  } else if (!is_each) {
    return "";
  }
  const std::size_t dot = path.rfind('.');
  return std::string(dot == std::string_view::npos ? path : path.substr(dot + 1));
}

/// A delimiter as a pattern, with slots in place of its groups; "" if it is missing.
std::string pattern_of(const Delimiter& delimiter, const Sources& sources) {
  if (!delimiter.literals.empty()) return as_pattern(delimiter.literals.front());
  if (!delimiter.pattern) return "";
  return pattern_of(*delimiter.pattern, [&sources](const std::string& group) {
    return group == sources.name ? "${name}" : group == sources.id ? "${id}" : "${skip:0}";
  });
}

class Importer {
 public:
  Importer(const json::Value& source, std::string_view name)
      : source_(source), name_(as_name(name)) {}

  Expected<std::string> run();

 private:
  Status read_sections();
  Status read_calls(const json::Value& field);
  Status object_calls(const json::Value& field, const Sources& sources, const Delimiter& open,
                      const Delimiter& close);
  Status named_calls(const json::Value& field, const Sources& sources, const Delimiter& open,
                     const Delimiter& close);

  const json::Value& source_;
  const std::string name_;
  std::string sections_;  // TOML
  std::string syntaxes_;
  bool parallel_ = true;
};

// Calls whose name and arguments are members of a JSON object: `<tool_call>${object}</tool_call>`,
// or a list of such objects with `transform_each`.
Status Importer::object_calls(const json::Value& field, const Sources& sources,
                              const Delimiter& open, const Delimiter& close) {
  const bool is_each = is_true(field.find("transform_each"));
  const std::string name = key_in_content(sources.name, is_each);
  const std::string arguments = key_in_content(sources.arguments, is_each);
  if (name.empty() || arguments.empty()) {
    return unsupported(
        "fields.tool_calls.transform takes the name from a delimiter and a part of the content as "
        "arguments; both from the content, or the arguments as the whole content are supported");
  }
  const std::string before = pattern_of(open, sources);
  const std::string after = pattern_of(close, sources);
  const std::string end = after.empty() ? "" : "${-}" + after;
  if (is_each) {
    syntaxes_ += "\n[[syntax]]\nopen = " + as_toml(before + "${-}[") +
                 "\ncall = \"${object}\"\nseparator = \", \"\nclose = " + as_toml("]" + end) + "\n";
    parallel_ = true;
  } else {
    syntaxes_ += "\n[[syntax]]\ncall = " + as_toml(before + "${-}${object}" + end) + "\n";
  }
  std::string object =
      "name = " + as_toml(std::vector{name}) + ", arguments = " + as_toml(std::vector{arguments});
  if (const std::string id = key_in_content(sources.id, is_each); !id.empty()) {
    object += ", id = " + as_toml(std::vector{id}) + ", writes_id = true";
  }
  syntaxes_ += "object = { " + object + " }\n";
  return {};
}

/// The pattern of one parameter, from `content_args` of tagged parameters.
Expected<std::string> parameter_of(const json::Value& arguments) {
  const std::string where = "fields.tool_calls.content_args.tag_pattern";
  const std::string* tag = text_at(arguments, "tag_pattern");
  if (tag == nullptr) return invalid_template(where + " must be a text");
  const auto parts = PatternReader(*tag, where).run();
  if (!parts) return Unexpected(parts.error());
  for (const Part& part : *parts) {
    if (part.kind != Part::Kind::group || part.text == "key" || part.text == "value") continue;
    return unsupported(where + " has the group '" + part.text + "'; key and value are supported");
  }
  return pattern_of(*parts, [](const std::string& group) { return "${" + group + "}"; });
}

/// The marker around strings, from `content_args` of bare keys.
Expected<std::string> quote_of(const json::Value& arguments) {
  const std::string where = "fields.tool_calls.content_args.string_delims";
  const json::Value* opening = json::at_pointer(arguments, "/string_delims/0/0");
  const json::Value* closing = json::at_pointer(arguments, "/string_delims/0/1");
  if (opening == nullptr || closing == nullptr || opening->if_string() == nullptr ||
      closing->if_string() == nullptr) {
    return invalid_template(where + " must be a list of a list of two texts");
  }
  if (*opening != *closing || json::at_pointer(arguments, "/string_delims/1") != nullptr) {
    return unsupported(where + ": one marker at both ends of a string is supported");
  }
  return *opening->if_string();
}

// Calls whose name stands in the opening delimiter, and whose content is the arguments:
// `<function=${name}>${parameters}</function>`.
Status Importer::named_calls(const json::Value& field, const Sources& sources,
                             const Delimiter& open, const Delimiter& close) {
  if (sources.arguments != "content") {
    return unsupported(
        "fields.tool_calls.transform: where the name comes from open_pattern the arguments must be "
        "the whole content, \"{content}\"");
  }
  const std::string before = pattern_of(open, sources);
  if (before.find("${name}") == std::string::npos) {
    return unsupported("fields.tool_calls.open_pattern has no group for the name, which " +
                       json::quoted("{" + sources.name + "}") + " in transform asks for");
  }
  const std::string* content = text_at(field, "content");
  const json::Value* found = field.find("content_args");
  const json::Value arguments = found == nullptr ? json::Object() : *found;
  std::string slot = "${arguments}";
  std::string more;
  if (content != nullptr && *content == "xml-inline") {
    const auto parameter = parameter_of(arguments);
    if (!parameter) return Unexpected(parameter.error());
    slot = "${parameters}";
    more = "parameter = " + as_toml(*parameter) + "\n";
  } else if (is_true(arguments.find("unquoted_keys"))) {
    const auto quote = quote_of(arguments);
    if (!quote) return Unexpected(quote.error());
    slot = "${members}";
    more = "string_quote = " + as_toml(*quote) + "\n";
  }
  syntaxes_ +=
      "\n[[syntax]]\ncall = " + as_toml(before + slot + pattern_of(close, sources)) + "\n" + more;
  return {};
}

Status Importer::read_calls(const json::Value& field) {
  const std::string* content = text_at(field, "content");
  const std::string kind = content == nullptr ? "text" : *content;  // the documented default
  if (kind != "json" && kind != "xml-inline") {
    return unsupported("fields.tool_calls.content is " + json::quoted(kind) +
                       "; \"json\" and \"xml-inline\" are supported");
  }
  auto open = delimiter(field, "tool_calls", "open");
  if (!open) return Unexpected(open.error());
  if (open->is_absent()) {
    return unsupported(
        "fields.tool_calls must have open or open_pattern: without one any text is a call");
  }
  auto close = delimiter(field, "tool_calls", "close");
  if (!close) return Unexpected(close.error());
  const auto sources = sources_of(field);
  if (!sources) return Unexpected(sources.error());
  parallel_ = is_true(field.find("repeats"));
  const bool is_object = kind == "json" && sources->arguments != "content";
  // Each way to begin a call becomes a syntax; the first way to end one is used for all.
  std::vector<Delimiter> openers;
  for (const std::string& literal : open->literals) openers.push_back({{literal}, {}});
  if (openers.empty()) openers.push_back(*open);
  for (const Delimiter& opener : openers) {
    Status read = is_object ? object_calls(field, *sources, opener, *close)
                            : named_calls(field, *sources, opener, *close);
    if (!read) return read;
  }
  return {};
}

// The delimiters of `content` are no content themselves, so they become `drop` of [content].
Status Importer::read_sections() {
  const json::Object& fields = *source_.find("fields")->if_object();
  std::vector<std::string> frame;
  for (const json::Member& member : fields) {
    if (member.value.if_object() == nullptr) {
      return invalid_template("fields." + member.key + " must be an object");
    }
    if (member.key == "tool_calls") continue;
    const auto open = delimiter(member.value, member.key, "open");
    if (!open) return Unexpected(open.error());
    const auto close = delimiter(member.value, member.key, "close");
    if (!close) return Unexpected(close.error());
    if (open->pattern || close->pattern) {
      return unsupported("fields." + member.key +
                         " has open_pattern or close_pattern; open and close are supported");
    }
    if (member.key == "content") {
      frame.insert(frame.end(), open->literals.begin(), open->literals.end());
      frame.insert(frame.end(), close->literals.begin(), close->literals.end());
    } else if (member.key == "reasoning_content" || member.key == "thinking" ||
               member.key == "reasoning") {
      if (open->literals.empty() || close->literals.empty()) {
        return unsupported("fields." + member.key + " must have open and close");
      }
      sections_ += "\n[reasoning]\nopen = " + as_toml(open->literals) +
                   "\nclose = " + as_toml(close->literals) + "\n";
    } else {
      return unsupported("fields." + member.key +
                         " is no part of a message; content, thinking, reasoning, "
                         "reasoning_content and tool_calls are supported");
    }
  }
  if (!frame.empty()) sections_ += "\n[content]\ndrop = " + as_toml(frame) + "\n";
  return {};
}

Expected<std::string> Importer::run() {
  const json::Value* fields = source_.find("fields");
  if (fields == nullptr || fields->if_object() == nullptr || fields->if_object()->empty()) {
    return invalid_template("fields must be an object with a member for each part of a message");
  }
  const json::Value* version = source_.find("version");
  if (version != nullptr && *version != json::Value(1)) {
    return unsupported("version is " + json::to_string(*version) + "; 1 is supported");
  }
  if (Status read = read_sections(); !read) return Unexpected(read.error());
  if (const json::Value* calls = fields->find("tool_calls")) {
    if (Status read = read_calls(*calls); !read) return Unexpected(read.error());
  }
  return "name = " + as_toml(name_) + "\n" + (parallel_ ? "" : "parallel = false\n") + sections_ +
         syntaxes_;
}

}  // namespace

Expected<std::string> definition_of(const json::Value& response_template, std::string_view name) {
  return Importer(response_template, name).run();
}

}  // namespace tenon::format
