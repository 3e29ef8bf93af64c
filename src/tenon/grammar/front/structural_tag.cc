#include "tenon/grammar/front/structural_tag.h"

#include <algorithm>
#include <initializer_list>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tenon/grammar/front/dispatch.h"
#include "tenon/grammar/front/gbnf.h"
#include "tenon/grammar/front/lark.h"
#include "tenon/grammar/front/parameter_style.h"

namespace tenon::grammar {

namespace {

using regex::CodePointSet;

// Formats are read by recursion, so their depth is limited.
constexpr int kMaxTagDepth = 100;
// Reads a structural tag (JSON) and adds its rules. Each format has a function that reads its
// members and returns a node: constants, regular expressions, JSON values, sequences, choices,
// tags, triggered tags, and so on. An unknown member or type is refused, because ignoring it would
// give another grammar.
//
// Free text in a tag must stop where the tag ends. So each function gets TagEnds, the texts and
// tokens that end the tag around it, and free text excludes them. Triggers and their tags become a
// dispatch (dispatch.h), as in the other front ends.
//
// The path to the current place ("format.tags[0].end") is kept while reading (at), so that every
// error names it. The older form with "structures" and "triggers" is read as a triggered tag.
// Parameter styles are in parameter_style.cc.

// The ends of the enclosing tag, where free text inside it stops.
struct TagEnds {
  std::vector<std::string> texts;
  node::Token tokens;
};

class TagReader {
 public:
  explicit TagReader(Rules& rules) : rules_(rules) {}

  Expected<NodeId> read(const json::Value& tag) {
    NodeId node = 0;
    if (tag.if_object() == nullptr) {
      fail("a structural tag", "must be an object");
    } else if (tag.find("structures") != nullptr) {
      node = old_form(tag);
    } else {
      path_ = "structural_tag";
      check_type(tag, "structural_tag");
      allow(tag, {"format"});
      path_ = "format";
      const json::Value* const format = tag.find("format");
      if (format == nullptr) {
        fail("format", "is missing; a structural tag has `format`, or `structures` and `triggers`");
      } else {
        node = format_node(*format, {});
      }
    }
    if (error_) return Unexpected(*error_);
    return node;
  }

 private:
  // ---- Members ----------------------------------------------------------------------------------

  // Only the first error is kept. Readers go on with an empty value after it, so that most of
  // them need not ask whether another one failed; read() does, at the end.
  void fail(const std::string& where, std::string what, Errc code = Errc::invalid) {
    if (!error_) error_ = Error{code, where + ": " + std::move(what)};
  }
  void fail(std::string what, Errc code = Errc::invalid) { fail(path_, std::move(what), code); }
  [[nodiscard]] std::string at(std::string_view member) const {
    return path_ + "." + std::string(member);
  }

  // Refuses each member that is not among `members`; `type` is always allowed.
  void allow(const json::Value& object, std::initializer_list<std::string_view> members) {
    for (const json::Member& member : *object.if_object()) {
      if (member.key == "type" || std::ranges::find(members, member.key) != members.end()) continue;
      std::string list;
      for (const std::string_view known : members) {
        list += (list.empty() ? "" : ", ") + std::string(known);
      }
      fail(at(member.key), "is not supported here; there are " + list, Errc::unsupported);
    }
  }
  // If the place decides what an object is, `type` may be missing.
  void check_type(const json::Value& object, std::string_view type) {
    const json::Value* const value = object.find("type");
    if (value == nullptr || (value->if_string() != nullptr && *value->if_string() == type)) return;
    fail(at("type"), "must be '" + std::string(type) + "' here");
  }
  const json::Value* required(const json::Value& object, std::string_view name) {
    const json::Value* const value = object.find(name);
    if (value == nullptr) fail(at(name), "is missing");
    return value;
  }
  std::string string(const json::Value& object, std::string_view name) {
    const json::Value* const value = required(object, name);
    if (value != nullptr && value->if_string() == nullptr) fail(at(name), "must be a string");
    return error_ ? "" : *value->if_string();
  }
  // Empty if it is missing.
  std::vector<std::string> strings(const json::Value& object, std::string_view name) {
    std::vector<std::string> list;
    const json::Value* const value = object.find(name);
    if (value == nullptr) return list;
    const json::Array empty;
    const json::Array* const array = value->if_array();
    for (const json::Value& item : array != nullptr ? *array : empty) {
      if (item.if_string() != nullptr && !item.if_string()->empty()) {
        list.push_back(*item.if_string());
      }
    }
    if (array == nullptr || list.size() != array->size()) {
      fail(at(name), "must be a list of strings that are not empty");
    }
    return list;
  }
  bool boolean(const json::Value& object, std::string_view name) {
    const json::Value* const value = object.find(name);
    if (value == nullptr) return false;
    if (value->if_bool() == nullptr) fail(at(name), "must be true or false");
    return !error_ && *value->if_bool();
  }
  // Nothing if it is missing or null.
  std::optional<std::int64_t> integer(const json::Value& object, std::string_view name,
                                      std::int64_t least = 0) {
    const json::Value* const value = object.find(name);
    if (value == nullptr || value->is_null()) return std::nullopt;
    const auto number =
        value->if_number() == nullptr ? std::nullopt : value->if_number()->to_int64();
    // A repetition counts to less than kUnbounded.
    if (!number || *number < least || *number >= node::kUnbounded) {
      fail(at(name), "must be a whole number from " + std::to_string(least) + " to " +
                         std::to_string(node::kUnbounded - 1));
    }
    return error_ ? std::nullopt : number;
  }
  const json::Array& array(const json::Value& object, std::string_view name) {
    static const json::Array kNone;
    const json::Value* const value = required(object, name);
    if (value != nullptr && (value->if_array() == nullptr || value->if_array()->empty())) {
      fail(at(name), "must be a list that is not empty");
    }
    return error_ ? kNone : *value->if_array();
  }

  // Adds a token that is given by number or by name.
  void add_token(const json::Value& value, const std::string& where, node::Token& token) {
    if (value.if_string() != nullptr) {
      token.names.push_back(*value.if_string());
      return;
    }
    const auto id = value.if_number() == nullptr ? std::nullopt : value.if_number()->to_int64();
    if (!id || *id < 0 || *id >= node::kUnbounded) {
      return fail(where, "must be the number or the name of a token");
    }
    token.ids.push_back({static_cast<std::uint32_t>(*id), static_cast<std::uint32_t>(*id)});
  }
  node::Token tokens(const json::Value& object, std::string_view name) {
    node::Token token;
    const json::Value* const value = object.find(name);
    if (value == nullptr) return token;
    if (value->if_array() == nullptr) {
      fail(at(name), "must be a list");
      return token;
    }
    for (const json::Value& item : *value->if_array()) add_token(item, at(name), token);
    return token;
  }

  // ---- Formats ----------------------------------------------------------------------------------

  // Runs `f` with `path` appended to the current place.
  template <class F>
  auto within(const std::string& path, F f) {
    const std::size_t before = path_.size();
    path_ += path;
    auto result = f();
    path_.resize(before);
    return result;
  }

  NodeId format_node(const json::Value& format, const TagEnds& ends) {
    if (depth_ == kMaxTagDepth) {
      fail("is nested deeper than " + std::to_string(kMaxTagDepth) + " formats",
           Errc::limit_exceeded);
    }
    if (error_) return 0;
    if (format.if_object() == nullptr) {
      fail("must be an object with a `type`");
      return 0;
    }
    // The `type` of a format, and the method that reads the other members.
    struct Kind {
      std::string_view name;
      NodeId (TagReader::*read)(const json::Value& format, const TagEnds& ends);
    };
    static constexpr Kind kKinds[] = {
        {"const_string", &TagReader::const_string},
        {"json_schema", &TagReader::json_schema},
        {"qwen_xml_parameter", &TagReader::qwen_xml_parameter},
        {"any_text", &TagReader::any_text},
        {"grammar", &TagReader::grammar},
        {"regex", &TagReader::regex},
        {"sequence", &TagReader::sequence},
        {"or", &TagReader::one_of},
        {"tag", &TagReader::tag},
        {"triggered_tags", &TagReader::triggered_tags},
        {"tags_with_separator", &TagReader::tags_with_separator},
        {"optional", &TagReader::optional},
        {"plus", &TagReader::plus},
        {"star", &TagReader::star},
        {"repeat", &TagReader::repeat},
        {"dispatch", &TagReader::dispatch},
        {"token", &TagReader::token},
        {"exclude_token", &TagReader::exclude_token},
        {"any_tokens", &TagReader::any_tokens},
        {"token_triggered_tags", &TagReader::token_triggered_tags},
        {"token_dispatch", &TagReader::token_dispatch},
    };
    const std::string type = string(format, "type");
    if (error_) return 0;
    for (const Kind& kind : kKinds) {
      if (kind.name != type) continue;
      ++depth_;
      const NodeId node = (this->*kind.read)(format, ends);
      --depth_;
      return node;
    }
    std::string list;
    for (const Kind& kind : kKinds) list += (list.empty() ? "" : ", ") + std::string(kind.name);
    fail(at("type"), "'" + type + "' is not supported; there are " + list, Errc::unsupported);
    return 0;
  }
  // The format that is the member `name`.
  NodeId content(const json::Value& format, std::string_view name, const TagEnds& ends) {
    const json::Value* const value = required(format, name);
    if (value == nullptr) return 0;
    return within("." + std::string(name), [&] { return format_node(*value, ends); });
  }
  std::vector<NodeId> elements(const json::Value& format, const TagEnds& ends) {
    std::vector<NodeId> nodes;
    const json::Array& list = array(format, "elements");
    for (std::size_t i = 0; i < list.size() && !error_; ++i) {
      nodes.push_back(within(".elements[" + std::to_string(i) + "]",
                             [&] { return format_node(list[i], ends); }));
    }
    return nodes;
  }

  NodeId const_string(const json::Value& format, const TagEnds&) {
    allow(format, {"value"});
    return rules_.literal(string(format, "value"));
  }

  NodeId json_schema(const json::Value& format, const TagEnds&) {
    allow(format, {"json_schema", "style", "any_order", "max_whitespace_cnt", "excludes"});
    const bool has_style = format.find("style") != nullptr;
    return schema_in_style(format, has_style ? string(format, "style") : "json");
  }
  // The older name of a style.
  NodeId qwen_xml_parameter(const json::Value& format, const TagEnds&) {
    allow(format, {"json_schema", "any_order", "max_whitespace_cnt", "excludes"});
    return schema_in_style(format, "qwen_xml");
  }
  // A JSON value, or an object that is written member by member in one of the styles of
  // parameter_style.cc.
  NodeId schema_in_style(const json::Value& format, const std::string& style) {
    const ParameterStyle* const parameters = find_parameter_style(style);
    if (parameters == nullptr && style != "json") {
      fail(at("style"),
           "'" + style + "' is not supported; there are json, " + parameter_style_names(),
           Errc::unsupported);
    }
    const std::vector<std::string> excludes = strings(format, "excludes");
    if (parameters == nullptr && !excludes.empty()) {
      fail(at("excludes"), "is only supported where it is empty; write a `pattern` for strings",
           Errc::unsupported);
    }
    const json::Value* const schema = required(format, "json_schema");
    using Order = JsonOptions::PropertyOrder;
    JsonOptions options{.property_order = boolean(format, "any_order") ? Order::any : Order::schema,
                        .whitespace = JsonOptions::Whitespace::any};
    if (const auto most = integer(format, "max_whitespace_cnt")) {
      options.max_whitespace = static_cast<std::uint32_t>(*most);
      if (*most == 0) options.whitespace = JsonOptions::Whitespace::compact;
    }
    if (error_) return 0;
    if (parameters == nullptr) return json(*schema, at("json_schema"), options);
    const auto node = add_parameters(rules_, *schema, *parameters, options, excludes);
    if (node) return *node;
    fail(at("json_schema"), node.error().message, node.error().code);
    return 0;
  }
  NodeId json(const json::Value& source, const std::string& where, const JsonOptions& options) {
    auto schema = schema::Schema::compile(source);
    if (!schema) {
      fail(where, schema.error().message, schema.error().code);
      return 0;
    }
    return rules_.add(node::Json{std::move(*schema), options});
  }

  // In `{"begin": "<a>", "content": {"type": "any_text"}, "end": "</a>"}` the text holds no "</a>",
  // so the tag ends where its end first comes.
  NodeId any_text(const json::Value& format, const TagEnds& ends) {
    allow(format, {"excludes", "max_chars", "max_tokens"});
    std::vector<std::string> stops = strings(format, "excludes");
    stops.insert(stops.end(), ends.texts.begin(), ends.texts.end());
    NodeId text = rules_.add(node::Text{std::move(stops)});
    if (const auto most = integer(format, "max_chars")) {
      const NodeId any = rules_.add(node::Characters{CodePointSet::all()});
      const NodeId few = rules_.repeat(any, 0, static_cast<std::uint32_t>(*most));
      text = rules_.add(node::Lexeme{rules_.add(node::Both{{text, few}})});
    }
    // A limit of characters is part of the lexeme, and one of tokens counts around it.
    const auto most = integer(format, "max_tokens");
    return most ? add_max_tokens(rules_, text, static_cast<std::uint32_t>(*most)) : text;
  }

  NodeId grammar(const json::Value& format, const TagEnds&) {
    allow(format, {"grammar", "syntax"});
    const std::string source = string(format, "grammar");
    const std::string syntax = format.find("syntax") != nullptr ? string(format, "syntax") : "ebnf";
    if (syntax != "ebnf" && syntax != "lark") {
      fail(at("syntax"), "'" + syntax + "' is not supported; there are ebnf and lark",
           Errc::unsupported);
    }
    if (error_) return 0;
    const auto node = syntax == "lark" ? add_lark(rules_, source) : add_gbnf(rules_, source);
    if (node) return *node;
    fail(at("grammar"), node.error().message, node.error().code);
    return 0;
  }

  NodeId regex(const json::Value& format, const TagEnds&) {
    allow(format, {"pattern"});
    const std::string source = string(format, "pattern");
    const auto node = add_pattern(rules_, source);
    if (!node) fail(at("pattern"), node.error().message, node.error().code);
    return node ? *node : 0;
  }

  NodeId sequence(const json::Value& format, const TagEnds& ends) {
    allow(format, {"elements"});
    return rules_.sequence(elements(format, ends));
  }
  NodeId one_of(const json::Value& format, const TagEnds& ends) {
    allow(format, {"elements"});
    return rules_.choice(elements(format, ends));
  }
  NodeId optional(const json::Value& format, const TagEnds& ends) {
    return repeated(format, ends, 0, 1);
  }
  NodeId plus(const json::Value& format, const TagEnds& ends) {
    return repeated(format, ends, 1, node::kUnbounded);
  }
  NodeId star(const json::Value& format, const TagEnds& ends) {
    return repeated(format, ends, 0, node::kUnbounded);
  }
  NodeId repeated(const json::Value& format, const TagEnds& ends, std::uint32_t min,
                  std::uint32_t max) {
    allow(format, {"content"});
    return rules_.repeat(content(format, "content", ends), min, max);
  }
  NodeId repeat(const json::Value& format, const TagEnds& ends) {
    allow(format, {"content", "min", "max"});
    // -1 and -2 stand for what is missing or no number.
    const std::int64_t min = integer(format, "min").value_or(-1);
    const std::int64_t max = integer(format, "max", -1).value_or(-2);
    if (min < 0 || max < -1 || (max >= 0 && max < min)) {
      fail("needs `min`, at least 0, and `max`, at least `min`, or -1 for any number");
    }
    const NodeId node = content(format, "content", ends);
    return rules_.repeat(node, static_cast<std::uint32_t>(min),
                         max < 0 ? node::kUnbounded : static_cast<std::uint32_t>(max));
  }

  // ---- Tags -------------------------------------------------------------------------------------

  struct Tag {
    std::string begin;  // if it is a text
    node::Token token;  // if it is a token
    NodeId begin_node = 0;
    NodeId rest = 0;  // the content and the end
  };

  NodeId tag(const json::Value& format, const TagEnds&) { return whole(tag_of(format)); }
  NodeId whole(const Tag& tag) { return rules_.sequence({tag.begin_node, tag.rest}); }

  // Reads `{"begin": ..., "content": ..., "end": ...}`. Its own ends take the place of those of the
  // tag around it: text inside stops at the innermost end.
  Tag tag_of(const json::Value& format) {
    Tag tag;
    if (error_) return tag;
    if (format.if_object() == nullptr) {
      fail("must be an object");
      return tag;
    }
    check_type(format, "tag");
    allow(format, {"begin", "content", "end"});
    const json::Value* const begin = required(format, "begin");
    if (begin == nullptr) return tag;
    if (begin->if_string() != nullptr) {
      tag.begin = *begin->if_string();
      tag.begin_node = rules_.literal(tag.begin);
    } else {
      tag.token = token_format(*begin, "begin");
      tag.begin_node = rules_.add(tag.token);
    }
    TagEnds ends;
    const NodeId end_node = end_of(format, ends);
    tag.rest = rules_.sequence({content(format, "content", ends), end_node});
    return tag;
  }
  // Reads `end`: a text, a list of texts of which one ends the tag, or a token. An empty text ends
  // it at once and stops no free text.
  NodeId end_of(const json::Value& format, TagEnds& ends) {
    const json::Value* const end = required(format, "end");
    if (end == nullptr) return 0;
    if (end->if_object() != nullptr) {
      ends.tokens = token_format(*end, "end");
      return rules_.add(ends.tokens);
    }
    std::vector<NodeId> nodes;
    const auto add = [&](const json::Value& value) {
      if (value.if_string() == nullptr) {
        return fail(at("end"), "must be a string, a list of strings, or a token");
      }
      if (!value.if_string()->empty()) ends.texts.push_back(*value.if_string());
      nodes.push_back(rules_.literal(*value.if_string()));
    };
    if (end->if_array() != nullptr && !end->if_array()->empty()) {
      for (const json::Value& value : *end->if_array()) add(value);
    } else {
      add(*end);
    }
    return rules_.choice(std::move(nodes));
  }
  // {"type": "token", "token": "<|end|>"}, by name or by number.
  node::Token token_format(const json::Value& format, std::string_view name) {
    node::Token token;
    const json::Value* const type = format.find("type");
    const json::Value* const value = format.find("token");
    if (type == nullptr || type->if_string() == nullptr || *type->if_string() != "token" ||
        value == nullptr) {
      fail(at(name), "must be a string or {\"type\": \"token\", \"token\": ...}");
      return token;
    }
    add_token(*value, at(name), token);
    return token;
  }
  std::vector<Tag> tags(const json::Value& format) {
    std::vector<Tag> list;
    const json::Array& sources = array(format, "tags");
    for (std::size_t i = 0; i < sources.size() && !error_; ++i) {
      list.push_back(
          within(".tags[" + std::to_string(i) + "]", [&] { return tag_of(sources[i]); }));
    }
    return list;
  }

  // Free text, and behind each trigger the rest of one of the tags that begin with it.
  NodeId triggered_tags(const json::Value& format, const TagEnds& ends) {
    allow(format, {"triggers", "tags", "at_least_one", "stop_after_first", "excludes"});
    const std::vector<std::string> triggers = strings(format, "triggers");
    if (triggers.empty()) fail(at("triggers"), "must be a list of strings that is not empty");
    std::vector<Dispatch::Way> ways;
    for (const Tag& tag : tags(format)) {
      const auto begins_tag = [&](const std::string& t) { return tag.begin.starts_with(t); };
      // With the triggers "<a" and "<ab" a tag "<abc" would belong to both.
      const auto count = std::ranges::count_if(triggers, begins_tag);
      if (count == 1) {
        ways.push_back(way_of(*std::ranges::find_if(triggers, begins_tag), tag.begin, tag.rest));
        continue;
      }
      fail(at("tags"), "the tag that begins with '" + tag.begin + "' begins with " +
                           (count == 0 ? "no trigger" : "more than one trigger") +
                           "; it must be exactly one");
    }
    std::vector<std::string> stops = stops_of(format, triggers);
    stops.insert(stops.end(), ends.texts.begin(), ends.texts.end());
    return dispatched({.ways = std::move(ways),
                       .stops = std::move(stops),
                       .at_least_one = boolean(format, "at_least_one"),
                       .only_first = boolean(format, "stop_after_first")});
  }
  NodeId dispatched(Dispatch dispatch) {
    if (error_) return 0;  // a trigger may be empty
    if (std::string much = excess(dispatch); !much.empty()) {
      fail(path_, std::move(much), Errc::limit_exceeded);
      return 0;
    }
    return add_dispatch(rules_, std::move(dispatch));
  }
  // The dispatch has read the trigger when it enters the way, so only the rest of `begin` follows.
  Dispatch::Way way_of(const std::string& trigger, const std::string& begin, NodeId rest) {
    return {trigger, rules_.sequence({rules_.literal(begin.substr(trigger.size())), rest})};
  }
  std::vector<std::string> stops_of(const json::Value& format, std::vector<std::string> stops) {
    for (std::string& stop : strings(format, "excludes")) stops.push_back(std::move(stop));
    return stops;
  }

  // No free text: `<a></a>,<b></b>`.
  NodeId tags_with_separator(const json::Value& format, const TagEnds&) {
    allow(format, {"tags", "separator", "at_least_one", "stop_after_first"});
    const NodeId separator = rules_.literal(string(format, "separator"));
    std::vector<NodeId> nodes;
    for (const Tag& tag : tags(format)) nodes.push_back(whole(tag));
    NodeId node = rules_.choice(std::move(nodes));
    if (!boolean(format, "stop_after_first")) {
      const NodeId more = rules_.repeat(rules_.sequence({separator, node}), 0, node::kUnbounded);
      node = rules_.sequence({node, more});
    }
    return boolean(format, "at_least_one") ? node : rules_.repeat(node, 0, 1);
  }

  // The text excludes `excludes` only, so what ends the enclosing tag must be one of them.
  NodeId dispatch(const json::Value& format, const TagEnds& ends) {
    allow(format, {"rules", "loop", "excludes"});
    std::vector<std::string> patterns;
    std::vector<Dispatch::Way> ways;
    for_each_rule(
        format,
        [&](const json::Value& pattern, NodeId node) {
          if (pattern.if_string() == nullptr || pattern.if_string()->empty()) {
            return fail(at("rules"), "each must begin with a string that is not empty");
          }
          patterns.push_back(*pattern.if_string());
          ways.push_back({patterns.back(), node});
        },
        ends);
    return dispatched({.ways = std::move(ways),
                       .stops = stops_of(format, patterns),
                       .only_first = !loops(format)});
  }
  template <class F>
  void for_each_rule(const json::Value& format, F f, const TagEnds& ends) {
    // Each is a pair: `["<a>", {"type": ...}]`.
    const json::Array& list = array(format, "rules");
    for (std::size_t i = 0; i < list.size() && !error_; ++i) {
      const json::Array* const pair = list[i].if_array();
      if (pair == nullptr || pair->size() != 2) {
        return fail(at("rules"), "each must be a pair of a pattern and a format");
      }
      const NodeId node = within(".rules[" + std::to_string(i) + "][1]",
                                 [&] { return format_node((*pair)[1], ends); });
      f((*pair)[0], node);
    }
  }
  bool loops(const json::Value& format) {
    return format.find("loop") == nullptr || boolean(format, "loop");
  }

  // ---- Tokens -----------------------------------------------------------------------------------

  NodeId token(const json::Value& format, const TagEnds&) {
    allow(format, {"token"});
    node::Token token;
    if (const json::Value* const value = required(format, "token")) {
      add_token(*value, at("token"), token);
    }
    return rules_.add(std::move(token));
  }
  NodeId exclude_token(const json::Value& format, const TagEnds&) {
    allow(format, {"exclude_tokens"});
    return other_token(tokens(format, "exclude_tokens"));
  }
  // Within a tag that ends with a token, the tokens do not include that end.
  NodeId any_tokens(const json::Value& format, const TagEnds& ends) {
    allow(format, {"exclude_tokens", "max_tokens"});
    const auto most = integer(format, "max_tokens");
    node::Token excluded = united(tokens(format, "exclude_tokens"), ends.tokens);
    return rules_.repeat(other_token(std::move(excluded)), 0,
                         most ? static_cast<std::uint32_t>(*most) : node::kUnbounded);
  }
  NodeId other_token(node::Token excluded) {
    excluded.is_negated = true;
    return rules_.add(std::move(excluded));
  }
  static node::Token united(node::Token a, const node::Token& b) {
    a.names.insert(a.names.end(), b.names.begin(), b.names.end());
    a.ids.insert(a.ids.end(), b.ids.begin(), b.ids.end());
    return a;
  }
  // Any number of tokens, without the triggers, what the format excludes, and what ends the tag
  // around it.
  NodeId free_tokens(const json::Value& format, const node::Token& triggers, const TagEnds& ends) {
    node::Token excluded = united(tokens(format, "exclude_tokens"), triggers);
    return rules_.repeat(other_token(united(std::move(excluded), ends.tokens)), 0,
                         node::kUnbounded);
  }

  // As triggered_tags(), with tokens in the place of texts: a trigger is the whole begin of its
  // tag.
  NodeId token_triggered_tags(const json::Value& format, const TagEnds& ends) {
    allow(format, {"trigger_tokens", "tags", "exclude_tokens", "at_least_one", "stop_after_first"});
    const node::Token triggers = tokens(format, "trigger_tokens");
    std::vector<NodeId> nodes;
    for (const Tag& tag : tags(format)) {
      const bool is_trigger =
          tag.token.names.empty()
              ? !tag.token.ids.empty() &&
                    std::ranges::any_of(triggers.ids,
                                        [&](const node::Token::Range& range) {
                                          return range.first == tag.token.ids[0].first;
                                        })
              : std::ranges::find(triggers.names, tag.token.names[0]) != triggers.names.end();
      if (!is_trigger) fail(at("tags"), "each tag must begin with one of the trigger_tokens");
      nodes.push_back(whole(tag));
    }
    const NodeId text = free_tokens(format, triggers, ends);
    const NodeId tag = rules_.choice(std::move(nodes));
    return add_dispatch(rules_, text, tag, boolean(format, "at_least_one"),
                        boolean(format, "stop_after_first"));
  }

  NodeId token_dispatch(const json::Value& format, const TagEnds& ends) {
    allow(format, {"rules", "loop", "exclude_tokens"});
    node::Token triggers;
    std::vector<NodeId> nodes;
    for_each_rule(
        format,
        [&](const json::Value& pattern, NodeId node) {
          node::Token token;
          add_token(pattern, at("rules"), token);
          triggers = united(std::move(triggers), token);
          nodes.push_back(rules_.sequence({rules_.add(std::move(token)), node}));
        },
        ends);
    const NodeId text = free_tokens(format, triggers, ends);
    const NodeId tag = rules_.choice(std::move(nodes));
    return add_dispatch(rules_, text, tag, false, !loops(format));
  }

  // ---- The older form ---------------------------------------------------------------------------

  NodeId old_form(const json::Value& tag) {
    path_ = "structural_tag";
    check_type(tag, "structural_tag");
    allow(tag, {"structures", "triggers"});
    const json::Array& structures = array(tag, "structures");
    const std::vector<std::string> triggers = strings(tag, "triggers");
    if (triggers.empty()) fail(at("triggers"), "must be a list of strings that is not empty");
    std::vector<Dispatch::Way> ways;
    for (std::size_t i = 0; i < structures.size() && !error_; ++i) {
      ways.push_back(within(".structures[" + std::to_string(i) + "]",
                            [&] { return structure(structures[i], triggers); }));
    }
    return dispatched({.ways = std::move(ways), .stops = triggers});
  }
  // One of "structures": `{"begin": "<f>", "schema": {...}, "end": "</f>"}` as a tag whose content
  // is a JSON value. The first trigger with which it begins counts.
  Dispatch::Way structure(const json::Value& source, const std::vector<std::string>& triggers) {
    if (source.if_object() == nullptr) {
      fail("must be an object");
      return {};
    }
    allow(source, {"begin", "schema", "end"});
    const std::string begin = string(source, "begin");
    const std::string end = string(source, "end");
    const json::Value* schema = required(source, "schema");
    if (error_) return {};
    const auto trigger =
        std::ranges::find_if(triggers, [&](const auto& t) { return begin.starts_with(t); });
    if (trigger == triggers.end()) {
      fail(at("begin"), "must begin with a trigger");
      return {};
    }
    // The schema may be given as its text.
    Expected<json::Value> parsed;
    if (schema->if_string() != nullptr) {
      parsed = json::parse(*schema->if_string());
      if (!parsed) {
        fail(at("schema"), "is no JSON: " + parsed.error().message);
        return {};
      }
      schema = &*parsed;
    }
    const JsonOptions options{.property_order = JsonOptions::PropertyOrder::schema,
                              .whitespace = JsonOptions::Whitespace::any};
    const NodeId body = json(*schema, at("schema"), options);
    return way_of(*trigger, begin, rules_.sequence({body, rules_.literal(end)}));
  }

  Rules& rules_;
  std::string path_;
  int depth_ = 0;
  std::optional<Error> error_;
};

}  // namespace

Expected<NodeId> add_structural_tag(Rules& rules, const json::Value& tag) {
  return TagReader(rules).read(tag);
}

}  // namespace tenon::grammar
