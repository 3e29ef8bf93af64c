#include "tenon/api/kept_conversations.h"

#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "tenon/base/ids.h"

namespace tenon::api {
namespace {

using json::Value;

std::shared_ptr<store::ResponseStore> conversations_store() {
  return *store::ResponseStore::open({});
}

json::Array items_named(std::initializer_list<std::string_view> names) {
  json::Array items;
  for (const std::string_view name : names) items.push_back(json::Object{{"id", name}});
  return items;
}

std::string told(const Result<Value, ApiError>& result) {
  if (result) return json::to_string(*result);
  return std::to_string(result.error().status()) + " " + std::string(result.error().code.name());
}

std::string id_of(const Result<Value, ApiError>& made) {
  return made ? *made->find("id")->if_string() : std::string();
}

TEST(KeptConversations, AreMadeChangedAndForgotten) {
  KeptConversations all(conversations_store());
  const auto made = all.create("ann", items_named({"a"}), {{"topic", "boats"}}, 7);
  const std::string id = id_of(made);
  const std::string head = R"({"id":")" + id + R"(","object":"conversation","created_at":7,)";
  EXPECT_EQ(told(made), head + R"("metadata":{"topic":"boats"}})");
  EXPECT_EQ(told(all.get("ann", id)), told(made));
  EXPECT_EQ(told(all.update("ann", id, {})), head + R"("metadata":{}})");
  EXPECT_EQ(told(all.add("ann", id, items_named({"b", "c"}))),
            R"({"object":"list","data":[{"id":"b"},{"id":"c"}],"first_id":"b","last_id":"c",)"
            R"("has_more":false})");
  EXPECT_EQ(told(all.item("ann", id + "/b")), R"({"id":"b"})");
  EXPECT_EQ(told(all.erase_item("ann", id + "/b")), head + R"("metadata":{}})");
  EXPECT_EQ(
      told(all.list("ann", id, "order=asc&limit=1")),
      R"({"object":"list","data":[{"id":"a"}],"first_id":"a","last_id":"a","has_more":true})");
  EXPECT_EQ(told(all.find("ann", id)),
            R"({"conversation":)" + head + R"("metadata":{}},"items":[{"id":"a"},{"id":"c"}]})");
  EXPECT_EQ(told(all.erase("ann", id)),
            R"({"id":")" + id + R"(","object":"conversation.deleted","deleted":true})");
  EXPECT_EQ(told(all.get("ann", id)), "404 conversation_not_found");
}

TEST(KeptConversations, AreThereForTheirOwnersOnly) {
  KeptConversations all(conversations_store());
  const std::string id = id_of(all.create("ann", {}, {}, 7));
  constexpr std::string_view kMissing = "404 conversation_not_found";
  for (const auto& [owner, name] : {std::pair("bob", id), std::pair("", id),
                                    std::pair("", "ann/" + id), std::pair("ann", id + "x")}) {
    EXPECT_EQ(told(all.get(owner, name)), kMissing) << owner << name;
    EXPECT_EQ(told(all.update(owner, name, {})), kMissing);
    EXPECT_EQ(told(all.add(owner, name, {})), kMissing);
    EXPECT_EQ(told(all.list(owner, name, "")), kMissing);
    EXPECT_EQ(told(all.item(owner, name + "/a")), kMissing);
    EXPECT_EQ(told(all.erase_item(owner, name + "/a")), kMissing);
    EXPECT_EQ(told(all.erase(owner, name)), kMissing);
    EXPECT_EQ(told(all.find(owner, name)), "null");
  }
  EXPECT_EQ(told(all.item("ann", id + "/a")), kMissing) << "there is no such item";
  EXPECT_EQ(told(all.item("ann", id)), kMissing);
}

// As two servers have that share a store.
TEST(KeptConversations, NoItemIsLostWhereTwoAdd) {
  const std::string folder = testing::TempDir() + "tenon_conversations_" + random_id("");
  std::filesystem::create_directory(folder);
  const store::StoreOptions options{.path = folder + "/tenon.db"};
  KeptConversations first(*store::ResponseStore::open(options));
  KeptConversations second(*store::ResponseStore::open(options));
  const std::string id = id_of(first.create("ann", {}, {}, 7));
  std::vector<std::thread> threads;
  for (KeptConversations* server : {&first, &second}) {
    threads.emplace_back([&, server] {
      for (int i = 0; i < 20; ++i) EXPECT_TRUE(server->add("ann", id, items_named({"a"})));
    });
  }
  for (std::thread& thread : threads) thread.join();
  const auto kept = second.find("ann", id);
  ASSERT_TRUE(kept);
  EXPECT_EQ(kept->find("items")->if_array()->size(), 40U);
  std::filesystem::remove_all(folder);
}

TEST(KeptConversations, HaveABound) {
  KeptConversations all(conversations_store());
  const std::string id = id_of(all.create("", {}, {}, 7));
  EXPECT_TRUE(all.add("", id, json::Array(KeptConversations::kMaxItems, json::Object())));
  EXPECT_EQ(told(all.add("", id, items_named({"a"}))), "400 invalid_value");
  EXPECT_EQ(told(all.create("", {std::string(KeptConversations::kMaxBytes, 'x')}, {}, 7)),
            "400 invalid_value");
}

}  // namespace
}  // namespace tenon::api
