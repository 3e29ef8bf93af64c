#pragma once

#include <string_view>

#include "tenon/json/value.h"
#include "tenon/message/message.h"

namespace tenon::engine {

/// Writes the sampling parameters that a request has into `fields`, by the names that most servers
/// use; one of them differs between servers. Parameters that the request lacks are left to the
/// server. Seeds and biases are not included, since servers write them in too many ways.
void set_sampling(json::Object& fields, const message::Sampling& sampling,
                  std::string_view repetition_penalty = "repetition_penalty");
/// Writes `logit_bias`, an object by token ids, if the request has any.
void set_biases(json::Object& fields, const message::Sampling& sampling);

}  // namespace tenon::engine
