// Arguments that are JSON are one node with the tool's schema, which json_frames.h reads exactly.
// Parts of a schema keep their references: a part is compiled with the whole schema as a document
// beside it, to which its `#/...` lead (compiled_part).

#include "tenon/format/grammar_json.h"

#include <algorithm>

#include "tenon/format/input_grammar.h"

namespace tenon::format {

namespace {

// Arguments are always an object, whether or not the schema says so. Null: the schema says it.
json::Value object_schema_of(const Tool& tool) {
  const bool is_object = tool.parameters.if_object() != nullptr;
  if (is_object && tool.parameters.find("type") != nullptr) return {};
  json::Value schema = is_object ? tool.parameters : json::Value(json::Object{});
  (*schema.if_object())["type"] = "object";
  return schema;
}

}  // namespace

OfTool::OfTool(const Tool& tool)
    : with_type(object_schema_of(tool)),
      parameters(with_type.is_null() ? tool.parameters : with_type),
      schemas(parameters) {}

NodeId JsonGrammar::quoted_id() {
  return rules_.sequence({rules_.literal("\""), plain_id(), rules_.literal("\"")});
}

NodeId JsonGrammar::id() {
  const IdRule& rule = format_.id;
  if (!rule.holds_name) return plain_id();
  const NodeId number = rules_.add(node::Pattern{"[0-9]{1,9}"});
  return rules_.sequence(
      {marker(rule.name_before), rules_.literal(tool_->name), marker(rule.name_after), number});
}

// For arguments that are not read with the schema itself.
void JsonGrammar::check_schema() {
  if (const auto schema = schema::Schema::compile(of_->parameters); !schema) fail(schema.error());
}

NodeId JsonGrammar::parameters() {
  const auto known = known_.find(tool_);
  if (known == known_.end()) return json(of_->parameters);
  return rules_.add(node::Json{known->second->schema, json_, known->second->may_wait});
}

// The first failure is kept (fail) and ends the making of the grammar; the node 0 is never used.
NodeId JsonGrammar::json_of(Compiled schema) {
  if (schema) return rules_.add(node::Json{std::move(*schema), json_});
  fail(schema.error());
  return 0;
}

// {"$ref": "#/$defs/a"} becomes {"$ref": "urn:tenon:parameters#/$defs/a"}, with the whole schema as
// the document of that address. The part is read in the dialect of the whole.
JsonGrammar::Compiled JsonGrammar::compiled_part(const json::Value& part) {
  json::Value whole = referring_to_all(part);
  const json::Value* const dialect = of_->parameters.find("$schema");
  json::Object* const object = whole.if_object();
  if (dialect != nullptr && object != nullptr) (*object)["$schema"] = *dialect;
  const json::Object documents{{std::string(kWhole), of_->parameters}};
  return schema::Schema::compile(whole, {.documents = &documents});
}

// A copy of `part` whose references begin with the address of the whole schema.
json::Value JsonGrammar::referring_to_all(const json::Value& part) {
  if (const json::Array* const items = part.if_array()) {
    json::Array referring;
    for (const json::Value& item : *items) referring.push_back(referring_to_all(item));
    return referring;
  }
  const json::Object* const members = part.if_object();
  if (members == nullptr) return part;
  json::Object referring;
  for (const json::Member& member : *members) {
    const std::string* const text = member.value.if_string();
    const bool is_reference = member.key == "$ref" && text != nullptr && text->starts_with('#');
    referring[member.key] =
        is_reference ? json::Value(std::string(kWhole) + *text) : referring_to_all(member.value);
  }
  return referring;
}

NodeId JsonGrammar::space_within() {
  if (json_.whitespace != JsonOptions::Whitespace::any) return rules_.literal("");
  const std::string most = json_.is_bounded ? std::to_string(json_.max_whitespace) : "";
  return rules_.add(node::Pattern{"[ \\t\\n\\r]{0," + most + "}"});
}

// The space after a comma or a colon.
NodeId JsonGrammar::space_after() {
  const bool is_spaced = json_.whitespace == JsonOptions::Whitespace::spaced;
  return is_spaced ? rules_.literal(" ") : space_within();
}

// A key, before the value of a member.
NodeId JsonGrammar::key(std::string_view name) {
  return rules_.sequence(
      {rules_.literal(json::quoted(name)), space_within(), rules_.literal(":"), space_after()});
}

// One node for each tool and way to write JSON, however many forms use it.
NodeId JsonGrammar::json_arguments() {
  const auto [known, is_new] = json_arguments_.try_emplace({tool_, is_own(), json_.whitespace}, 0);
  if (is_new) known->second = tool_->grammar ? input_object() : parameters();
  return known->second;
}

// The grammar of a custom tool constrains its one parameter, in every notation.
NodeId JsonGrammar::input(grammar::Spelling spelling) {
  const auto grammar = read_input_grammar(*tool_->grammar);
  const auto root =
      grammar ? grammar::add_spelled(rules_, *grammar, spelling) : Unexpected(grammar.error());
  if (root) return *root;
  fail(root.error());
  return 0;
}

NodeId JsonGrammar::input_object() {
  return rules_.sequence({rules_.literal("{"), space_within(), key(message::kInput), input_string(),
                          space_within(), rules_.literal("}")});
}

// An object that contains name and arguments, up to the name.
NodeId JsonGrammar::object_before_name() {
  const ObjectKeys& keys = syntax().object;
  std::vector<NodeId> parts{rules_.literal("{"), space_within()};
  if (keys.writes_id && keys.id_first) {
    parts.insert(parts.end(), {key(keys.id.front()), quoted_id(), comma()});
  }
  if (!keys.name_is_key) parts.push_back(key(keys.name.front()));
  return rules_.sequence(std::move(parts));
}

// The second half: name, arguments, and the id where it comes last.
NodeId JsonGrammar::object_from_name() {
  const ObjectKeys& keys = syntax().object;
  std::vector<NodeId> parts;
  if (keys.name_is_key) {
    parts = {key(tool_->name), json_arguments()};
  } else {
    parts = {rules_.literal(json::quoted(tool_->name)), comma(), key(keys.arguments.front()),
             json_arguments()};
    if (keys.writes_id && !keys.id_first) {
      parts.insert(parts.end(), {comma(), key(keys.id.front()), quoted_id()});
    }
  }
  parts.insert(parts.end(), {space_within(), rules_.literal("}")});
  return rules_.sequence(std::move(parts));
}

}  // namespace tenon::format
