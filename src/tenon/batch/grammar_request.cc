#include "tenon/batch/grammar_request.h"

#include <iterator>
#include <optional>
#include <string>
#include <utility>

#include "tenon/batch/line.h"
#include "tenon/batch/validate.h"
#include "tenon/grammar/front/read_rules.h"
#include "tenon/schema/schema.h"

namespace tenon::batch {

namespace {

using Whitespace = grammar::JsonOptions::Whitespace;
using PropertyOrder = grammar::JsonOptions::PropertyOrder;

// In the order of the enumerators.
constexpr std::string_view kWhitespace[] = {"compact", "spaced", "pretty", "any"};
constexpr std::string_view kPropertyOrder[] = {"any", "schema"};
constexpr std::string_view kUnicodeEscapes[] = {"any", "controls"};
static_assert(std::size(kUnicodeEscapes) ==
              static_cast<std::size_t>(grammar::UnicodeEscapes::controls) + 1);
static_assert(std::size(kWhitespace) == static_cast<std::size_t>(Whitespace::any) + 1);
static_assert(std::size(kPropertyOrder) == static_cast<std::size_t>(PropertyOrder::schema) + 1);

// A schema becomes a single rule, which the machine compiles to frames.
Expected<grammar::Rules> rules_of_schema(const json::Object& request, const json::Value& source,
                                         const grammar::JsonOptions& defaults) {
  const auto compile_options = compile_options_of(request);
  if (!compile_options) return Unexpected(compile_options.error());
  const auto options = requested_options(request, defaults);
  if (!options) return Unexpected(options.error());
  auto schema = schema::Schema::compile(source, *compile_options);
  if (!schema) return Unexpected(schema.error());
  grammar::Rules rules;
  rules.set_root(rules.add(grammar::node::Json{*std::move(schema), *options}));
  return rules;
}

// A grammar in the notation that `syntax` names, read to rules.
Expected<grammar::Rules> rules_of_grammar(const json::Object& request, const json::Value& source) {
  const json::Value* const name = request.find("syntax");
  const bool is_named = name != nullptr && name->if_string() != nullptr;
  const std::optional<grammar::Syntax> syntax =
      is_named ? grammar::syntax_named(*name->if_string()) : std::nullopt;
  if (!syntax) {
    return Unexpected(
        wrong_member("syntax", "must be one of gbnf, ebnf, lark, regex, structural_tag"));
  }
  // A structural tag is JSON, so it may also be given as an object.
  if (source.if_string() == nullptr && *syntax != grammar::Syntax::structural_tag) {
    return Unexpected(wrong_member("grammar", "must be a string"));
  }
  return grammar::read_rules(
      source.if_string() != nullptr ? *source.if_string() : json::to_string(source), *syntax);
}

}  // namespace

json::Array answer_of(std::vector<grammar::Relaxed> relaxed) {
  json::Array list;
  for (grammar::Relaxed& one : relaxed) {
    list.emplace_back(json::Object{{"schema_path", std::move(one.schema_path)},
                                   {"keyword", std::move(one.keyword)},
                                   {"message", std::move(one.message)}});
  }
  return list;
}

Expected<grammar::JsonOptions> requested_options(const json::Object& request,
                                                 grammar::JsonOptions options) {
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
  options.unicode_escapes = static_cast<grammar::UnicodeEscapes>(*escapes);
  return options;
}

Expected<grammar::Rules> requested_rules(const json::Object& request,
                                         const grammar::JsonOptions& defaults) {
  const json::Value* const schema = request.find("schema");
  const json::Value* const grammar = request.find("grammar");
  if ((schema == nullptr) == (grammar == nullptr)) {
    return Unexpected(wrong_member("schema", "give either schema, or grammar and its syntax"));
  }
  return schema != nullptr ? rules_of_schema(request, *schema, defaults)
                           : rules_of_grammar(request, *grammar);
}

}  // namespace tenon::batch
