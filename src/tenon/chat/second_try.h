#pragma once

#include <chrono>
#include <memory>

#include "tenon/chat/model.h"

namespace tenon::chat {

/// `inner`, except for answers with a call that its tool's schema forbids (`invalid_arguments`).
/// Such an answer is not passed on; the model is told what was wrong with its calls, and is asked
/// once more. Its second answer is passed on in any case; the Diagnostic "asked_again" has the
/// faults of the first, and the usage is that of both.
///
///     model = with_second_try(std::move(model));
///
/// Text streams as always. From the first call on, events wait until the answer is whole, since
/// what has been sent cannot be taken back. If the model cannot be asked again, the first answer is
/// passed on after all. `time_limit` holds for both together (0: no limit). Thread-safe, as every
/// Model.
[[nodiscard]] std::shared_ptr<Model> with_second_try(std::shared_ptr<Model> inner,
                                                     std::chrono::milliseconds time_limit = {});

}  // namespace tenon::chat
