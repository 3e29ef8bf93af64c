#pragma once

#include <memory>

#include <tenon.h>

#include "tenon/format/format.h"
#include "tenon/message/event.h"

struct tenon_format {
  std::shared_ptr<const tenon::format::Format> format;
};

namespace tenon::capi {

/// `event` as a tenon_event, which views the data of `event`. A Finish gives only the reason.
[[nodiscard]] tenon_event event_of(const message::ChatEvent& event);

}  // namespace tenon::capi
