#pragma once

#include <memory>

#include "tenon/base/expected.h"
#include "tenon/chat/model.h"
#include "tenon/record/reader.h"

namespace tenon::record {

/// `inner` with the tools that the server of the recording ran itself. They run nothing: a call
/// gets the recorded result of the call with the same tool and arguments, or an error if there is
/// none. `inner` itself if the server ran no tools. Fails with `unsupported` if the request named
/// servers of tools, and with `invalid` if the recorded tools cannot be offered. The model holds
/// `read`, which must outlive it.
[[nodiscard]] Expected<std::shared_ptr<chat::Model>> with_recorded_tools(
    const Read& read, std::shared_ptr<chat::Model> inner);

}  // namespace tenon::record
