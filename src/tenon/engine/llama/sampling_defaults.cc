#include "tenon/engine/llama/sampling_defaults.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <string_view>

namespace tenon::engine {
namespace {

std::optional<double> read(const vocab::GgufFile& file, std::string_view key, double most) {
  const auto value = file.number(key);
  if (!value || std::isnan(*value)) return std::nullopt;
  return std::clamp(*value, 0.0, most);
}

template <class T>
void fill(std::optional<T>& value, const std::optional<T>& fallback) {
  if (!value) value = fallback;
}

}  // namespace

message::Sampling read_sampling_defaults(const vocab::GgufFile& file) {
  message::Sampling defaults;
  defaults.temperature = read(file, "general.sampling.temp", std::numeric_limits<float>::max());
  defaults.top_p = read(file, "general.sampling.top_p", 1.0);
  if (const auto top_k = read(file, "general.sampling.top_k", std::numeric_limits<int>::max())) {
    defaults.top_k = static_cast<int>(*top_k);
  }
  defaults.min_p = read(file, "general.sampling.min_p", 1.0);
  return defaults;
}

void fill_sampling(message::Sampling& sampling, const message::Sampling& defaults) {
  fill(sampling.temperature, defaults.temperature);
  fill(sampling.top_p, defaults.top_p);
  fill(sampling.top_k, defaults.top_k);
  fill(sampling.min_p, defaults.min_p);
}

}  // namespace tenon::engine
