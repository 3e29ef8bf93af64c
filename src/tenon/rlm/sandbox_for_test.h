#pragma once

#include <map>
#include <memory>
#include <string>

#include <gtest/gtest.h>

#include "tenon/rlm/sandbox.h"

namespace tenon::rlm {

/// The sandbox of a tier, opened once. If the tier does not work here, prints the reason and
/// returns null.
inline std::shared_ptr<Sandbox> sandbox_of(Tier tier) {
  static std::map<Tier, std::shared_ptr<Sandbox>> opened;
  const auto found = opened.find(tier);
  if (found != opened.end()) return found->second;
  auto sandbox = Sandbox::open({.only = tier, .unsafe_local = tier == Tier::unsafe_local});
  if (!sandbox) std::cerr << sandbox.error().message << '\n';
  return opened[tier] = sandbox ? *sandbox : nullptr;
}

/// Tests that every confining tier must pass.
class EachTier : public testing::TestWithParam<Tier> {
 protected:
  void SetUp() override {
    if (sandbox_of(GetParam()) == nullptr) GTEST_SKIP() << "this tier does not work here";
  }
  [[nodiscard]] static std::shared_ptr<Sandbox> sandbox() { return sandbox_of(GetParam()); }
};

inline std::string name_of_tier(const testing::TestParamInfo<Tier>& info) {
  return std::string(tier_name(info.param));
}

}  // namespace tenon::rlm
