#pragma once

#include <string_view>

#include "tenon/json/value.h"
#include "tenon/message/message.h"

namespace tenon::engine {

/// What a request says of how tokens are chosen, by the names that most engines have for it, one of
/// which differs; what it does not say is the engine's to know. Seeds and biases are spelled in too
/// many ways.
void set_sampling(json::Object& fields, const message::Sampling& sampling,
                  std::string_view repetition_penalty = "repetition_penalty");
/// `logit_bias`, an object by the ids; nothing where there is none.
void set_biases(json::Object& fields, const message::Sampling& sampling);

}  // namespace tenon::engine
