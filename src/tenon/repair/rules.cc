#include "tenon/repair/rules.h"

#include <algorithm>
#include <utility>

#include "tenon/base/log.h"
#include "tenon/base/toml.h"
#include "tenon/repair/builtin_rules.h"

// Reads repair.toml, whose language is in docs/repair.md, and answers questions about the names of
// fields. A key that is not known is an error, so that a misspelt one is not without effect. The
// lists are short (kMaxItems), so names are searched for one by one.

namespace tenon::repair {
namespace {

using toml::Document;
using toml::Entry;

constexpr std::size_t kMaxItems = 256;

Unexpected must_be(const Document& document, const Entry& entry, std::string_view what) {
  return Unexpected(document.error(entry, "must be " + std::string(what)));
}

Expected<std::string> text_of(const Document& document, const Entry& entry) {
  const std::string* text = entry.value.if_string();
  if (text == nullptr || text->empty()) {
    return must_be(document, entry, "a string that is not empty");
  }
  return *text;
}

Expected<std::vector<std::string>> texts_of(const Document& document, const Entry& entry) {
  const toml::Array* items = entry.value.if_array();
  if (items == nullptr || items->empty() || items->size() > kMaxItems) {
    return must_be(document, entry, "a list of 1 to 256 strings");
  }
  std::vector<std::string> texts;
  for (const toml::Value& item : *items) {
    if (item.if_string() == nullptr || item.if_string()->empty()) {
      return must_be(document, entry, "a list of strings that are not empty");
    }
    texts.push_back(*item.if_string());
  }
  return texts;
}

Expected<schema::Type> type_of(const Document& document, const Entry& entry) {
  constexpr std::pair<std::string_view, schema::Type> kTypes[] = {
      {"boolean", schema::Type::boolean},
      {"integer", schema::Type::integer},
      {"string", schema::Type::string},
      {"array", schema::Type::array},
      {"object", schema::Type::object}};
  const std::string* name = entry.value.if_string();
  for (const auto& [known, type] : kTypes) {
    if (name != nullptr && *name == known) return type;
  }
  return must_be(document, entry, "boolean, integer, string, array or object");
}

// Stores the result of `read`.
template <class T, class Into>
Status keep(Expected<T> read, Into& into) {
  if (!read) return Unexpected(std::move(read).error());
  into = *std::move(read);
  return {};
}

// One [[rule]]: tools = ["bash"], field = "description", value = "Execute: ${command}". It needs
// the tools, the field, and one of value, type and from.
Expected<Rule> rule_of(const Document& document, const Entry& entry) {
  const toml::Table* table = entry.value.if_table();
  if (table == nullptr) return must_be(document, entry, "[[rule]]");
  Rule rule;
  for (const Entry& member : table->entries()) {
    Status kept;
    if (member.key == "tools") {
      kept = keep(texts_of(document, member), rule.tools);
    } else if (member.key == "field") {
      kept = keep(text_of(document, member), rule.field);
    } else if (member.key == "value") {
      kept = keep(text_of(document, member), rule.value);
    } else if (member.key == "log") {
      kept = keep(text_of(document, member), rule.log);
    } else if (member.key == "type") {
      kept = keep(type_of(document, member), rule.type);
    } else if (member.key == "from") {
      kept = keep(texts_of(document, member), rule.from);
    } else {
      return Unexpected(document.error(
          member, "is not known here; there are tools, field, value, log, type, from"));
    }
    if (!kept) return Unexpected(std::move(kept).error());
  }
  if (rule.tools.empty()) return Unexpected(document.error(entry, "lacks 'tools'"));
  if (rule.field.empty()) return Unexpected(document.error(entry, "lacks 'field'"));
  if (rule.value.empty() && !rule.type && rule.from.empty()) {
    return Unexpected(document.error(entry, "says nothing: give 'value', 'type' or 'from'"));
  }
  return rule;
}

// One [[alias]]: names = ["file", "filePath"], kept as "file", "filepath".
Expected<std::vector<std::string>> alias_of(const Document& document, const Entry& entry) {
  const toml::Table* table = entry.value.if_table();
  if (table == nullptr) return must_be(document, entry, "[[alias]]");
  std::vector<std::string> names;
  for (const Entry& member : table->entries()) {
    if (member.key != "names") {
      return Unexpected(document.error(member, "is not known here; there is names"));
    }
    if (Status kept = keep(texts_of(document, member), names); !kept) {
      return Unexpected(std::move(kept).error());
    }
  }
  if (names.size() < 2) return Unexpected(document.error(entry, "must have two 'names' or more"));
  for (std::string& name : names) name = without_spelling(name);
  return names;
}

}  // namespace

Expected<std::shared_ptr<const Rules>> Rules::compile(std::string_view text,
                                                      std::string_view source_name) {
  const auto document = toml::parse(text, source_name);
  if (!document) return Unexpected(document.error());
  auto rules = std::make_shared<Rules>();
  for (const Entry& list : document->root.entries()) {
    const toml::Array* items = list.value.if_array();
    const bool is_known = list.key == "alias" || list.key == "rule";
    if (!is_known) {
      return Unexpected(
          document->error(list, "is not known here; there are [[alias]] and [[rule]]"));
    }
    if (items == nullptr || items->size() > kMaxItems) {
      return must_be(*document, list, "tables, 256 at most");
    }
    for (const toml::Value& item : *items) {
      const Entry entry{list.key, item};
      Status kept;
      if (list.key == "alias") {
        kept = keep(alias_of(*document, entry), rules->aliases_.emplace_back());
      } else {
        kept = keep(rule_of(*document, entry), rules->rules_.emplace_back());
      }
      if (!kept) return Unexpected(std::move(kept).error());
    }
  }
  return rules;
}

const std::shared_ptr<const Rules>& Rules::builtin() {
  static const std::shared_ptr<const Rules> kRules = [] {
    auto rules = compile(builtin_rules().front().bytes, "repair.toml");
    if (rules) return *std::move(rules);
    log::error(rules.error().message);  // rules_test makes sure that this is never released
    return std::make_shared<const Rules>();
  }();
  return kRules;
}

std::vector<const Rule*> Rules::of(std::string_view tool) const {
  std::vector<const Rule*> found;
  for (const Rule& rule : rules_) {
    if (std::ranges::find(rule.tools, tool) != rule.tools.end()) found.push_back(&rule);
  }
  return found;
}

bool Rules::are_aliases(std::string_view a, std::string_view b) const {
  const std::string first = without_spelling(a);
  const std::string second = without_spelling(b);
  return std::ranges::any_of(aliases_, [&](const std::vector<std::string>& names) {
    return std::ranges::find(names, first) != names.end() &&
           std::ranges::find(names, second) != names.end();
  });
}

std::string without_spelling(std::string_view name) {
  std::string letters;
  for (const char c : name) {
    if (c == '-' || c == '_' || c == ' ') continue;
    letters += c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  }
  return letters;
}

// "file_path" for {"filePath", "path"} gives "filePath"; for {"filePath", "FilePath"} null, because
// two fit.
const std::string* misspelt(std::string_view name, const std::vector<std::string>& names) {
  const std::string letters = without_spelling(name);
  const std::string* found = nullptr;
  for (const std::string& other : names) {
    if (letters.empty() || without_spelling(other) != letters) continue;
    if (found != nullptr && *found != other) return nullptr;
    found = &other;
  }
  return found;
}

}  // namespace tenon::repair
