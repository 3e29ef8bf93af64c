#include "tenon/rlm/sandbox.h"

#include <algorithm>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "tenon/base/file.h"
#include "tenon/base/long_for_test.h"
#include "tenon/rlm/repl.h"
#include "tenon/rlm/sandbox_for_test.h"
#include "tenon/rlm/spawn.h"
#include "tenon/rlm/worker.h"

namespace tenon::rlm {
namespace {

using testing::HasSubstr;
namespace fs = std::filesystem;

class Nobody : public SubCalls {
 public:
  void ask(SubCall call, Answer answer) override {
    answer(std::vector<std::string>(call.prompts.size(), "a"));
  }
};

std::size_t descriptors() {
  return static_cast<std::size_t>(std::distance(fs::directory_iterator("/proc/self/fd"), {}));
}

// The processes that descend from this one, zombies included, by the parents in /proc.
std::vector<int> descendants() {
  std::vector<std::pair<int, int>> parents;
  for (const auto& entry : fs::directory_iterator("/proc")) {
    const std::string name = entry.path().filename();
    if (!std::ranges::all_of(name, [](char c) { return c >= '0' && c <= '9'; })) continue;
    const auto stat = read_file(entry.path() / "stat", 4096);  // the process may have ended
    const std::size_t end = stat ? stat->rfind(") ") : std::string::npos;
    if (end == std::string::npos) continue;
    parents.emplace_back(std::stoi(name), std::stoi(stat->substr(end + 4)));
  }
  std::vector<int> found{getpid()};
  for (std::size_t i = 0; i < found.size(); ++i) {
    for (const auto& [child, parent] : parents) {
      if (parent == found[i]) found.push_back(child);
    }
  }
  found.erase(found.begin());
  return found;
}

// Without the processes in `before`, which are caretakers of open sandboxes.
std::vector<int> descendants_but(const std::vector<int>& before) {
  std::vector<int> found = descendants();
  std::erase_if(found, [&](int pid) { return std::ranges::find(before, pid) != before.end(); });
  return found;
}

class SandboxTest : public EachTier {};
INSTANTIATE_TEST_SUITE_P(Tiers, SandboxTest, testing::Values(Tier::bubblewrap, Tier::landlock),
                         name_of_tier);

TEST_P(SandboxTest, TellsWhatItIs) {
  EXPECT_EQ(sandbox()->tier(), GetParam());
  EXPECT_THAT(sandbox()->interpreter().version, HasSubstr("3."));
  EXPECT_EQ(tier_named(tier_name(GetParam())), GetParam());
}

TEST_P(SandboxTest, LeavesNoProcessAndNoDescriptor) {
  const std::size_t before = descriptors();
  const std::vector<int> caretakers = descendants();
  const int times = is_long_test() ? 1000 : 100;
  for (int i = 0; i < times; ++i) {
    auto worker = sandbox()->start({});
    ASSERT_TRUE(worker) << worker.error().message;
    if (i % 3 == 1) (*worker)->kill();
    if (i % 3 == 2) {
      Repl repl(*std::move(worker));
      Nobody nobody;
      ASSERT_TRUE(repl.run_cell("print(1)", nobody, {}));
    }
  }
  EXPECT_EQ(sandbox()->workers(), 0U);
  EXPECT_EQ(descriptors(), before);
  EXPECT_THAT(descendants_but(caretakers), testing::IsEmpty());
}

// Also at the deadline: a caller that waits for short moments again and again must learn of what
// has arrived.
TEST_P(SandboxTest, WakesWhoeverWaitsForAWorker) {
  const auto worker = sandbox()->start({});
  ASSERT_TRUE(worker) << worker.error().message;
  const Descriptor bell(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  const Wait wait{.deadline = std::chrono::steady_clock::now() - std::chrono::seconds(1),
                  .wake = bell.get()};
  const auto late = (*worker)->receive(wait);
  ASSERT_FALSE(late);
  EXPECT_EQ(late.error().code, Errc::limit_exceeded);
  ASSERT_EQ(eventfd_write(bell.get(), 1), 0);
  const auto woken = (*worker)->receive(wait);
  ASSERT_TRUE(woken) << woken.error().message;
  EXPECT_TRUE(woken->is_null());
}

// A worker may die at any moment: the session learns of it, and everything else goes on working.
TEST_P(SandboxTest, OutlivesWorkersThatAreKilled) {
  std::mt19937 random(1);
  const std::size_t before = descriptors();
  const std::vector<int> caretakers = descendants();
  const int times = is_long_test() ? 1000 : 60;
  Nobody nobody;
  for (int i = 0; i < times; ++i) {
    auto worker = sandbox()->start({});
    ASSERT_TRUE(worker) << worker.error().message;
    Repl repl(*std::move(worker));
    const auto processes = descendants_but(caretakers);
    ASSERT_FALSE(processes.empty());
    const int victim = processes[random() % processes.size()];
    if (i % 2 == 0) kill(victim, SIGKILL);
    std::jthread killer([victim, late = i % 2 == 1, wait = random() % 3000] {
      std::this_thread::sleep_for(std::chrono::microseconds(wait));
      if (late) kill(victim, SIGKILL);
    });
    const auto cell = repl.run_cell("for i in range(10 ** 9): llm_query('x')", nobody, {});
    ASSERT_FALSE(cell);
    EXPECT_EQ(cell.error().code, Errc::unavailable) << cell.error().message;
  }
  EXPECT_EQ(sandbox()->workers(), 0U);
  EXPECT_EQ(descriptors(), before);
}

TEST(Sandbox, EndsItsCaretakerWithItself) {
  const std::vector<int> before = descendants();
  {
    const auto sandbox = Sandbox::open({.only = Tier::bubblewrap});
    if (!sandbox) GTEST_SKIP() << sandbox.error().message;
    EXPECT_EQ(descendants_but(before).size(), 1U);
  }
  EXPECT_THAT(descendants_but(before), testing::IsEmpty());
}

TEST_P(SandboxTest, GivesNoMoreWorkersThanItMay) {
  auto small = Sandbox::open({.only = GetParam(), .max_workers = 2});
  ASSERT_TRUE(small) << small.error().message;
  auto one = (*small)->start({});
  auto two = (*small)->start({});
  ASSERT_TRUE(one && two);
  EXPECT_EQ((*small)->start({}).error().code, Errc::limit_exceeded);
  one->reset();
  EXPECT_TRUE((*small)->start({}));
}

TEST(Sandbox, RefusesWhereNothingHolds) {
  const auto none = Sandbox::open({.bubblewrap = "/bin/false", .only = Tier::bubblewrap});
  ASSERT_FALSE(none);
  EXPECT_EQ(none.error().code, Errc::unsupported);
  EXPECT_THAT(none.error().message, HasSubstr("bubblewrap: a worker did not start"));
  // A program that starts Python but confines nothing must be found out.
  const fs::path fake = fs::temp_directory_path() / ("fake-bwrap-" + std::to_string(getpid()));
  std::ofstream(fake)
      << "#!/bin/sh\nwhile [ $# -gt 0 ] && [ \"$1\" != -S ]; do last=$1; shift; done\n"
         "exec \"$last\" \"$@\"\n";
  fs::permissions(fake, fs::perms::owner_all | fs::perms::others_read | fs::perms::others_exec);
  const auto open = Sandbox::open({.bubblewrap = fake, .only = Tier::bubblewrap});
  fs::remove(fake);
  ASSERT_FALSE(open);
  EXPECT_THAT(open.error().message, HasSubstr("it lets through: a process, a socket"));
}

TEST(Sandbox, RefusesUnsafeLocalUnlessItIsAllowed) {
  EXPECT_FALSE(Sandbox::open({.only = Tier::unsafe_local}));
  const auto allowed = Sandbox::open({.only = Tier::unsafe_local, .unsafe_local = true});
  ASSERT_TRUE(allowed) << allowed.error().message;
  EXPECT_EQ((*allowed)->tier(), Tier::unsafe_local);
}

#ifdef __SANITIZE_THREAD__
// vfork is fork there, from which only the exit status comes back.
constexpr bool kTellsWhyExecFails = false;
#else
constexpr bool kTellsWhyExecFails = true;
#endif

TEST(Sandbox, FallsToTheNextTier) {
  const auto sandbox = Sandbox::open({.bubblewrap = "/nowhere/bwrap"});
  if (!sandbox) GTEST_SKIP() << sandbox.error().message;
  EXPECT_EQ((*sandbox)->tier(), Tier::landlock);
  if (!kTellsWhyExecFails) GTEST_SKIP() << "ThreadSanitizer's vfork";
  EXPECT_THAT((*sandbox)->why_no_better(), HasSubstr("/nowhere/bwrap: No such file"));
}

TEST(Sandbox, NeedsAPython) {
  EXPECT_THAT(Sandbox::open({.python = "/bin/true"}).error().message,
              HasSubstr("/bin/true does not run as Python 3 should"));
  const auto sandbox = Sandbox::open({.python = "/nowhere/python3"});
  ASSERT_FALSE(sandbox);
  if (!kTellsWhyExecFails) GTEST_SKIP() << "ThreadSanitizer's vfork";
  EXPECT_THAT(sandbox.error().message, HasSubstr("/nowhere/python3: No such file"));
}

// A folder in which a test may make an interpreter.
class OwnFolder {
 public:
  OwnFolder() {
    std::string pattern = fs::temp_directory_path() / "tenon-python-XXXXXX";
    path_ = mkdtemp(pattern.data());
    fs::permissions(path_, fs::perms(0755));
  }
  ~OwnFolder() { fs::remove_all(path_); }
  OwnFolder(const OwnFolder&) = delete;
  OwnFolder& operator=(const OwnFolder&) = delete;

  [[nodiscard]] const fs::path& path() const { return path_; }
  [[nodiscard]] fs::path script(const std::string& text) const {
    const fs::path file = path_ / "python3";
    std::ofstream(file) << "#!/bin/sh\n" << text << "\n";
    fs::permissions(file, fs::perms(0755));
    return file;
  }

 private:
  fs::path path_;
};

TEST(Sandbox, TellsWhatAnInterpreterSaysThatFails) {
  const OwnFolder folder;
  const auto sandbox = Sandbox::open(
      {.python = folder.script("echo first; echo 'there is no library' >&2; exit 1")});
  ASSERT_FALSE(sandbox);
  EXPECT_THAT(sandbox.error().message,
              HasSubstr("does not run as Python 3 should: there is no library"));
}

// A program that closes its pipes and lives on, or writes without an end, is not waited for.
TEST(Sandbox, EndsAProgramThatIsNoPython) {
  if (!kTellsWhyExecFails) GTEST_SKIP() << "ThreadSanitizer's vfork";
  const OwnFolder folder;
  for (const char* script : {"exec 3>&-; exec sleep 1000", "exec 3>&-; exec yes"}) {
    const auto sandbox = Sandbox::open({.python = folder.script(script)});
    ASSERT_FALSE(sandbox) << script;
    EXPECT_THAT(sandbox.error().message, HasSubstr("does not run as Python 3 should")) << script;
  }
}

TEST(Sandbox, TellsWhatKeepsTheUserOfWorkersFromAnInterpreter) {
  if (geteuid() != 0) GTEST_SKIP() << "only root starts workers as another user";
  if (!kTellsWhyExecFails) GTEST_SKIP() << "ThreadSanitizer's vfork";
  const OwnFolder folder;
  const std::string closed = folder.path() / "closed";
  fs::create_directory(closed);
  fs::permissions(closed, fs::perms(0700));
  fs::create_symlink("/usr/bin/python3", fs::path(closed) / "python3");
  fs::create_symlink(fs::path(closed) / "python3", folder.path() / "by_link");
  for (const fs::path& python : {fs::path(closed) / "python3", folder.path() / "by_link"}) {
    const auto sandbox = Sandbox::open({.python = python});
    ASSERT_FALSE(sandbox);
    EXPECT_THAT(sandbox.error().message,
                AllOf(HasSubstr(python.string() + ": Permission denied: Tenon runs as root"),
                      HasSubstr("who may not enter " + closed + "; name an interpreter")));
  }
  const fs::path own = folder.script("exit 1");
  fs::permissions(own, fs::perms(0700));
  EXPECT_THAT(Sandbox::open({.python = own}).error().message,
              HasSubstr("who may not read and run " + own.string()));
}

TEST(Sandbox, LooksAtAnInterpreterWhosePackagesAreMissing) {
  const auto python = look_at_interpreter({.packages = {"No_such.Package"}});
  ASSERT_TRUE(python) << python.error().message;
  EXPECT_THAT(python->version, HasSubstr("3."));
  ASSERT_EQ(python->packages.size(), 1U);
  EXPECT_EQ(python->packages.front().name, "No_such.Package");
  EXPECT_FALSE(python->packages.front().is_installed);
  EXPECT_THAT(Sandbox::open({.packages = {"No_such.Package", "other"}}).error().message,
              HasSubstr("the packages No_such.Package, other are not installed for "));
}

TEST(Sandbox, TellsHowPackagesAndInterpretersAreNamed) {
  const struct {
    SandboxOptions options;
    const char* said;
  } rows[] = {
      {{.packages = {""}}, R"("" is no name of a package)"},
      {{.packages = {"numpy>=1"}},
       R"("numpy>=1" is no name of a package: give the name without a version, such as numpy)"},
      {{.packages = {"beautifulsoup4==4.12"}}, "without a version, such as beautifulsoup4"},
      {{.packages = {"json"}}, "json is of the standard library"},
      {{.python = "python3"}, R"("python3" must be named by its absolute path)"},
  };
  for (const auto& row : rows) {
    const auto sandbox = Sandbox::open(row.options);
    ASSERT_FALSE(sandbox) << row.said;
    EXPECT_THAT(sandbox.error().message, HasSubstr(row.said));
  }
}

TEST(FolderBeside, HidesNoPath) {
  EXPECT_EQ(folder_beside({"/usr/lib", "/workshop/lib"}), "/work");
  const std::string within = folder_beside({}) + "/lib";
  EXPECT_EQ(folder_beside({"/usr/lib", within}), "/work2");
  EXPECT_EQ(folder_beside({"/work", "/work2/a", "/work3x"}), "/work3");
  EXPECT_EQ(folder_beside({}), "/work");
}

// Each row: seconds since the beginning, CPU time so far, whether the wait is over then.
TEST(StartWait, GoesOnAsLongAsTheProgramWorks) {
  const auto begun = std::chrono::steady_clock::now();
  StartWait wait(begun);
  const auto is_over = [&](int seconds, int milliseconds) {
    return wait.is_over(begun + std::chrono::seconds(seconds),
                        std::chrono::milliseconds(milliseconds));
  };
  EXPECT_FALSE(is_over(19, 0));
  EXPECT_FALSE(is_over(19, 5));  // it has worked,
  EXPECT_FALSE(is_over(38, 5));  // which counts from then on
  EXPECT_FALSE(is_over(38, 900));
  EXPECT_TRUE(is_over(58, 900));
  EXPECT_TRUE(wait.is_still(begun + std::chrono::seconds(58)));
  StartWait busy(begun);
  for (int second = 0; second < 600; second += 10) {
    EXPECT_FALSE(busy.is_over(begun + std::chrono::seconds(second), std::chrono::seconds(second)));
  }
  EXPECT_TRUE(busy.is_over(begun + std::chrono::seconds(600), std::chrono::seconds(600)));
  EXPECT_FALSE(busy.is_still(begun + std::chrono::seconds(600)));
}

}  // namespace
}  // namespace tenon::rlm
