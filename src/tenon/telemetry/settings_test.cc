#include "tenon/telemetry/settings.h"

#include <map>
#include <string>

#include <gtest/gtest.h>

namespace tenon::telemetry {
namespace {

using Variables = std::map<std::string, std::string>;

Environment of(const Variables& variables) {
  return [&variables](const char* name) -> const char* {
    const auto found = variables.find(name);
    return found == variables.end() ? nullptr : found->second.c_str();
  };
}

std::string described(const Settings& settings) {
  std::string out = settings.traces_url + " " + settings.metrics_url + " [";
  for (const auto& [name, value] : settings.traces_headers) out += name + ":" + value + ";";
  out += "] [";
  for (const auto& [key, value] : settings.resource) out += key + "=" + value + ";";
  return out + "] " + (settings.sampler.is_parent_based ? "parent " : "") +
         std::to_string(settings.sampler.ratio).substr(0, 4) +
         (settings.contents ? " contents" : "");
}

struct Row {
  const char* name;
  Chosen chosen;
  Variables variables;
  std::string expected;
};

const std::string kBoth = "http://h:4318/v1/traces http://h:4318/v1/metrics ";

const Row kRows[] = {
    {"NothingIsSentByDefault", {}, {}, "  [] [] parent 1.00"},
    {"TheConfigurationNamesAReceiver",
     {.endpoint = "http://h:4318/", .headers = {"k=v%20w"}, .resource = {"a=b"}},
     {},
     kBoth + "[k:v w;] [service.name=tenon;a=b;] parent 1.00"},
    {"TheEnvironmentNamesOne",
     {},
     {{"OTEL_EXPORTER_OTLP_ENDPOINT", "http://h:4318"}},
     kBoth + "[] [service.name=tenon;] parent 1.00"},
    {"TheEnvironmentGoesFirst",
     {.endpoint = "http://other:1", .headers = {"k=old", "l=m"}, .service_name = "one"},
     {{"OTEL_EXPORTER_OTLP_ENDPOINT", "http://h:4318"},
      {"OTEL_EXPORTER_OTLP_HEADERS", " k = new , x=y"},
      {"OTEL_SERVICE_NAME", "two"}},
     kBoth + "[k:new;l:m;x:y;] [service.name=two;] parent 1.00"},
    {"ASignalHasItsOwnAddress",
     {.metrics = false},
     {{"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "http://t:1/in"},
      {"OTEL_EXPORTER_OTLP_TRACES_HEADERS", "a=b"}},
     "http://t:1/in  [a:b;] [service.name=tenon;] parent 1.00"},
    {"ASignalIsSwitchedOff",
     {.endpoint = "http://h:4318"},
     {{"OTEL_METRICS_EXPORTER", "none"}},
     "http://h:4318/v1/traces  [] [service.name=tenon;] parent 1.00"},
    {"AllIsSwitchedOff",
     {.endpoint = "http://h:4318"},
     {{"OTEL_SDK_DISABLED", "true"}},
     "  [] [] parent 1.00"},
    {"TheServiceNameGoesBeforeTheResource",
     {.endpoint = "http://h:4318"},
     {{"OTEL_RESOURCE_ATTRIBUTES", "service.name=r,deployment.environment.name=p%2Cq"}},
     kBoth + "[] [service.name=r;deployment.environment.name=p,q;] parent 1.00"},
    {"AWrongResourceIsLeftOut",
     {.endpoint = "http://h:4318"},
     {{"OTEL_RESOURCE_ATTRIBUTES", "a=b,c"}},
     kBoth + "[] [service.name=tenon;] parent 1.00"},
    {"AShareIsSampled",
     {.endpoint = "http://h:4318"},
     {{"OTEL_TRACES_SAMPLER", "traceidratio"}, {"OTEL_TRACES_SAMPLER_ARG", "0.25"}},
     kBoth + "[] [service.name=tenon;] 0.25"},
    {"AShareAfterTheParent",
     {.endpoint = "http://h:4318", .sampler = "parentbased_traceidratio", .sampler_arg = 0.5},
     {},
     kBoth + "[] [service.name=tenon;] parent 0.50"},
    {"AWrongSamplerOrShareIsLeftOut",
     {.endpoint = "http://h:4318", .sampler = "parentbased_traceidratio", .sampler_arg = 0.5},
     {{"OTEL_TRACES_SAMPLER", "jaeger_remote"}, {"OTEL_TRACES_SAMPLER_ARG", "2"}},
     kBoth + "[] [service.name=tenon;] parent 0.50"},
    {"NoneIsSampled",
     {.endpoint = "http://h:4318", .sampler = "always_off"},
     {},
     kBoth + "[] [service.name=tenon;] 0.00"},
    {"ContentsAreAskedFor",
     {.endpoint = "http://h:4318"},
     {{"OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT", "true"}},
     kBoth + "[] [service.name=tenon;] parent 1.00 contents"},
    {"AWrongAddressIsAnError",
     {.endpoint = "h:4318"},
     {},
     "telemetry.endpoint: \"h:4318/v1/traces\" is not a URL that can be called: no http:// or "
     "https://"},
    {"AWrongHeaderIsAnErrorThatDoesNotShowIt",
     {.endpoint = "http://h:4318", .headers = {"secret"}},
     {},
     "telemetry.headers must have entries \"name=value\""},
};

class SettingsTest : public testing::TestWithParam<Row> {};

TEST_P(SettingsTest, Row) {
  const auto settings = settings_of(GetParam().chosen, of(GetParam().variables));
  EXPECT_EQ(settings ? described(*settings) : settings.error().message, GetParam().expected);
}

INSTANTIATE_TEST_SUITE_P(All, SettingsTest, testing::ValuesIn(kRows),
                         [](const auto& row) { return row.param.name; });

TEST(Settings, NumbersOfTheEnvironmentHaveBounds) {
  const Variables variables{{"OTEL_EXPORTER_OTLP_ENDPOINT", "http://h:4318"},
                            {"OTEL_BSP_MAX_QUEUE_SIZE", "10"},
                            {"OTEL_BSP_MAX_EXPORT_BATCH_SIZE", "20"},
                            {"OTEL_BSP_SCHEDULE_DELAY", "-1"},
                            {"OTEL_EXPORTER_OTLP_TIMEOUT", "250"}};
  const auto settings = settings_of({}, of(variables));
  ASSERT_TRUE(settings);
  EXPECT_EQ(settings->max_queue, 10U);
  EXPECT_EQ(settings->max_batch, 10U);
  EXPECT_EQ(settings->delay.count(), 5'000);
  EXPECT_EQ(settings->timeout.count(), 250);
}

}  // namespace
}  // namespace tenon::telemetry
