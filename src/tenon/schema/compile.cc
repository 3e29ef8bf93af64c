#include <array>
#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "tenon/json/decimal.h"
#include "tenon/schema/documents.h"
#include "tenon/schema/formats.h"
#include "tenon/schema/keywords.h"
#include "tenon/schema/schema.h"

// Compiles a schema to a table of nodes. A node is a place in the schema in a dynamic scope: the
// same place is a node of its own for each scope in which its dynamic references lead elsewhere,
// and without dynamic anchors there is one scope only.
//
// There is no recursion. node_at() gives a place a number and adds a task; run() reads one task
// after the other, and each `read_` function reads the keywords of one kind of rule. References are
// resolved by Documents, which opens other documents when a reference first needs them, so a place
// that no reference reaches is not read. `$ref`, `$dynamicRef` and their relatives become parts of
// `all_of`, so the validator knows no references.
//
// At the end, check_cycles() refuses schemas that lead back to themselves without going down into
// the instance, and mark_shared() finds the nodes that are reached by more than one way, whose
// results the validator keeps. The first error stops the loop; the budget bounds places, nodes and
// bytes.
namespace tenon::schema {
namespace {

// The part of the dynamic scope that matters: where each dynamic anchor leads. The outermost place
// of a name counts, so a scope only grows on the way down, and few scopes are different.
using Scope = std::map<std::string, PlaceId>;
using ScopeId = std::uint32_t;

// The name of a place in messages, in which an empty name before a colon would look like a mistake.
std::string place_name(const Node& node) {
  return node.location.empty() ? "(root)" : node.location;
}

// Calls `use` with each node that checks the same instance as `node`.
template <class Use>
void for_each_beside(const Node& node, const Use& use) {
  for (const std::vector<NodeId>* list : {&node.all_of, &node.any_of, &node.one_of}) {
    for (const NodeId id : *list) use(id);
  }
  if (node.negated) use(*node.negated);
  if (node.conditional) {
    use(node.conditional->condition);
    if (node.conditional->then_node) use(*node.conditional->then_node);
    if (node.conditional->else_node) use(*node.conditional->else_node);
  }
  for (const DependentNode& dependent : node.dependents) use(dependent.node);
}

// Calls `use` with each node that checks a part of the instance of `node`.
template <class Use>
void for_each_below(const Node& node, const Use& use) {
  const auto use_if = [&use](const std::optional<NodeId>& id) {
    if (id) use(*id);
  };
  if (node.arrays != nullptr) {
    for (const NodeId id : node.arrays->prefix) use(id);
    use_if(node.arrays->items);
    use_if(node.arrays->contains);
    use_if(node.arrays->unevaluated);
  }
  if (node.objects != nullptr) {
    for (const Property& property : node.objects->properties) use(property.node);
    for (const PatternProperty& property : node.objects->pattern_properties) use(property.node);
    use_if(node.objects->additional);
    use_if(node.objects->names);
    use_if(node.objects->unevaluated);
  }
}

class Compiler {
 public:
  explicit Compiler(const CompileOptions& options)
      : options_(options), budget_("schema", options.limits), documents_(options, budget_) {}

  Expected<std::vector<Node>> run(const json::Value& schema);

 private:
  struct Task {
    PlaceId place;
    ScopeId scope;
  };

  // The node of a place in a scope. A new one gets its number now and is read later.
  NodeId node_at(PlaceId place, ScopeId scope);
  NodeId child(const json::Value& value) {
    return node_at(documents_.place_of(value), task_.scope);
  }
  [[nodiscard]] ScopeId entered(ScopeId scope, PlaceId place);

  // Each of these reads keywords of the current schema into `node`, or fails.
  void read(Node& node);
  void read_keywords(const json::Object& schema);
  void read_types(Node& node);
  void read_values(Node& node);
  void read_numbers(Node& node);
  void read_strings(Node& node);
  void read_arrays(Node& node);
  void read_objects(Node& node);
  void read_dependencies(Node& node, ObjectRules& rules);
  void read_references(Node& node);
  void read_applicators(Node& node);

  [[nodiscard]] const json::Value* given(Keyword keyword) const {
    return given_[static_cast<std::size_t>(keyword)];
  }
  template <class... Keywords>
  [[nodiscard]] bool is_any_given(Keywords... keywords) const {
    return ((given(keywords) != nullptr) || ...);
  }
  const std::string* string_of(Keyword keyword);
  const json::Array* list_of(Keyword keyword);
  const json::Object* map_of(Keyword keyword);
  std::optional<NodeId> child_of(Keyword keyword);
  std::vector<NodeId> children_of(Keyword keyword);
  std::vector<std::string> names_of(Keyword keyword, const json::Value& value);
  Counts counts_of(Keyword least, Keyword most);
  std::optional<Bound> bound_of(Keyword inclusive, Keyword exclusive);
  bool flag_of(Keyword keyword);
  Pattern pattern_of(Keyword keyword, const std::string& text);
  void refer(Node& node, Keyword keyword);

  void fail(Keyword keyword, std::string_view what, Errc code = Errc::invalid);
  Status check_cycles() const;
  void mark_shared();

  const CompileOptions& options_;
  Budget budget_;
  Documents documents_;
  std::optional<Error> error_;  // the first

  std::vector<Node> nodes_;
  std::vector<Task> tasks_;                            // one per node
  std::unordered_map<std::uint64_t, NodeId> node_of_;  // by place and scope
  std::vector<Scope> scopes_{Scope()};
  std::map<Scope, ScopeId> scope_ids_{{Scope(), 0}};
  std::unordered_map<std::uint64_t, ScopeId> entered_;                  // by scope and resource
  std::map<std::string, std::shared_ptr<const regex::Regex>> regexes_;  // by pattern

  Task task_{};  // the schema that is being read
  std::array<const json::Value*, kKeywords.size()> given_{};
};

// Schemas are numbered when something first refers to them and read in the order of their numbers,
// so that schemas that refer to each other need no recursion here.
Expected<std::vector<Node>> Compiler::run(const json::Value& schema) {
  const auto root = documents_.open_root(schema);
  if (!root) return Unexpected(root.error());
  node_at(*root, 0);
  for (NodeId id = 0; id < tasks_.size() && !error_; ++id) {
    if (!budget_.step() || !budget_.take_bytes(sizeof(Node))) break;
    task_ = tasks_[id];
    Node node;
    node.location = documents_.location(task_.place);
    node.draft = documents_.resource_of(task_.place).dialect.draft;
    if (!budget_.take_bytes(node.location.size())) break;
    read(node);
    nodes_.push_back(std::move(node));
  }
  if (error_) return Unexpected(*error_);
  if (budget_.is_spent()) return Unexpected(budget_.error());
  if (Status checked = check_cycles(); !checked) return Unexpected(checked.error());
  mark_shared();
  return std::move(nodes_);
}

NodeId Compiler::node_at(PlaceId place, ScopeId scope) {
  // The budget ends run()'s loop.
  if (!budget_.step() || !budget_.take_bytes(sizeof(Task))) return 0;
  scope = entered(scope, place);
  const auto next = static_cast<NodeId>(tasks_.size());
  const auto [known, is_new] = node_of_.emplace(std::uint64_t{scope} << 32 | place, next);
  if (is_new) tasks_.push_back({place, scope});
  return known->second;
}

// The scope inside the resource of `place`: its dynamic anchors join those of the scope around it.
ScopeId Compiler::entered(ScopeId scope, PlaceId place) {
  const auto& anchors = documents_.resource_of(place).dynamic_anchors;
  if (anchors.empty()) return scope;
  const auto way = std::uint64_t{scope} << 32 | documents_.place(place).resource;
  if (const auto known = entered_.find(way); known != entered_.end()) return known->second;
  Scope wider = scopes_[scope];
  for (const auto& [name, target] : anchors) wider.emplace(name, target);  // outer ones stay
  constexpr std::uint64_t kBytesPerName = 128;
  if (!budget_.step(wider.size()) || !budget_.take_bytes(wider.size() * kBytesPerName)) return 0;
  const auto [known, is_new] = scope_ids_.emplace(wider, static_cast<ScopeId>(scopes_.size()));
  if (is_new) scopes_.push_back(std::move(wider));
  return entered_[way] = known->second;
}

void Compiler::fail(Keyword keyword, std::string_view what, Errc code) {
  if (error_) return;
  error_ = documents_.error(task_.place, keyword, code, what);
}

// Reading keywords --------------------------------------------------------------------------------

// Before 2019-09 a `$ref` makes its siblings meaningless, so they are not read, not even for
// errors.
void Compiler::read(Node& node) {
  const json::Value& value = *documents_.place(task_.place).value;
  if (const bool* verdict = value.if_bool()) {
    if (!*verdict) node.types = Types();
    return;
  }
  const json::Object* const schema = value.if_object();
  if (schema == nullptr) {
    error_ = Error{Errc::invalid, place_name(node) + ": must be a schema, an object or a boolean",
                   node.location};
    return;
  }
  read_keywords(*schema);
  read_references(node);
  const bool siblings_of_ref_count = node.draft >= Draft::draft2019_09;
  if (given(Keyword::ref) != nullptr && !siblings_of_ref_count) return;
  read_types(node);
  read_values(node);
  read_numbers(node);
  read_strings(node);
  read_arrays(node);
  read_objects(node);
  read_applicators(node);
}

void Compiler::read_keywords(const json::Object& schema) {
  given_.fill(nullptr);
  const Dialect& dialect = documents_.resource_of(task_.place).dialect;
  for (const json::Member& member : schema) {
    if (!budget_.step()) return;
    if (const KeywordRow* row = find_keyword(member.key, dialect)) {
      given_[static_cast<std::size_t>(row - kKeywords.data())] = &member.value;
    }
  }
}

// `nullable` is OpenAPI's; without a `type` beside it, it says nothing.
void Compiler::read_types(Node& node) {
  const json::Value* const type = given(Keyword::type);
  if (type == nullptr) return;
  constexpr std::pair<std::string_view, Types> kNames[] = {
      {"array", Types(Type::array)},     {"boolean", Types(Type::boolean)},
      {"integer", Types(Type::integer)}, {"null", Types(Type::null)},
      {"number", Types::number()},       {"object", Types(Type::object)},
      {"string", Types(Type::string)}};
  Types types;
  for (const std::string& name : names_of(Keyword::type, *type)) {
    Types named;
    for (const auto& [known, its] : kNames) {
      if (name == known) named = its;
    }
    if (named.empty()) fail(Keyword::type, "'" + name + "' is not a type");
    types = types | named;
  }
  if (flag_of(Keyword::nullable)) types = types | Types(Type::null);
  if (types.empty()) fail(Keyword::type, "must name a type");
  node.types = types;
}

// `const` beside `enum` leaves the values that are in both.
void Compiler::read_values(Node& node) {
  const Keyword keyword =
      given(Keyword::enum_list) != nullptr ? Keyword::enum_list : Keyword::enum_values;
  const json::Array* const list = list_of(keyword);
  const json::Value* const only = given(Keyword::const_value);
  if (list == nullptr && only == nullptr) return;
  if (list == nullptr) {
    node.values =
        std::make_unique<Enumeration>(json::Array{*only}, row_of(Keyword::const_value).name);
    return;
  }
  json::Array values;
  for (const json::Value& value : *list) {
    if (!budget_.step() || !budget_.take_bytes(sizeof(json::Value))) return;
    if (only == nullptr || value == *only) values.push_back(value);
  }
  node.values = std::make_unique<Enumeration>(std::move(values), row_of(keyword).name);
}

void Compiler::read_numbers(Node& node) {
  using enum Keyword;
  if (!is_any_given(minimum, exclusive_minimum, maximum, exclusive_maximum, multiple_of)) return;
  auto rules = std::make_unique<NumberRules>();
  rules->minimum = bound_of(minimum, exclusive_minimum);
  rules->maximum = bound_of(maximum, exclusive_maximum);
  if (const json::Value* value = given(multiple_of)) {
    const json::Number* const number = value->if_number();
    const json::Decimal decimal =
        number == nullptr ? json::Decimal() : json::decimal_of(number->text);
    if (decimal.is_zero() || decimal.negative) {
      fail(multiple_of, "must be a number above zero");
      return;
    }
    rules->multiple_of = *number;
  }
  node.numbers = std::move(rules);
}

// Both forms are read in every draft: the boolean of draft 4 and OpenAPI makes the inclusive bound
// exclusive, and the number is a bound of its own.
std::optional<Bound> Compiler::bound_of(Keyword inclusive, Keyword exclusive) {
  std::optional<Bound> bound;
  if (const json::Value* value = given(inclusive)) {
    if (value->if_number() == nullptr) {
      fail(inclusive, "must be a number");
      return std::nullopt;
    }
    bound = Bound{*value->if_number()};
  }
  const json::Value* const value = given(exclusive);
  if (value == nullptr) return bound;
  if (const bool* flag = value->if_bool()) {
    if (bound) bound->exclusive = *flag;
    return bound;
  }
  if (value->if_number() == nullptr) {
    fail(exclusive, "must be a number");
    return std::nullopt;
  }
  const json::Number& number = *value->if_number();
  if (!bound) return Bound{number, true};
  const auto order =
      json::compare(json::decimal_of(number.text), json::decimal_of(bound->value.text));
  const bool is_minimum = inclusive == Keyword::minimum;
  // Both bounds are given: the tighter one counts, and of equal ones the exclusive one.
  if (order == 0 || (order > 0) == is_minimum) return Bound{number, true};
  return bound;
}

// A format is an annotation unless the options or the dialect assert it; an unknown one is an error
// only then.
void Compiler::read_strings(Node& node) {
  using enum Keyword;
  if (!is_any_given(min_length, max_length, pattern, Keyword::format)) return;
  auto rules = std::make_unique<StringRules>();
  rules->length = counts_of(min_length, max_length);
  if (const std::string* text = string_of(pattern)) rules->pattern = pattern_of(pattern, *text);
  if (const std::string* name = string_of(Keyword::format)) {
    const bool asserts =
        options_.assert_format || documents_.resource_of(task_.place).dialect.asserts_format;
    rules->format = *name;
    if (asserts) {
      const auto known = find_format(*name);
      if (known) {
        rules->asserted_format = *known;
      } else {
        fail(Keyword::format, known.error().message, known.error().code);
      }
    }
  }
  node.strings = std::move(rules);
}

// Until 2019-09 `items` as a list is what 2020-12 calls `prefixItems`, and `additionalItems` is its
// `items`. `contains` without bounds requires one item.
void Compiler::read_arrays(Node& node) {
  using enum Keyword;
  if (!is_any_given(min_items, max_items, unique_items, prefix_items, items, contains,
                    unevaluated_items)) {
    return;
  }
  auto rules = std::make_unique<ArrayRules>();
  rules->length = counts_of(min_items, max_items);
  rules->unique = flag_of(unique_items);
  rules->prefix = children_of(prefix_items);
  if (given(items) != nullptr && given(items)->if_array() != nullptr) {
    if (rules->prefix.empty()) rules->prefix = children_of(items);
    rules->items = child_of(additional_items);
  } else {
    rules->items = child_of(items);
  }
  rules->contains = child_of(contains);
  const Counts contained = counts_of(min_contains, max_contains);
  rules->contained = {given(min_contains) == nullptr ? 1 : contained.least, contained.most};
  rules->contains_evaluates = node.draft >= Draft::draft2020_12;
  rules->unevaluated = child_of(unevaluated_items);
  node.arrays = std::move(rules);
}

void Compiler::read_objects(Node& node) {
  using enum Keyword;
  if (!is_any_given(min_properties, max_properties, required, properties, pattern_properties,
                    additional_properties, property_names, dependencies, dependent_required,
                    dependent_schemas, unevaluated_properties)) {
    return;
  }
  auto rules = std::make_unique<ObjectRules>();
  rules->count = counts_of(min_properties, max_properties);
  if (const json::Value* names = given(required)) {
    if (names->if_array() == nullptr) fail(required, "must be a list of names");
    rules->required = names_of(required, *names);
  }
  if (const json::Object* map = map_of(properties)) {
    rules->has_properties = true;
    rules->properties.reserve(map->size());
    for (const json::Member& member : *map) {
      if (!budget_.take_bytes(sizeof(Property) + member.key.size())) return;
      rules->properties.push_back({member.key, child(member.value)});
    }
    rules->index();
  }
  if (const json::Object* map = map_of(pattern_properties)) {
    for (const json::Member& member : *map) {
      rules->pattern_properties.push_back(
          {pattern_of(pattern_properties, member.key), child(member.value)});
    }
  }
  rules->additional = child_of(additional_properties);
  rules->names = child_of(property_names);
  rules->unevaluated = child_of(unevaluated_properties);
  read_dependencies(node, *rules);
  node.objects = std::move(rules);
}

// `dependencies` was split into two keywords; its values tell which of them is meant.
void Compiler::read_dependencies(Node& node, ObjectRules& rules) {
  for (const Keyword keyword : {Keyword::dependencies, Keyword::dependent_required}) {
    const json::Object* const map = map_of(keyword);
    if (map == nullptr) continue;
    for (const json::Member& member : *map) {
      if (member.value.if_array() != nullptr || keyword == Keyword::dependent_required) {
        rules.dependent_names.push_back(
            {member.key, names_of(keyword, member.value), row_of(keyword).name});
      } else {
        node.dependents.push_back({member.key, child(member.value)});
      }
    }
  }
  if (const json::Object* map = map_of(Keyword::dependent_schemas)) {
    for (const json::Member& member : *map) {
      node.dependents.push_back({member.key, child(member.value)});
    }
  }
}

void Compiler::read_references(Node& node) {
  for (const Keyword keyword : {Keyword::ref, Keyword::recursive_ref, Keyword::dynamic_ref}) {
    if (given(keyword) != nullptr) refer(node, keyword);
  }
}

// A dynamic reference leads first to the place of a static one. Only if that place is a dynamic
// anchor does the outermost anchor of that name in scope replace it.
void Compiler::refer(Node& node, Keyword keyword) {
  const std::string* const reference = string_of(keyword);
  if (reference == nullptr) return;
  const auto target = documents_.resolve(task_.place, keyword, *reference);
  if (!target) {
    if (!error_) error_ = target.error();
    return;
  }
  PlaceId place = target->place;
  if (keyword != Keyword::ref) {
    const auto& anchors = documents_.resource_of(place).dynamic_anchors;
    const auto anchor = anchors.find(target->anchor);
    const bool is_dynamic = anchor != anchors.end() && anchor->second == place &&
                            target->anchor.empty() == (keyword == Keyword::recursive_ref);
    if (is_dynamic) {
      const Scope& scope = scopes_[task_.scope];
      if (const auto outermost = scope.find(target->anchor); outermost != scope.end()) {
        place = outermost->second;
      }
    }
  }
  node.all_of.push_back(node_at(place, task_.scope));
}

void Compiler::read_applicators(Node& node) {
  for (const NodeId id : children_of(Keyword::all_of)) node.all_of.push_back(id);
  node.any_of = children_of(Keyword::any_of);
  node.one_of = children_of(Keyword::one_of);
  node.negated = child_of(Keyword::not_schema);
  if (const auto condition = child_of(Keyword::if_schema)) {
    node.conditional =
        Conditional{*condition, child_of(Keyword::then_schema), child_of(Keyword::else_schema)};
  }
}

// Values of keywords ------------------------------------------------------------------------------

const std::string* Compiler::string_of(Keyword keyword) {
  const json::Value* const value = given(keyword);
  if (value != nullptr && value->if_string() == nullptr) fail(keyword, "must be a string");
  return value == nullptr ? nullptr : value->if_string();
}

const json::Array* Compiler::list_of(Keyword keyword) {
  const json::Value* const value = given(keyword);
  if (value != nullptr && value->if_array() == nullptr) fail(keyword, "must be a list");
  return value == nullptr ? nullptr : value->if_array();
}

const json::Object* Compiler::map_of(Keyword keyword) {
  const json::Value* const value = given(keyword);
  if (value != nullptr && value->if_object() == nullptr) fail(keyword, "must be an object");
  return value == nullptr ? nullptr : value->if_object();
}

std::optional<NodeId> Compiler::child_of(Keyword keyword) {
  if (given(keyword) == nullptr) return std::nullopt;
  return child(*given(keyword));
}

std::vector<NodeId> Compiler::children_of(Keyword keyword) {
  std::vector<NodeId> children;
  const json::Array* const list = list_of(keyword);
  if (list == nullptr) return children;
  // The standard wants anyOf and its relatives to have a branch; an empty list of items says
  // nothing and does no harm.
  const bool may_be_empty = keyword == Keyword::prefix_items || keyword == Keyword::items;
  if (list->empty() && !may_be_empty) fail(keyword, "must not be empty");
  children.reserve(list->size());
  for (const json::Value& value : *list) children.push_back(child(value));
  return children;
}

// Reads a name, if the keyword allows one, or a list of names.
std::vector<std::string> Compiler::names_of(Keyword keyword, const json::Value& value) {
  std::vector<std::string> names;
  if (const std::string* name = value.if_string(); name != nullptr && keyword == Keyword::type) {
    names.push_back(*name);
    return names;
  }
  const json::Array* const list = value.if_array();
  for (std::size_t i = 0; list != nullptr && i < list->size(); ++i) {
    const std::string* const name = (*list)[i].if_string();
    if (name == nullptr) {
      fail(keyword, "must be a list of strings");
      return names;
    }
    if (!budget_.step() || !budget_.take_bytes(sizeof(std::string) + name->size())) return names;
    names.push_back(*name);
  }
  if (list == nullptr) fail(keyword, "must be a list of strings");
  return names;
}

// Counts may be written as 2.0 or 1e3, which are integers in JSON Schema.
Counts Compiler::counts_of(Keyword least, Keyword most) {
  const auto count = [this](Keyword keyword, std::uint64_t absent) {
    const json::Value* const value = given(keyword);
    if (value == nullptr) return absent;
    const json::Number* const number = value->if_number();
    const json::Decimal decimal =
        number == nullptr ? json::Decimal() : json::decimal_of(number->text);
    const bool is_negative = decimal.negative && !decimal.is_zero();
    if (number == nullptr || is_negative || !decimal.is_integer()) {
      fail(keyword, "must be an integer from 0 on");
      return absent;
    }
    // A number beyond int64 is more than any instance has.
    const auto fitting = number->to_int64();
    return fitting ? static_cast<std::uint64_t>(*fitting) : Counts::kUnbounded;
  };
  return {count(least, 0), count(most, Counts::kUnbounded)};
}

bool Compiler::flag_of(Keyword keyword) {
  const json::Value* const value = given(keyword);
  if (value != nullptr && value->if_bool() == nullptr) fail(keyword, "must be true or false");
  return value != nullptr && value->if_bool() != nullptr && *value->if_bool();
}

// A pattern that occurs many times, as generated schemas have it, is compiled once.
Pattern Compiler::pattern_of(Keyword keyword, const std::string& text) {
  auto& regex = regexes_[text];
  if (regex == nullptr && !error_) {
    Limits limits;
    limits.deadline = options_.limits.deadline;
    limits.cancel = options_.limits.cancel;
    auto compiled = regex::Regex::compile(text, limits);
    if (!compiled) {
      fail(keyword, "'" + text + "': " + compiled.error().message, compiled.error().code);
    } else {
      regex = *std::move(compiled);
    }
  }
  return {text, regex};
}

// The table as a whole ----------------------------------------------------------------------------

// A node that leads back to itself for the same instance would never end. Searches depth first,
// without recursion.
Status Compiler::check_cycles() const {
  enum class State : std::uint8_t { unseen, open, done };
  struct Step {
    NodeId node;
    std::vector<NodeId> next;
  };
  std::vector<State> states(nodes_.size(), State::unseen);
  std::vector<Step> way;
  const auto open = [&](NodeId id) {
    states[id] = State::open;
    Step step{id, {}};
    for_each_beside(nodes_[id], [&step](NodeId beside) { step.next.push_back(beside); });
    way.push_back(std::move(step));
  };
  for (NodeId start = 0; start < nodes_.size(); ++start) {
    if (states[start] == State::unseen) open(start);
    while (!way.empty()) {
      Step& step = way.back();
      if (step.next.empty()) {
        states[step.node] = State::done;
        way.pop_back();
        continue;
      }
      const NodeId next = step.next.back();
      step.next.pop_back();
      if (states[next] == State::open) {
        return Unexpected(Error{
            Errc::invalid,
            place_name(nodes_[next]) + ": refers to itself without going down into the instance",
            nodes_[next].location});
      }
      if (states[next] == State::unseen) open(next);
    }
  }
  return {};
}

// Marks the nodes that several others lead to and that lead further: only for these can the number
// of ways grow with each link, so only they are worth remembering during a validation.
void Compiler::mark_shared() {
  // Counted to two: more makes no difference.
  std::vector<std::uint8_t> ways(nodes_.size());
  const auto count = [&ways](NodeId id) {
    if (ways[id] < 2) ++ways[id];
  };
  for (const Node& node : nodes_) {
    for_each_beside(node, count);
    for_each_below(node, count);
  }
  for (NodeId id = 0; id < nodes_.size(); ++id) {
    bool leads_on = false;
    const auto note = [&leads_on](NodeId) { leads_on = true; };
    for_each_beside(nodes_[id], note);
    for_each_below(nodes_[id], note);
    nodes_[id].is_shared = leads_on && ways[id] == 2;
  }
}

}  // namespace

Expected<std::shared_ptr<const Schema>> Schema::compile(const json::Value& schema,
                                                        const CompileOptions& options) {
  auto nodes = Compiler(options).run(schema);
  if (!nodes) return Unexpected(nodes.error());
  return std::shared_ptr<const Schema>(new Schema(*std::move(nodes)));
}

}  // namespace tenon::schema
