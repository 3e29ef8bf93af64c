#include "tenon/grammar/print_batch.h"

#include <string>
#include <string_view>
#include <utility>

#include "tenon/grammar/print.h"
#include "tenon/grammar/request.h"
#include "tenon/json/lines.h"

namespace tenon::grammar {

namespace {

json::Object answer_of(Printed printed) {
  json::Object answer;
  answer["grammar"] = std::move(printed.text);
  answer["relaxed"] = answer_of(std::move(printed.relaxed));
  return answer;
}

}  // namespace

Expected<json::Object> print_line(const json::Object& request) {
  const Status known = request.contains("grammar")
                           ? json::check_members(request, {"grammar", "syntax", "to"})
                           : json::check_members(request, {"schema", "draft", "documents",
                                                           "assert_format", "whitespace", "to"});
  if (!known) return Unexpected(known.error());
  constexpr std::string_view kDialects[] = {"gbnf", "ebnf", "lark", "json-schema"};
  const auto dialect = chosen(request, "to", kDialects, 0);
  if (!dialect) return Unexpected(dialect.error());
  auto rules = requested_rules(request, {.property_order = JsonOptions::PropertyOrder::schema});
  if (!rules) return Unexpected(rules.error());
  if (*dialect == 3) {
    // A schema is what it is; what it refers to elsewhere goes with it no further.
    const json::Value* const schema = request.find("schema");
    if (schema != nullptr) return answer_of({json::to_string(*schema), {}});
    return Unexpected(Error{Errc::unsupported,
                            "to: only a schema can be printed as json-schema; give gbnf, ebnf or "
                            "lark for a grammar"});
  }
  constexpr Expected<Printed> (*kPrinters[])(const Rules&) = {print_gbnf, print_ebnf, print_lark};
  auto printed = kPrinters[*dialect](*rules);
  if (!printed) return Unexpected(printed.error());
  return answer_of(*std::move(printed));
}

void print_batch(std::istream& in, std::ostream& out) {
  json::answer_lines(in, out, [](const json::Object& request) { return print_line(request); });
}

}  // namespace tenon::grammar
