#pragma once

#include <optional>
#include <vector>

#include "tenon/message/event.h"
#include "tenon/message/message.h"

namespace tenon::chat {

/// Whether the messages since the user's last one end in a loop: rounds of at most kMostSteps
/// answers with calls, each round with the calls, arguments and results of the round before.
/// Arguments are compared as JSON values. `repeats` is 0 without a loop, else at least 2.
inline constexpr std::size_t kMostSteps = 4;
[[nodiscard]] message::Loop loop_of(const std::vector<message::Message>& messages);

/// The request without its tools, if it is in a loop that is to be stopped; nothing: it is answered
/// as it is.
[[nodiscard]] std::optional<message::ChatRequest> stopped(const message::ChatRequest& request,
                                                          const message::Loop& loop,
                                                          message::OnLoop setting);

}  // namespace tenon::chat
