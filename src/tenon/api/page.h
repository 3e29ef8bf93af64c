#pragma once

#include <string>
#include <string_view>

#include "tenon/chat/model_registry.h"

namespace tenon::api {

/// The page at "/": the base address for clients, the models, and a request to try.
[[nodiscard]] std::string start_page(std::string_view base_url, std::string_view version,
                                     const chat::ModelRegistry& models);

}  // namespace tenon::api
