#include "tenon/repair/argument_repairer.h"

#include <algorithm>
#include <array>
#include <utility>

#include "tenon/json/pointer.h"
#include "tenon/json/space.h"

// Repairs the arguments of a call while they are generated. The lexer gives the tokens of the JSON
// text; a stack of frames knows, for each open array or object, which nodes of the schema apply to
// it. A schema with anyOf has several ways to be met: a frame keeps all of them and drops those
// that a member does not fit (narrow).
//
// Most text is passed on at once. A value is held back (keeps_) only if its type does not fit its
// place or it may belong to another field, and is repaired when it has ended. Punctuation before a
// value waits in pending_ until the value is passed on, because a held member must leave no comma
// behind. When an object ends, required members that are missing are added (finish_object).
//
// A repair is made only if the schema refuses the value, the new value fits, and there is exactly
// one choice. JSON inside a string is repaired by an ArgumentRepairer of its own, up to kMaxLevel.

namespace tenon::repair {
namespace {

using json::Token;
using schema::Schema;
using schema::Type;
using schema::Types;

// JSON in a string in JSON in a string: models are not known to go deeper.
constexpr unsigned kMaxLevel = 3;
constexpr std::size_t kMaxNoted = 16;     // in one object; further members are not looked at
constexpr std::size_t kMaxTold = 200;     // bytes of a value in a message
constexpr std::size_t kMaxRepairs = 100;  // further ones are made, but not recorded

bool is_scalar(Token token) {
  return token == Token::string || token == Token::number || token == Token::word;
}

// At most kMaxTold bytes, cut between two characters.
std::string shortened(const std::string& value) {
  if (value.size() <= kMaxTold) return value;
  std::size_t end = kMaxTold;
  while (end > 0 && (static_cast<unsigned char>(value[end]) & 0xC0U) == 0x80U) --end;
  return value.substr(0, end) + "...";
}

std::string pointer_step(std::string_view key) {
  std::string step = "/";
  json::append_pointer_key(step, key);
  return step;
}

// Reads "true", "True" and "FALSE": such a word has no other meaning.
std::optional<bool> truth_of(const std::string& text) {
  for (const char* word : {"true", "True", "TRUE"}) {
    if (text == word) return true;
  }
  for (const char* word : {"false", "False", "FALSE"}) {
    if (text == word) return false;
  }
  return std::nullopt;
}

bool contains(const std::vector<std::string>& names, std::string_view name) {
  return std::ranges::find(names, name) != names.end();
}

}  // namespace

ArgumentRepairer::ArgumentRepairer(RepairedTool tool)
    : ArgumentRepairer(
          tool, tool.schema == nullptr ? Place{} : place_of(*tool.schema, {{tool.schema->root()}}),
          1) {}

ArgumentRepairer::ArgumentRepairer(RepairedTool tool, Place root, unsigned level)
    : tool_(std::move(tool)),
      // Rules are about the fields of the tool's own arguments, not about JSON in one of their
      // strings.
      rules_(level > 1 ? std::vector<const Rule*>() : tool_.rules->of(tool_.name)),
      root_(std::move(root)),
      level_(level) {}

void ArgumentRepairer::feed(std::string_view text, std::string& out) {
  while (!is_broken_) {
    const json::Lexer::Piece piece = lexer_.next(text);
    // Nothing was read: the text is used up (more), or cannot go on as JSON.
    if (piece.size == 0 && !piece.ends) {
      is_broken_ = piece.verdict != json::Verdict::more;
      break;
    }
    take(piece, text.substr(0, piece.size), out);
    text.remove_prefix(piece.size);
  }
  if (!is_broken_ || text.empty()) return;
  // The value has ended, or the text is not JSON: a value that was held back can no longer be
  // repaired.
  finish(true, out);
  out += text;
}

// What is held when the arguments end: members that waited for a place have none and are told
// (unplaced), a value that was kept only for repair is passed on as it is.
void ArgumentRepairer::finish(bool incomplete, std::string& out) {
  // A number at the top level ends with the text.
  if (in_value_ && !incomplete && frames_.empty()) return end_value(out);
  for (Frame& frame : frames_) {
    for (const Noted& noted : frame.noted) {
      if (noted.is_held) unplaced_.push_back(json::quoted(noted.key) + ": " + noted.text);
    }
    frame.noted.clear();
  }
  if (!in_value_ || !passes_) {
    pass_pending(out);
    if (in_value_) out += value_;
  }
  in_value_ = false;
}

// One piece of JSON. Keys, commas and white space wait in pending_ until the value decides whether
// its member is written here, elsewhere, or not at all.
void ArgumentRepairer::take(const json::Lexer::Piece& piece, std::string_view text,
                            std::string& out) {
  if (in_value_) return go_on_in_value(piece, text, out);
  switch (piece.token) {
    case Token::space:
    case Token::comma:
    case Token::colon:
      // White space before and after the arguments is passed on at once.
      (frames_.empty() ? out : pending_) += text;
      return;
    case Token::key:
      if (piece.begins) key_at_ = pending_.size();
      pending_ += text;
      if (piece.ends) end_key();
      return;
    case Token::end_object:
    case Token::end_array:
      return leave(text, out);
    case Token::begin_object:
    case Token::begin_array:
    case Token::string:
    case Token::number:
    case Token::word:
      begin_value(piece.token, out);
      if (in_value_) go_on_in_value(piece, text, out);
      return;
  }
}

void ArgumentRepairer::end_key() {
  const auto key = json::parse(std::string_view(pending_).substr(key_at_));
  frames_.back().key = key && key->if_string() != nullptr ? *key->if_string() : std::string();
}

// What the schema says of the next value. An object may still fit several ways of the schema; the
// place then allows what any of them does, and the values narrow the ways. The place of items that
// have no place of their own is computed once.
Place ArgumentRepairer::next_place() {
  if (frames_.empty()) return root_;
  Frame& frame = frames_.back();
  if (frame.is_object) {
    std::vector<Nodes> choices;
    for (const Nodes& way : frame.ways) choices.push_back(member_of(*tool_.schema, way, frame.key));
    Place place;
    if (!choices.empty()) place = place_of(*tool_.schema, std::move(choices));
    // A rule gives a type only where the schema is silent, and only to fields of the top level.
    if (place.types != Types::all() || frames_.size() > 1) return place;
    for (const Rule* rule : rules_) {
      if (rule->type && rule->field == frame.key) return {{}, Types(*rule->type), false};
    }
    return place;
  }
  if (frame.items) return *frame.items;
  std::vector<Nodes> choices;
  bool is_last = true;
  for (const Nodes& way : frame.ways) {
    choices.push_back(item_of(*tool_.schema, way, frame.index));
    for (const schema::NodeId node : way) {
      const schema::ArrayRules* rules = tool_.schema->node(node).arrays.get();
      if (rules != nullptr && frame.index < rules->prefix.size()) is_last = false;
    }
  }
  Place place = place_of(*tool_.schema, std::move(choices));
  if (is_last) frame.items = place;
  return place;
}

std::string ArgumentRepairer::next_path() const {
  if (frames_.empty()) return {};
  const Frame& frame = frames_.back();
  return frame.path +
         (frame.is_object ? pointer_step(frame.key) : "/" + std::to_string(frame.index));
}

bool ArgumentRepairer::is_allowed(Token token) const {
  switch (token) {
    case Token::string:
      return place_.types.contains(Type::string);
    case Token::begin_object:
      return place_.types.contains(Type::object);
    case Token::begin_array:
      return place_.types.contains(Type::array);
    default:
      return false;  // short enough to be held back until it can be checked
  }
}

// Decides what happens to a value before it is read: it is entered (its parts may need repair),
// passed on as it comes, or held until it is whole, because its type is wrong or its name is not
// one of the schema's. Most values are passed on, so clients that stream see no delay.
void ArgumentRepairer::begin_value(Token token, std::string& out) {
  place_ = next_place();
  Frame* const frame = frames_.empty() ? nullptr : &frames_.back();
  const bool is_member = frame != nullptr && frame->is_object;
  notes_ = false;
  is_member_held_ = false;
  if (is_member) {
    if (is_known(*frame, frame->key)) {
      if (!contains(frame->seen, frame->key)) frame->seen.push_back(frame->key);
      // The values of known fields are kept as well if the text of a rule names them: "Execute:
      // ${command}".
      notes_ = frame->noted.size() < kMaxNoted && frames_.size() == 1 && is_referred_to(frame->key);
    } else {
      const bool has_room = frame->noted.size() < kMaxNoted;
      is_member_held_ = has_room && is_forbidden(*frame, frame->key) &&
                        !targets_of(*frame, frame->key, true).empty();
      notes_ = has_room && !is_member_held_ &&
               (!targets_of(*frame, frame->key, false).empty() ||
                (frames_.size() == 1 && is_referred_to(frame->key)));
    }
  }
  const bool is_inside_known = is_allowed(token) && !is_scalar(token) && !notes_;
  // The root of arguments without a schema gets a frame if the tool has rules.
  const bool is_rules_root = frame == nullptr && token == Token::begin_object && !rules_.empty();
  if (!is_member_held_ &&
      ((!place_.is_open && is_inside_known) || (place_.is_open && is_rules_root))) {
    return enter(token == Token::begin_object, out);
  }
  in_value_ = true;
  // The lexer has already counted the bracket that opens the value.
  depth_ = lexer_.depth() - (is_scalar(token) ? 0 : 1);
  passes_ = !is_member_held_ && (place_.is_open || is_allowed(token));
  // With several ways the value is also read, because it may tell them apart (narrow).
  keeps_ = !passes_ || notes_ || (frame != nullptr && frame->ways.size() > 1);
  value_.clear();
  if (!is_member_held_) pass_pending(out);
}

void ArgumentRepairer::go_on_in_value(const json::Lexer::Piece& piece, std::string_view text,
                                      std::string& out) {
  if (passes_) out += text;
  if (keeps_) value_ += text;
  const bool is_over = lexer_.depth() == depth_ && piece.ends;
  if (is_over) end_value(out);
}

// A held value is whole: it is repaired, or noted for the end of its object, where missing fields
// are known.
void ArgumentRepairer::end_value(std::string& out) {
  in_value_ = false;
  Frame* const frame = frames_.empty() ? nullptr : &frames_.back();
  if (is_member_held_) {
    frame->noted.push_back({frame->key, std::exchange(value_, {}), true});
    pending_.clear();
    return;
  }
  if (!passes_) {
    value_ = repaired(place_, value_, next_path());
    out += value_;
  }
  if (frame == nullptr) return;
  ++frame->written;
  if (keeps_) {
    narrow(*frame, value_);
    if (notes_) frame->noted.push_back({frame->key, std::exchange(value_, {}), false});
  }
  ++frame->index;
}

// Keeps only the ways through anyOf that this member or item fits. If it fits none, all are kept.
void ArgumentRepairer::narrow(Frame& frame, const std::string& text) {
  if (frame.ways.size() < 2) return;
  const auto value = json::parse(text);
  if (!value) return;
  std::vector<Nodes> left;
  for (const Nodes& way : frame.ways) {
    const Nodes nodes = frame.is_object ? member_of(*tool_.schema, way, frame.key)
                                        : item_of(*tool_.schema, way, frame.index);
    if (fits(*tool_.schema, nodes, *value)) left.push_back(way);
  }
  if (left.empty() || left.size() == frame.ways.size()) return;
  frame.ways = std::move(left);
  frame.items.reset();
}

// Begins an array or object whose members are looked at. The ways that do not allow its type are
// left out.
void ArgumentRepairer::enter(bool is_object, std::string& out) {
  Frame frame{.is_object = is_object, .path = next_path()};
  const Type type = is_object ? Type::object : Type::array;
  for (const Nodes& nodes : place_.choices) {
    for (Nodes& way : ways_of(*tool_.schema, nodes).value_or(std::vector<Nodes>())) {
      if (types_of(*tool_.schema, way).contains(type)) frame.ways.push_back(std::move(way));
    }
  }
  pass_pending(out);
  out += is_object ? '{' : '[';
  frames_.push_back(std::move(frame));
}

void ArgumentRepairer::leave(std::string_view bracket, std::string& out) {
  Frame frame = std::move(frames_.back());
  if (frame.is_object) finish_object(frame, out);
  out += std::exchange(pending_, {});
  out += bracket;
  frames_.pop_back();
  if (frames_.empty()) return;
  ++frames_.back().written;
  ++frames_.back().index;
}

// Passes on the text before the value. Its comma is dropped if all members before it are held back.
void ArgumentRepairer::pass_pending(std::string& out) {
  std::string_view text = pending_;
  const std::size_t first = text.find_first_not_of(" \t\r\n");
  const bool is_first = !frames_.empty() && frames_.back().written == 0;
  if (is_first && first != std::string_view::npos && text[first] == ',') {
    text.remove_prefix(first + 1);
  }
  out += text;
  pending_.clear();
}

// --------------------------------------------------------------------------------- What is missing

// Whether the schema names the field.
bool ArgumentRepairer::lists(const Frame& frame, std::string_view key) const {
  for (const Nodes& way : frame.ways) {
    for (const schema::NodeId node : way) {
      const schema::ObjectRules* rules = tool_.schema->node(node).objects.get();
      if (rules != nullptr && (rules->find(key) != nullptr || contains(rules->required, key))) {
        return true;
      }
    }
  }
  return false;
}

bool ArgumentRepairer::is_known(const Frame& frame, std::string_view key) const {
  return lists(frame, key) ||
         (frame.path.empty() &&
          std::ranges::any_of(rules_, [&](const Rule* rule) { return rule->field == key; }));
}

bool ArgumentRepairer::is_required(const Frame& frame, std::string_view key) const {
  return std::ranges::any_of(frame.ways, [&](const Nodes& way) {
    return std::ranges::any_of(way, [&](schema::NodeId node) {
      const schema::ObjectRules* rules = tool_.schema->node(node).objects.get();
      return rules != nullptr && contains(rules->required, key);
    });
  });
}

// Forbidden by every way: `additionalProperties: false` gives the member a node without types.
bool ArgumentRepairer::is_forbidden(const Frame& frame, std::string_view key) const {
  return !frame.ways.empty() && std::ranges::all_of(frame.ways, [&](const Nodes& way) {
    const Nodes nodes = member_of(*tool_.schema, way, key);
    return std::ranges::any_of(
        nodes, [&](schema::NodeId node) { return tool_.schema->node(node).types.empty(); });
  });
}

bool ArgumentRepairer::is_referred_to(std::string_view key) const {
  const std::string slot = "${" + std::string(key) + "}";
  return std::ranges::any_of(rules_, [&](const Rule* rule) {
    return rule->value.find(slot) != std::string::npos || rule->log.find(slot) != std::string::npos;
  });
}

// The fields not yet seen for which `key` may stand.
std::vector<std::string> ArgumentRepairer::targets_of(const Frame& frame, std::string_view key,
                                                      bool is_held) const {
  std::vector<std::string> targets;
  if (frame.ways.size() > 1) return targets;
  const auto consider = [&](const std::string& field) {
    if (field == key || contains(frame.seen, field) || contains(targets, field)) return;
    const bool is_alike =
        without_spelling(field) == without_spelling(key) ||
        ((is_held || is_required(frame, field)) && tool_.rules->are_aliases(field, key));
    if (is_alike) targets.push_back(field);
  };
  bool has_fields = false;
  for (const Nodes& way : frame.ways) {
    for (const schema::NodeId node : way) {
      const schema::ObjectRules* rules = tool_.schema->node(node).objects.get();
      if (rules == nullptr) continue;
      has_fields = true;
      for (const schema::Property& property : rules->properties) consider(property.name);
      for (const std::string& name : rules->required) consider(name);
    }
  }
  for (const Rule* rule : rules_) {
    const bool is_new = !contains(frame.seen, rule->field) && !contains(targets, rule->field);
    // `from` counts at the top level, and where the schema lists fields only if it lists this one.
    if (!frame.path.empty() || !is_new || !contains(rule->from, key)) continue;
    if (!has_fields || lists(frame, rule->field)) targets.push_back(rule->field);
  }
  return targets;
}

// The order matters: a member in another spelling is the field itself, a rule knows more than a
// default, and what is then still missing gets the schema's default.
void ArgumentRepairer::finish_object(Frame& frame, std::string& out) {
  place_noted(frame, out);
  if (frames_.size() == 1) apply_rules(frame, out);
  if (frame.ways.size() == 1) add_defaults(frame, out);
}

// Writes a member at the end of the object, if its value fits.
bool ArgumentRepairer::add(Frame& frame, std::string_view key, const std::string& text,
                           std::string& out) {
  const auto value = json::parse(text);
  if (!value) return false;
  for (const Nodes& way : frame.ways) {
    if (!fits(*tool_.schema, member_of(*tool_.schema, way, key), *value)) return false;
  }
  if (frame.written++ > 0) out += ", ";
  json::append_quoted(out, key);
  out += ": ";
  out += text;
  frame.seen.emplace_back(key);
  return true;
}

// At the end of an object: members with unknown names become fields that are missing, if exactly
// one member means the field and exactly one field is meant. Where two members claim a field,
// neither is renamed, because a wrong guess is worse than a refused call.
void ArgumentRepairer::place_noted(Frame& frame, std::string& out) {
  // The fields for which members may stand.
  std::vector<std::pair<std::size_t, std::string>> targets;
  for (std::size_t i = 0; i < frame.noted.size(); ++i) {
    const Noted& noted = frame.noted[i];
    if (is_known(frame, noted.key)) continue;
    auto found = targets_of(frame, noted.key, noted.is_held);
    if (found.size() == 1) targets.emplace_back(i, std::move(found.front()));
  }
  for (std::size_t i = 0; i < frame.noted.size(); ++i) {
    const Noted& noted = frame.noted[i];
    const auto own = std::ranges::find(targets, i, [](const auto& target) { return target.first; });
    const auto same = [&](const auto& target) {
      return own != targets.end() && target.second == own->second;
    };
    if (own != targets.end() && std::ranges::count_if(targets, same) == 1) {
      const std::string& field = own->second;
      std::string text = noted.text;
      const std::size_t so_far = repairs_.size();
      if (!frame.ways.empty()) {
        const Place place =
            place_of(*tool_.schema, {member_of(*tool_.schema, frame.ways.front(), field)});
        if (!place.is_open) text = repaired(place, text, frame.path + pointer_step(field));
      }
      if (add(frame, field, text, out)) {
        const std::string what = noted.is_held ? "Renamed " + noted.key + " to " + field
                                               : "Added " + field + " from " + noted.key;
        tell(noted.is_held ? "field_renamed" : "field_added", frame.path + pointer_step(field),
             what + " for " + tool_.name, "");
        continue;
      }
      repairs_.resize(so_far);
    }
    if (!noted.is_held) continue;
    if (frame.written++ > 0) out += ", ";
    json::append_quoted(out, noted.key);
    out += ": ";
    out += noted.text;
  }
}

// `pattern` with the values of the fields that it names; nothing if one of them is missing or not
// text.
std::optional<std::string> ArgumentRepairer::filled(const Frame& frame,
                                                    const std::string& pattern) const {
  std::string text;
  std::size_t at = 0;
  while (true) {
    const std::size_t slot = pattern.find("${", at);
    const std::size_t end = slot == std::string::npos ? slot : pattern.find('}', slot);
    text += pattern.substr(at, end == std::string::npos ? end : slot - at);
    if (end == std::string::npos) return text;
    const std::string key = pattern.substr(slot + 2, end - slot - 2);
    const auto noted = std::ranges::find(frame.noted, key, &Noted::key);
    const auto value = noted == frame.noted.end() ? Unexpected(Error{Errc::invalid, ""})
                                                  : json::parse(noted->text);
    if (!value) return std::nullopt;
    if (value->if_string() != nullptr) {
      text += *value->if_string();
    } else if (value->if_number() != nullptr) {
      text += value->if_number()->text;
    } else {
      return std::nullopt;
    }
    at = end + 1;
  }
}

// For [[rule]] with a value: {"command": "ls"} without the required "description" becomes
// {"command": "ls", "description": "Execute: ls"}.
void ArgumentRepairer::apply_rules(Frame& frame, std::string& out) {
  for (const Rule* rule : rules_) {
    if (rule->value.empty() || contains(frame.seen, rule->field)) continue;
    if (!is_required(frame, rule->field)) continue;
    const auto value = filled(frame, rule->value);
    if (!value || !add(frame, rule->field, json::quoted(*value), out)) continue;
    const auto line = rule->log.empty() ? std::nullopt : filled(frame, rule->log);
    tell("default_added", frame.path + pointer_step(rule->field),
         "Added default " + rule->field + " for " + tool_.name, ": " + *value, line);
  }
}

// A value for a required field that is missing: the schema's `default`, its only value, or null
// where that is allowed. Nothing else is invented.
std::optional<std::string> ArgumentRepairer::default_of(const Nodes& nodes) const {
  const auto ways = ways_of(*tool_.schema, nodes);
  if (!ways || ways->empty()) return std::nullopt;
  // The properties on which all ways agree.
  for (const schema::NodeId id : nodes) {
    const auto own = ways_of(*tool_.schema, {id});
    for (const schema::NodeId node : own && own->size() == 1 ? own->front() : Nodes{id}) {
      const std::string& location = tool_.schema->node(node).location;
      const json::Value* place = json::at_pointer(*tool_.source, location);
      const json::Value* value = place == nullptr ? nullptr : place->find("default");
      if (value != nullptr) return json::to_string(*value);
    }
  }
  for (const schema::NodeId node : ways->size() == 1 ? ways->front() : Nodes()) {
    const schema::Enumeration* values = tool_.schema->node(node).values.get();
    if (values != nullptr && values->values().size() == 1) {
      return json::to_string(values->values().front());
    }
  }
  const bool takes_null = std::ranges::any_of(*ways, [&](const Nodes& way) {
    const Types types = types_of(*tool_.schema, way);
    return types != Types::all() && types.contains(Type::null);
  });
  return takes_null ? std::optional<std::string>("null") : std::nullopt;
}

void ArgumentRepairer::add_defaults(Frame& frame, std::string& out) {
  const Nodes way = frame.ways.front();
  for (const schema::NodeId node : way) {
    const schema::ObjectRules* rules = tool_.schema->node(node).objects.get();
    if (rules == nullptr) continue;
    for (const std::string& field : rules->required) {
      if (contains(frame.seen, field)) continue;
      const auto text = default_of(member_of(*tool_.schema, way, field));
      if (!text || !add(frame, field, *text, out)) continue;
      tell("default_added", frame.path + pointer_step(field),
           "Added default " + field + " for " + tool_.name, ": " + *text);
    }
  }
}

// ------------------------------------------------------------------------------------------ Values

// `text`, or the value that it stands for if only that one fits.
std::string ArgumentRepairer::repaired(const Place& place, const std::string& text,
                                       const std::string& path) {
  const auto value = json::parse(text);
  if (!value || place.is_open) return text;
  const auto holds = [&](const std::string& candidate) {
    const auto read = json::parse(candidate);
    return read && (place.choices.empty() ? place.types.contains(schema::type_of(*read))
                                          : fits(*tool_.schema, place, *read));
  };
  const std::size_t so_far = repairs_.size();
  const auto take_if = [&](const std::optional<std::string>& candidate) {
    if (candidate && holds(*candidate)) return true;
    repairs_.resize(so_far);
    return false;
  };
  const Types types = place.types;
  const bool is_of_type = types.contains(schema::type_of(*value));
  const bool has_inside = value->if_object() != nullptr || value->if_array() != nullptr;
  if (is_of_type && has_inside) {  // only its name was the reason to hold it back
    const std::optional<std::string> better = nested(place, text, path);
    if (better && holds(*better)) return *better;
    repairs_.resize(so_far);
  }
  const json::Number* const number = value->if_number();
  // 3.0 or 3e0 where the schema takes integers only.
  const bool is_integer = number != nullptr && is_of_type && !types.contains(Type::fraction) &&
                          number->text.find_first_of(".eE") != std::string::npos;
  if (!is_integer && holds(text)) return text;
  std::vector<std::string> candidates;
  if (is_of_type) {  // the model must correct what else is wrong with it
  } else if (const std::string* string = value->if_string()) {
    const std::string inside(json::trimmed(*string));
    if (const auto truth = truth_of(inside)) candidates.emplace_back(*truth ? "true" : "false");
    if (inside == "null" || inside == "None") candidates.emplace_back("null");
    const auto read = json::parse(inside);
    if (read && read->if_number() != nullptr) candidates.push_back(inside);
    if (read && (read->if_object() != nullptr || read->if_array() != nullptr)) {
      candidates.push_back(inside);
    }
  } else if (types.contains(Type::string) && value->kind() != json::Kind::null) {
    candidates.push_back(json::quoted(text));
  }
  if (is_integer) {  // a schema may call 3.0 an integer, but many programs that read it do not
    if (const auto integer = number->to_int64()) candidates.push_back(std::to_string(*integer));
  }
  // "a" for a list of strings becomes ["a"]. This is tried last: "[1]" in a string is a list
  // itself.
  const bool is_item = !is_of_type && value->if_array() == nullptr;
  if (types.contains(Type::array) && is_item) candidates.push_back("[" + text + "]");
  for (const std::string& candidate : candidates) {
    std::optional<std::string> better;
    if (candidate.front() == '[' || candidate.front() == '{') {
      // The value that was in a string may need repairs inside, too; they are dropped if it still
      // does not fit.
      better = nested(place, candidate, path);
      if (!take_if(better)) better.reset();
    }
    if (!better && !take_if(candidate)) continue;
    const std::string& taken = better ? *better : candidate;
    const std::string name = path.empty() ? "arguments" : path.substr(path.rfind('/') + 1);
    tell("type_fixed", path, "Fixed " + name + " type",
         ": " + shortened(text) + " -> " + shortened(taken));
    return taken;
  }
  return text;
}

// Repairs JSON inside a string as if it stood in the place itself.
std::optional<std::string> ArgumentRepairer::nested(const Place& place, const std::string& text,
                                                    const std::string& path) {
  if (level_ >= kMaxLevel || tool_.schema == nullptr) return std::nullopt;
  ArgumentRepairer inner(tool_, place, level_ + 1);
  std::string out;
  inner.feed(text, out);
  inner.finish(false, out);
  for (const Repair& repair : inner.repairs()) {
    if (repairs_.size() == kMaxRepairs) break;
    repairs_.push_back(repair);
    repairs_.back().path = path + repair.path;
  }
  return out;
}

// `line`: the message that replaces the usual one.
void ArgumentRepairer::tell(std::string kind, std::string path, std::string what,
                            const std::string& values, const std::optional<std::string>& line) {
  if (repairs_.size() >= kMaxRepairs) return;
  std::string message = shortened(line ? *line : what + values);
  repairs_.push_back({std::move(kind), std::move(path), std::move(message), std::move(what)});
}

}  // namespace tenon::repair
