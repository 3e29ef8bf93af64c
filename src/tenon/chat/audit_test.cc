#include "tenon/chat/audit.h"

#include <cstdio>
#include <fstream>
#include <iterator>
#include <string>

#include <gtest/gtest.h>
#include <sys/stat.h>

#include "tenon/base/log.h"

namespace tenon::chat {
namespace {

constexpr AuditEntry kEntry{.owner = "ada",
                            .request = "req_1",
                            .model = "tiny",
                            .server = "crm",
                            .tool = "delete \"all\"",
                            .arguments = R"({"id": 7})",
                            .decision = AuditDecision::approved,
                            .result = AuditEntry::Result{.bytes = 12, .is_error = true}};

TEST(Audit, SaysWhoHadWhatRun) {
  EXPECT_EQ(audit_line(kEntry, {}),
            R"({"time":"1970-01-01T00:00:00Z","owner":"ada","request":"req_1","model":"tiny",)"
            R"("server":"crm","tool":"delete \"all\"","arguments":"{\"id\": 7}",)"
            R"("decision":"approved","result_bytes":12,"is_error":true,"ms":0})");
}

TEST(Audit, MasksArgumentsWithTheLog) {
  log::set_contents(false);
  const std::string line = audit_line(kEntry, {});
  log::set_contents(true);
  EXPECT_NE(line.find(R"("arguments":"***")"), line.npos) << line;
  EXPECT_EQ(line.find("id"), line.npos) << line;
}

TEST(Audit, AppendsToAFileOfItsOwner) {
  const std::string path = testing::TempDir() + "/audit_test.jsonl";
  std::remove(path.c_str());
  for (int i = 0; i < 2; ++i) {
    auto audit = AuditLog::open(path);
    ASSERT_TRUE(audit);
    (*audit)->write(kEntry);
  }
  std::ifstream file(path);
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 2);
  struct stat status{};
  ASSERT_EQ(stat(path.c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777U, 0600U);
  EXPECT_FALSE(AuditLog::open(testing::TempDir() + "/no/such/folder/a.jsonl"));
}

}  // namespace
}  // namespace tenon::chat
