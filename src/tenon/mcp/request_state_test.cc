#include "tenon/mcp/request_state.h"

#include <string>

#include <gtest/gtest.h>

namespace tenon::mcp {
namespace {

TEST(RequestStates, GiveBackWhatTheyHandedOut) {
  const RequestStates states;
  for (const json::Value& state : {json::Value("first"), json::Value(), json::Value(7),
                                   json::Value(json::Object{{"a.b", "c.d"}})}) {
    EXPECT_EQ(states.open(states.seal(state, "request"), "request"), state);
  }
}

TEST(RequestStates, RefuseWhatTheyDidNotHandOut) {
  const RequestStates states;
  const RequestStates others;
  const std::string sealed = states.seal("first", "request");
  EXPECT_FALSE(states.open(sealed, "another request"));
  EXPECT_FALSE(others.open(sealed, "request"));
  EXPECT_FALSE(states.open(sealed + "-TAMPERED", "request"));
  EXPECT_FALSE(states.open("", "request"));
  EXPECT_FALSE(states.open(".", "request"));
  for (std::size_t i = 0; i < sealed.size(); ++i) {
    std::string changed = sealed;
    changed[i] = changed[i] == 'x' ? 'y' : 'x';
    EXPECT_FALSE(states.open(changed, "request")) << i;
    EXPECT_FALSE(states.open(sealed.substr(0, i), "request")) << i;
  }
}

TEST(RequestStates, RefuseWhatIsTooOld) {
  const RequestStates states;
  const auto now = RequestStates::Clock::now();
  const std::string sealed = states.seal("first", "request", now);
  EXPECT_TRUE(states.open(sealed, "request", now + std::chrono::minutes(59)));
  EXPECT_FALSE(states.open(sealed, "request", now + std::chrono::minutes(60)));
}

// A byte that moves from the state to the request makes another text.
TEST(RequestStates, KeepTheStateApartFromTheRequest) {
  const RequestStates states;
  const std::string sealed = states.seal(12, "3");
  EXPECT_FALSE(states.open(sealed.substr(0, sealed.size() - 1), "23"));
}

}  // namespace
}  // namespace tenon::mcp
