#include "tenon/grammar/request.h"

#include <iterator>
#include <optional>
#include <string>
#include <utility>

#include "tenon/grammar/read_rules.h"
#include "tenon/schema/schema.h"
#include "tenon/schema/validate_batch.h"

namespace tenon::grammar {

namespace {

using Whitespace = JsonOptions::Whitespace;
using PropertyOrder = JsonOptions::PropertyOrder;

Error invalid(std::string_view member, std::string_view what) {
  return {Errc::invalid, std::string(member) + ": " + std::string(what)};
}

// In the order of the enumerators.
constexpr std::string_view kWhitespace[] = {"compact", "spaced", "pretty", "any"};
constexpr std::string_view kPropertyOrder[] = {"any", "schema"};
constexpr std::string_view kUnicodeEscapes[] = {"any", "controls"};
static_assert(std::size(kUnicodeEscapes) == static_cast<std::size_t>(UnicodeEscapes::controls) + 1);
static_assert(std::size(kWhitespace) == static_cast<std::size_t>(Whitespace::any) + 1);
static_assert(std::size(kPropertyOrder) == static_cast<std::size_t>(PropertyOrder::schema) + 1);

Expected<Rules> rules_of_schema(const json::Object& request, const json::Value& source,
                                const JsonOptions& defaults) {
  const auto compile_options = schema::compile_options_of(request);
  if (!compile_options) return Unexpected(compile_options.error());
  const auto options = requested_options(request, defaults);
  if (!options) return Unexpected(options.error());
  auto schema = schema::Schema::compile(source, *compile_options);
  if (!schema) return Unexpected(schema.error());
  Rules rules;
  rules.set_root(rules.add(node::Json{*std::move(schema), *options}));
  return rules;
}

Expected<Rules> rules_of_grammar(const json::Object& request, const json::Value& source) {
  const json::Value* const name = request.find("syntax");
  const bool is_named = name != nullptr && name->if_string() != nullptr;
  const std::optional<Syntax> syntax = is_named ? syntax_named(*name->if_string()) : std::nullopt;
  if (!syntax) {
    return Unexpected(invalid("syntax", "must be one of gbnf, ebnf, lark, regex, structural_tag"));
  }
  // A structural tag is JSON, so it may also be given as an object.
  if (source.if_string() == nullptr && *syntax != Syntax::structural_tag) {
    return Unexpected(invalid("grammar", "must be a string"));
  }
  return read_rules(source.if_string() != nullptr ? *source.if_string() : json::to_string(source),
                    *syntax);
}

}  // namespace

Expected<std::size_t> chosen(const json::Object& request, std::string_view member,
                             std::span<const std::string_view> words, std::size_t otherwise) {
  const json::Value* const value = request.find(member);
  if (value == nullptr) return otherwise;
  for (std::size_t i = 0; i < words.size(); ++i) {
    if (value->if_string() != nullptr && *value->if_string() == words[i]) return i;
  }
  std::string list;
  for (const std::string_view word : words) list += (list.empty() ? "" : ", ") + std::string(word);
  return Unexpected(invalid(member, "must be one of " + list));
}

Expected<bool> flag(const json::Object& request, std::string_view member, bool otherwise) {
  const json::Value* const value = request.find(member);
  if (value == nullptr) return otherwise;
  if (value->if_bool() == nullptr) return Unexpected(invalid(member, "must be true or false"));
  return *value->if_bool();
}

json::Array answer_of(std::vector<Relaxed> relaxed) {
  json::Array list;
  for (Relaxed& one : relaxed) {
    list.emplace_back(json::Object{{"schema_path", std::move(one.schema_path)},
                                   {"keyword", std::move(one.keyword)},
                                   {"message", std::move(one.message)}});
  }
  return list;
}

Expected<JsonOptions> requested_options(const json::Object& request, JsonOptions options) {
  const auto whitespace =
      chosen(request, "whitespace", kWhitespace, static_cast<std::size_t>(options.whitespace));
  if (!whitespace) return Unexpected(whitespace.error());
  const auto order = chosen(request, "property_order", kPropertyOrder,
                            static_cast<std::size_t>(options.property_order));
  if (!order) return Unexpected(order.error());
  const auto escapes = chosen(request, "unicode_escapes", kUnicodeEscapes,
                              static_cast<std::size_t>(options.unicode_escapes));
  if (!escapes) return Unexpected(escapes.error());
  const auto lenient = flag(request, "lenient", options.lenient);
  if (!lenient) return Unexpected(lenient.error());
  options.lenient = *lenient;
  options.whitespace = static_cast<Whitespace>(*whitespace);
  options.property_order = static_cast<PropertyOrder>(*order);
  options.unicode_escapes = static_cast<UnicodeEscapes>(*escapes);
  return options;
}

Expected<Rules> requested_rules(const json::Object& request, const JsonOptions& defaults) {
  const json::Value* const schema = request.find("schema");
  const json::Value* const grammar = request.find("grammar");
  if ((schema == nullptr) == (grammar == nullptr)) {
    return Unexpected(invalid("schema", "give either schema, or grammar and its syntax"));
  }
  return schema != nullptr ? rules_of_schema(request, *schema, defaults)
                           : rules_of_grammar(request, *grammar);
}

}  // namespace tenon::grammar
