#pragma once

#include "tenon/json/space.h"

namespace tenon::format {

// White space between the parts of a call.
using json::is_space;
using json::kSpace;
using json::trimmed;

}  // namespace tenon::format
