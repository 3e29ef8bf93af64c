#include "tenon/base/process.h"

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include <gtest/gtest.h>
#include <unistd.h>

namespace tenon {
namespace {

using std::chrono::milliseconds;

ProcessOptions shell(std::string script) {
  return {.arguments = {"sh", "-c", std::move(script)}, .environment = plain_environment()};
}

TEST(RunCommand, GivesWhatTheProgramSays) {
  struct Row {
    const char* name;
    std::string script;
    std::string input;
    int status;
    std::string output;
    std::string errors;
    std::string ending;
  };
  const Row rows[] = {
      {"Echo", "cat", "hi\n", 0, "hi\n", "", "exit status 0"},
      {"Silent", "true", "", 0, "", "", "exit status 0"},
      {"Fails", "echo no >&2; exit 3", "", 3, "", "no\n", "exit status 3"},
      {"Exits255", "exit 255", "", 255, "", "", "exit status 255"},
      {"Killed", "kill -9 $$", "", 137, "", "", "killed by signal 9 (SIGKILL)"},
      {"ReadsNothing", "echo done", std::string(1'000'000, 'a'), 0, "done\n", "", "exit status 0"},
      {"CannotBeFound", "exec /nowhere", "", 127, "", "*", "exit status 127"},
      {"LeavesAChildBehind", "sleep 100 & echo here", "", 0, "here\n", "", "exit status 0"},
  };
  for (const Row& row : rows) {
    const auto begun = std::chrono::steady_clock::now();
    const auto said = run_command(shell(row.script), row.input, {});
    ASSERT_TRUE(said) << row.name << ": " << said.error().message;
    EXPECT_EQ(said->status, row.status) << row.name;
    EXPECT_EQ(said->output, row.output) << row.name;
    EXPECT_EQ(said->ending, row.ending) << row.name;
    if (row.errors != "*") {
      EXPECT_EQ(said->errors, row.errors) << row.name;
    }
    EXPECT_LT(std::chrono::steady_clock::now() - begun, std::chrono::seconds(20)) << row.name;
  }
}

TEST(RunCommand, IsNotHeldByWhatHasLeftItsGroup) {
  // The loud child ends when its pipe has no reader any more.
  const std::string loud = "setsid sh -c 'while :; do echo y; done' & sleep 0.2; exit 3";
  const auto begun = std::chrono::steady_clock::now();
  const auto said = run_command(shell(loud), "", {});
  ASSERT_TRUE(said) << said.error().message;
  EXPECT_EQ(said->status, 3);
  EXPECT_TRUE(said->output.starts_with("y\ny\n"));
  EXPECT_LT(std::chrono::steady_clock::now() - begun, std::chrono::seconds(20));
}

TEST(RunCommand, HasLimits) {
  const auto cut = run_command(shell("yes | head -c 300000; echo abcdef >&2"), "",
                               {.max_output_bytes = 10, .max_error_bytes = 3});
  ASSERT_TRUE(cut) << cut.error().message;
  EXPECT_EQ(cut->output, "y\ny\ny\ny\ny\n");
  EXPECT_EQ(cut->output_bytes, 300'000U);
  EXPECT_EQ(cut->errors, "ef\n");

  const auto late = run_command(shell("sleep 100"), "", {.time = milliseconds(50)});
  ASSERT_FALSE(late);
  EXPECT_EQ(late.error().code, Errc::limit_exceeded);
  const auto loud = run_command(shell("while :; do echo y; done"), "", {.time = milliseconds(50)});
  ASSERT_FALSE(loud);
  EXPECT_EQ(loud.error().code, Errc::limit_exceeded);

  const CancelToken cancel;
  std::thread canceller([cancel] {
    std::this_thread::sleep_for(milliseconds(30));
    cancel.cancel();
  });
  const auto cancelled = run_command(shell("sleep 100"), "", {}, cancel);
  canceller.join();
  ASSERT_FALSE(cancelled);
  EXPECT_EQ(cancelled.error().code, Errc::unavailable);
}

TEST(RunCommand, TellsWhyAProgramDoesNotStart) {
  const auto missing = run_command({.arguments = {"/nowhere/at/all"}}, "", {});
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.error(),
            (Error{Errc::unavailable, "cannot start /nowhere/at/all: No such file or directory"}));
  const auto none = run_command({}, "", {});
  ASSERT_FALSE(none);
  EXPECT_EQ(none.error().code, Errc::invalid);
}

TEST(Process, HasItsOwnSurroundings) {
  ASSERT_EQ(setenv("TENON_SECRET_OF_TEST", "x", 1), 0);
  ProcessOptions options =
      shell("echo \"$TENON_SECRET_OF_TEST,$MINE,$HOME\"; pwd; ls /proc/self/fd");
  options.environment = plain_environment({"MINE=1", "HOME=/elsewhere"});
  options.folder = "/";
  const auto said = run_command(options, "", {});
  ASSERT_TRUE(said) << said.error().message;
  EXPECT_TRUE(said->output.starts_with(",1,/elsewhere\n/\n0\n1\n2\n3\n")) << said->output;
  EXPECT_EQ(std::ranges::count(said->output, '\n'), 6) << said->output;
}

TEST(Process, AllThatRunAreAskedToEnd) {
  auto one = Process::start(shell("sleep 100 & wait"));
  auto other = Process::start(shell("trap '' TERM; echo; exec sleep 100"));
  ASSERT_TRUE(one && other);
  char c = 0;
  while (::read((*other)->output(), &c, 1) != 1) std::this_thread::sleep_for(milliseconds(1));
  ask_programs_to_end();
  EXPECT_TRUE((*one)->wait(milliseconds(20'000)));
  EXPECT_FALSE((*other)->wait(milliseconds(50))) << "asked, not killed";
}

TEST(Process, IsEndedWithItsGroup) {
  struct Row {
    const char* name;
    std::string script;
    int status;
  };
  const Row rows[] = {
      {"EndsWithItsInput", "cat >/dev/null; sleep 100 & exit 5", 5},
      {"EndsWhenAsked", "trap 'exit 4' TERM; while :; do sleep 0.01; done", 4},
      {"MustBeKilled", "trap '' TERM; while :; do sleep 0.01; done", 137},
  };
  for (const Row& row : rows) {
    auto process = Process::start(shell("echo $$; " + row.script));
    ASSERT_TRUE(process) << process.error().message;
    std::string text;
    for (char c = 0; c != '\n';) {
      if (::read((*process)->output(), &c, 1) == 1) text += c;
    }
    const int group = std::stoi(text);
    EXPECT_EQ((*process)->ending(), "");
    (*process)->stop(milliseconds(200));
    EXPECT_EQ((*process)->status(), row.status) << row.name;
    // Killed children of the group are reaped by init, a moment later.
    for (int i = 0; i < 500 && ::kill(-group, 0) == 0; ++i) {
      std::this_thread::sleep_for(milliseconds(10));
    }
    EXPECT_NE(::kill(-group, 0), 0) << row.name;
  }
}

}  // namespace
}  // namespace tenon
