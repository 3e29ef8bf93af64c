#include "tenon/rlm/sandbox.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <set>
#include <string_view>
#include <thread>
#include <utility>

#include <fcntl.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tenon/base/file.h"
#include "tenon/base/utf8.h"
#include "tenon/json/members.h"
#include "tenon/json/value.h"
#include "tenon/rlm/filter.h"
#include "tenon/rlm/spawn.h"
#include "tenon/rlm/worker_impl.h"
#include "tenon/rlm/worker_text.h"

// Starts Python workers in which hostile code may run. open() tries the tiers from the best to the
// worst. A tier is prepared (prepare), then a worker is really started in it and tries the things
// that must be impossible; if one succeeds, the tier is not used. So a kernel or a bubblewrap that
// is configured in an unusual way is found out instead of trusted.
//
// All tiers have resource limits, an empty environment and the filter of system calls (filter.cc),
// except unsafe_local, which has the limits only. The bubblewrap tier adds namespaces and a root
// folder with nothing but Python; Landlock allows reading only Python's own files. look_at() runs
// the interpreter once outside, to learn where its library and the shared libraries are.
//
// Bubblewrap is two processes with the interpreter below them. Its pidfd (open_inner) lets the host
// kill and signal the interpreter directly, and the caretaker ends what would be left if Tenon is
// killed.

namespace tenon::rlm {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

// For a worker's start and, with as much time again, its check. One that dies is noticed at once,
// so only a machine that is very busy needs it.
constexpr std::chrono::seconds kStartWait{60};
// CPU time for a look at the interpreter, which imports all packages. A large one takes 10 s.
constexpr std::uint64_t kLookCpu = 120;
constexpr std::size_t kMaxToldBytes = std::size_t{1} << 20;
// Bytes of what a worker that fails at its start writes to its standard error.
constexpr std::size_t kMaxErrorBytes = 4096;
// RLIMIT_NPROC where it counts all threads of the user on the host, not only those of the worker.
constexpr std::uint32_t kThreadsOfUser = 4096;
// The same order of sets each time, for replay.
constexpr const char* kEnvironment = "PYTHONHASHSEED=0";

// ---- Landlock (linux/landlock.h of this system may be older than the kernel)
// ---------------------

// The kernel's landlock_ruleset_attr: one bit for each right that the ruleset handles.
struct LandlockRuleset {
  std::uint64_t fs, net, scoped;
};
// The kernel's landlock_path_beneath_attr: `parent` is an O_PATH descriptor of a file or folder,
// and `allowed` are the rights below it.
struct __attribute__((packed)) LandlockPath {
  std::uint64_t allowed;
  std::int32_t parent;
};
// landlock_create_ruleset and landlock_add_rule; the numbers are the same on x86-64 and arm64.
constexpr long kLandlockCreate = 444;
constexpr long kLandlockAdd = 445;
constexpr std::uint64_t kExecute = 1, kReadFile = 4, kReadFolder = 8;

// All rights that this version of Landlock can refuse: everything is refused unless a rule allows
// it.
LandlockRuleset all_of(long version) {
  LandlockRuleset all{.fs = (1U << 13) - 1, .net = 0, .scoped = 0};
  if (version >= 2) all.fs |= 1U << 13;  // moving between folders
  if (version >= 3) all.fs |= 1U << 14;  // truncating
  if (version >= 4) all.net = 3;         // TCP: bind and connect
  if (version >= 5) all.fs |= 1U << 15;  // ioctl of devices
  if (version >= 6) all.scoped = 3;      // abstract Unix sockets, signals
  return all;
}
// The attributes grew: `net` came with version 4 of the interface, `scoped` with 6. An older kernel
// refuses a longer struct that has bits set which it does not know.
std::size_t size_of_ruleset(long version) {
  return version >= 6 ? 24 : version >= 4 ? 16 : 8;
}

// ---- The interpreter
// ------------------------------------------------------------------------------

// The folders of the interpreter and of what it loads. All paths are absolute.
struct Python {
  Interpreter told;
  std::string program;               // with symbolic links resolved
  std::vector<std::string> folders;  // its library, and those of its shared libraries
  // For the packages that cells may import: the folders that hold them, and their files there.
  std::vector<std::string> homes, entries;

  [[nodiscard]] std::vector<std::string> paths() const {
    std::vector<std::string> all{program};
    for (const auto* more : {&folders, &homes, &entries}) {
      all.insert(all.end(), more->begin(), more->end());
    }
    return all;
  }
};

// "/usr/lib/x" is within "/usr/lib", "/usr/lib64" is not.
bool is_within(std::string_view path, std::string_view folder) {
  return path.starts_with(folder) && (path.size() == folder.size() || path[folder.size()] == '/');
}

// The folders that are not inside another one, sorted. A folder that holds more than a library is
// never among them.
std::vector<std::string> outermost(const std::set<std::string>& folders) {
  std::vector<std::string> result;
  for (const std::string& folder : folders) {
    if (result.empty() || !is_within(folder, result.back())) result.push_back(folder);
  }
  return result;
}

// What a program has told.
struct Told {
  std::string answer;
  std::string words;       // what it printed
  bool has_ended = false;  // otherwise it was not waited for any longer
  bool is_still = false;   // because it took no CPU time
};

// Reads until the pipe of the answer ends, and what is in the other one by then, at most
// kMaxToldBytes of each. It polls, because the program at the other end may hang.
Told read_told(int answer, int words, pid_t program) {
  Told told;
  std::array<pollfd, 2> pipes{pollfd{.fd = answer, .events = POLLIN, .revents = 0},
                              pollfd{.fd = words, .events = POLLIN, .revents = 0}};
  const std::array<std::string*, 2> texts{&told.answer, &told.words};
  StartWait patience(Clock::now());
  while (!patience.is_over(Clock::now(), cpu_time_of(program))) {
    const bool is_ready = poll(pipes.data(), pipes.size(), told.has_ended ? 0 : 100) > 0;
    if (!is_ready && told.has_ended) break;
    for (std::size_t i = 0; i < pipes.size(); ++i) {
      if (!is_ready || pipes[i].fd < 0 || pipes[i].revents == 0) continue;
      std::array<char, 4096> part{};
      const ssize_t count = read(pipes[i].fd, part.data(), part.size());
      if (count < 0 && errno == EINTR) continue;
      if (count <= 0) pipes[i].fd = -1;  // poll() passes over it
      if (count > 0 && texts[i]->size() < kMaxToldBytes) {
        texts[i]->append(part.data(), static_cast<std::size_t>(count));
      }
    }
    told.has_ended = pipes[0].fd < 0;
  }
  told.is_still = patience.is_still(Clock::now());
  return told;
}

// The status of a program that ends by itself within `patience`, or is killed then: at once without
// patience.
int end_of(pid_t pid, std::chrono::milliseconds patience) {
  constexpr std::chrono::milliseconds kMoment{10};
  const Clock::time_point deadline = Clock::now() + patience;
  int status = 0;
  for (pid_t ended = 0; ended != pid;) {
    const bool is_killed = Clock::now() >= deadline;
    if (is_killed) ::kill(pid, SIGKILL);
    ended = waitpid(pid, &status, is_killed ? 0 : WNOHANG);
    if (ended < 0 && errno != EINTR) break;
    if (ended == 0) std::this_thread::sleep_for(kMoment);
  }
  return status;
}

std::string program_text(std::string_view name) {
  for (const auto& file : worker_text()) {
    if (file.name == name) return std::string(file.bytes);
  }
  return {};
}

// A program that tells which shared objects it has loaded, by shared_folders().
std::string look_text(std::string_view name) {
  return program_text("shared_folders.py") + program_text(name);
}

// The limits, none of them above the host's own.
std::vector<ResourceLimit> within_own(std::vector<ResourceLimit> limits) {
  for (ResourceLimit& limit : limits) {
    rlimit own{};
    if (getrlimit(static_cast<__rlimit_resource_t>(limit.resource), &own) != 0) continue;
    limit.hard = std::min<std::uint64_t>(limit.hard, own.rlim_max);
    limit.soft = std::min(limit.soft, limit.hard);
  }
  return limits;
}

// Above 15, because the child duplicates its descriptors to 0, 1, 2, ... one by one, and must not
// overwrite one that it still needs.
Descriptor null_device() {
  const Descriptor null(::open("/dev/null", O_RDWR | O_CLOEXEC));
  return Descriptor(fcntl(null.get(), F_DUPFD_CLOEXEC, 16));
}

// The folder or file on the way to `program` that the user of workers may not enter or run, where
// that is not our own user; "": there is no such one. An access control list may allow more than
// the mode says, so this only explains a failure.
std::string closed_on_the_way_to(fs::path program) {
  if (geteuid() != 0) return {};
  constexpr int kMostLinks = 40;  // as many as the kernel follows
  for (int links = 0; links < kMostLinks; ++links) {
    fs::path part;
    for (const fs::path& name : program) {
      part /= name;
      struct stat about{};
      if (stat(part.c_str(), &about) != 0) break;
      const unsigned shift = about.st_uid == kWorkerUser ? 6 : about.st_gid == kWorkerUser ? 3 : 0;
      const unsigned allowed = about.st_mode >> shift & 7U;
      const unsigned needed = S_ISDIR(about.st_mode) ? 1 : 5;
      if ((allowed & needed) != needed) return part.string();
    }
    // The interpreter of a virtual environment is a link to one elsewhere.
    std::error_code is_none;
    const fs::path target = fs::read_symlink(program, is_none);
    if (is_none) break;
    program = (program.parent_path() / target).lexically_normal();
  }
  return {};
}

// Why `program` does not run, and what helps where a server of root starts it.
Unexpected does_not_run(const std::string& program, std::string why) {
  if (const std::string closed = closed_on_the_way_to(program); !closed.empty()) {
    why += ": Tenon runs as root and starts Python as the user 'nobody', who may not " +
           std::string(fs::is_directory(closed) ? "enter " : "read and run ") + closed +
           "; name an interpreter that every user may run (server.repl_python, or --python), such "
           "as /usr/bin/python3, or run Tenon as another user";
  }
  return Unexpected(Error{Errc::unavailable, std::move(why)});
}

// The last line with words, which says why a program of Python failed.
std::string last_line(std::string_view text) {
  constexpr std::size_t kMost = 300;
  text = text.substr(0, text.find_last_not_of(" \r\n") + 1);
  return utf8::sanitized(text.substr(text.rfind('\n') + 1, kMost));
}

// Runs a program that answers by an object of JSON on descriptor 3, outside of every tier: it is
// the operator's own interpreter with our own code. What it prints is told only if it fails, since
// a package may print while it is imported.
Expected<json::Value> ask_program(std::vector<std::string> arguments, Spawner& spawner) {
  auto answer = make_pipe();
  auto words = make_pipe();
  if (!answer) return Unexpected(answer.error());
  if (!words) return Unexpected(words.error());
  const Descriptor null = null_device();
  const std::string program = arguments.front();
  const int out = words->write.get();
  const Start start{.arguments = std::move(arguments),
                    .descriptors = {null.get(), out, out, answer->write.get()},
                    .limits = within_own({{RLIMIT_CPU, kLookCpu, kLookCpu + 1}})};
  const auto pid = spawner.start(start);
  if (!pid) return does_not_run(program, pid.error().message);
  answer->write.close();
  words->write.close();
  const Told told = read_told(answer->read.get(), words->read.get(), *pid);
  auto found = json::parse(told.answer);
  const bool is_answer = found && found->if_object() != nullptr;
  // It may live on after its answer, or without one: by threads of a package, or because it is no
  // Python at all. Only where it has told nothing does its status matter.
  constexpr std::chrono::seconds kForAnEnd{2};
  const int status =
      end_of(*pid, !is_answer && told.has_ended ? kForAnEnd : std::chrono::seconds{});
  if (is_answer) return found;
  std::string why = program + " does not run as Python 3 should";
  if (!told.has_ended) {
    why += told.is_still
               ? ": it stood still for " + std::to_string(StartWait::kStill.count()) + " s"
               : ": it did not end within " + std::to_string(StartWait::kMost.count()) + " s";
  } else if (WIFSIGNALED(status) && WTERMSIG(status) == SIGXCPU) {
    why += ": it took " + std::to_string(kLookCpu) + " s of CPU time";
  } else if (const std::string said = last_line(told.words); !said.empty()) {
    why += ": " + said;
  }
  return does_not_run(program, std::move(why));
}

std::vector<std::string> texts_in(const json::Value& object, std::string_view key) {
  std::vector<std::string> texts;
  const json::Value* const list = object.find(key);
  if (list == nullptr || list->if_array() == nullptr) return texts;
  for (const json::Value& one : *list->if_array()) {
    if (one.if_string() != nullptr) texts.push_back(*one.if_string());
  }
  return texts;
}

// The names are those of packages alone, with letters, digits, ".", "_" and "-".
Status check_names(const std::vector<std::string>& packages) {
  constexpr std::string_view kLegal =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-";
  for (const std::string& name : packages) {
    const std::size_t end = std::min(name.find_first_not_of(kLegal), name.size());
    if (end == name.size() && !name.empty()) continue;
    std::string why = json::quoted(utf8::sanitized(name)) + " is no name of a package";
    if (end > 0) why += ": give the name without a version, such as " + name.substr(0, end);
    return Unexpected(Error{Errc::invalid, std::move(why)});
  }
  return {};
}

// With site packages, which -S would leave out.
Status look_for_packages(const fs::path& program, const std::vector<std::string>& packages,
                         Spawner& spawner, Python& python, std::set<std::string>& folders) {
  if (packages.empty()) return {};
  if (Status legal = check_names(packages); !legal) return legal;
  std::vector<std::string> arguments{program.string(), "-I", "-B", "-c",
                                     look_text("look_for_packages.py")};
  arguments.insert(arguments.end(), packages.begin(), packages.end());
  const auto found = ask_program(std::move(arguments), spawner);
  if (!found) return Unexpected(found.error());
  const json::Value* const list = found->find("packages");
  if (list == nullptr || list->if_array() == nullptr) {
    return Unexpected(Error{Errc::unavailable, program.string() + " told no packages"});
  }
  for (const json::Value& one : *list->if_array()) {
    python.told.packages.push_back({.name = json::text_in(one, "name"),
                                    .is_installed = json::flag_in(one, "is_installed"),
                                    .is_standard = json::flag_in(one, "is_standard"),
                                    .imports = texts_in(one, "imports"),
                                    .instead = json::text_in(one, "instead")});
  }
  python.told.closed = texts_in(*found, "closed");
  python.homes = texts_in(*found, "homes");
  python.entries = texts_in(*found, "entries");
  for (std::string& folder : texts_in(*found, "shared")) folders.insert(std::move(folder));
  return {};
}

// -I -S -B: no site packages, no environment and no .pyc files.
Expected<Python> look_at(const fs::path& program, const std::vector<std::string>& packages,
                         Spawner& spawner) {
  const auto found =
      ask_program({program.string(), "-I", "-S", "-B", "-c", look_text("look_around.py")}, spawner);
  if (!found) return Unexpected(found.error());
  const auto* path = found->find("program");
  if (path == nullptr || path->if_string() == nullptr) {
    return Unexpected(
        Error{Errc::unavailable, program.string() + " does not run as Python 3 should"});
  }
  Python python{.told = {.program = program.string(), .version = text_in(*found, "version")},
                .program = *path->if_string()};
  std::set<std::string> folders;
  for (const char* key : {"folders", "shared"}) {
    for (std::string& folder : texts_in(*found, key)) folders.insert(std::move(folder));
  }
  if (Status there = look_for_packages(program, packages, spawner, python, folders); !there) {
    return Unexpected(there.error());
  }
  // The dynamic loader.
  if (fs::is_directory("/usr/lib64")) folders.insert("/usr/lib64");
  python.folders = outermost(folders);
  return python;
}

// What is missing of the packages that cells may import; "": nothing.
std::string missing_text(const Interpreter& python) {
  std::string names;
  std::size_t count = 0;
  std::string hints;
  for (const Package& package : python.packages) {
    if (package.is_installed) continue;
    if (package.is_standard) {
      return package.name +
             " is of the standard library, which is there anyway: leave it out of the packages";
    }
    names += (count++ == 0 ? "" : ", ") + package.name;
    if (package.instead.empty()) continue;
    hints += "; " + package.name + " is a module of the package " + package.instead;
  }
  if (count == 0) return {};
  if (hints.empty() && !python.closed.empty()) {
    hints = "; the user 'nobody', as whom Tenon starts Python if it runs as root, may not read " +
            python.closed.front();
  }
  return (count == 1 ? "the package " + names + " is" : "the packages " + names + " are") +
         " not installed for " + python.program + ": install " + (count == 1 ? "it" : "them") +
         ", or name another interpreter" + hints;
}

Expected<fs::path> find_python(const fs::path& wanted) {
  // A name alone would be looked for in the folder where Tenon was started.
  if (!wanted.empty() && !wanted.has_parent_path()) {
    return Unexpected(Error{Errc::invalid, "the interpreter " + json::quoted(wanted.string()) +
                                               " must be named by its absolute path, such as "
                                               "/usr/bin/python3"});
  }
  if (!wanted.empty()) return wanted;
  for (const char* path : {"/usr/bin/python3", "/usr/local/bin/python3"}) {
    if (access(path, X_OK) == 0) return fs::path(path);
  }
  return Unexpected(Error{Errc::unavailable,
                          "there is neither /usr/bin/python3 nor /usr/local/bin/python3; install "
                          "python3, or name another one in the configuration"});
}

std::vector<std::string> python_arguments(const Python& python) {
  return {python.program, "-S", "-s", "-B", "-c", program_text("worker.py")};
}

// ---- Bubblewrap
// -----------------------------------------------------------------------------------

// Descriptor 3 is the filter; descriptor 4 receives the number of the process.
// `folder`: where cells may write; "": nowhere.
std::vector<std::string> bubblewrap_arguments(const SandboxOptions& options, const Python& python,
                                              const std::string& folder) {
  std::vector<std::string> arguments{options.bubblewrap.string(),
                                     "--unshare-all",
                                     "--unshare-user",
                                     "--disable-userns",
                                     "--die-with-parent",
                                     "--new-session",
                                     "--as-pid-1",
                                     "--cap-drop",
                                     "ALL",
                                     "--clearenv",
                                     "--setenv",
                                     "PYTHONHASHSEED",
                                     "0",
                                     "--hostname",
                                     "repl",
                                     "--uid",
                                     "65534",
                                     "--gid",
                                     "65534"};
  const auto add = [&arguments](std::initializer_list<std::string> more) {
    arguments.insert(arguments.end(), more);
  };
  for (const std::string& folder : python.folders) add({"--ro-bind", folder, folder});
  for (const std::string& entry : python.entries) add({"--ro-bind", entry, entry});
  add({"--ro-bind", python.program, python.program});
  // Where /usr is merged, /lib is a link to usr/lib, and the loader's path in the interpreter
  // (/lib64/ld-linux-x86-64.so.2) needs it; on other systems it is a folder.
  for (const char* link : {"/lib", "/lib64"}) {
    std::error_code error;
    const fs::path target = fs::read_symlink(link, error);
    if (!error) {
      add({"--symlink", target.string(), link});
    } else if (fs::is_directory(link)) {
      add({"--ro-bind", link, link});
    }
  }
  if (!folder.empty()) {
    add({"--perms", "0700", "--size", std::to_string(options.folder_bytes), "--tmpfs", folder});
  }
  add({"--remount-ro", "/", "--chdir", folder.empty() ? "/" : folder, "--seccomp", "3", "--info-fd",
       "4"});
  const auto rest = python_arguments(python);
  arguments.insert(arguments.end(), rest.begin(), rest.end());
  return arguments;
}

// The interpreter's process, whose number bubblewrap has sent. It is checked to be bubblewrap's
// child, because the kernel uses numbers again.
Descriptor open_inner(std::string_view told, pid_t outer, pid_t& inner_pid) {
  const auto info = json::parse(told);
  const json::Value* number = info ? info->find("child-pid") : nullptr;
  const auto pid = number != nullptr && number->if_number() != nullptr
                       ? number->if_number()->to_int64()
                       : std::nullopt;
  if (!pid) return {};
  Descriptor inner(static_cast<int>(syscall(SYS_pidfd_open, *pid, 0)));
  const auto stat = read_file("/proc/" + std::to_string(*pid) + "/stat", 4096);
  if (!stat) return {};
  // The line is `pid (name) state ppid ...`. The name may hold spaces and parentheses, so its end
  // is looked for from behind.
  const std::size_t name_end = stat->rfind(") ");
  if (name_end == std::string::npos || stat->size() < name_end + 4) return {};
  if (std::atoi(stat->c_str() + name_end + 4) != outer) return {};
  inner_pid = static_cast<pid_t>(*pid);
  return inner;
}

// Reads what a writer that has ended left in a pipe.
std::string read_what_is_there(int descriptor) {
  pollfd wait{.fd = descriptor, .events = POLLIN, .revents = 0};
  std::string text;
  std::array<char, 4096> part{};
  while (text.size() < kMaxErrorBytes && poll(&wait, 1, 0) > 0) {
    const ssize_t count = read(descriptor, part.data(), part.size());
    if (count <= 0) break;
    text.append(part.data(), static_cast<std::size_t>(count));
  }
  return text;
}

std::string last_words(int descriptor) {
  std::string said = read_what_is_there(descriptor);
  while (!said.empty() && said.back() == '\n') said.pop_back();
  std::ranges::replace(said, '\n', ' ');
  return said;
}

// RLIMIT_CPU has a hard limit one second above the soft one: SIGXCPU first, then SIGKILL.
// RLIMIT_FSIZE 0 makes every file unwritable, and the size of a folder bounds each file in it;
// pipes have no such limit.
std::vector<ResourceLimit> resource_limits(const WorkerLimits& limits, std::uint64_t folder_bytes) {
  const auto cpu = static_cast<std::uint64_t>(limits.cpu.count());
  return within_own({{RLIMIT_AS, limits.memory_bytes, limits.memory_bytes},
                     {RLIMIT_CPU, cpu, cpu + 1},
                     {RLIMIT_NOFILE, limits.open_files, limits.open_files},
                     {RLIMIT_FSIZE, folder_bytes, folder_bytes},
                     {RLIMIT_CORE, 0, 0},
                     {RLIMIT_MEMLOCK, 0, 0}});
}

// One command and its answer, during the start, when no cell runs yet.
Expected<json::Value> ask(Worker& worker, const json::Object& command, TimePoint deadline) {
  if (Status sent = worker.send(json::to_string(command), {.deadline = deadline}); !sent) {
    return Unexpected(sent.error());
  }
  auto answer = worker.receive({.deadline = deadline});
  if (answer && *answer->find("op")->if_string() == "failed") {
    return Unexpected(Error{Errc::unavailable, "a worker failed at its start"});
  }
  return answer;
}

}  // namespace

// A file system that is mounted there would hide what lies below it.
std::string folder_beside(const std::vector<std::string>& paths) {
  std::string folder = "/work";
  const auto hides = [&folder](const std::string& path) {
    return is_within(path, folder) || is_within(folder, path);
  };
  for (int number = 2; std::ranges::any_of(paths, hides); ++number) {
    folder = "/work" + std::to_string(number);
  }
  return folder;
}

std::vector<std::string> imports_of(const std::vector<Package>& packages) {
  std::vector<std::string> names;
  for (const Package& package : packages) {
    names.insert(names.end(), package.imports.begin(), package.imports.end());
  }
  return names;
}

Expected<Interpreter> look_at_interpreter(const SandboxOptions& options) {
  const auto program = find_python(options.python);
  if (!program) return Unexpected(program.error());
  Spawner spawner;
  auto python = look_at(*program, options.packages, spawner);
  if (!python) return Unexpected(python.error());
  return std::move(python->told);
}

std::string_view tier_name(Tier tier) {
  switch (tier) {
    case Tier::bubblewrap:
      return "bubblewrap";
    case Tier::landlock:
      return "landlock";
    case Tier::unsafe_local:
      return "unsafe_local";
  }
  return "";
}

std::optional<Tier> tier_named(std::string_view name) {
  for (const Tier tier : {Tier::bubblewrap, Tier::landlock, Tier::unsafe_local}) {
    if (tier_name(tier) == name) return tier;
  }
  return std::nullopt;
}

struct Sandbox::Impl {
  SandboxOptions options;
  Spawner spawner;
  Python python;
  std::vector<std::byte> filter;
  Descriptor ruleset;    // of Landlock
  pid_t caretaker = -1;  // of bubblewrap's processes (caretaker.py)
  Descriptor notices;    // to the caretaker
  Tier tier = Tier::bubblewrap;
  std::vector<std::string> arguments;
  std::string why_no_better;
  std::string folder;  // "": no folder
  std::atomic<std::size_t> workers{0};

  ~Impl() { end_caretaker(); }
  [[nodiscard]] Status start_caretaker();
  void end_caretaker();
  [[nodiscard]] Status make_ruleset();
  [[nodiscard]] Status prepare(Tier wanted);
  [[nodiscard]] Expected<std::unique_ptr<Worker::Impl>> spawn(const WorkerLimits& limits,
                                                              Descriptor& errors, Descriptor& info);
};

// With flag 1 the create call returns the newest version of the interface; with flag 0 it makes a
// ruleset. Without Landlock in the kernel it fails with ENOSYS or EOPNOTSUPP.
Status Sandbox::Impl::make_ruleset() {
  const long newest = syscall(kLandlockCreate, nullptr, 0, 1);
  if (newest < 1) return system_error("Landlock", errno);
  const LandlockRuleset all = all_of(newest);
  ruleset =
      Descriptor(static_cast<int>(syscall(kLandlockCreate, &all, size_of_ruleset(newest), 0)));
  if (!ruleset.is_open()) return system_error("Landlock", errno);
  const auto allow = [this](const std::string& path, std::uint64_t what) -> Status {
    const Descriptor parent(::open(path.c_str(), O_PATH | O_CLOEXEC));
    const LandlockPath rule{.allowed = what, .parent = parent.get()};
    if (!parent.is_open() || syscall(kLandlockAdd, ruleset.get(), 1, &rule, 0) != 0) {
      return system_error("Landlock, " + path, errno);
    }
    return {};
  };
  if (Status allowed = allow(python.program, kExecute | kReadFile); !allowed) return allowed;
  for (const std::string& folder : python.folders) {
    // The dynamic loader is in these folders. They hold no other programs that could do more than
    // the interpreter.
    if (Status allowed = allow(folder, kExecute | kReadFile | kReadFolder); !allowed) {
      return allowed;
    }
  }
  for (const std::string& entry : python.entries) {
    const std::uint64_t folders_only = fs::is_directory(entry) ? kReadFolder : 0;
    if (Status allowed = allow(entry, kExecute | kReadFile | folders_only); !allowed) {
      return allowed;
    }
  }
  // The interpreter lists the folder in which it looks for a package.
  for (const std::string& home : python.homes) {
    if (Status allowed = allow(home, kReadFolder); !allowed) return allowed;
  }
  return {};
}

// A datagram socket keeps the numbers apart that several starting processes send. The caretaker
// reads the end of the file once our end is gone, even after SIGKILL.
Status Sandbox::Impl::start_caretaker() {
  std::array<int, 2> ends{};
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends.data()) != 0) {
    return system_error("socketpair", errno);
  }
  const Descriptor read(ends[0]);
  const Descriptor write(ends[1]);
  const Descriptor high(fcntl(read.get(), F_DUPFD_CLOEXEC, 16));
  notices = Descriptor(fcntl(write.get(), F_DUPFD_CLOEXEC, 16));
  const Descriptor null = null_device();
  const auto started = spawner.start(
      {.arguments = {python.program, "-I", "-S", "-B", "-c", program_text("caretaker.py"),
                     options.bubblewrap.filename().string()},
       .descriptors = {high.get(), null.get(), null.get()},
       .outlives = true});
  if (!started) return Unexpected(started.error());
  caretaker = *started;
  return {};
}

// While Tenon lives, it ends its workers itself.
void Sandbox::Impl::end_caretaker() {
  if (caretaker < 0) return;
  (void)end_of(caretaker, {});
  caretaker = -1;
  notices.close();
}

Status Sandbox::Impl::prepare(Tier wanted) {
  tier = wanted;
  end_caretaker();
  if (wanted == Tier::bubblewrap) {
    arguments = bubblewrap_arguments(options, python, folder);
    return start_caretaker();
  }
  if (options.folder_bytes > 0) {
    return Unexpected(Error{Errc::unsupported, "it has no folder to write into"});
  }
  arguments = python_arguments(python);
  return wanted == Tier::landlock ? make_ruleset() : Status{};
}

// `errors` becomes the worker's standard error, and `info` what bubblewrap says of its child; the
// caller reads both once the worker is ready or dead. All other ends of the pipes close here, in
// our process, when the function returns.
Expected<std::unique_ptr<Worker::Impl>> Sandbox::Impl::spawn(const WorkerLimits& limits,
                                                             Descriptor& errors, Descriptor& info) {
  auto to = make_pipe();
  auto from = make_pipe();
  auto error = make_pipe();
  auto rules = make_pipe();
  auto told = make_pipe();
  for (const auto* pipe : {&to, &from, &error, &rules, &told}) {
    if (!*pipe) return Unexpected(pipe->error());
  }
  Start start{.arguments = arguments,
              .descriptors = {to->read.get(), from->write.get(), error->write.get()},
              .limits = resource_limits(limits, options.folder_bytes)};
  if (tier == Tier::bubblewrap) {
    // Bubblewrap enters the filter last, because before that it needs calls that the filter
    // refuses.
    const ssize_t written = write(rules->write.get(), filter.data(), filter.size());
    if (std::cmp_not_equal(written, filter.size())) return system_error("seccomp filter", EIO);
    start.descriptors.insert(start.descriptors.end(), {rules->read.get(), told->write.get()});
    start.notices = notices.get();
  } else {
    start.environment = {kEnvironment};
    if (tier == Tier::landlock) {
      start.landlock = ruleset.get();
      start.filter = filter;
    }
  }
  const auto pid = spawner.start(start);
  if (!pid) return Unexpected(pid.error());
  auto worker = std::make_unique<Worker::Impl>();
  worker->pid = *pid;
  worker->cpu = limits.cpu;
  worker->has_inner = tier == Tier::bubblewrap;
  worker->to = std::move(to->write);
  worker->from = std::move(from->read);
  fcntl(worker->to.get(), F_SETFL, O_NONBLOCK);
  fcntl(worker->from.get(), F_SETFL, O_NONBLOCK);
  errors = std::move(error->read);
  info = std::move(told->read);
  return worker;
}

Sandbox::Sandbox(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Sandbox::~Sandbox() = default;

Expected<std::unique_ptr<Worker>> Sandbox::start(const WorkerLimits& limits) {
  // Counted before the start, so that several threads together cannot pass the limit.
  if (impl_->workers.fetch_add(1) >= impl_->options.max_workers) {
    --impl_->workers;
    return Unexpected(Error{Errc::limit_exceeded, "there are " +
                                                      std::to_string(impl_->options.max_workers) +
                                                      " workers already, as many as may be"});
  }
  Descriptor errors;
  Descriptor info;
  auto spawned = impl_->spawn(limits, errors, info);
  if (!spawned) {
    --impl_->workers;
    return Unexpected(spawned.error());
  }
  Worker::Impl& process = **spawned;
  process.release = [sandbox = shared_from_this()] { --sandbox->impl_->workers; };
  auto worker = std::make_unique<Worker>(*std::move(spawned));
  const TimePoint deadline = Clock::now() + kStartWait;
  if (const auto ready = worker->receive({.deadline = deadline}); !ready) {
    worker->kill();  // kills the last process that could write to it
    const std::string said = last_words(errors.get());
    return Unexpected(Error{Errc::unavailable, "a worker did not start: " +
                                                   (said.empty() ? ready.error().message : said)});
  }
  // Bubblewrap has written its child's number before the worker could say that it is ready.
  if (process.has_inner) {
    process.inner = open_inner(read_what_is_there(info.get()), process.pid, process.inner_pid);
  }
  // In a namespace of its own the worker's threads count; without one, all threads of the user
  // count.
  const std::uint32_t threads = process.has_inner ? limits.threads : kThreadsOfUser;
  const Python& python = impl_->python;
  const json::Object begin{{"op", "begin"},
                           {"threads", std::uint64_t{threads}},
                           {"homes", json::Array(python.homes.begin(), python.homes.end())},
                           {"entries", json::Array(python.entries.begin(), python.entries.end())},
                           {"folder", impl_->folder}};
  auto begun = ask(*worker, begin, deadline);
  if (!begun) return Unexpected(begun.error());
  return worker;
}

// A tier counts only if the worker's own attempts at what it must not do all fail (check() in
// worker.py).
Status Sandbox::open_tier(Tier tier) {
  if (Status prepared = impl_->prepare(tier); !prepared) return prepared;
  auto worker = start({});
  if (!worker) return Unexpected(worker.error());
  auto checked = ask(**worker, {{"op", "check"}}, Clock::now() + kStartWait);
  if (!checked) return Unexpected(checked.error());
  const json::Value* possible = checked->find("possible");
  if (possible == nullptr || possible->if_array() == nullptr) {
    return Unexpected(Error{Errc::invalid, "the worker did not say what is possible"});
  }
  if (tier == Tier::unsafe_local || possible->if_array()->empty()) return {};
  std::string list;
  for (const json::Value& thing : *possible->if_array()) {
    if (thing.if_string() != nullptr) list += (list.empty() ? "" : ", ") + *thing.if_string();
  }
  return Unexpected(Error{Errc::unavailable, "it lets through: " + list});
}

Expected<std::shared_ptr<Sandbox>> Sandbox::open(const SandboxOptions& options) {
  struct sigaction action{};
  if (sigaction(SIGPIPE, nullptr, &action) == 0 && action.sa_handler == SIG_DFL) {
    std::signal(SIGPIPE, SIG_IGN);  // a worker that has ended must be a write error, not our end
  }
  std::shared_ptr<Sandbox> sandbox(new Sandbox(std::make_unique<Impl>()));
  Impl& impl = *sandbox->impl_;
  impl.options = options;
  const auto program = find_python(options.python);
  if (!program) return Unexpected(program.error());
  auto python = look_at(*program, options.packages, impl.spawner);
  if (!python) return Unexpected(python.error());
  impl.python = *std::move(python);
  if (std::string missing = missing_text(impl.python.told); !missing.empty()) {
    return Unexpected(Error{Errc::unavailable, std::move(missing)});
  }
  if (options.folder_bytes > 0) impl.folder = folder_beside(impl.python.paths());
  auto filter = make_filter(options.folder_bytes > 0);
  if (!filter) return Unexpected(filter.error());
  impl.filter = *std::move(filter);
  std::string reasons;
  for (const Tier tier : {Tier::bubblewrap, Tier::landlock, Tier::unsafe_local}) {
    if (options.only && *options.only != tier) continue;
    if (tier == Tier::unsafe_local && !options.unsafe_local) continue;
    const Status opened = sandbox->open_tier(tier);
    if (opened) {
      impl.why_no_better = std::move(reasons);
      return sandbox;
    }
    reasons += std::string(reasons.empty() ? "" : "; ") + std::string(tier_name(tier)) + ": " +
               opened.error().message;
  }
  return Unexpected(
      Error{Errc::unsupported, "no sandbox works here, and code of models is not run without one" +
                                   (reasons.empty() ? "" : " (" + reasons + ")")});
}

Tier Sandbox::tier() const {
  return impl_->tier;
}
const std::string& Sandbox::why_no_better() const {
  return impl_->why_no_better;
}
const Interpreter& Sandbox::interpreter() const {
  return impl_->python.told;
}
const std::string& Sandbox::folder() const {
  return impl_->folder;
}
std::size_t Sandbox::workers() const {
  return impl_->workers.load();
}

}  // namespace tenon::rlm
