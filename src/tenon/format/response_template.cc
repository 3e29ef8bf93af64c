#include "tenon/format/response_template.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "tenon/format/write_definition.h"

// What a response template is: transformers' documentation, "Response Parsing" (version 1).
namespace tenon::format {
namespace {

Unexpected invalid(std::string what) {
  return Unexpected(Error{Errc::invalid, "response_template: " + std::move(what)});
}
Unexpected unsupported(std::string what) {
  return Unexpected(Error{Errc::unsupported, "response_template: " + std::move(what)});
}

/// A piece of a delimiter's regular expression.
struct Part {
  enum class Kind { literal, space, group };
  Kind kind = Kind::literal;
  std::string text;  // of a group: its name
};
using Parts = std::vector<Part>;

/// Reads the part of the language of regular expressions that patterns can say: literals, white
/// space that may come, and named groups.
class PatternReader {
 public:
  PatternReader(std::string_view pattern, std::string where)
      : pattern_(pattern), where_(std::move(where)) {}

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
                       "; literals, \\s*, and groups with names can be said");
  }

  Status read_group() {
    std::string_view rest = pattern_.substr(at_);
    if (!rest.starts_with("(?P<") &&
        !(rest.starts_with("(?<") && rest.size() > 3 && rest[3] != '=' && rest[3] != '!')) {
      return cannot("a group without a name");
    }
    const std::size_t name = rest.find('<') + 1;
    const std::size_t name_end = rest.find('>');
    std::size_t depth = 0;
    bool in_class = false;
    std::size_t end = 0;
    for (std::size_t i = 0; i < rest.size() && end == 0; ++i) {
      if (rest[i] == '\\') {
        ++i;
      } else if (in_class) {
        in_class = rest[i] != ']';
      } else if (rest[i] == '[') {
        in_class = true;
      } else if (rest[i] == '(') {
        ++depth;
      } else if (rest[i] == ')' && --depth == 0) {
        end = i + 1;
      }
    }
    if (end == 0 || name_end == std::string_view::npos || name_end > end) {
      return invalid(where_ + " " + json::quoted(pattern_) + " is no regular expression");
    }
    parts_.push_back({Part::Kind::group, std::string(rest.substr(name, name_end - name))});
    at_ += end;
    if (is_quantified()) return cannot("a group that may be absent");
    return {};
  }

  Status read_character() {
    char c = pattern_[at_++];
    bool is_space = c == ' ' || c == '\n' || c == '\t';
    if (c == '\\') {
      if (at_ == pattern_.size()) {
        return invalid(where_ + " " + json::quoted(pattern_) + " is no regular expression");
      }
      c = pattern_[at_++];
      if (c == 'n') c = '\n';
      if (c == 't') c = '\t';
      if (c == 'r') c = '\r';
      is_space = c == '\n' || c == '\t' || c == '\r';
      const bool is_letter =
          (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
      if (c == 's') {
        is_quantified();
        parts_.push_back({Part::Kind::space, {}});
        return {};
      }
      if (is_letter) return cannot("a class of characters");
    } else if (std::string_view("[].^$|)*+?{").find(c) != std::string_view::npos) {
      return cannot("'" + std::string(1, c) + "'");
    }
    if (is_quantified()) {
      if (!is_space) return cannot("a character that may be absent or come again");
      parts_.push_back({Part::Kind::space, std::string(1, c)});
      return {};
    }
    if (parts_.empty() || parts_.back().kind != Part::Kind::literal) parts_.emplace_back();
    parts_.back().text += c;
    return {};
  }

  bool is_quantified() {
    const std::size_t begin = at_;
    while (at_ < pattern_.size() &&
           std::string_view("*+?").find(pattern_[at_]) != std::string_view::npos)
      ++at_;
    return at_ > begin;
  }

  const std::string_view pattern_;
  const std::string where_;
  std::size_t at_ = 0;
  Parts parts_;
};

const std::string* text_at(const json::Value& value, std::string_view key) {
  const json::Value* found = value.find(key);
  return found == nullptr ? nullptr : found->if_string();
}

/// `open` or `close` of a field, which are a literal, a list of them, or a regular expression.
struct Delimiter {
  std::vector<std::string> literals;
  std::optional<Parts> pattern;

  [[nodiscard]] bool is_absent() const { return literals.empty() && !pattern; }
};

Expected<Delimiter> delimiter(const json::Value& field, const std::string& field_name,
                              const std::string& key) {
  Delimiter found;
  const std::string where = "fields." + field_name + "." + key;
  if (const json::Value* literal = field.find(key)) {
    if (literal->if_string() != nullptr) found.literals.push_back(*literal->if_string());
    if (literal->if_array() != nullptr) {
      for (const json::Value& one : *literal->if_array()) {
        if (one.if_string() != nullptr) found.literals.push_back(*one.if_string());
      }
    }
    const bool is_empty = std::ranges::any_of(found.literals, &std::string::empty);
    if (found.literals.empty() || is_empty) {
      return invalid(where + " must be a text or a list of texts");
    }
    return found;
  }
  if (const std::string* pattern = text_at(field, key + "_pattern")) {
    auto parts = PatternReader(*pattern, where + "_pattern").run();
    if (!parts) return Unexpected(parts.error());
    found.pattern = *std::move(parts);
  }
  return found;
}

/// The path behind a placeholder: "{content.name}" is content.name; "" where it is none.
std::string placeholder(const json::Value* value) {
  const std::string* text = value == nullptr ? nullptr : value->if_string();
  if (text == nullptr || !text->starts_with('{') || !text->ends_with('}')) return "";
  return text->substr(1, text->size() - 2);
}

/// Where name and arguments of a call come from.
struct Sources {
  std::string name;       // a path: content.name, or a group's name
  std::string arguments;  // likewise
  std::string id;
};

Expected<Sources> sources_of(const json::Value& field) {
  const json::Value* transform = field.find("transform");
  if (transform == nullptr)
    return Sources{"content.function.name", "content.function.arguments", {}};
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
        "fields.tool_calls.transform must say where function.name and "
        "function.arguments come from");
  }
  return sources;
}

/// The key that a path into the content ends with; "" if it does not lead into it.
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
  Expected<std::string> parameter_of(const json::Value& arguments) const;
  // A delimiter as a pattern, its groups as the slots that `sources` say; "" for a missing one.
  Expected<std::string> pattern_of(const Delimiter& delimiter, const Sources& sources) const;

  const json::Value& source_;
  const std::string name_;
  std::string sections_;  // TOML
  std::string syntaxes_;
  bool parallel_ = true;
};

Expected<std::string> Importer::pattern_of(const Delimiter& delimiter,
                                           const Sources& sources) const {
  if (!delimiter.literals.empty()) return as_pattern(delimiter.literals.front());
  std::string text;
  if (!delimiter.pattern) return text;
  for (const Part& part : *delimiter.pattern) {
    if (part.kind == Part::Kind::literal) {
      text += as_pattern(part.text);
    } else if (part.kind == Part::Kind::space) {
      text += part.text.empty() ? "${-}" : part.text;
    } else if (part.text == sources.name) {
      text += "${name}";
    } else if (part.text == sources.id) {
      text += "${id}";
    } else {
      text += "${skip:0}";
    }
  }
  return text;
}

Status Importer::object_calls(const json::Value& field, const Sources& sources,
                              const Delimiter& open, const Delimiter& close) {
  const json::Value* each = field.find("transform_each");
  const bool is_each = each != nullptr && *each == json::Value(true);
  const std::string name = key_in_content(sources.name, is_each);
  const std::string arguments = key_in_content(sources.arguments, is_each);
  if (name.empty() || arguments.empty()) {
    return unsupported(
        "fields.tool_calls.transform takes one of name and arguments from the "
        "content and the other from a delimiter");
  }
  const auto before = pattern_of(open, sources);
  if (!before) return Unexpected(before.error());
  const auto after = pattern_of(close, sources);
  if (!after) return Unexpected(after.error());
  if (is_each) {
    syntaxes_ += "\n[[syntax]]\nopen = " + as_toml(*before + "${-}[") +
                 "\ncall = \"${object}\"\nseparator = \", \"\nclose = " +
                 as_toml("]" + (after->empty() ? "" : "${-}" + *after)) + "\n";
    parallel_ = true;
  } else {
    syntaxes_ += "\n[[syntax]]\ncall = " +
                 as_toml(*before + "${-}${object}" + (after->empty() ? "" : "${-}" + *after)) +
                 "\n";
  }
  std::string object =
      "name = " + as_toml(std::vector{name}) + ", arguments = " + as_toml(std::vector{arguments});
  if (const std::string id = key_in_content(sources.id, is_each); !id.empty()) {
    object += ", id = " + as_toml(std::vector{id}) + ", writes_id = true";
  }
  syntaxes_ += "object = { " + object + " }\n";
  return {};
}

Expected<std::string> Importer::parameter_of(const json::Value& arguments) const {
  const std::string* tag = text_at(arguments, "tag_pattern");
  if (tag == nullptr) return invalid("fields.tool_calls.content_args.tag_pattern is missing");
  const auto parts = PatternReader(*tag, "fields.tool_calls.content_args.tag_pattern").run();
  if (!parts) return Unexpected(parts.error());
  std::string text;
  for (const Part& part : *parts) {
    if (part.kind == Part::Kind::literal) {
      text += as_pattern(part.text);
    } else if (part.kind == Part::Kind::space) {
      text += part.text.empty() ? "${-}" : part.text;
    } else if (part.text == "key" || part.text == "value") {
      text += "${" + part.text + "}";
    } else {
      return unsupported("fields.tool_calls.content_args.tag_pattern has the group '" + part.text +
                         "'");
    }
  }
  return text;
}

Status Importer::named_calls(const json::Value& field, const Sources& sources,
                             const Delimiter& open, const Delimiter& close) {
  if (sources.arguments != "content") {
    return unsupported(
        "fields.tool_calls.transform: where the name comes from open_pattern the "
        "arguments must be the whole content");
  }
  const auto before = pattern_of(open, sources);
  if (!before) return Unexpected(before.error());
  const auto after = pattern_of(close, sources);
  if (!after) return Unexpected(after.error());
  if (before->find("${name}") == std::string::npos) {
    return unsupported("fields.tool_calls.open_pattern has no group for the name");
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
  } else if (const json::Value* bare = arguments.find("unquoted_keys");
             bare != nullptr && *bare == json::Value(true)) {
    const json::Value* opening = json::at_pointer(arguments, "/string_delims/0/0");
    const json::Value* closing = json::at_pointer(arguments, "/string_delims/0/1");
    slot = "${members}";
    if (opening != nullptr && closing != nullptr) {
      if (*opening != *closing || json::at_pointer(arguments, "/string_delims/1") != nullptr) {
        return unsupported(
            "fields.tool_calls.content_args.string_delims: a string must begin and "
            "end with the same marker, and there can be one");
      }
      more = "string_quote = " + as_toml(*opening->if_string()) + "\n";
    }
  }
  syntaxes_ += "\n[[syntax]]\ncall = " + as_toml(*before + slot + *after) + "\n" + more;
  return {};
}

Status Importer::read_calls(const json::Value& field) {
  const std::string* content = text_at(field, "content");
  const std::string kind = content == nullptr ? "text" : *content;
  if (kind != "json" && kind != "xml-inline") {
    return unsupported("fields.tool_calls.content is \"" + kind +
                       "\"; \"json\" and \"xml-inline\" can be said");
  }
  auto open = delimiter(field, "tool_calls", "open");
  if (!open) return Unexpected(open.error());
  if (open->is_absent()) return unsupported("fields.tool_calls has no open: any text is a call");
  auto close = delimiter(field, "tool_calls", "close");
  if (!close) return Unexpected(close.error());
  const auto sources = sources_of(field);
  if (!sources) return Unexpected(sources.error());
  const json::Value* repeats = field.find("repeats");
  parallel_ = repeats != nullptr && *repeats == json::Value(true);
  const bool is_object = kind == "json" && sources->arguments != "content";
  // Each way to begin a call is a syntax; the first way to end one is the way.
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

Status Importer::read_sections() {
  const json::Object& fields = *source_.find("fields")->if_object();
  std::vector<std::string> frame;
  for (const json::Member& member : fields) {
    if (member.value.if_object() == nullptr)
      return invalid("fields." + member.key + " must be an object");
    if (member.key == "tool_calls") continue;
    const auto open = delimiter(member.value, member.key, "open");
    if (!open) return Unexpected(open.error());
    const auto close = delimiter(member.value, member.key, "close");
    if (!close) return Unexpected(close.error());
    if (open->pattern || close->pattern) {
      return unsupported("fields." + member.key +
                         " has a pattern for a delimiter; literals can be said");
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
      return unsupported("the field '" + member.key + "' is no part of a message here");
    }
  }
  if (!frame.empty()) sections_ += "\n[content]\ndrop = " + as_toml(frame) + "\n";
  return {};
}

Expected<std::string> Importer::run() {
  const json::Value* fields = source_.find("fields");
  if (fields == nullptr || fields->if_object() == nullptr || fields->if_object()->empty()) {
    return invalid("fields must be an object that is not empty");
  }
  const json::Value* version = source_.find("version");
  if (version != nullptr && *version != json::Value(1)) {
    return unsupported("version " + json::to_string(*version) + "; 1 is known");
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
