#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "tenon/base/expected.h"
#include "tenon/grammar/machine.h"
#include "tenon/grammar/relaxed.h"
#include "tenon/grammar/string_scanner.h"
#include "tenon/schema/schema.h"

namespace tenon::grammar {

struct JsonOptions {
  enum class PropertyOrder : std::uint8_t {
    any,     ///< Exactly the schema.
    schema,  ///< As the schema declares them, other properties last: more is forced.
  };
  enum class Whitespace : std::uint8_t {
    compact,  ///< None.
    spaced,   ///< One space after ',' and ':', as json.dumps writes.
    pretty,   ///< A line per item, two spaces per level, as json.dumps with indent=2 writes.
    any,      ///< At most `max_whitespace` characters wherever JSON has it.
  };
  PropertyOrder property_order = PropertyOrder::any;
  Whitespace whitespace = Whitespace::spaced;
  std::uint32_t max_whitespace = 20;
  UnicodeEscapes unicode_escapes = UnicodeEscapes::any;
  /// An integer is written as one: 3 and not 3.0, 3.00, ...
  bool plain_integers = false;
  /// Where an object declares properties, names of which the schema says nothing (it has no
  /// additionalProperties) are not written, unless there would be no value: fewer objects than are
  /// valid, as llama.cpp and xgrammar have it.
  bool declared_only = false;
  /// What cannot be enforced is left out and listed, instead of being an error.
  bool lenient = false;
};

/// Adds the JSON values of a schema to a machine; the frame reads one. Fails with `unsatisfiable`
/// where there are none, with limit_exceeded or unsupported naming what cannot be enforced (with
/// `lenient`: appends it to `relaxed`). Places that the text has not reached yet are looked at when
/// it does, so that a limit that is reached there makes states dead later, and machine.error() says
/// why.
[[nodiscard]] Expected<FrameId> add_json(Machine& machine,
                                         std::shared_ptr<const schema::Schema> schema,
                                         const JsonOptions& options,
                                         std::vector<Relaxed>* relaxed = nullptr);

}  // namespace tenon::grammar
