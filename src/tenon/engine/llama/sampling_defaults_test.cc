#include "tenon/engine/llama/sampling_defaults.h"

#include <cstdint>
#include <cstring>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include <gtest/gtest.h>

#include "tenon/engine/admission.h"
#include "tenon/vocab/byte_tokenizer.h"

namespace tenon::engine {
namespace {

using vocab::GgufFile;

struct Key {
  std::string name;
  std::variant<float, std::int32_t, std::string> value;
};

template <class T>
void append(std::string& out, T value) {
  char raw[sizeof value];
  std::memcpy(raw, &value, sizeof value);
  out.append(raw, sizeof raw);
}

void append(std::string& out, const std::string& text) {
  append(out, std::uint64_t{text.size()});
  out += text;
}

/// A GGUF file with these keys and no tensors.
std::string file_of(const std::vector<Key>& keys) {
  constexpr GgufFile::Type kTypes[] = {GgufFile::Type::float32, GgufFile::Type::int32,
                                       GgufFile::Type::string};
  std::string out = "GGUF";
  append(out, std::uint32_t{3});
  append(out, std::uint64_t{0});
  append(out, std::uint64_t{keys.size()});
  for (const Key& key : keys) {
    append(out, key.name);
    append(out, static_cast<std::uint32_t>(kTypes[key.value.index()]));
    std::visit([&out](const auto& value) { append(out, value); }, key.value);
  }
  return out;
}

struct Wanted {
  std::optional<double> temperature;
  std::optional<double> top_p;
  std::optional<int> top_k;
  std::optional<double> min_p;
};

void expect_sampling(const message::Sampling& actual, const Wanted& wanted) {
  EXPECT_EQ(actual.temperature, wanted.temperature);
  EXPECT_EQ(actual.top_p, wanted.top_p);
  EXPECT_EQ(actual.top_k, wanted.top_k);
  EXPECT_EQ(actual.min_p, wanted.min_p);
}

struct SamplingDefaultsRow {
  std::string_view name;
  std::vector<Key> keys;
  Wanted wanted;
};

constexpr float kSamplingDefaultsNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kSamplingDefaultsInfinity = std::numeric_limits<float>::infinity();

const SamplingDefaultsRow kSamplingDefaultsRows[] = {
    {"Nothing", {}, {}},
    {"All",
     {{"general.sampling.temp", 0.5F},
      {"general.sampling.top_p", 0.75F},
      {"general.sampling.top_k", 20},
      {"general.sampling.min_p", 0.25F}},
     {.temperature = 0.5, .top_p = 0.75, .top_k = 20, .min_p = 0.25}},
    {"Greedy", {{"general.sampling.temp", 0.0F}}, {.temperature = 0.0}},
    {"TopKMinusOneIsAll", {{"general.sampling.top_k", -1}}, {.top_k = 0}},
    {"BelowTheRange",
     {{"general.sampling.temp", -1.0F},
      {"general.sampling.top_p", -1.0F},
      {"general.sampling.min_p", -kSamplingDefaultsInfinity}},
     {.temperature = 0.0, .top_p = 0.0, .min_p = 0.0}},
    {"AboveTheRange",
     {{"general.sampling.temp", kSamplingDefaultsInfinity},
      {"general.sampling.top_p", 2.0F},
      {"general.sampling.top_k", 1e30F},
      {"general.sampling.min_p", 2.0F}},
     {.temperature = std::numeric_limits<float>::max(),
      .top_p = 1.0,
      .top_k = std::numeric_limits<int>::max(),
      .min_p = 1.0}},
    {"NotANumber",
     {{"general.sampling.temp", kSamplingDefaultsNan},
      {"general.sampling.top_p", std::string("0.5")}},
     {}},
    {"AnIntegerForAFloat", {{"general.sampling.temp", 1}}, {.temperature = 1.0}},
};

class SamplingDefaults : public ::testing::TestWithParam<SamplingDefaultsRow> {};

TEST_P(SamplingDefaults, AreThoseOfTheFileWithinTheirRange) {
  const std::string bytes = file_of(GetParam().keys);
  const auto file = GgufFile::parse(bytes);
  ASSERT_TRUE(file) << file.error().message;
  const message::Sampling defaults = read_sampling_defaults(*file);
  expect_sampling(defaults, GetParam().wanted);
  EXPECT_TRUE(check_request({.prompt = {1}, .sampling = defaults}, {.context_tokens = 10},
                            vocab::ByteTokenizer()));
}

INSTANTIATE_TEST_SUITE_P(Files, SamplingDefaults, ::testing::ValuesIn(kSamplingDefaultsRows),
                         [](const auto& test) { return std::string(test.param.name); });

TEST(FillSampling, FillsWhatIsLeftOutAndNothingElse) {
  const message::Sampling defaults{.temperature = 0.1, .top_p = 0.2, .top_k = 3, .min_p = 0.4};
  message::Sampling empty;
  fill_sampling(empty, defaults);
  expect_sampling(empty, {0.1, 0.2, 3, 0.4});

  message::Sampling asked{.temperature = 1.0, .top_k = 0};
  fill_sampling(asked, defaults);
  expect_sampling(asked, {1.0, 0.2, 0, 0.4});

  message::Sampling full{.temperature = 0.0, .top_p = 1.0, .top_k = 0, .min_p = 0.0};
  fill_sampling(full, defaults);
  expect_sampling(full, {0.0, 1.0, 0, 0.0});
}

}  // namespace
}  // namespace tenon::engine
