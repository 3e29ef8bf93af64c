#include "tenon/schema/documents.h"

#include <algorithm>
#include <optional>

#include "tenon/json/pointer.h"
#include "tenon/schema/metaschemas.h"
#include "tenon/schema/uri.h"

namespace tenon::schema {
namespace {

const std::string* string_at(const json::Object& object, Keyword keyword) {
  const json::Value* const value = object.find(row_of(keyword).name);
  return value == nullptr ? nullptr : value->if_string();
}

// The part after "http://json-schema.org/" of a meta-schema's address; people write https for the
// old drafts too.
std::optional<std::string_view> standard_name(std::string_view address) {
  for (const std::string_view prefix : {"http://json-schema.org/", "https://json-schema.org/"}) {
    if (address.starts_with(prefix)) return address.substr(prefix.size());
  }
  return std::nullopt;
}

std::optional<Draft> standard_draft(std::string_view name) {
  constexpr std::pair<std::string_view, Draft> kNames[] = {
      {"draft-04/schema", Draft::draft4},
      {"draft-06/schema", Draft::draft6},
      {"draft-07/schema", Draft::draft7},
      {"draft/2019-09/schema", Draft::draft2019_09},
      {"draft/2020-12/schema", Draft::draft2020_12}};
  for (const auto& [known, draft] : kNames) {
    if (name == known) return draft;
  }
  return std::nullopt;
}

// `vocabularies` is the value of `$vocabulary`: {address: whether it must be understood}.
Expected<Dialect> with_vocabularies(Draft draft, const json::Object& vocabularies) {
  Dialect dialect{.draft = draft, .applies = false, .unevaluated = false, .validates = false};
  for (const json::Member& member : vocabularies) {
    const std::size_t slash = member.key.rfind('/');
    const bool is_standard = standard_name(member.key).has_value();
    const std::string name =
        is_standard && slash != std::string::npos ? member.key.substr(slash + 1) : "";
    const bool is_required = member.value.if_bool() != nullptr && *member.value.if_bool();
    if (name == "applicator") {
      dialect.applies = true;
      if (draft == Draft::draft2019_09) dialect.unevaluated = true;
    } else if (name == "unevaluated") {
      dialect.unevaluated = true;
    } else if (name == "validation") {
      dialect.validates = true;
    } else if (name == "format-assertion" || (name == "format" && is_required)) {
      dialect.asserts_format = true;
    } else if (name.empty() && is_required) {
      return Unexpected(
          Error{Errc::unsupported, "the vocabulary '" + member.key + "' is not known"});
    }
  }
  return dialect;
}

}  // namespace

// Documents ---------------------------------------------------------------------------------------

Expected<PlaceId> Documents::open_root(const json::Value& schema) {
  root_dialect_.draft = options_.draft;
  const auto root = open("", schema);
  if (root) root_dialect_ = resource_of(*root).dialect;
  return root;
}

// Indexes a whole document before anything in it is compiled, because a reference may lead to an
// anchor that comes later.
Expected<PlaceId> Documents::open(std::string_view address, const json::Value& document) {
  Dialect dialect = root_dialect_;
  const std::string& label =
      raw_tokens_.emplace_back(places_.empty() ? "" : std::string(address) + "#");
  const json::Object* const object = document.if_object();
  if (const std::string* name = object ? string_at(*object, Keyword::schema) : nullptr) {
    const auto named = dialect_of(*name);
    if (!named) {
      return Unexpected(Error::at(named.error().code, label + "/$schema", named.error().message));
    }
    dialect = *named;
  }
  const auto root = static_cast<PlaceId>(places_.size());
  const ResourceId resource = add_resource(std::string(address), dialect, root);
  if (Status indexed = index({.value = &document, .resource = resource, .keyword = label});
      !indexed) {
    return Unexpected(indexed.error());
  }
  return root;
}

ResourceId Documents::add_resource(std::string address, const Dialect& dialect, PlaceId root) {
  const auto id = static_cast<ResourceId>(resources_.size());
  // The first resource of an address stays: emplace() does not replace it.
  by_address_.emplace(address, id);
  resources_.push_back({.address = std::move(address), .dialect = dialect, .root = root});
  return id;
}

// A meta-schema of one's own says by its `$schema` and `$vocabulary` which keywords there are; it
// must be among the documents, since nothing is fetched.
Expected<Dialect> Documents::dialect_of(std::string_view meta_schema, int indirections) const {
  const std::string_view address = split_fragment(meta_schema).address;
  if (const auto name = standard_name(address)) {
    if (const auto draft = standard_draft(*name)) return Dialect{.draft = *draft};
    if (*name == "schema") return Dialect{.draft = options_.draft};  // "the latest"
  }
  const json::Value* const found = find_given(address);
  const json::Object* const given = found == nullptr ? nullptr : found->if_object();
  constexpr int kMostIndirections = 8;  // a meta-schema of a meta-schema is already rare
  if (given == nullptr || indirections == kMostIndirections) {
    return Unexpected(Error{Errc::unsupported, "the dialect '" + std::string(meta_schema) +
                                                   "' is neither a draft from 4 to 2020-12 nor "
                                                   "among the documents"});
  }
  const std::string* const base = string_at(*given, Keyword::schema);
  // A meta-schema names its own meta-schema, which in the end is a draft.
  auto dialect =
      base == nullptr ? Dialect{.draft = options_.draft} : dialect_of(*base, indirections + 1);
  const json::Value* const vocabularies = given->find("$vocabulary");
  if (!dialect || vocabularies == nullptr || vocabularies->if_object() == nullptr) return dialect;
  return with_vocabularies(dialect->draft, *vocabularies->if_object());
}

// By the name under which it was given, or by its own `$id`, both without a fragment ("http://x/y#"
// is "http://x/y").
const json::Value* Documents::find_given(std::string_view address) const {
  if (options_.documents == nullptr) return nullptr;
  if (const json::Value* document = options_.documents->find(address)) return document;
  for (const json::Member& member : *options_.documents) {
    if (split_fragment(member.key).address == address) return &member.value;
    const json::Value* id = member.value.find("$id");
    if (id == nullptr) id = member.value.find("id");
    if (id == nullptr || id->if_string() == nullptr) continue;
    if (split_fragment(*id->if_string()).address == address) return &member.value;
  }
  return nullptr;
}

const json::Value* Documents::find_built_in(std::string_view address) {
  const auto standard = standard_name(address);
  if (!standard) return nullptr;
  // draft/2020-12/meta/core is in the file draft.2020-12.meta.core.json.
  std::string name(*standard);
  std::ranges::replace(name, '/', '.');
  name.append(".json");
  for (const auto& file : metaschemas()) {
    if (file.name != name) continue;
    auto parsed = json::parse(file.bytes);
    return parsed ? &built_in_.emplace_back(*std::move(parsed)) : nullptr;
  }
  return nullptr;
}

// Documents that were given win over the standard's meta-schemas. One document may be reached by
// several addresses and is still opened once.
Expected<ResourceId> Documents::find_resource(PlaceId from, Keyword keyword,
                                              const std::string& address) {
  if (const auto known = by_address_.find(address); known != by_address_.end()) {
    return known->second;
  }
  const json::Value* document = find_given(address);
  if (document == nullptr) document = find_built_in(address);
  if (document == nullptr) {
    return Unexpected(error(from, keyword, Errc::unsupported,
                            "'" + address +
                                "' is neither in the schema nor among the documents given with it, "
                                "and nothing is fetched"));
  }
  if (const auto opened = by_value_.find(document); opened != by_value_.end()) {
    return by_address_[address] = places_[opened->second].resource;  // it has two addresses
  }
  const auto root = open(address, *document);
  if (!root) return Unexpected(root.error());
  return places_[*root].resource;
}

// References --------------------------------------------------------------------------------------

Error Documents::error(PlaceId id, Keyword keyword, Errc code, std::string_view what) const {
  return Error::at(code, location(id).append("/").append(row_of(keyword).name), what);
}

// A reference is an address and a fragment: nothing (the root), a JSON pointer, or the name of an
// anchor.
Expected<Target> Documents::resolve(PlaceId from, Keyword keyword, std::string_view reference) {
  const std::string whole = resolve_uri(resource_of(from).address, reference);
  const SplitUri split = split_fragment(whole);
  ResourceId resource = places_[from].resource;
  if (split.address != resources_[resource].address) {
    const auto found = find_resource(from, keyword, std::string(split.address));
    if (!found) return Unexpected(found.error());
    resource = *found;
  }
  const auto nowhere = [&](std::string_view why) {
    return Unexpected(error(from, keyword, Errc::invalid,
                            "'" + std::string(reference) + "' " + std::string(why)));
  };
  const auto fragment = percent_decoded(split.fragment.value_or(""));
  if (!fragment) return nowhere("is not an address");
  if (fragment->empty()) return Target{.place = resources_[resource].root};
  if (fragment->starts_with('/')) {
    const auto place = at_pointer(resource, *fragment);
    if (!place) return Unexpected(place.error());
    if (*place == Place::kNone) return nowhere("leads nowhere");
    return Target{.place = *place};
  }
  const auto& anchors = resources_[resource].anchors;
  const auto anchor = anchors.find(*fragment);
  if (anchor == anchors.end()) return nowhere("leads nowhere");
  return Target{.place = anchor->second, .anchor = *fragment};
}

// A pointer may lead to a place where no keyword expects a schema. The value is then read as a
// schema, in the resource of the nearest schema around it.
Expected<PlaceId> Documents::at_pointer(ResourceId resource, const std::string& pointer) {
  PlaceId nearest = resources_[resource].root;
  const json::Value* at = places_[nearest].value;
  std::size_t behind_nearest = 0;
  for (std::size_t begin = 0; begin < pointer.size();) {
    const std::size_t end = std::min(pointer.find('/', begin + 1), pointer.size());
    if (!budget_.step()) return Unexpected(budget_.error());
    at = json::at_pointer(*at, std::string_view(pointer).substr(begin, end - begin));
    if (at == nullptr) return Place::kNone;
    begin = end;
    // A schema that is known is on the way: what is below it belongs to its resource.
    const auto known = by_value_.find(at);
    if (known == by_value_.end()) continue;
    nearest = known->second;
    behind_nearest = end;
  }
  // The pointer leads to a place where a keyword expects a schema.
  if (places_[nearest].value == at) return nearest;
  const std::string& rest = raw_tokens_.emplace_back(pointer.substr(behind_nearest + 1));
  const auto place = static_cast<PlaceId>(places_.size());
  Status indexed = index(
      {.value = at, .resource = places_[nearest].resource, .parent = nearest, .keyword = rest});
  if (!indexed) return Unexpected(indexed.error());
  return place;
}

// The place as a JSON pointer, made only when it is told: most places never are.
std::string Documents::location(PlaceId id) const {
  std::vector<const Place*> way;
  for (; id != Place::kNone; id = places_[id].parent) way.push_back(&places_[id]);
  std::string out(way.back()->keyword);  // of a root: "" or "address#"
  for (auto place = way.rbegin() + 1; place != way.rend(); ++place) {
    out.append("/").append((*place)->keyword);
    if ((*place)->key != nullptr) {
      out.push_back('/');
      json::append_pointer_key(out, *(*place)->key);
    } else if ((*place)->index != Place::kNoIndex) {
      out.append("/").append(std::to_string((*place)->index));
    }
  }
  return out;
}

// The index ---------------------------------------------------------------------------------------

// Without recursion, because schemas may be arbitrarily deep.
Status Documents::index(Place first) {
  std::vector<Place> open{first};
  while (!open.empty()) {
    const Place place = open.back();
    open.pop_back();
    constexpr std::uint64_t kBytesPerPlace = sizeof(Place) + 64;  // and its entry in by_value_
    if (!budget_.step() || !budget_.take_bytes(kBytesPerPlace)) return Unexpected(budget_.error());
    const auto id = static_cast<PlaceId>(places_.size());
    // It is below the target of an earlier pointer.
    if (!by_value_.emplace(place.value, id).second) continue;
    places_.push_back(place);
    const json::Object* const schema = place.value->if_object();
    if (schema == nullptr) continue;
    if (Status entered = enter(id, *schema); !entered) return entered;
    push_children(id, *schema, open);
  }
  return {};
}

Status Documents::enter(PlaceId id, const json::Object& schema) {
  if (Status entered = enter_resource(id, schema); !entered) return entered;
  note_anchors(id, schema);
  return {};
}

// A place below the root is a resource if the dialect around it has an `$id` there; only then does
// its `$schema` count.
Status Documents::enter_resource(PlaceId id, const json::Object& schema) {
  const bool is_root = places_[id].parent == Place::kNone;
  const Resource& around = resource_of(id);
  Dialect dialect = around.dialect;
  const Keyword keyword = dialect.draft == Draft::draft4 ? Keyword::draft4_id : Keyword::id;
  const json::Value* const value = schema.find(row_of(keyword).name);
  if (value == nullptr) return {};
  if (value->if_string() == nullptr) {
    return Unexpected(error(id, keyword, Errc::invalid, "must be a string"));
  }
  const std::string* const meta_schema = is_root ? nullptr : string_at(schema, Keyword::schema);
  if (meta_schema != nullptr) {
    const auto named = dialect_of(*meta_schema);
    if (!named) {
      return Unexpected(error(id, Keyword::schema, named.error().code, named.error().message));
    }
    dialect = *named;
  }
  const bool siblings_of_ref_count = dialect.draft >= Draft::draft2019_09;
  if (!is_root && !siblings_of_ref_count && string_at(schema, Keyword::ref) != nullptr) return {};

  const SplitUri split = split_fragment(*value->if_string());
  std::string address = resolve_uri(around.address, split.address);
  if (is_root) {
    const ResourceId resource = places_[id].resource;
    resources_[resource].address = address;
    by_address_.emplace(std::move(address), resource);
  } else if (!split.address.empty() && address != around.address) {
    places_[id].resource = add_resource(std::move(address), dialect, id);
  }
  // Before `$anchor`, an `$id` that is a fragment, or ends with one, was an anchor.
  if (!siblings_of_ref_count && split.fragment && !split.fragment->empty()) {
    resources_[places_[id].resource].anchors.emplace(*split.fragment, id);
  }
  return {};
}

// `$recursiveAnchor: true` of 2019-09 is a dynamic anchor without a name, at the root of its
// resource.
void Documents::note_anchors(PlaceId id, const json::Object& schema) {
  Resource& resource = resources_[places_[id].resource];
  const auto knows = [&](Keyword keyword) { return resource.dialect.knows(row_of(keyword)); };
  if (const std::string* name = string_at(schema, Keyword::anchor);
      name != nullptr && knows(Keyword::anchor)) {
    resource.anchors.emplace(*name, id);
  }
  const std::string* dynamic = string_at(schema, Keyword::dynamic_anchor);
  if (dynamic != nullptr && knows(Keyword::dynamic_anchor)) {
    resource.anchors.emplace(*dynamic, id);
    resource.dynamic_anchors.emplace(*dynamic, id);
  }
  const json::Value* recursive = schema.find(row_of(Keyword::recursive_anchor).name);
  if (recursive != nullptr && recursive->if_bool() != nullptr && *recursive->if_bool() &&
      resource.root == id && knows(Keyword::recursive_anchor)) {
    resource.dynamic_anchors.emplace("", id);
  }
}

// The schemas inside a schema, by what the keywords of its dialect contain. What an unknown keyword
// has is data, although it may look like a schema.
void Documents::push_children(PlaceId id, const json::Object& schema,
                              std::vector<Place>& open) const {
  const Place& parent = places_[id];
  const Dialect& dialect = resources_[parent.resource].dialect;
  const auto push = [&](const KeywordRow& row, const json::Value& value, const std::string* key,
                        std::size_t index) {
    open.push_back({.value = &value,
                    .resource = parent.resource,
                    .parent = id,
                    .keyword = row.name,
                    .key = key,
                    .index = static_cast<std::uint32_t>(index)});
  };
  // Backwards, so that they leave the stack in the order of the text.
  for (auto member = schema.members().rbegin(); member != schema.members().rend(); ++member) {
    const KeywordRow* const row = find_keyword(member->key, dialect);
    if (row == nullptr || row->shape == Shape::data) continue;
    const json::Array* const list = member->value.if_array();
    const json::Object* const map = member->value.if_object();
    const bool is_list =
        row->shape == Shape::list || (row->shape == Shape::list_or_one && list != nullptr);
    const bool is_map = row->shape == Shape::map || row->shape == Shape::map_or_data;
    if (is_list) {
      for (std::size_t i = list == nullptr ? 0 : list->size(); i-- > 0;) {
        push(*row, (*list)[i], nullptr, i);
      }
    } else if (is_map) {
      for (std::size_t i = map == nullptr ? 0 : map->size(); i-- > 0;) {
        const json::Member& child = map->members()[i];
        if (row->shape == Shape::map_or_data && child.value.if_array() != nullptr) continue;
        push(*row, child.value, &child.key, Place::kNoIndex);
      }
    } else {
      push(*row, member->value, nullptr, Place::kNoIndex);
    }
  }
}

}  // namespace tenon::schema
