#pragma once

#include <functional>
#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>

#include "command_line.h"

#include "tenon/base/expected.h"

/// The parts of the command `tenon`: one function per subcommand, each in a file of its own.
namespace tenon::app {

/// Exit statuses of every subcommand.
enum Exit : int {
  kOk = 0,
  kNegative = 1,  ///< The command worked, and its answer is no.
  kUsage = 2,     ///< The command line is wrong.
  kBadInput = 3,  ///< A file, a configuration or a request is wrong.
  kEngine = 4,    ///< A model, an engine or the network failed.
  kSignal = 128,  ///< Plus the signal's number: a signal ended it before the work was done.
};

/// A subcommand: its options, and what it does once they are parsed.
struct Command {
  App app;
  std::function<int()> run;  ///< Returns the exit status.
};

[[nodiscard]] Command add_serve(App tenon);
[[nodiscard]] Command add_chat(App tenon);
[[nodiscard]] Command add_worker(App tenon);
[[nodiscard]] Command add_doctor(App tenon);
[[nodiscard]] Command add_key(App tenon);
[[nodiscard]] Command add_call(App tenon);
[[nodiscard]] Command add_render(App tenon);
[[nodiscard]] Command add_parse(App tenon);
[[nodiscard]] Command add_validate(App tenon);
[[nodiscard]] Command add_grammar(App tenon);
[[nodiscard]] Command add_mask(App tenon);
[[nodiscard]] Command add_formats(App tenon);
[[nodiscard]] Command add_inspect(App tenon);
[[nodiscard]] Command add_export(App tenon);
[[nodiscard]] Command add_sandbox(App tenon);
[[nodiscard]] Command add_rlm(App tenon);
[[nodiscard]] Command add_bench(App tenon);
[[nodiscard]] Command add_pull(App tenon);
[[nodiscard]] Command add_models(App tenon);
[[nodiscard]] Command add_mcp(App tenon);
[[nodiscard]] Command add_replay(App tenon);
[[nodiscard]] Command add_launch(App tenon);
[[nodiscard]] Command add_verify(App tenon);
[[nodiscard]] Command add_completion(App tenon);
[[nodiscard]] Command add_manual(App tenon);

inline constexpr std::string_view kVersion = TENON_VERSION;

/// Why a command ends, and the exit status for that.
struct Complaint {
  int status;
  std::string message;  ///< A sentence: what is wrong, where, and what helps.
};
template <class T>
using OrComplaint = Result<T, Complaint>;

[[nodiscard]] Failure<Complaint> complaint(int status, std::string message);
/// The complaint for an error of the layer `config`: kEngine if it is `unavailable`, else
/// kBadInput.
[[nodiscard]] Complaint complaint_of(Error error);
[[nodiscard]] Failure<Complaint> complaint(Error error);
template <class T>
[[nodiscard]] OrComplaint<T> or_complaint(Expected<T> result) {
  if (!result) return complaint(std::move(result.error()));
  return *std::move(result);
}

/// Writes the complaint to stderr and returns its status.
int complain(const Complaint& complaint);
int complain(const Error& error);

/// Fails with kUsage if the command line has one of `names`: "--name has no effect " + `why`.
[[nodiscard]] OrComplaint<void> refuse_options(App app, std::initializer_list<const char*> names,
                                               std::string_view why);

}  // namespace tenon::app
