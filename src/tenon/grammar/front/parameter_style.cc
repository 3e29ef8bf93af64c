#include "tenon/grammar/front/parameter_style.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "tenon/grammar/front/source.h"
#include "tenon/regex/code_points.h"
#include "tenon/regex/syntax.h"
#include "tenon/schema/schema.h"

namespace tenon::grammar {

namespace {

using regex::CodePointSet;
using Told = ParameterStyle::Told;
// Grammars for objects that are written one member after the other
// (`<parameter=city>Oslo</parameter>`), from a JSON Schema and a row of kStyles. A style says what
// opens and closes a member, and what its head says about the value.
//
// The schema is read as JSON, not compiled to terms, because here a value's text depends on its
// type: strings are written without quotes up to what closes the member, and all other values as
// JSON. So ways_of() lists the ways in which a value may be written, each with the types that the
// head may name; `$ref`, allOf, anyOf and oneOf are followed as far as they can be kept, and
// everything else that the schema requires of strings or objects is refused with its place.
//
// Members come in the schema's order (listed), or in any order: for few members there is a rule for
// each set of members that has come (in_orders), for many ones only their number is enforced
// (in_loose_order). Values that contain themselves become rules, one for each place in the schema
// (nested).

// `named` closes the head; what the head says comes before it.
constexpr ParameterStyle kStyles[] = {
    {"qwen_xml", "<parameter=", ">", "", "</parameter>"},
    {"minimax_xml", "<parameter name=\"", "\">", "", "</parameter>"},
    {"deepseek_xml", "<｜DSML｜parameter name=\"", "\">", "", "</｜DSML｜parameter>",
     Told::is_string},
    {"deepseek_v4_1_xml", "<｜DSML｜ parameter name=\"", "\">", "", "</｜DSML｜ parameter>",
     Told::is_string},
    {"glm_xml", "<arg_key>", "</arg_key>", "<arg_value>", "</arg_value>"},
    {"cohere_xml", "<cofl:value name=\"", "\">", "", "</cofl:value>", Told::sort},
    {"kimi_k3_xml", "<|open|>argument key=\"", "\"<|sep|>", "", "<|close|>argument<|sep|>",
     Told::type},
};

// The types that are written as JSON. Integers are numbers here.
constexpr std::array<std::string_view, 5> kOtherTypes = {"number", "boolean", "null", "array",
                                                         "object"};
// The whole schema is a document with this address, so that a part of it can be compiled by itself
// as a `$ref`, and its own references still work.
constexpr std::string_view kSchemaAddress = "tenon:parameters";

// A member of `place` in the schema, as a JSON Pointer (RFC 6901).
std::string pointer_to(const std::string& place, std::string_view key) {
  std::string pointer = place + "/";
  for (const char c : key) {
    if (c == '~') {
      pointer += "~0";
    } else if (c == '/') {
      pointer += "~1";
    } else {
      pointer += c;
    }
  }
  return pointer;
}
// The same as a URI: in a fragment all but a few characters are percent-encoded (RFC 3986).
std::string reference_to(const std::string& pointer) {
  constexpr std::string_view kHex = "0123456789ABCDEF";
  std::string text = std::string(kSchemaAddress) + "#";
  for (const char c : pointer) {
    const auto byte = static_cast<unsigned char>(c);
    const bool is_plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
                          (c >= '0' && c <= '9') || c == '/' || c == '_' || c == '-' || c == '.';
    if (is_plain) {
      text += c;
    } else {
      text += '%';
      text += kHex[byte >> 4U];
      text += kHex[byte & 0xFU];
    }
  }
  return text;
}

// Decodes a fragment of a URI.
std::string unescaped(const std::string& fragment) {
  std::string text;
  for (std::size_t i = 0; i < fragment.size(); ++i) {
    Source escape(std::string_view(fragment).substr(i));
    if (escape.take("%")) {
      if (const auto byte = escape.take_hex(2)) {
        text += static_cast<char>(*byte);
        i += 2;
        continue;
      }
    }
    text += fragment[i];
  }
  return text;
}

class ParameterWriter {
 public:
  ParameterWriter(Rules& rules, const json::Value& schema, const ParameterStyle& style,
                  const JsonOptions& options, const std::vector<std::string>& excludes)
      : rules_(rules), schema_(schema), style_(style), options_(options) {
    stops_ = excludes;
    stops_.emplace_back(style.close);
    documents_.set(std::string(kSchemaAddress), schema);
  }

  Expected<NodeId> run() {
    // Errors of the whole schema are reported first.
    if (const auto whole = schema::Schema::compile(schema_); !whole) {
      return Unexpected(whole.error());
    }
    const NodeId node = object({&schema_, ""});
    if (error_) return Unexpected(*error_);
    return node;
  }

 private:
  struct Part {
    const json::Value* schema;
    std::string pointer;  // its place in schema_, or kNowhere for the schema `true`
  };
  // A way to write a value, and what the head then says of it.
  struct Way {
    std::string_view told;
    NodeId value;
  };

  NodeId fail(const std::string& pointer, std::string what, Errc code = Errc::unsupported) {
    if (!error_) error_ = Error{code, pointer + ": " + std::move(what)};
    return 0;
  }

  // ---- Schemas ----------------------------------------------------------------------------------

  static constexpr std::string_view kNowhere = "?";
  static Part any_part() {
    static const json::Value kAny = true;
    return {&kAny, std::string(kNowhere)};
  }
  static Part below(const Part& part, std::string_view key) {
    return {part.schema->find(key), pointer_to(part.pointer, key)};
  }
  // Follows a `$ref` into the schema itself, and further ones.
  Part resolved(Part part) {
    constexpr int kMaxReferences = 50;
    for (int i = 0; i < kMaxReferences; ++i) {
      const json::Value* const reference = part.schema->find("$ref");
      if (reference == nullptr || reference->if_string() == nullptr) return part;
      const std::string& text = *reference->if_string();
      const json::Object& members = *part.schema->if_object();
      const bool is_alone = std::ranges::all_of(members, [](const json::Member& member) {
        return member.key == "$ref" || is_annotation(member.key);
      });
      // Left as it is: strings() refuses it, and json() hands it to the compiler, which can follow
      // it.
      if (!text.starts_with("#") || !is_alone) return part;
      const std::string pointer = unescaped(text.substr(1));
      const json::Value* const target = json::at_pointer(schema_, pointer);
      if (target == nullptr) return part;
      part = {target, pointer};
    }
    return part;
  }
  // Keywords that forbid no value here; `format` is not asserted.
  static bool is_annotation(std::string_view key) {
    constexpr std::array<std::string_view, 15> kAnnotations = {
        "title",      "description", "default",   "examples", "example",
        "deprecated", "readOnly",    "writeOnly", "$comment", "format",
        "$defs",      "definitions", "$schema",   "$id",      "nullable"};
    return std::ranges::find(kAnnotations, key) != kAnnotations.end() || key.starts_with("x-");
  }
  static bool is_nothing(const json::Value& schema) {
    return schema.if_bool() != nullptr && !*schema.if_bool();
  }
  // The types that the schema names; empty: none.
  static std::vector<std::string> types_of(const json::Value& schema) {
    std::vector<std::string> types;
    const json::Value* const type = schema.find("type");
    if (type == nullptr) return types;
    if (type->if_string() != nullptr) types.push_back(*type->if_string());
    if (const json::Array* const list = type->if_array()) {
      for (const json::Value& one : *list) {
        if (one.if_string() != nullptr) types.push_back(*one.if_string());
      }
    }
    const json::Value* const nullable = schema.find("nullable");
    const bool* const may_be_null = nullable == nullptr ? nullptr : nullable->if_bool();
    if (may_be_null != nullptr && *may_be_null) types.emplace_back("null");
    return types;
  }
  static bool may_be(const std::vector<std::string>& types, std::string_view type) {
    return types.empty() || std::ranges::find(types, type) != types.end() ||
           (type == "number" && std::ranges::find(types, "integer") != types.end());
  }

  // ---- Values -----------------------------------------------------------------------------------

  NodeId space() {
    if (!space_) {
      const NodeId one = rules_.add(node::Characters{{{'\t', '\n'}, {'\r', '\r'}, {' ', ' '}}});
      space_ = rules_.repeat(one, 0, options_.max_whitespace);
    }
    return *space_;
  }
  NodeId spaced(NodeId node) { return rules_.sequence({space(), node, space()}); }

  // Values of the schema and of `types`, as JSON.
  std::optional<NodeId> json(const Part& part, std::vector<std::string_view> types) {
    json::Array names;
    for (const std::string_view type : types) names.emplace_back(std::string(type));
    json::Array all{json::Object{{"type", std::move(names)}}};
    if (part.pointer != kNowhere) {
      all.emplace_back(json::Object{{"$ref", reference_to(part.pointer)}});
    }
    const json::Value wrapped = json::Object{{"allOf", std::move(all)}};
    auto schema = schema::Schema::compile(wrapped, {.documents = &documents_});
    if (!schema) {
      fail(part.pointer, schema.error().message, schema.error().code);
      return std::nullopt;
    }
    return rules_.add(node::Json{*std::move(schema), options_});
  }

  // The texts of strings that fit the schema, as they are written; nothing if no string fits.
  std::optional<NodeId> strings(Part part, int depth) {
    part = resolved(part);
    const json::Value& schema = *part.schema;
    if (depth > kMaxDepth) {
      fail(part.pointer, "is too deep", Errc::limit_exceeded);
      return std::nullopt;
    }
    if (is_nothing(schema) || !may_be(types_of(schema), "string")) return std::nullopt;
    std::vector<NodeId> all;
    if (!add_listed(schema, all)) return std::nullopt;
    if (!add_limits(part, all)) return std::nullopt;
    for (const std::string_view keyword : {"anyOf", "oneOf", "allOf"}) {
      const Part list = below(part, keyword);
      if (list.schema == nullptr || list.schema->if_array() == nullptr) continue;
      std::vector<NodeId> ways;
      const json::Array& options = *list.schema->if_array();
      for (std::size_t i = 0; i < options.size() && !error_; ++i) {
        const auto one =
            strings({&options[i], pointer_to(list.pointer, std::to_string(i))}, depth + 1);
        if (one) ways.push_back(*one);
        if (!one && keyword == "allOf") return std::nullopt;
      }
      if (keyword == "allOf") {
        all.insert(all.end(), ways.begin(), ways.end());
      } else if (ways.empty()) {
        return std::nullopt;
      } else {
        all.push_back(rules_.choice(std::move(ways)));
      }
    }
    for (const std::string_view keyword :
         {"not", "if", "$dynamicRef", "$recursiveRef", "contentSchema"}) {
      if (schema.find(keyword) != nullptr) {
        fail(part.pointer,
             "of a string that is written as it is, '" + std::string(keyword) + "' cannot be kept");
        return std::nullopt;
      }
    }
    if (schema.find("$ref") != nullptr) {
      fail(part.pointer, "of a string that is written as it is, this '$ref' cannot be kept");
      return std::nullopt;
    }
    if (all.empty()) return rules_.add(node::Text{stops_});
    all.push_back(rules_.add(node::Text{stops_}));
    return rules_.add(node::Lexeme{rules_.add(node::Both{std::move(all)})});
  }
  // Adds `enum` and `const`; false: they list no string.
  bool add_listed(const json::Value& schema, std::vector<NodeId>& all) {
    for (const std::string_view keyword : {"enum", "const"}) {
      const json::Value* const listed = schema.find(keyword);
      if (listed == nullptr) continue;
      std::vector<NodeId> ways;
      const auto add = [&](const json::Value& value) {
        if (value.if_string() != nullptr) ways.push_back(rules_.literal(*value.if_string()));
      };
      if (keyword == "const" || listed->if_array() == nullptr) {
        add(*listed);
      } else {
        for (const json::Value& value : *listed->if_array()) add(value);
      }
      if (ways.empty()) return false;
      all.push_back(rules_.choice(std::move(ways)));
    }
    return true;
  }
  // Adds `pattern` and lengths; false: no string can meet them.
  bool add_limits(const Part& part, std::vector<NodeId>& all) {
    const json::Value* const pattern = part.schema->find("pattern");
    if (pattern != nullptr && pattern->if_string() != nullptr) {
      Budget budget("regex", {.max_steps = 10'000'000, .max_bytes = 64 << 20});
      const auto parsed = regex::parse(*pattern->if_string(), regex::Dialect::ecma262, budget);
      if (!parsed) {
        fail(pointer_to(part.pointer, "pattern"), parsed.error().message, parsed.error().code);
        return false;
      }
      // The pattern may match anywhere in the text, as in JSON Schema.
      all.push_back(rules_.add(node::Pattern{anywhere(*pattern->if_string())}));
    }
    const auto min = count_of(*part.schema, "minLength");
    const auto max = count_of(*part.schema, "maxLength");
    if (min && max && *max < *min) return false;
    if (min || max) {
      const NodeId any = rules_.add(node::Characters{CodePointSet::all()});
      all.push_back(rules_.repeat(any, min.value_or(0), max.value_or(node::kUnbounded)));
    }
    return true;
  }
  static std::string anywhere(const std::string& pattern) {
    return "[\\s\\S]*?(?:" + pattern + ")[\\s\\S]*";
  }

  // All ways to write a value of the schema.
  std::vector<Way> ways_of(const Part& unresolved) {
    const Part part = resolved(unresolved);
    std::vector<Way> ways;
    if (is_nothing(*part.schema) || error_) return ways;
    for (const std::string_view keyword : {"anyOf", "oneOf"}) {
      const Part options = below(part, keyword);
      if (style_.told != Told::sort || !says_only(*part.schema, {keyword}) ||
          options.schema == nullptr || options.schema->if_array() == nullptr) {
        continue;
      }
      const json::Array& list = *options.schema->if_array();
      for (std::size_t i = 0; i < list.size() && !error_; ++i) {
        if (++options_seen_ > kMaxOptions || depth_ == kMaxDepth) {
          fail(part.pointer, "has too many alternatives", Errc::limit_exceeded);
          break;
        }
        ++depth_;
        const std::vector<Way> some =
            ways_of({&list[i], pointer_to(options.pointer, std::to_string(i))});
        --depth_;
        ways.insert(ways.end(), some.begin(), some.end());
      }
      return ways;
    }
    if (const auto text = strings(part, 0)) {
      // White space around a text of any kind is part of the text.
      const bool is_any = std::holds_alternative<node::Text>(rules_.node(*text));
      const std::string_view told = style_.told == Told::is_string ? "true"
                                    : style_.told == Told::sort    ? "raw"
                                                                   : "string";
      ways.push_back({told, is_any ? *text : spaced(*text)});
    }
    const std::vector<std::string> types = types_of(*part.schema);
    std::vector<std::string_view> others;
    for (const std::string_view type : kOtherTypes) {
      if (may_be(types, type)) others.push_back(type);
    }
    if (style_.told == Told::type) {
      // The model's own template calls all numbers so. If the schema names no type, JSON Schema's
      // word for integers does no harm.
      if (types.empty()) others.emplace_back("integer");
      for (const std::string_view type : others) add_json(part, {type}, type, ways);
    } else if (style_.told == Told::sort) {
      std::erase_if(others, [&](std::string_view type) {
        const bool nests = type == "object"
                               ? is_plain_object(*part.schema, types)
                               : type == "array" && is_plain_array(*part.schema, types);
        if (!nests) return false;
        const NodeId value = nested(part, type);
        ways.push_back({type == "object" ? "dict" : "list", value});
        return true;
      });
      if (!others.empty()) add_json(part, others, "json", ways);
    } else if (!others.empty()) {
      add_json(part, others, "false", ways);
    }
    return ways;
  }
  void add_json(const Part& part, std::vector<std::string_view> types, std::string_view told,
                std::vector<Way>& ways) {
    if (const auto value = json(part, std::move(types))) ways.push_back({told, spaced(*value)});
  }

  // ---- Values that nest -------------------------------------------------------------------------

  static bool says_only(const json::Value& schema, std::initializer_list<std::string_view> keys) {
    const json::Object* const members = schema.if_object();
    return members != nullptr && std::ranges::all_of(*members, [&](const json::Member& member) {
             return is_annotation(member.key) || member.key == "type" ||
                    std::ranges::find(keys, member.key) != keys.end();
           });
  }
  static bool is_plain_object(const json::Value& schema, const std::vector<std::string>& types) {
    return !types.empty() && says_only(schema, {"properties", "required", "additionalProperties"});
  }
  static bool is_plain_array(const json::Value& schema, const std::vector<std::string>& types) {
    const json::Value* const items = schema.find("items");
    return !types.empty() && says_only(schema, {"items", "minItems", "maxItems"}) &&
           (items == nullptr || items->if_array() == nullptr);
  }
  // Made once for each place, so that schemas may contain themselves.
  NodeId nested(const Part& part, std::string_view type) {
    const auto [known, is_new] = nested_.try_emplace({part.pointer, type}, 0);
    if (is_new) {
      if (depth_ == kMaxDepth) return fail(part.pointer, "is too deep", Errc::limit_exceeded);
      ++depth_;
      known->second = rules_.declare("value");
      const RuleId rule = known->second;
      const NodeId body = type == "object" ? object(part) : array(part);
      if (!error_) rules_.define(rule, body);
      --depth_;
      return rules_.add(node::Rule{rule});
    }
    return rules_.add(node::Rule{known->second});
  }
  // Only for Told::sort: `<cofl:value type="raw">a</cofl:value>` for each item.
  NodeId array(const Part& part) {
    const Part items = below(part, "items");
    const Part each = items.schema != nullptr ? items : any_part();
    std::vector<NodeId> nodes;
    for (const Way& way : ways_of(each)) {
      nodes.push_back(
          rules_.sequence({rules_.literal("<cofl:value type=\"" + std::string(way.told) + "\">"),
                           way.value, rules_.literal(std::string(style_.close))}));
    }
    const NodeId one = rules_.sequence({space(), rules_.choice(std::move(nodes))});
    const NodeId all = rules_.repeat(one, count_of(*part.schema, "minItems").value_or(0),
                                     count_of(*part.schema, "maxItems").value_or(node::kUnbounded));
    return rules_.sequence({all, space()});
  }

  // ---- Objects ----------------------------------------------------------------------------------

  std::string escaped(std::string_view name) const {
    if (style_.told != Told::type) return std::string(name);
    std::string text;
    for (const char c : name) {
      if (c == '&') {
        text += "&amp;";
      } else if (c == '"') {
        text += "&quot;";
      } else {
        text += c;
      }
    }
    return text;
  }
  // A member whose name is read by `name`.
  NodeId member(NodeId name, const Part& value) {
    std::vector<NodeId> nodes;
    const std::vector<Way> ways = ways_of(value);
    const NodeId close = rules_.literal(std::string(style_.close));
    for (const Way& way : ways) {
      std::vector<NodeId> parts;
      if (style_.told == Told::is_string) {
        parts.push_back(rules_.literal("\" string=\"" + std::string(way.told)));
      } else if (style_.told != Told::nothing) {
        parts.push_back(rules_.literal("\" type=\"" + std::string(way.told)));
      }
      parts.push_back(rules_.literal(std::string(style_.named)));
      if (!style_.value.empty()) {
        parts.push_back(space());
        parts.push_back(rules_.literal(std::string(style_.value)));
      }
      parts.push_back(way.value);
      parts.push_back(close);
      nodes.push_back(rules_.sequence(std::move(parts)));
    }
    return rules_.sequence(
        {rules_.literal(std::string(style_.open)), name, rules_.choice(std::move(nodes))});
  }

  struct Member {
    NodeId node;
    bool is_required;
  };
  NodeId object(const Part& unresolved) {
    const Part part = resolved(unresolved);
    const json::Value& schema = *part.schema;
    if (error_ || !check_object(part)) return 0;
    std::vector<Member> members;
    std::set<std::string> names;
    std::set<std::string> required;
    if (const json::Value* const list = schema.find("required");
        list != nullptr && list->if_array() != nullptr) {
      for (const json::Value& name : *list->if_array()) {
        if (name.if_string() != nullptr) required.insert(*name.if_string());
      }
    }
    const Part properties = below(part, "properties");
    const auto add = [&](const std::string& name, const Part& value) {
      names.insert(name);
      // No value fits, so the member cannot come. If it is required, no object fits, which the
      // choice without ways says.
      if (is_nothing(*value.schema) && !required.contains(name)) return;
      members.push_back({member(rules_.literal(escaped(name)), value), required.contains(name)});
    };
    if (properties.schema != nullptr && properties.schema->if_object() != nullptr) {
      for (const json::Member& one : *properties.schema->if_object()) {
        add(one.key, {&one.value, pointer_to(properties.pointer, one.key)});
      }
    }
    const Part others = others_of(part);
    for (const std::string& name : required) {
      if (!names.contains(name)) add(name, others.schema != nullptr ? others : any_part());
    }
    std::vector<NodeId> declared;
    for (const std::string& name : names) declared.push_back(rules_.literal(name));
    std::vector<NodeId> more_ways;
    const Part patterns = below(part, "patternProperties");
    if (patterns.schema != nullptr && patterns.schema->if_object() != nullptr) {
      const NodeId any = rules_.add(node::Pattern{R"([^\s"<>&]+)"});
      for (const json::Member& one : *patterns.schema->if_object()) {
        const NodeId named = rules_.add(node::Pattern{anywhere(one.key)});
        if (!is_nothing(one.value)) {
          const Part value{&one.value, pointer_to(patterns.pointer, one.key)};
          more_ways.push_back(member(other_name({any, named}, declared), value));
        }
        declared.push_back(named);  // a name that fits several patterns has the value of the first
      }
    }
    if (others.schema != nullptr && !is_nothing(*others.schema)) {
      const NodeId any = rules_.add(node::Pattern{"[A-Za-z_][A-Za-z0-9_]*"});
      more_ways.push_back(member(other_name({any}, declared), others));
    }
    if (error_) return 0;
    std::optional<NodeId> more;
    if (!more_ways.empty()) more = rules_.choice(std::move(more_ways));
    return rules_.sequence({listed(members, more), space()});
  }
  // A name that fits all `parts` and is not in `declared`.
  NodeId other_name(std::vector<NodeId> parts, const std::vector<NodeId>& declared) {
    parts.push_back(rules_.add(node::Complement{rules_.choice(declared)}));
    return rules_.add(node::Lexeme{rules_.add(node::Both{std::move(parts)})});
  }
  // The schema of undeclared members; null: they are not allowed. If the schema does not mention
  // them, models write only declared ones.
  static Part others_of(const Part& part) {
    const Part others = below(part, "additionalProperties");
    if (others.schema != nullptr) return others;
    return part.schema->find("properties") != nullptr ? Part{nullptr, ""} : any_part();
  }
  bool check_object(const Part& part) {
    const json::Value& schema = *part.schema;
    if (schema.if_bool() != nullptr && *schema.if_bool()) return true;
    if (!may_be(types_of(schema), "object")) {
      fail(part.pointer, "parameters are an object", Errc::invalid);
      return false;
    }
    constexpr std::array<std::string_view, 16> kTooMuch = {"anyOf",
                                                           "oneOf",
                                                           "allOf",
                                                           "not",
                                                           "if",
                                                           "enum",
                                                           "const",
                                                           "$ref",

                                                           "minProperties",
                                                           "maxProperties",
                                                           "dependentRequired",
                                                           "dependencies",
                                                           "dependentSchemas",
                                                           "propertyNames",
                                                           "unevaluatedProperties",
                                                           "$dynamicRef"};
    for (const std::string_view keyword : kTooMuch) {
      const json::Value* const value = schema.find(keyword);
      if (value == nullptr || (keyword == "unevaluatedProperties" && value->if_bool() != nullptr)) {
        continue;
      }
      fail(part.pointer, "of an object that is written member by member, '" + std::string(keyword) +
                             "' cannot be kept");
      return false;
    }
    return true;
  }

  // Members in their order or in any order, and then `more`, with white space between them.
  NodeId listed(const std::vector<Member>& members, std::optional<NodeId> more) {
    constexpr std::size_t kMostInAnyOrder = 8;
    const bool in_any_order = options_.property_order == JsonOptions::PropertyOrder::any;
    if (in_any_order && members.size() <= kMostInAnyOrder) return in_orders(members, more);
    if (in_any_order) return in_loose_order(members, more);
    std::vector<NodeId> parts;
    for (const Member& one : members) {
      const NodeId spaced_one = rules_.sequence({space(), one.node});
      parts.push_back(one.is_required ? spaced_one : rules_.repeat(spaced_one, 0, 1));
    }
    if (more) {
      parts.push_back(rules_.repeat(rules_.sequence({space(), *more}), 0, node::kUnbounded));
    }
    return rules_.sequence(std::move(parts));
  }
  // Makes a rule for each set of members that have come.
  NodeId in_orders(const std::vector<Member>& members, std::optional<NodeId> more) {
    std::vector<RuleId> names;
    // `done` has bit i set if member i has come: at most 256 rules (kMostInAnyOrder).
    const std::size_t count = std::size_t{1} << members.size();
    for (std::size_t done = 0; done < count; ++done) names.push_back(rules_.declare("members"));
    for (std::size_t done = 0; done < count; ++done) {
      std::vector<NodeId> ways;
      bool may_end = true;
      const auto go_on = [&](NodeId one, std::size_t to) {
        ways.push_back(rules_.sequence({space(), one, rules_.add(node::Rule{names[to]})}));
      };
      for (std::size_t i = 0; i < members.size(); ++i) {
        if ((done >> i & 1U) != 0) continue;
        may_end = may_end && !members[i].is_required;
        go_on(members[i].node, done | std::size_t{1} << i);
      }
      if (more) go_on(*more, done);
      if (may_end) ways.push_back(rules_.literal(""));
      rules_.define(names[done], rules_.choice(std::move(ways)));
    }
    return rules_.add(node::Rule{names[0]});
  }
  // Many members have too many orders: only the number of required members is enforced, with any
  // names.
  NodeId in_loose_order(const std::vector<Member>& members, std::optional<NodeId> more) {
    std::vector<NodeId> ways;
    std::uint32_t least = 0;
    for (const Member& one : members) {
      ways.push_back(one.node);
      if (one.is_required) ++least;
    }
    if (more) ways.push_back(*more);
    const NodeId one = rules_.sequence({space(), rules_.choice(std::move(ways))});
    return rules_.repeat(one, least, node::kUnbounded);
  }

  Rules& rules_;
  const json::Value& schema_;
  const ParameterStyle& style_;
  JsonOptions options_;
  std::vector<std::string> stops_;
  json::Object documents_;
  std::optional<NodeId> space_;
  int depth_ = 0;  // of values that nest
  static constexpr int kMaxDepth = 50;
  static constexpr std::size_t kMaxOptions = 10'000;
  std::size_t options_seen_ = 0;
  std::map<std::pair<std::string, std::string_view>, RuleId> nested_;
  std::optional<Error> error_;
};

}  // namespace

const ParameterStyle* find_parameter_style(std::string_view name) {
  const auto* const found = std::ranges::find(kStyles, name, &ParameterStyle::name);
  return found == std::end(kStyles) ? nullptr : found;
}

std::string parameter_style_names() {
  std::string list;
  for (const ParameterStyle& style : kStyles) {
    list += (list.empty() ? "" : ", ") + std::string(style.name);
  }
  return list;
}

std::optional<std::uint32_t> count_of(const json::Value& schema, std::string_view keyword) {
  const json::Value* const value = schema.find(keyword);
  const auto number = value == nullptr || value->if_number() == nullptr
                          ? std::nullopt
                          : value->if_number()->to_int64();
  if (!number || *number < 0 || *number >= node::kUnbounded) return std::nullopt;
  return static_cast<std::uint32_t>(*number);
}

Expected<NodeId> add_parameters(Rules& rules, const json::Value& schema,
                                const ParameterStyle& style, const JsonOptions& options,
                                const std::vector<std::string>& excludes) {
  return ParameterWriter(rules, schema, style, options, excludes).run();
}

}  // namespace tenon::grammar
