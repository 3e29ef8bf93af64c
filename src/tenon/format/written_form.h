#pragma once

#include <memory>
#include <vector>

#include "tenon/format/detect.h"
#include "tenon/format/format.h"

/// The form in which a model's own template writes calls, which is the form that the model has
/// learnt.
namespace tenon::format {

/// `format` with a grammar that has the form of `samples` beside the first form of the definition,
/// and no other: white space around and between markers, the separator of two calls, the text that
/// opens and closes them, the order of an object's members, ids, and what comes before the first
/// call and after the last. The definition limits all of these, because the parser must read them.
/// Returns `format` itself if no sample can be split into the definition's parts. Reading and
/// rendering are unchanged.
///
///     format = as_written(format, {*write_turn({first, second}), *write_turn({first})});
///
/// Each call of a sample needs two arguments and an id.
[[nodiscard]] std::shared_ptr<const Format> as_written(const std::shared_ptr<const Format>& format,
                                                       const std::vector<CallSample>& samples);

}  // namespace tenon::format
