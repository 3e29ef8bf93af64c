#pragma once

#include <cstdint>
#include <deque>
#include <limits>
#include <map>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "tenon/base/budget.h"
#include "tenon/base/expected.h"
#include "tenon/json/value.h"
#include "tenon/schema/keywords.h"
#include "tenon/schema/schema.h"

/// The places of a schema and of the documents it refers to. Not for other layers.
namespace tenon::schema {

using PlaceId = std::uint32_t;
using ResourceId = std::uint32_t;

/// A value that is a schema. Its views are of the documents, which outlive the compilation.
struct Place {
  static constexpr PlaceId kNone = std::numeric_limits<PlaceId>::max();
  static constexpr std::uint32_t kNoIndex = std::numeric_limits<std::uint32_t>::max();

  const json::Value* value = nullptr;
  ResourceId resource = 0;
  PlaceId parent = kNone;
  std::string_view keyword;          ///< Below the parent: its keyword, or a whole pointer,
  const std::string* key = nullptr;  ///< the name below that, if any,
  std::uint32_t index = kNoIndex;    ///< or the index.
};

/// A schema with an address of its own (the root of a document, or a place with `$id`), with the
/// names by which places in it can be reached.
struct Resource {
  std::string address;  ///< Without fragment; "" if the schema does not say.
  Dialect dialect;
  PlaceId root = 0;
  std::map<std::string, PlaceId, std::less<>> anchors;          ///< Those of `$dynamicAnchor` too.
  std::map<std::string, PlaceId, std::less<>> dynamic_anchors;  ///< "" is `$recursiveAnchor`.
};

/// What a reference points to.
struct Target {
  PlaceId place = Place::kNone;
  std::string anchor;  ///< The name by which it was found, or "".
};

/// Knows every place by its value and resolves references between places. A document is opened when
/// a reference first needs it.
class Documents {
 public:
  Documents(const CompileOptions& options, Budget& budget) : options_(options), budget_(budget) {}

  Expected<PlaceId> open_root(const json::Value& schema);

  /// The target of `reference`, which stands at `from`. Errors name `keyword`.
  Expected<Target> resolve(PlaceId from, Keyword keyword, std::string_view reference);

  [[nodiscard]] const Place& place(PlaceId id) const { return places_[id]; }
  [[nodiscard]] const Resource& resource(ResourceId id) const { return resources_[id]; }
  [[nodiscard]] const Resource& resource_of(PlaceId id) const {
    return resources_[places_[id].resource];
  }
  /// The place of a value below a known place.
  [[nodiscard]] PlaceId place_of(const json::Value& value) const { return by_value_.at(&value); }
  /// A JSON pointer, after "address#" if the place is in another document.
  [[nodiscard]] std::string location(PlaceId id) const;
  /// An error about `keyword` of the schema at a place.
  [[nodiscard]] Error error(PlaceId id, Keyword keyword, Errc code, std::string_view what) const;

 private:
  Expected<PlaceId> open(std::string_view address, const json::Value& document);
  Expected<ResourceId> find_resource(PlaceId from, Keyword keyword, const std::string& address);
  [[nodiscard]] const json::Value* find_given(std::string_view address) const;
  const json::Value* find_built_in(std::string_view address);
  Expected<Dialect> dialect_of(std::string_view meta_schema, int indirections = 0) const;
  Status index(Place first);
  Status enter(PlaceId id, const json::Object& schema);
  Status enter_resource(PlaceId id, const json::Object& schema);
  void note_anchors(PlaceId id, const json::Object& schema);
  void push_children(PlaceId id, const json::Object& schema, std::vector<Place>& open) const;
  ResourceId add_resource(std::string address, const Dialect& dialect, PlaceId root);
  Expected<PlaceId> at_pointer(ResourceId resource, const std::string& pointer);

  const CompileOptions& options_;
  Budget& budget_;
  Dialect root_dialect_;
  std::vector<Place> places_;
  std::deque<Resource> resources_;  // references to them stay good
  std::unordered_map<const json::Value*, PlaceId> by_value_;
  std::unordered_map<std::string, ResourceId> by_address_;
  std::deque<json::Value> built_in_;    // the meta-schemas that were opened
  std::deque<std::string> raw_tokens_;  // the text of Place::keyword where it is a pointer
};

}  // namespace tenon::schema
