#pragma once

#include <chrono>
#include <memory>

#include "tenon/chat/responder.h"

namespace tenon::chat {

/// `inner`, but for answers with a call that its tool's schema does not take (`invalid_arguments`):
/// such an answer is not given, the model is told what was wrong with its calls, and is asked once
/// more. What it says then is the answer, whatever it is; Diagnostic "asked_again" has the faults
/// of the first, and the usage is that of both.
///
///     model = with_second_try(std::move(model));
///
/// Text streams as ever. What comes from the first call on waits until the answer is whole, since
/// what has been sent is never taken back. Where the model cannot be asked again, the first answer
/// is given after all. `time_limit` is that of both together (0: none). Thread-safe, as every
/// Model.
[[nodiscard]] std::shared_ptr<Model> with_second_try(std::shared_ptr<Model> inner,
                                                     std::chrono::milliseconds time_limit = {});

}  // namespace tenon::chat
