#include "tenon/base/crash.h"

#include <algorithm>
#include <array>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

namespace tenon::crash {
namespace {

namespace fs = std::filesystem;

class TempFolder {
 public:
  TempFolder() {
    std::string name = (fs::temp_directory_path() / "tenon-crash-XXXXXX").string();
    path_ = ::mkdtemp(name.data());
  }
  ~TempFolder() { fs::remove_all(path_); }
  TempFolder(const TempFolder&) = delete;
  TempFolder& operator=(const TempFolder&) = delete;
  [[nodiscard]] const fs::path& path() const { return path_; }

 private:
  fs::path path_;
};

std::string text_of(const std::string& file) {
  std::ifstream in(file);
  return {std::istreambuf_iterator<char>(in), {}};
}

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

bool has_handler(int signal) {
  struct sigaction now{};
  ::sigaction(signal, nullptr, &now);
  return now.sa_handler != SIG_DFL;
}

[[gnu::noinline]] int overflow(int depth) {
  std::array<volatile char, 4096> frame{};
  frame[0] = static_cast<char>(depth);
  return depth < 0 ? 0 : overflow(depth + 1) + frame[0];
}

void meet_null() {
  volatile int* volatile nowhere = nullptr;
  *nowhere = 1;
}

void meet_null_in_a_thread() {
  std::thread([] { meet_null(); }).join();
}

void overflow_a_stack() {
  std::thread([] {
    const ThreadStack stack;
    static_cast<void>(overflow(0));
  }).join();
}

void overflow_the_first_stack() {
  static_cast<void>(overflow(0));
}

void meet_null_in_many_threads() {
  std::vector<std::thread> threads;
  for (int i = 0; i < 8; ++i) threads.emplace_back(&meet_null);
  for (std::thread& thread : threads) thread.join();
}

void throw_what_nobody_catches() {
  std::thread([] { throw std::runtime_error("the secret of a request"); }).join();
}

// Runs `work` in a child process and returns the child's wait status.
template <class Work>
int status_after(const Options& options, Work work) {
  const pid_t child = ::fork();
  if (child == 0) {
    std::freopen("/dev/null", "w", stderr);
    report(options);
    Request first;
    first.tell("/v1/chat/completions", "req_first");
    Request ended;
    ended.tell("/v1/messages", "req_ended");
    ended.end();
    Request moved = std::move(first);
    Request second;
    second.tell("/v1/responses", std::string(100, 'x'));
    work();
    std::_Exit(0);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  return status;
}

TEST(Crash, IsReportedAndEndsTheProcessAsItWouldWithout) {
  struct Row {
    const char* name;
    int signal;
    void (*work)();
    std::string_view first_line;
  };
  const Row rows[] = {
      {"Null", SIGSEGV, &meet_null, "Tenon 1.2.3 dies by SIGSEGV at address 0x0"},
      {"NullInAThread", SIGSEGV, &meet_null_in_a_thread,
       "Tenon 1.2.3 dies by SIGSEGV at address 0x0"},
      {"NullInManyThreads", SIGSEGV, &meet_null_in_many_threads,
       "Tenon 1.2.3 dies by SIGSEGV at address 0x0"},
      {"StackOfAThread", SIGSEGV, &overflow_a_stack, "Tenon 1.2.3 dies by SIGSEGV at address 0x"},
      {"StackOfMain", SIGSEGV, &overflow_the_first_stack,
       "Tenon 1.2.3 dies by SIGSEGV at address 0x"},
      {"Sent", SIGSEGV, [] { ::kill(::getpid(), SIGSEGV); }, "Tenon 1.2.3 dies by SIGSEGV"},
      {"Bus", SIGBUS, [] { std::raise(SIGBUS); }, "Tenon 1.2.3 dies by SIGBUS"},
      {"Division", SIGFPE, [] { std::raise(SIGFPE); }, "Tenon 1.2.3 dies by SIGFPE"},
      {"Instruction", SIGILL, [] { std::raise(SIGILL); }, "Tenon 1.2.3 dies by SIGILL"},
      {"Abort", SIGABRT, [] { std::abort(); }, "Tenon 1.2.3 dies by SIGABRT"},
      {"Exception", SIGABRT, &throw_what_nobody_catches,
       "Tenon 1.2.3 dies by SIGABRT, std::terminate (exception: St13runtime_error)"},
      {"Terminate", SIGABRT, [] { std::terminate(); },
       "Tenon 1.2.3 dies by SIGABRT, std::terminate (exception: none)"},
  };
  for (const Row& row : rows) {
    if (has_handler(row.signal)) continue;  // a sanitizer's handler is left in place
    const TempFolder folder;
    // The folder does not exist yet.
    const std::string place = (folder.path() / "a" / "crashes").string();
    const int status = status_after({.version = "1.2.3", .folder = place}, row.work);
    EXPECT_TRUE(WIFSIGNALED(status)) << row.name << " " << status;
    EXPECT_EQ(WTERMSIG(status), row.signal) << row.name;
    const auto reports = reports_in(place);
    ASSERT_EQ(reports.size(), 1U) << row.name;
    EXPECT_EQ(fs::status(reports[0]).permissions(), fs::perms::owner_read | fs::perms::owner_write)
        << row.name;
    const std::string text = text_of(reports[0]);
    const std::vector<std::string> lines = lines_of(text);
    ASSERT_GT(lines.size(), 9U) << row.name << "\n" << text;
    EXPECT_EQ(lines[0].substr(0, row.first_line.size()), row.first_line) << row.name;
    const std::string_view begins[] = {"build: ", "time: 20", "process: ", "requests in work:"};
    for (std::size_t i = 0; i < std::size(begins); ++i) {
      EXPECT_TRUE(lines[i + 1].starts_with(begins[i])) << row.name << ": " << lines[i + 1];
    }
    EXPECT_EQ(lines[5], "  /v1/chat/completions req_first") << row.name;
    EXPECT_EQ(lines[6], "  /v1/responses " + std::string(64, 'x')) << row.name;
    EXPECT_EQ(lines[7], "stack:") << row.name;
    const std::string program = fs::read_symlink("/proc/self/exe").string();
    EXPECT_NE(text.find("\n  " + program + "+0x"), std::string::npos) << row.name << "\n" << text;
    EXPECT_EQ(lines.back(), "this report is " + reports[0]) << row.name;
    EXPECT_EQ(text.find("secret"), std::string::npos) << row.name;
  }
}

#if defined(__x86_64__)
// The unwinder reads the lost stack, which is a second fault: it ends the process at once.
TEST(Crash, AThreadThatHasLostItsStackIsReported) {
  if (has_handler(SIGILL)) GTEST_SKIP() << "a handler of a sanitizer";
  const TempFolder folder;
  const int status = status_after({.version = "1.2.3", .folder = folder.path().string()}, [] {
    asm volatile("mov $4096, %rsp\n mov $4096, %rbp\n ud2");  // signals have a stack of their own
  });
  EXPECT_TRUE(WIFSIGNALED(status)) << status;
  const auto reports = reports_in(folder.path().string());
  ASSERT_EQ(reports.size(), 1U);
  const std::string text = text_of(reports[0]);
  EXPECT_TRUE(text.starts_with("Tenon 1.2.3 dies by SIGILL at address 0x")) << text;
  EXPECT_NE(text.find("\n  /v1/chat/completions req_first\n"), std::string::npos) << text;
  EXPECT_TRUE(text.ends_with("\nstack:\n")) << text;
}
#endif

// For example, stderr may be the log of a service manager that hangs.
TEST(Crash, IsReportedToTheFileWhereStderrIsFull) {
  const TempFolder folder;
  std::array<int, 2> ends{};
  ASSERT_EQ(::pipe2(ends.data(), O_NONBLOCK), 0);
  while (::write(ends[1], "x", 1) == 1) {
  }
  ASSERT_EQ(::fcntl(ends[1], F_SETFL, 0), 0);
  const int status = status_after({.version = "1.2.3", .folder = folder.path().string()}, [&ends] {
    ::dup2(ends[1], STDERR_FILENO);
    std::array<Request, 20> some;  // so that the report is written in several pieces
    for (Request& each : some) each.tell("/v1/messages", "req_some");
    std::abort();
  });
  ::close(ends[0]);
  ::close(ends[1]);
  EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT) << status;
  const auto reports = reports_in(folder.path().string());
  ASSERT_EQ(reports.size(), 1U);
  const std::vector<std::string> lines = lines_of(text_of(reports[0]));
  EXPECT_EQ(std::ranges::count(lines, "  /v1/messages req_some"), 20);
  ASSERT_FALSE(lines.empty());
  EXPECT_EQ(lines.back(), "this report is " + reports[0]);
}

TEST(Crash, IsReportedToStderrAloneWhereNoFileCanBe) {
  for (const char* const folder : {"", "/proc/nowhere", "/dev/null/x"}) {
    const int status = status_after({.version = "1.2.3", .folder = folder}, [] { std::abort(); });
    EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT) << folder;
  }
}

TEST(Crash, OfMoreRequestsThanThereArePlacesTheNumberIsTold) {
  const TempFolder folder;
  const std::string place = folder.path().string();
  status_after({.version = "1.2.3", .folder = place}, [] {
    std::vector<Request> many(3000);
    for (Request& each : many) each.tell("/v1/messages", "req_many");
    for (std::size_t i = 0; i < 500; ++i) many[i].end();
    std::abort();
  });
  const auto reports = reports_in(place);
  ASSERT_EQ(reports.size(), 1U);
  const std::string text = text_of(reports[0]);
  EXPECT_NE(text.find("\n  and 1978 more\n"), std::string::npos) << text.substr(0, 500);
}

TEST(Crash, ARequestFindsTheOnlyPlaceThatIsFree) {
  const TempFolder folder;
  const std::string place = folder.path().string();
  status_after({.version = "1.2.3", .folder = place}, [] {
    std::vector<Request> all(1022);  // with the two that status_after() has there are 1,024
    for (Request& each : all) each.tell("/v1/messages", "req_all");
    all[500].end();
    Request late;
    late.tell("/v1/messages", "req_late");
    std::abort();
  });
  const auto reports = reports_in(place);
  ASSERT_EQ(reports.size(), 1U);
  const std::string text = text_of(reports[0]);
  EXPECT_NE(text.find("\n  /v1/messages req_late\n"), std::string::npos) << text.substr(0, 500);
  EXPECT_EQ(text.find(" more\n"), std::string::npos);
}

TEST(Crash, PlacesAreTakenAndLeftByManyThreads) {
  std::vector<std::thread> threads;
  for (int i = 0; i < 8; ++i) {
    threads.emplace_back([] {
      for (int round = 0; round < 2000; ++round) {
        std::array<Request, 20> some;
        for (Request& each : some) each.tell("/v1/messages", "req_1");
        for (Request& each : some) each.tell("/v1/messages", "req_2");
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  // No place was leaked: as many requests as there are places find one.
  const TempFolder folder;
  const std::string place = folder.path().string();
  status_after({.version = "1.2.3", .folder = place}, [] {
    std::vector<Request> all(1000);
    for (Request& each : all) each.tell("/v1/messages", "req_all");
    std::abort();
  });
  const auto reports = reports_in(place);
  ASSERT_EQ(reports.size(), 1U);
  EXPECT_EQ(text_of(reports[0]).find(" more\n"), std::string::npos);
}

TEST(Crash, OldReportsAreRemoved) {
  const TempFolder folder;
  std::ofstream(folder.path() / "other") << "x";
  for (int i = 10; i < 40; ++i) {
    std::ofstream(folder.path() / ("tenon-20260101T0000" + std::to_string(i) + "Z-1.crash")) << i;
  }
  const auto reports = reports_in(folder.path().string());
  ASSERT_EQ(reports.size(), 20U);
  EXPECT_EQ(text_of(reports.front()), "20");
  EXPECT_EQ(text_of(reports.back()), "39");
  EXPECT_EQ(std::distance(fs::directory_iterator(folder.path()), fs::directory_iterator()), 21);
  EXPECT_TRUE(reports_in((folder.path() / "nowhere").string()).empty());
}

}  // namespace
}  // namespace tenon::crash
