#include "tenon/engine/sampling_fields.h"

#include <string>
#include <utility>

namespace tenon::engine {

// Absent fields are not sent, so that the server's own defaults count. Only the name of the
// repetition penalty differs between the servers.
void set_sampling(json::Object& fields, const message::Sampling& sampling,
                  std::string_view repetition_penalty) {
  const auto set = [&fields](std::string_view name, const auto& value) {
    if (value) fields.set(std::string(name), *value);
  };
  set("temperature", sampling.temperature);
  set("top_p", sampling.top_p);
  set("top_k", sampling.top_k);
  set("min_p", sampling.min_p);
  set("presence_penalty", sampling.presence_penalty);
  set("frequency_penalty", sampling.frequency_penalty);
  set(repetition_penalty, sampling.repetition_penalty);
}

// OpenAI's form: {"logit_bias": {"1734": -100}}.
void set_biases(json::Object& fields, const message::Sampling& sampling) {
  json::Object biases;
  for (const auto& [id, bias] : sampling.logit_bias) biases.set(std::to_string(id), bias);
  if (!biases.empty()) fields.set("logit_bias", std::move(biases));
}

}  // namespace tenon::engine
