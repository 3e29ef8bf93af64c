#pragma once

#include <memory>
#include <string>

#include "tenon/base/expected.h"
#include "tenon/chat/model.h"
#include "tenon/record/reader.h"

namespace tenon::record {

/// A model that answers as it did in a recording: template, format, parser and repair are today's,
/// the tokens are those of the recording's runs, in their order. A request beyond the last run is
/// refused. `read` must outlive the model and its answers. Fails if the recording's model cannot be
/// made.
[[nodiscard]] Expected<std::shared_ptr<chat::Model>> recorded_model(const Read& read);

/// A model that answers the recorded request anew. Each choice has the tools that the recording's
/// server ran for it (with_recorded_tools), and fails as that does.
[[nodiscard]] Expected<std::shared_ptr<chat::Model>> with_tools_of_choices(
    const Read& read, const std::shared_ptr<chat::Model>& model);

/// An answer without what differs each time: random ids become `ID1`, `ID2` ... in their order, and
/// the times at which it was made become 0; what keeps a silent stream alive is left out, and the
/// choices of a stream come one after the other. Two answers that are equal then say the same.
[[nodiscard]] std::string without_chance(std::string_view told);

}  // namespace tenon::record
