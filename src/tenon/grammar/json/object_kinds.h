#pragma once

#include <string>
#include <vector>

#include "tenon/grammar/json/shape.h"
#include "tenon/grammar/json/shapes.h"
#include "tenon/json/value.h"

namespace tenon::grammar {

/// Names that an object must have, and must not have.
struct PresentNames {
  std::vector<std::string> required;
  std::vector<std::string> forbidden;
};
/// Objects of a shape that have the names of one of the cases.
struct ObjectKind {
  ObjectShape shape;  ///< A single case is a part of it.
  std::vector<PresentNames> cases;
};
using Objects = std::vector<const json::Value*>;

/// Puts the shapes of a term's objects together into kinds, and kinds that one frame can read into
/// one list: they say the same of all names that no rule lists, and their names come in the same
/// order, which matters if `is_ordered`. A frame for each shape would read the names, and values on
/// which they agree, as often as there are shapes. Counts as work of `shapes`.
[[nodiscard]] std::vector<std::vector<ObjectKind>> kinds_by_frame(
    Shapes& shapes, const std::vector<ObjectShape>& all, bool is_ordered);

}  // namespace tenon::grammar
