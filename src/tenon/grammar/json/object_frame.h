#pragma once

#include <memory>
#include <vector>

#include "tenon/grammar/json/json_context.h"
#include "tenon/grammar/json/object_kinds.h"
#include "tenon/grammar/machine/machine.h"
#include "tenon/json/value.h"

namespace tenon::grammar {

/// Reads objects, and can leave some out: those that an array with `uniqueItems` has already.
class ObjectFrame : public Frame {
 public:
  /// Whether enter_without() can leave the object out: it has none of the names that are not known.
  [[nodiscard]] virtual bool can_leave_out(const json::Value& object) const = 0;
  /// The same as enter() for all objects but these; enters nothing if no object is left.
  virtual void enter_without(Machine& machine, FrameId self, CellId parent,
                             JsonContext::ObjectsId objects) = 0;
  [[nodiscard]] virtual bool has_any_without(JsonContext::ObjectsId objects) = 0;
};

/// Reads the objects of these kinds, which kinds_by_frame() has put together. Sets `needs_check` if
/// it reads more than them.
[[nodiscard]] std::unique_ptr<ObjectFrame> make_object_frame(JsonContext& context,
                                                             std::vector<ObjectKind> kinds,
                                                             bool& needs_check);

}  // namespace tenon::grammar
