#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "tenon/chat/model.h"
#include "tenon/engine/scripted.h"
#include "tenon/message/build.h"

/// A model whose answers the test writes down, for tests of code that talks with models.
namespace tenon::chat {

inline constexpr std::string_view kToolTemplate =
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content or '' }}"
    "{% for call in m.tool_calls or [] %}<tool_call>\n{\"name\": \"{{ call.function.name }}\", "
    "\"arguments\": {{ call.function.arguments | tojson }}}\n</tool_call>{% endfor %}"
    "<|im_end|>\n{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
    "{% if tools %}{% endif %}";

struct Setting {
  explicit Setting(std::vector<engine::Script> scripts)
      : engine(std::make_shared<engine::ScriptedEngine>(
            engine::ScriptedEngine::Options{.chat_template = std::string(kToolTemplate)},
            std::move(scripts))) {
    auto created = Model::create({.name = "m", .format = "hermes"}, engine);
    EXPECT_TRUE(created) << created.error().message;
    model = *std::move(created);
  }

  /// The prompt that the engine got in this request.
  [[nodiscard]] std::string prompt(std::size_t number) const {
    return engine->text_of(engine->requests().at(number).prompt);
  }

  std::shared_ptr<engine::ScriptedEngine> engine;
  std::shared_ptr<Model> model;
};

/// A call as the model writes it.
inline std::string call_of(std::string_view name, std::string_view arguments) {
  return "<tool_call>\n{\"name\": \"" + std::string(name) +
         "\", \"arguments\": " + std::string(arguments) + "}\n</tool_call>";
}
/// A call of weather_tool().
inline std::string call(std::string_view city) {
  return call_of("get_weather", R"({"city": ")" + std::string(city) + "\"}");
}

inline message::Tool weather_tool() {
  return *message::ToolDefinition("get_weather")
              .parameter("city", message::JsonSchema::string())
              .required({"city"})
              .build();
}

}  // namespace tenon::chat
