#pragma once

#include "tenon/message/message.h"
#include "tenon/vocab/gguf.h"

/// The sampling that a model's makers recommend in its file. For sources of this folder only.
namespace tenon::engine {

/// The values of general.sampling.{temp,top_p,top_k,min_p} in `file`; absent ones stay absent. Read
/// as llama.cpp reads them: a value outside its range becomes the end of the range (top_k -1: all
/// tokens), and a value that is not a number is ignored. The result passes check_request().
[[nodiscard]] message::Sampling read_sampling_defaults(const vocab::GgufFile& file);

/// Gives `sampling` the temperature, top_p, top_k and min_p that it leaves out.
void fill_sampling(message::Sampling& sampling, const message::Sampling& defaults);

}  // namespace tenon::engine
