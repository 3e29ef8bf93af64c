#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "tenon/base/expected.h"
#include "tenon/grammar/json/string_scanner.h"
#include "tenon/grammar/machine/machine.h"
#include "tenon/grammar/machine/relaxed.h"
#include "tenon/schema/schema.h"

namespace tenon::grammar {

struct JsonOptions {
  enum class PropertyOrder : std::uint8_t {
    any,     ///< Exactly the values of the schema.
    schema,  ///< In the schema's order, other properties last; more tokens are forced.
  };
  enum class Whitespace : std::uint8_t {
    compact,  ///< No whitespace.
    spaced,   ///< One space after ',' and ':', as json.dumps writes.
    pretty,   ///< One line per item, two spaces per level, as json.dumps with indent=2 writes.
    any,      ///< At most `max_whitespace` characters wherever JSON allows whitespace.
  };
  PropertyOrder property_order = PropertyOrder::any;
  Whitespace whitespace = Whitespace::spaced;
  std::uint32_t max_whitespace = 20;
  UnicodeEscapes unicode_escapes = UnicodeEscapes::any;
  /// Numbers have a usual number of digits, and Whitespace::any has its maximum. False: numbers may
  /// have 190 digits before the point and behind it, and whitespace may go on.
  bool is_bounded = true;
  /// An integer is written without a fraction: 3, and not 3.0, 3.00, ...
  bool plain_integers = false;
  /// If an object declares properties and has no additionalProperties, undeclared names are not
  /// written, unless there would be no value without them. That allows fewer objects than are
  /// valid, like llama.cpp and xgrammar.
  bool declared_only = false;
  /// Keywords that cannot be enforced are left out and listed instead of being an error.
  bool lenient = false;
};

/// Adds the JSON values of a schema to a machine and returns the frame that reads one. Fails with
/// `unsatisfiable` if no text fits, and with limit_exceeded or unsupported, naming what cannot be
/// enforced (with `lenient` it is appended to `relaxed` instead). Places of the schema are compiled
/// when the text reaches them. A limit that is reached then makes states dead later, and
/// machine.error() says why.
[[nodiscard]] Expected<FrameId> add_json(Machine& machine,
                                         std::shared_ptr<const schema::Schema> schema,
                                         const JsonOptions& options,
                                         std::vector<Relaxed>* relaxed = nullptr);

/// The same for a schema that add_json() has taken before, with these options or others that differ
/// in how a value is written alone: it is added when a text reaches its first byte, or an end of
/// the text is searched for. An error becomes the machine's.
[[nodiscard]] FrameId add_known_json(Machine& machine, std::shared_ptr<const schema::Schema> schema,
                                     const JsonOptions& options);

}  // namespace tenon::grammar
