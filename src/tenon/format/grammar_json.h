#pragma once

#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>

#include "tenon/format/grammar_text.h"
#include "tenon/format/schema_types.h"
#include "tenon/format/whole_schemas.h"
#include "tenon/grammar/rules/spell.h"
#include "tenon/json/value.h"
#include "tenon/schema/schema.h"

/// What is written as JSON for the tool that is being written: its arguments, objects with its
/// name, ids, and the text of a custom tool.
namespace tenon::format {

/// What belongs to the tool that is being written, and begins anew with each tool.
struct OfTool {
  explicit OfTool(const Tool& tool);

  json::Value with_type;               ///< `parameters`, if the tool's own do not say their type.
  const json::Value& parameters;       ///< The tool's schema, which says that it is an object.
  WholeSchemas schemas;                ///< The parts of `parameters` as whole schemas.
  std::deque<json::Value> kept_parts;  ///< Parts of `parameters` that rules are made of.
  std::map<const json::Value*, grammar::RuleId> referred;  ///< By place in `parameters`.
  std::map<std::pair<const json::Value*, Types>, grammar::RuleId> elements;
};

class JsonGrammar : protected TextGrammar {
 public:
  using TextGrammar::TextGrammar;

 protected:
  using Compiled = Expected<std::shared_ptr<const schema::Schema>>;
  /// The address by which a part refers to the whole schema of its tool's parameters.
  static constexpr std::string_view kWhole = "urn:tenon:parameters";

  /// Calls f for each tool, with tool_ and its schema set. A tool that another form cannot write
  /// has no call in it.
  template <class F>
  void for_each_tool(F f) {
    for (const Tool* tool : tools_) {
      if (error_) break;
      tool_ = tool;
      of_.emplace(*tool);
      f();
    }
  }
  NodeId plain_id() { return rules_.add(node::Pattern{"[A-Za-z0-9_.:-]{1,64}"}); }
  NodeId quoted_id();
  NodeId id();
  void check_schema();
  NodeId json(const json::Value& source) { return json_of(schema::Schema::compile(source)); }
  /// The JSON of a part of the tool's schema, whose references lead into the whole schema.
  NodeId json_of_part(const json::Value& part) { return json_of(compiled_part(part)); }
  NodeId json_of(Compiled schema);
  Compiled compiled_part(const json::Value& part);
  static json::Value referring_to_all(const json::Value& part);
  NodeId space_within();
  NodeId space_after();
  NodeId key(std::string_view name);
  NodeId comma() { return rules_.sequence({space_within(), rules_.literal(","), space_after()}); }
  NodeId any_string() { return json(json::Object{{"type", "string"}}); }
  NodeId json_arguments();
  NodeId parameters();
  NodeId input(grammar::Spelling spelling);
  NodeId input_string() { return bracketed("\"", input(grammar::Spelling::in_json), "\""); }
  NodeId input_object();
  NodeId object_before_name();
  NodeId object_from_name();

  std::optional<OfTool> of_;
  // By own form or not, and by the white space in which forms differ.
  std::map<std::tuple<const Tool*, bool, JsonOptions::Whitespace>, NodeId> json_arguments_;
};

}  // namespace tenon::format
