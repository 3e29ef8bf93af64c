#pragma once

#include <map>
#include <string>
#include <vector>

#include "tenon/json/value.h"

namespace tenon::format {

/// The schemas of one document, each joined with those to which it refers: `$ref`, the keywords
/// beside it and the parts of `allOf` become one object, as far as keywords can be joined. The
/// others stay in `allOf`.
///
///     WholeSchemas schemas(parameters);
///     schemas.of({"$ref": "#/$defs/name", "maxLength": 3})   // {"type": "string", "maxLength": 3}
///
/// A schema without references and `allOf` is returned itself, and one that only refers is its
/// target. Each joined schema is made once, so schemas that contain themselves lead back to the
/// same place.
class WholeSchemas {
 public:
  /// `root` must outlive this object.
  explicit WholeSchemas(const json::Value& root) : root_(&root) {}

  /// `schema`, or an object that lives as long as this one.
  const json::Value& of(const json::Value& schema);

  /// The parts of `anyOf` or `oneOf`, each joined with the keywords beside the list; they live as
  /// long as this object. Without such a list, of(schema) alone.
  std::vector<const json::Value*> ways(const json::Value& schema);

  /// The schema requires more of a value than its type, which may be one of several.
  bool says_more_than_type(const json::Value& schema);

 private:
  bool says_more(const json::Value& schema, unsigned& left);
  json::Value flat(const json::Value& schema, unsigned depth);
  const json::Value& keep(json::Value schema);

  const json::Value* root_;
  std::map<std::string, json::Value> made_;         // by their text
  std::map<std::string, const json::Value*> flat_;  // pointers into made_, by the text of their
                                                    // source
  std::size_t visits_ = 0;
};

}  // namespace tenon::format
