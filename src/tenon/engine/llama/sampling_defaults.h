#pragma once

#include "tenon/message/message.h"
#include "tenon/vocab/gguf.h"

/// The sampling that a model's makers recommend, from their file. For sources of this folder only.
namespace tenon::engine {

/// What `file` says under general.sampling.{temp,top_p,top_k,min_p}; absent stays absent. Read as
/// llama.cpp reads it: a value beyond its range means the end of the range (top_k -1: all tokens),
/// one that is not a number means nothing. Passes check_request().
[[nodiscard]] message::Sampling read_sampling_defaults(const vocab::GgufFile& file);

/// Gives `sampling` the temperature, top_p, top_k and min_p that it leaves out.
void fill_sampling(message::Sampling& sampling, const message::Sampling& defaults);

}  // namespace tenon::engine
