#pragma once

#include <memory>

#include <tenon.h>

#include "tenon/format/format.h"
#include "tenon/message/event.h"

struct tenon_format {
  std::shared_ptr<const tenon::format::Format> format;
};

namespace tenon::capi {

/// `event` as the header has it; it views what is in `event`. Of Finish the reason alone.
[[nodiscard]] tenon_event event_of(const message::ChatEvent& event);

}  // namespace tenon::capi
