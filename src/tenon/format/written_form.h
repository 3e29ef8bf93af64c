#pragma once

#include <memory>
#include <vector>

#include "tenon/format/detect.h"
#include "tenon/format/format.h"

/// The form in which a model's own template writes calls: what the model has learnt.
namespace tenon::format {

/// `format` whose grammar has the form of `samples` beside the first of the definition, and no
/// other: white space around and between markers, the separator of two calls, what opens and closes
/// them, the order of an object's members, ids, and what comes before the first call and behind the
/// last. The definition says what these can be, since the parser has to read all of it. `format`
/// itself where none of the samples can be told apart into the definition's parts. As it is read
/// and rendered the format stays what it is.
///
///     format = as_written(format, {*write_turn({first, second}), *write_turn({first})});
///
/// Each call of a sample needs two arguments and an id.
[[nodiscard]] std::shared_ptr<const Format> as_written(const std::shared_ptr<const Format>& format,
                                                       const std::vector<CallSample>& samples);

}  // namespace tenon::format
