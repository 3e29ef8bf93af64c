#include "tenon/base/crash.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <exception>
#include <filesystem>
#include <new>
#include <span>
#include <system_error>
#include <typeinfo>
#include <utility>

#include <cxxabi.h>
#include <dlfcn.h>
#include <execinfo.h>
#include <fcntl.h>
#include <link.h>
#include <poll.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

// How a report is written
//
// A signal handler may take no lock and allocate no memory: the signal may have come inside
// malloc() or the loader. So everything a report needs is in static memory before a signal can
// come:
//  - Requests in work stand in a table of 1,024 places. A request claims a place with one
//    compare-and-swap, begins the search where the last claim ended, and sets the state `told`
//    last, so that the handler never reads a half-written entry. Requests without a place are
//    counted.
//  - report() copies the version, the build id and the paths, and calls backtrace() once, since its
//    first call loads the unwinder.
//  - Each thread has an alternate stack, since a handler cannot run on a stack that has overflowed.
// The handler writes the facts in the order of risk: first what is in static memory, last the
// stack, where the unwinder itself may fault. alarm() ends a report that hangs. Then the earlier
// handlers are put back and the signal comes again, so the process dies as it would have without a
// report.
namespace tenon::crash {
namespace {

// ---- requests in work

// A request's entry. `told`: the handler may read it; `written`: a thread is writing it.
struct Place {
  enum State : std::uint32_t { free, written, told };
  std::atomic<std::uint32_t> state = free;
  std::uint32_t id_size = 0;
  std::string_view route;  // text of a route, which lives as long as the program
  std::array<char, 64> id;
};

constexpr std::size_t kPlaces = 1024;
std::array<Place, kPlaces> places;
std::atomic<std::size_t> next_place = 0;
std::atomic<std::size_t> untold = 0;      // requests that found no free place
constexpr std::size_t kUntold = kPlaces;  // a Request's place if it has none

std::size_t claim() {
  const std::size_t first = next_place.fetch_add(1, std::memory_order_relaxed);
  for (std::size_t i = 0; i < kPlaces; ++i) {
    const std::size_t at = (first + i) % kPlaces;
    std::uint32_t expected = Place::free;
    if (places[at].state.compare_exchange_strong(expected, Place::written,
                                                 std::memory_order_acquire)) {
      return at;
    }
  }
  untold.fetch_add(1, std::memory_order_relaxed);
  return kUntold;
}

}  // namespace

Request::Request(Request&& other) noexcept : place_(std::exchange(other.place_, kNone)) {}

void Request::tell(std::string_view route, std::string_view id) {
  if (place_ == kNone) place_ = claim();
  if (place_ == kUntold) return;
  Place& place = places[place_];
  place.state.store(Place::written, std::memory_order_relaxed);
  // The handler may run in this thread: no later write may move before this state.
  std::atomic_signal_fence(std::memory_order_seq_cst);
  place.route = route;
  place.id_size = static_cast<std::uint32_t>(id.copy(place.id.data(), place.id.size()));
  place.state.store(Place::told, std::memory_order_release);
}

void Request::end() {
  const std::size_t place = std::exchange(place_, kNone);
  if (place == kNone) return;
  if (place == kUntold) {
    untold.fetch_sub(1, std::memory_order_relaxed);
  } else {
    places[place].state.store(Place::free, std::memory_order_release);
  }
}

// ---- stacks of threads

ThreadStack::ThreadStack() {
  constexpr std::size_t kBytes = std::size_t{128} << 10;  // many times what unwinding needs
  // Sanitizers and others may have given the thread a stack already.
  stack_t now{};
  if (sigaltstack(nullptr, &now) != 0 || (now.ss_flags & SS_DISABLE) == 0) return;
  bytes_.reset(new (std::nothrow) std::byte[kBytes]);
  if (bytes_ == nullptr) return;
  const stack_t own{.ss_sp = bytes_.get(), .ss_flags = 0, .ss_size = kBytes};
  if (sigaltstack(&own, nullptr) != 0) bytes_.reset();
}

ThreadStack::~ThreadStack() {
  if (bytes_ == nullptr) return;
  const stack_t none{.ss_sp = nullptr, .ss_flags = SS_DISABLE, .ss_size = 0};
  sigaltstack(&none, nullptr);
}

// ---- the report: the code from here on does only what a signal handler may do

namespace {

constexpr int kSignals[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT};
constexpr std::size_t kMaxFrames = 100;

// What report() copies, so that the handler makes no system call for it.
struct Prepared {
  std::array<char, 64> version{};
  std::array<char, 65> build{};      // hexadecimal; "": the program has no build id
  std::array<char, 4096> program{};  // path
  std::array<char, 4096> folder{};
  std::array<struct sigaction, std::size(kSignals)> before{};
  std::array<bool, std::size(kSignals)> is_ours{};
};
Prepared prepared;
std::atomic<const char*> uncaught = nullptr;  // the type, as the compiler names it

template <std::size_t size>
void copy_into(std::array<char, size>& to, std::string_view text) {
  to[text.copy(to.data(), size - 1)] = '\0';
}

using DigitRoom = std::array<char, 20>;  // of 2^64 in base 10

// Writes at least `least` digits to the end of `room`.
std::string_view digits_of(std::uint64_t number, unsigned base, std::size_t least,
                           DigitRoom& room) {
  std::size_t at = room.size();
  do {
    room[--at] = "0123456789abcdef"[number % base];
    number /= base;
  } while (number > 0 || room.size() - at < least);
  return {room.data() + at, room.size() - at};
}

/// Writes to a file and to stderr.
class Out {
 public:
  explicit Out(int file) : file_(file) {}
  ~Out() { flush(); }
  Out(const Out&) = delete;
  Out& operator=(const Out&) = delete;

  Out& operator<<(std::string_view text) {
    for (const char c : text) {
      if (size_ == buffer_.size()) flush();
      buffer_[size_++] = c;
    }
    return *this;
  }
  Out& operator<<(std::uint64_t number) { return digits(number, 10, 1); }
  Out& digits(std::uint64_t number, unsigned base, std::size_t least) {
    DigitRoom room;
    return *this << digits_of(number, base, least, room);
  }
  void flush() {
    const std::string_view text(buffer_.data(), size_);
    write_all(file_, text);
    // Writing to a full pipe would block, and the file would never get the rest of the report.
    takes_stderr_ = takes_stderr_ && can_take(STDERR_FILENO);
    if (takes_stderr_) write_all(STDERR_FILENO, text);
    size_ = 0;
  }

 private:
  // Whether writing the buffer would not block, at once or within a second.
  static bool can_take(int file) {
    pollfd out{.fd = file, .events = POLLOUT, .revents = 0};
    return ::poll(&out, 1, 1000) > 0;
  }
  static void write_all(int file, std::string_view text) {
    while (file >= 0 && !text.empty()) {
      const ssize_t written = ::write(file, text.data(), text.size());
      if (written < 0 && errno == EINTR) continue;
      if (written <= 0) return;
      text.remove_prefix(static_cast<std::size_t>(written));
    }
  }

  const int file_;
  bool takes_stderr_ = true;
  std::array<char, 512> buffer_{};  // a pipe that polls as writable takes this much at once
  std::size_t size_ = 0;
};

std::string_view name_of(int signal) {
  switch (signal) {
    case SIGSEGV:
      return "SIGSEGV";
    case SIGBUS:
      return "SIGBUS";
    case SIGFPE:
      return "SIGFPE";
    case SIGILL:
      return "SIGILL";
    default:
      return "SIGABRT";
  }
}

struct Moment {
  std::uint64_t year, month, day, hour, minute, second;
};

// The time in UTC, computed by hand because gmtime() may take a lock. Source of the calculation:
// Howard Hinnant, "chrono-compatible low-level date algorithms".
Moment now() {
  timespec time{};
  clock_gettime(CLOCK_REALTIME, &time);
  const auto seconds = static_cast<std::uint64_t>(time.tv_sec);
  const std::uint64_t days = seconds / 86'400 + 719'468;  // since March 1 of the year 0
  const std::uint64_t era = days / 146'097;
  const std::uint64_t of_era = days % 146'097;
  const std::uint64_t year = (of_era - of_era / 1460 + of_era / 36'524 - of_era / 146'096) / 365;
  const std::uint64_t of_year = of_era - (365 * year + year / 4 - year / 100);
  const std::uint64_t shifted = (5 * of_year + 2) / 153;  // the month; 0 is March
  const std::uint64_t month = shifted < 10 ? shifted + 3 : shifted - 9;
  return {.year = year + era * 400 + (month <= 2 ? 1 : 0),
          .month = month,
          .day = of_year - (153 * shifted + 2) / 5 + 1,
          .hour = seconds / 3600 % 24,
          .minute = seconds / 60 % 60,
          .second = seconds % 60};
}

std::uint64_t thread_id() {
  return static_cast<std::uint64_t>(::syscall(SYS_gettid));
}

// Makes the folder and its parents, then the file. Returns -1 if there is no file.
int open_file(const Moment& time) {
  std::array<char, 4096>& path = prepared.folder;
  const std::size_t size = std::strlen(path.data());
  constexpr std::string_view kPattern = "/tenon-20260101T000000Z-1234567890.crash";
  if (size == 0 || size + kPattern.size() >= path.size()) return -1;
  // Like `mkdir -p`. A folder that exists is an error that does not matter; open() tells in the
  // end.
  for (std::size_t i = 1; i <= size; ++i) {
    if (path[i] != '/' && path[i] != '\0') continue;
    const char kept = std::exchange(path[i], '\0');
    ::mkdir(path.data(), S_IRWXU);
    path[i] = kept;
  }
  std::size_t end = size;
  const auto append = [&](std::string_view text) {
    end += text.copy(path.data() + end, path.size() - 1 - end);
  };
  const auto number = [&](std::uint64_t value, std::size_t width) {
    DigitRoom room;
    append(digits_of(value, 10, width, room));
  };
  append("/tenon-");
  number(time.year, 4);
  number(time.month, 2);
  number(time.day, 2);
  append("T");
  number(time.hour, 2);
  number(time.minute, 2);
  number(time.second, 2);
  append("Z-");
  number(static_cast<std::uint64_t>(::getpid()), 1);
  append(".crash");
  path[end] = '\0';
  // A new file only, and no link: the folder may be one in which others can write.
  return ::open(path.data(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW,
                S_IRUSR | S_IWUSR);
}

void* instruction_of(const void* context) {
  const auto& machine = static_cast<const ucontext_t*>(context)->uc_mcontext;
#if defined(__x86_64__)
  return reinterpret_cast<void*>(machine.gregs[REG_RIP]);
#elif defined(__aarch64__)
  return reinterpret_cast<void*>(machine.pc);
#else
  static_cast<void>(machine);
  return nullptr;
#endif
}

// The module that contains `address`, and where it was loaded. The program itself has the name "".
std::pair<const char*, std::uintptr_t> module_of(void* address) {
#if defined(DLFO_STRUCT_HAS_EH_DBASE)  // glibc 2.35: safe in a signal handler
  dl_find_object found{};
  if (_dl_find_object(address, &found) != 0) return {nullptr, 0};
  return {found.dlfo_link_map->l_name, found.dlfo_link_map->l_addr};
#else
  Dl_info found{};
  if (::dladdr(address, &found) == 0) return {nullptr, 0};
  return {found.dli_fname, reinterpret_cast<std::uintptr_t>(found.dli_fbase)};
#endif
}

void write_stack(Out& out, const void* context) {
  out << "stack:\n";
  // On a corrupt stack the unwinder may fault or hang, so everything known so far is written first.
  out.flush();
  std::array<void*, kMaxFrames> frames{};
  const int count = ::backtrace(frames.data(), static_cast<int>(frames.size()));
  std::span<void*> stack(frames.data(), static_cast<std::size_t>(std::max(count, 0)));
  // Frames above the faulting instruction belong to the signal handler.
  const auto met = std::ranges::find(stack, instruction_of(context));
  if (met != stack.end()) stack = {met, stack.end()};
  for (void* const address : stack) {
    const auto [name, base] = module_of(address);
    const auto place = reinterpret_cast<std::uintptr_t>(address);
    const std::string_view module = name == nullptr ? "?" : name;
    out << "  " << (module.empty() ? prepared.program.data() : module) << "+0x";
    out.digits(place - base, 16, 1) << "\n";
  }
}

void write_requests(Out& out) {
  out << "requests in work:\n";
  for (const Place& place : places) {
    if (place.state.load(std::memory_order_acquire) != Place::told) continue;
    out << "  " << place.route << " "
        << std::string_view(place.id.data(), std::min<std::size_t>(place.id_size, place.id.size()))
        << "\n";
  }
  if (const std::size_t more = untold.load(); more > 0) {
    out << "  and " << std::uint64_t{more} << " more\n";
  }
}

void write_report(int signal, const siginfo_t& info, const void* context) {
  const Moment time = now();
  const int file = open_file(time);
  Out out(file);
  out << "Tenon " << prepared.version.data() << " dies by " << name_of(signal);
  // A code above 0 means that the kernel saw a fault; others were sent, by kill() or abort().
  if (info.si_code > 0 && signal != SIGABRT) {
    out << " at address 0x";
    out.digits(reinterpret_cast<std::uintptr_t>(info.si_addr), 16, 1);
  } else if (info.si_pid != ::getpid()) {
    out << " from process " << static_cast<std::uint64_t>(info.si_pid);
  }
  if (const char* const type = uncaught.load(); type != nullptr) {
    out << ", std::terminate (exception: " << (*type == '\0' ? "none" : type) << ")";
  }
  out << "\nbuild: " << prepared.build.data() << "\ntime: ";
  out.digits(time.year, 10, 4) << "-";
  out.digits(time.month, 10, 2) << "-";
  out.digits(time.day, 10, 2) << "T";
  out.digits(time.hour, 10, 2) << ":";
  out.digits(time.minute, 10, 2) << ":";
  out.digits(time.second, 10, 2) << "Z\nprocess: ";
  out << static_cast<std::uint64_t>(::getpid()) << ", thread " << thread_id() << "\n";
  write_requests(out);
  write_stack(out, context);
  if (file >= 0) out << "this report is " << prepared.folder.data() << "\n";
}

void give_back() {
  for (std::size_t i = 0; i < std::size(kSignals); ++i) {
    if (prepared.is_ours[i]) ::sigaction(kSignals[i], &prepared.before[i], nullptr);
  }
}

// The first thread reports. Another thread that meets a signal meanwhile waits for it, since its
// own death would end the process before the report is written.
void on_signal(int signal, siginfo_t* info, void* context) {
  static std::atomic<bool> is_taken = false;
  constexpr unsigned kMostSeconds = 10;
  if (is_taken.exchange(true)) {
    for (unsigned i = 0; i < kMostSeconds; ++i) ::sleep(1);
  } else {
    // If the report hangs, for example in a lock of the loader, SIGALRM ends the process.
    ::signal(SIGALRM, SIG_DFL);
    ::alarm(kMostSeconds);
    write_report(signal, *info, context);
    ::alarm(0);
    give_back();
  }
  // A fault comes again by itself, because the same instruction runs again. A signal that was sent
  // (kill, abort) has to be raised again; it is delivered when this function returns.
  if (info->si_code <= 0) ::raise(signal);
}

[[noreturn]] void on_terminate() {
  // what() is not reported, since it may quote a request.
  const std::type_info* const type = abi::__cxa_current_exception_type();
  uncaught = type == nullptr ? "" : type->name();
  std::abort();
}

// Finds the build id of the program, which dl_iterate_phdr() passes first.
int find_build(dl_phdr_info* object, std::size_t /*size*/, void* /*data*/) {
  for (std::size_t i = 0; i < object->dlpi_phnum; ++i) {
    const auto& header = object->dlpi_phdr[i];
    if (header.p_type != PT_NOTE) continue;
    // A note is a header, a name and a content, each of the two padded to 4 bytes.
    const auto* note = reinterpret_cast<const std::byte*>(object->dlpi_addr + header.p_vaddr);
    const std::byte* const end = note + header.p_memsz;
    while (note + sizeof(ElfW(Nhdr)) <= end) {
      ElfW(Nhdr) head;
      std::memcpy(&head, note, sizeof head);
      const auto padded = [](std::size_t size) { return (size + 3) & ~std::size_t{3}; };
      const std::byte* const content = note + sizeof head + padded(head.n_namesz);
      if (head.n_type == NT_GNU_BUILD_ID && head.n_descsz * 2 < prepared.build.size()) {
        for (std::size_t at = 0; at < head.n_descsz; ++at) {
          const auto byte = std::to_integer<unsigned>(content[at]);
          prepared.build[2 * at] = "0123456789abcdef"[byte >> 4];
          prepared.build[2 * at + 1] = "0123456789abcdef"[byte & 15];
        }
        return 1;
      }
      note = content + padded(head.n_descsz);
    }
  }
  return 1;
}

}  // namespace

void report(const Options& options) {
  copy_into(prepared.version, options.version);
  copy_into(prepared.folder, options.folder);
  std::error_code failure;
  copy_into(prepared.program, std::filesystem::read_symlink("/proc/self/exe", failure).string());
  ::dl_iterate_phdr(&find_build, nullptr);
  // The first call of backtrace() loads the unwinder, which takes locks and memory.
  std::array<void*, 1> frame{};
  static_cast<void>(::backtrace(frame.data(), 1));
  static const auto& kOwn = *new ThreadStack;  // never freed: threads may crash after main() ended
  static_cast<void>(kOwn);

  struct sigaction action{};
  action.sa_sigaction = &on_signal;
  action.sa_flags = SA_SIGINFO | SA_ONSTACK;
  sigfillset(&action.sa_mask);
  sigdelset(&action.sa_mask, SIGALRM);
  for (std::size_t i = 0; i < std::size(kSignals); ++i) {
    ::sigaction(kSignals[i], nullptr, &prepared.before[i]);
    // A handler that was set before ours (a sanitizer's) stays.
    prepared.is_ours[i] =
        (prepared.before[i].sa_flags & SA_SIGINFO) == 0 && prepared.before[i].sa_handler == SIG_DFL;
    if (prepared.is_ours[i]) ::sigaction(kSignals[i], &action, nullptr);
  }
  std::set_terminate(&on_terminate);
}

std::vector<std::string> reports_in(const std::string& folder) {
  namespace fs = std::filesystem;
  constexpr std::size_t kMost = 20;
  std::vector<std::string> found;
  std::error_code failure;
  // A range-for would throw if a later entry cannot be read.
  for (fs::directory_iterator entry(folder, failure); entry != fs::directory_iterator();
       entry.increment(failure)) {
    const std::string name = entry->path().filename().string();
    if (name.starts_with("tenon-") && name.ends_with(".crash")) {
      found.push_back(entry->path().string());
    }
  }
  std::ranges::sort(found);  // names begin with their time
  const std::size_t old = found.size() - std::min(found.size(), kMost);
  for (std::size_t i = 0; i < old; ++i) fs::remove(found[i], failure);
  found.erase(found.begin(), found.begin() + static_cast<std::ptrdiff_t>(old));
  return found;
}

}  // namespace tenon::crash
