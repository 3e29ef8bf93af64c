#include "tenon/engine/sampling_fields.h"

#include <string>
#include <string_view>

#include <gtest/gtest.h>

namespace tenon::engine {
namespace {

struct SamplingFieldsRow {
  std::string_view name;
  message::Sampling sampling;
  std::string_view fields;
};

const SamplingFieldsRow kSamplingFieldsRows[] = {
    {"NothingIsSaid", {}, "{}"},
    {"AllIsSaid",
     {.temperature = 0.5,
      .top_p = 0.25,
      .top_k = 3,
      .min_p = 0.125,
      .seed = 7,
      .presence_penalty = 1.0,
      .frequency_penalty = -1.5,
      .repetition_penalty = 2.0,
      .logit_bias = {{3, 1.5}, {11, -2.0}}},
     R"({"temperature":0.5,"top_p":0.25,"top_k":3,"min_p":0.125,"presence_penalty":1.0,)"
     R"("frequency_penalty":-1.5,"repetition_penalty":2.0,"logit_bias":{"3":1.5,"11":-2.0}})"},
    {"NoughtIsSaid", {.temperature = 0.0, .top_k = 0}, R"({"temperature":0.0,"top_k":0})"},
};

TEST(SamplingFields, AreWhatIsSaid) {
  for (const SamplingFieldsRow& row : kSamplingFieldsRows) {
    json::Object fields;
    set_sampling(fields, row.sampling);
    set_biases(fields, row.sampling);
    EXPECT_EQ(json::to_string(fields), row.fields) << row.name;
  }
}

TEST(SamplingFields, OneOfThemHasAnotherNameElsewhere) {
  json::Object fields;
  set_sampling(fields, {.repetition_penalty = 1.5}, "repeat_penalty");
  EXPECT_EQ(json::to_string(fields), R"({"repeat_penalty":1.5})");
}

}  // namespace
}  // namespace tenon::engine
