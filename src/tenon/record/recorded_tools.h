#pragma once

#include <memory>

#include "tenon/base/expected.h"
#include "tenon/chat/model.h"
#include "tenon/record/reader.h"

namespace tenon::record {

/// `inner` with the tools that the server of the recording ran itself. They run nothing: a call
/// gets the recorded result of the call of that choice with the same tool and arguments, each of
/// them once, or an error if the recording has no such call. `inner` itself if the server ran no
/// tools. Fails with `unsupported` if the request named servers of tools, and with `invalid` if the
/// recorded tools cannot be offered, or are more than 1,000 or of more than 100 servers.
[[nodiscard]] Expected<std::shared_ptr<chat::Model>> with_recorded_tools(
    const Read& read, unsigned choice, std::shared_ptr<chat::Model> inner);

}  // namespace tenon::record
