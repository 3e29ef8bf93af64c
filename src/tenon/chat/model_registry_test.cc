#include "tenon/chat/model_registry.h"

#include <atomic>
#include <chrono>
#include <map>
#include <memory>
#include <mutex>
#include <new>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "tenon/engine/scripted.h"

namespace tenon::chat {
namespace {

using engine::ScriptedEngine;
using namespace std::chrono_literals;

std::shared_ptr<Model> model_named(const std::string& name, std::vector<std::string> aliases = {}) {
  auto engine = std::make_shared<ScriptedEngine>(
      ScriptedEngine::Options{},
      std::vector<engine::Script>{{.text = std::string(10'000, 'x'), .delay = 1ms}});
  return *Model::create({.name = name,
                         .aliases = std::move(aliases),
                         .chat_template = "{{ messages[0].content }}",
                         .format = "hermes"},
                        engine);
}

// Models of given sizes that are loaded by name; counts how often each was loaded.
struct Library {
  explicit Library(std::uint64_t max_bytes, std::map<std::string, std::uint64_t> sizes)
      : models({.max_bytes = max_bytes}) {
    for (const auto& [name, size] : sizes) {
      ModelSource source{.name = name, .memory_bytes = size};
      source.load = [this, name = name]() -> Expected<std::shared_ptr<Model>> {
        if (on_load) on_load(name);
        const std::lock_guard lock(mutex);
        ++loads[name];
        if (fails.contains(name)) return Unexpected(fails[name]);
        return model_named(name);
      };
      EXPECT_TRUE(models.add(std::move(source)));
    }
  }
  void use(const std::string& name) { EXPECT_TRUE(models.use(name)) << name; }
  // The names of the loaded models.
  std::string loaded() const {
    std::string names;
    for (const auto& entry : models.entries()) {
      if (entry.loaded) names += entry.name;
    }
    return names;
  }

  std::function<void(const std::string&)> on_load;  // called for several at the same time
  std::mutex mutex;                                 // guards the members below
  std::map<std::string, int> loads;
  std::map<std::string, Error> fails;
  ModelRegistry models;  // last: it uses the members above
};

constexpr std::uint64_t kMiB = 1U << 20U;

TEST(ModelRegistry, FindsByNameAndAliasAndRefusesDoubles) {
  ModelRegistry registry;
  const auto a = model_named("a", {"first", "one"});
  EXPECT_TRUE(registry.add(a));
  EXPECT_FALSE(registry.add(model_named("b", {"one"})));
  EXPECT_FALSE(registry.add(ModelSource{.name = "a"}));
  EXPECT_FALSE(registry.add(ModelSource{}));
  EXPECT_EQ(registry.loaded("one"), a);
  EXPECT_EQ(registry.loaded("a"), a);
  EXPECT_EQ(*registry.use("a"), a);
  EXPECT_EQ(registry.loaded("b"), nullptr);
  EXPECT_FALSE(registry.has("b"));
  EXPECT_EQ(registry.entries().size(), 1u);
}

TEST(ModelRegistry, LoadsOnFirstUseAndUnloadsWhatWasUsedLongestAgo) {
  Library library(
      100 * kMiB,
      {{"a", 40 * kMiB}, {"b", 40 * kMiB}, {"c", 40 * kMiB}, {"d", 90 * kMiB}, {"remote", 0}});
  EXPECT_EQ(library.loaded(), "");
  struct Step {
    std::string use;
    std::string then_loaded;
  };
  for (const auto& [use, then_loaded] : std::vector<Step>{{"remote", "remote"},
                                                          {"a", "aremote"},
                                                          {"b", "abremote"},
                                                          {"a", "abremote"},
                                                          {"c", "acremote"},
                                                          {"b", "bcremote"},
                                                          {"d", "dremote"},
                                                          {"a", "aremote"}}) {
    library.use(use);
    EXPECT_EQ(library.loaded(), then_loaded);
  }
  EXPECT_EQ(library.loads["a"], 2);
  EXPECT_EQ(library.loads["remote"], 1);
  const auto a = library.models.entries()[0];
  EXPECT_EQ(a.loads, 2u);
  EXPECT_EQ(a.unloads, 1u);
  EXPECT_EQ(a.memory_bytes, 40 * kMiB);
}

TEST(ModelRegistry, NeverUnloadsWhatIsHeldAndSaysWhoHoldsIt) {
  Library library(100 * kMiB, {{"a", 40 * kMiB}, {"b", 40 * kMiB}, {"c", 70 * kMiB}});
  auto held = library.models.use("a");
  library.use("b");
  const auto refused = library.models.use("c");
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, "engine_busy");
  EXPECT_EQ(refused.error().error.message,
            "model 'c' needs 70 MiB, but of the 100 MiB for models 40 MiB are in use by 'a'");
  EXPECT_EQ(library.loaded(), "ab") << "nothing is unloaded in vain";
  held = Failure<Refusal>(Refusal{});
  library.use("c");
  EXPECT_EQ(library.loaded(), "c");
}

class Ignoring final : public message::ChatSink {
 public:
  void on_event(const message::ChatEvent&, const std::vector<message::TokenLogprob>&) override {}
};

TEST(ModelRegistry, ARunKeepsItsModelLoaded) {
  Library library(100 * kMiB, {{"a", 70 * kMiB}, {"b", 70 * kMiB}});
  auto answer = [&] {  // the pointer is dropped, and the answer goes on
    const message::ChatRequest request{
        .messages = {{.role = message::Role::user, .content = "hi"}}};
    return *(*library.models.use("a"))->start(request, std::make_shared<Ignoring>());
  }();
  answer->pause();
  EXPECT_FALSE(library.models.use("b"));
  answer->cancel();
  for (int i = 0; i < 1000 && !library.models.use("b"); ++i) std::this_thread::sleep_for(10ms);
  EXPECT_EQ(library.loaded(), "b");
}

TEST(ModelRegistry, RefusesAModelThatCanNeverFit) {
  ModelRegistry registry({.max_bytes = 10 * kMiB});
  const Status added = registry.add(ModelSource{.name = "a", .memory_bytes = 11 * kMiB});
  ASSERT_FALSE(added);
  EXPECT_EQ(added.error().code, Errc::limit_exceeded);
  EXPECT_EQ(added.error().message,
            "model 'a' needs 11 MiB, but all models together may take 10 MiB");
}

TEST(ModelRegistry, LoadsOnceForAllWhoAskAtATime) {
  Library library(100 * kMiB, {{"a", 40 * kMiB}, {"b", 80 * kMiB}});
  library.on_load = [](const std::string&) { std::this_thread::sleep_for(50ms); };
  library.use("b");
  std::vector<std::jthread> threads;
  std::atomic<int> found = 0;
  for (int i = 0; i < 8; ++i) {
    threads.emplace_back([&] {
      if (library.models.use("a")) ++found;
    });
  }
  threads.clear();
  EXPECT_EQ(found, 8);
  EXPECT_EQ(library.loads["a"], 1);
  EXPECT_EQ(library.loaded(), "a");
}

// Watching the models, for example by /metrics, keeps none of them loaded.
TEST(ModelRegistry, ToAskWhatThereIsIsNoUse) {
  Library library(100 * kMiB, {{"a", 40 * kMiB}, {"b", 40 * kMiB}, {"c", 40 * kMiB}});
  library.use("a");
  library.use("b");
  const auto entries = library.models.entries();
  ASSERT_TRUE(entries[0].loaded);
  EXPECT_EQ(entries[0].loaded->format, "hermes");
  EXPECT_EQ(entries[0].loaded->engine.kind, "scripted");
  library.use("c");
  EXPECT_EQ(library.loaded(), "bc");
}

struct Burst {
  std::string name;
  std::uint64_t max_bytes;
  int most_at_once;  // loads at the same time
};

// Three models of 40 MiB, asked for at the same time.
TEST(ModelRegistry, LoadsAsManyAtATimeAsThereIsRoomFor) {
  for (const auto& [name, max_bytes, most_at_once] : {Burst{"NoLimit", 0, 3},
                                                      {"RoomForAll", 120 * kMiB, 3},
                                                      {"RoomForTwo", 100 * kMiB, 2},
                                                      {"RoomForOne", 50 * kMiB, 1}}) {
    SCOPED_TRACE(name);
    Library library(max_bytes, {{"a", 40 * kMiB}, {"b", 40 * kMiB}, {"c", 40 * kMiB}});
    std::atomic<int> loading = 0;
    std::atomic<int> most = 0;
    library.on_load = [&](const std::string&) {
      const int now = ++loading;
      if (now > most) most = now;
      for (int i = 0; i < 500 && most < most_at_once; ++i) std::this_thread::sleep_for(1ms);
      std::this_thread::sleep_for(10ms);
      --loading;
    };
    std::vector<std::jthread> threads;
    for (const char* const model : {"a", "b", "c"}) {
      threads.emplace_back([&library, model] {
        // Refused as long as another thread keeps the model that it has loaded.
        while (!library.models.use(model)) std::this_thread::sleep_for(1ms);
      });
    }
    threads.clear();
    EXPECT_EQ(most, most_at_once);
    for (const auto& [model, loads] : library.loads) EXPECT_EQ(loads, 1) << model;
  }
}

TEST(ModelRegistry, AFailedLoadFailsTheRequestAndIsTriedAgain) {
  Library library(0, {{"a", kMiB}});
  library.fails["a"] = {Errc::limit_exceeded, "a cache needs 5 MiB, but 4 MiB are free"};
  const auto refused = library.models.use("a");
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, "engine_error");
  EXPECT_EQ(refused.error().error.code, Errc::limit_exceeded);
  EXPECT_EQ(refused.error().error.message, "model 'a' could not be loaded");
  EXPECT_EQ(refused.error().detail, "model 'a': a cache needs 5 MiB, but 4 MiB are free");
  library.fails["a"].message = "model 'a': it has no vocabulary";
  EXPECT_EQ(library.models.use("a").error().detail, "model 'a': it has no vocabulary");
  library.fails.clear();
  library.on_load = [](const std::string&) { throw std::bad_alloc(); };
  EXPECT_FALSE(library.models.use("a"));
  library.on_load = nullptr;
  library.use("a");
  EXPECT_EQ(library.models.entries()[0].loads, 1u);
}

std::string names_of(const ModelRegistry& registry) {
  std::string names;
  for (const auto& entry : registry.entries()) names += entry.name;
  return names;
}

TEST(ModelRegistry, ReplacesModelsAtOnceOrNotAtAll) {
  Library library(0, {{"a", kMiB}, {"b", kMiB}});
  library.use("a");
  const auto addition = [&library](const std::string& name, std::shared_ptr<Model> model) {
    ModelRegistry::Addition added{.source = {.name = name}, .model = std::move(model)};
    added.source.load = [&library, name]() -> Expected<std::shared_ptr<Model>> {
      ++library.loads[name + "2"];
      return model_named(name);
    };
    return added;
  };
  std::vector<ModelRegistry::Addition> wrong;
  wrong.push_back(addition("c", nullptr));
  wrong.push_back(addition("b", nullptr));
  EXPECT_FALSE(library.models.replace({"a"}, std::move(wrong))) << "there is a 'b' already";
  EXPECT_EQ(names_of(library.models), "ab");
  EXPECT_EQ(library.loaded(), "a");

  auto held = library.models.loaded("a");
  std::vector<ModelRegistry::Addition> added;
  added.push_back(addition("a", model_named("a")));
  added.push_back(addition("c", nullptr));
  ASSERT_TRUE(library.models.replace({"a", "b", "unknown"}, std::move(added)));
  EXPECT_EQ(names_of(library.models), "ac");
  EXPECT_EQ(library.loaded(), "a");
  EXPECT_NE(library.models.loaded("a"), held);
  EXPECT_EQ(library.models.entries()[0].loads, 2U) << "the count goes on";
  EXPECT_FALSE(library.models.has("b"));
  EXPECT_EQ(library.models.loaded("b"), nullptr);
  EXPECT_FALSE(library.models.use("b"));

  EXPECT_EQ(library.models.sweep(), 1U) << "the old one is still held";
  EXPECT_EQ(held->name(), "a");
  held.reset();
  EXPECT_EQ(library.models.sweep(), 0U);
  library.use("c");
  EXPECT_EQ(library.loads["c2"], 1);
  EXPECT_EQ(library.loads["a"], 1);
}

TEST(ModelRegistry, WhatWasReplacedTakesItsRoomUntilItIsGone) {
  Library library(2 * kMiB, {{"a", 2 * kMiB}, {"b", kMiB}});
  auto held = *library.models.use("a");
  ASSERT_TRUE(library.models.replace({"a"}, {}));
  const auto refused = library.models.use("b");
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, "engine_busy");
  held.reset();
  library.use("b");
  EXPECT_EQ(library.models.sweep(), 0U);
  library.models.set_max_bytes(kMiB / 2);
  EXPECT_FALSE(library.models.add(ModelSource{.name = "c", .memory_bytes = kMiB}));
}

TEST(ModelRegistry, IsUsedWhileItChanges) {
  Library library(0, {{"a", kMiB}});
  std::atomic<bool> ends = false;
  std::vector<std::thread> users;
  for (int i = 0; i < 3; ++i) {
    users.emplace_back([&] {
      while (!ends) {
        const auto model = library.models.use("a");
        EXPECT_EQ(model ? (*model)->name() : "a", "a");
        EXPECT_LE(library.models.entries().size(), 1U);
      }
    });
  }
  for (int i = 0; i < 200; ++i) {
    std::vector<ModelRegistry::Addition> added;
    added.push_back(
        {.source = {.name = "a",
                    .memory_bytes = kMiB,
                    .load = [] { return Expected<std::shared_ptr<Model>>(model_named("a")); }},
         .model = nullptr});
    EXPECT_TRUE(library.models.replace({"a"}, std::move(added)));
    library.models.sweep();
  }
  ends = true;
  for (std::thread& user : users) user.join();
  EXPECT_EQ(library.models.sweep(), 0U);
}

}  // namespace
}  // namespace tenon::chat
