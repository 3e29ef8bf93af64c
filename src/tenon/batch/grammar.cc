#include "tenon/batch/grammar.h"

#include <string>
#include <string_view>
#include <utility>

#include "tenon/batch/grammar_request.h"
#include "tenon/batch/line.h"
#include "tenon/grammar/print/print.h"
#include "tenon/json/lines.h"

namespace tenon::batch {

namespace {

json::Object answer_of(grammar::Printed printed) {
  json::Object answer;
  answer["grammar"] = std::move(printed.text);
  answer["relaxed"] = batch::answer_of(std::move(printed.relaxed));
  return answer;
}

// kPrinters, below, has the same order without the last one, which prints schemas only.
constexpr std::string_view kDialects[] = {"gbnf", "ebnf", "lark", "json-schema"};

}  // namespace

// `{"grammar": "root ::= ...", "relaxed": [...]}`: the text, and what the language cannot say.
Expected<json::Object> print_rules(const grammar::Rules& rules, const json::Object& request) {
  const auto dialect = chosen(request, "to", kDialects, 0);
  if (!dialect) return Unexpected(dialect.error());
  constexpr Expected<grammar::Printed> (*kPrinters[])(const grammar::Rules&) = {
      grammar::print_gbnf, grammar::print_ebnf, grammar::print_lark};
  if (*dialect == std::size(kPrinters)) {
    return Unexpected(Error{Errc::unsupported,
                            "to: only a schema can be printed as json-schema; give gbnf, ebnf or "
                            "lark for a grammar"});
  }
  auto printed = kPrinters[*dialect](rules);
  if (!printed) return Unexpected(printed.error());
  return answer_of(*std::move(printed));
}

Expected<json::Object> print_line(const json::Object& request) {
  const Status known = request.contains("grammar")
                           ? json::check_members(request, {"grammar", "syntax", "to"})
                           : json::check_members(request, {"schema", "draft", "documents",
                                                           "assert_format", "whitespace", "to"});
  if (!known) return Unexpected(known.error());
  auto rules =
      requested_rules(request, {.property_order = grammar::JsonOptions::PropertyOrder::schema});
  if (!rules) return Unexpected(rules.error());
  const json::Value* const schema = request.find("schema");
  const json::Value* const to = request.find("to");
  if (schema != nullptr && to != nullptr && *to == json::Value("json-schema")) {
    // The schema is printed as it is. Documents to which it refers are not included.
    return answer_of({json::to_string(*schema), {}});
  }
  return print_rules(*rules, request);
}

}  // namespace tenon::batch
