#include "tenon/rlm/filter.h"

#include <algorithm>
#include <cerrno>
#include <initializer_list>
#include <iterator>
#include <memory>
#include <string>
#include <string_view>

#include <fcntl.h>
#include <sched.h>
#include <seccomp.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "tenon/rlm/spawn.h"

// The filter is made by libseccomp from two lists of names. A call in kAllowed may be made, one in
// kRefused fails with EPERM, and any other one with ENOSYS. A few calls depend on an argument
// (clone, prlimit64, ioctl, fcntl) and have rules of their own in make_filter(). check() in
// worker.py tries what must be impossible whenever a sandbox opens.

namespace tenon::rlm {
namespace {

// Names instead of numbers: a name that this processor or libseccomp does not have is left out.
constexpr const char* kAllowed[] = {
    // memory
    "brk",
    "mmap",
    "mprotect",
    "munmap",
    "mremap",
    "madvise",
    "msync",
    "mincore",
    "membarrier",
    // open descriptors, and files to read
    "read",
    "write",
    "readv",
    "writev",
    "pread64",
    "pwrite64",
    "preadv",
    "pwritev",
    "lseek",
    "close",
    "close_range",
    "open",
    "openat",
    "stat",
    "lstat",
    "fstat",
    "newfstatat",
    "fstatfs",
    "statfs",
    "statx",
    "access",
    "faccessat",
    "faccessat2",
    "readlink",
    "readlinkat",
    "getdents",
    "getdents64",
    "getcwd",
    "chdir",
    "dup",
    "dup2",
    "dup3",
    "pipe",
    "pipe2",
    "fadvise64",
    "ftruncate",
    "umask",
    // waiting and time
    "select",
    "pselect6",
    "poll",
    "ppoll",
    "epoll_create",
    "epoll_create1",
    "epoll_ctl",
    "epoll_wait",
    "epoll_pwait",
    "eventfd2",
    "futex",
    "nanosleep",
    "clock_nanosleep",
    "clock_gettime",
    "clock_getres",
    "gettimeofday",
    "time",
    "times",
    "alarm",
    "setitimer",
    "getitimer",
    "sched_yield",
    "restart_syscall",
    "pause",
    // the process itself
    "getpid",
    "gettid",
    "getppid",
    "getuid",
    "geteuid",
    "getgid",
    "getegid",
    "getresuid",
    "getresgid",
    "getgroups",
    "getpgrp",
    "getpgid",
    "getsid",
    "getrlimit",
    "setrlimit",
    "getrusage",
    "getpriority",
    "sched_getaffinity",
    "sched_getparam",
    "sched_getscheduler",
    "sched_get_priority_min",
    "sched_get_priority_max",
    "uname",
    "sysinfo",
    "getrandom",
    "getcpu",
    "rt_sigaction",
    "rt_sigprocmask",
    "rt_sigreturn",
    "rt_sigpending",
    "rt_sigsuspend",
    "rt_sigtimedwait",
    "sigaltstack",
    "arch_prctl",
    "set_tid_address",
    "set_robust_list",
    "get_robust_list",
    "rseq",
    "exit",
    "exit_group",
    // The interpreter itself is started under the filter. No other program is there, but for what a
    // cell writes into a folder of its own.
    "execve",
};

// Calls that the kernel has and a worker must not make: they fail with EPERM, which Python reports
// as PermissionError. ENOSYS would make C libraries try another call for the same end.
constexpr const char* kRefused[] = {
    "fork",
    "vfork",
    "execveat",
    "kill",
    "tkill",
    "tgkill",
    "rt_sigqueueinfo",
    "rt_tgsigqueueinfo",
    "pidfd_open",
    "pidfd_send_signal",
    "pidfd_getfd",
    "ptrace",
    "process_vm_readv",
    "process_vm_writev",
    "process_madvise",
    "kcmp",
    "wait4",
    "waitid",
    "setsid",
    "setpgid",
    "socket",
    "socketpair",
    "connect",
    "bind",
    "listen",
    "accept",
    "accept4",
    "sendto",
    "sendmsg",
    "sendmmsg",
    "recvfrom",
    "recvmsg",
    "recvmmsg",
    "getsockname",
    "getpeername",
    "setsockopt",
    "getsockopt",
    "shutdown",
    "mkdir",
    "mkdirat",
    "mknod",
    "mknodat",
    "creat",
    "unlink",
    "unlinkat",
    "rmdir",
    "rename",
    "renameat",
    "renameat2",
    "link",
    "linkat",
    "symlink",
    "symlinkat",
    "chmod",
    "fchmod",
    "fchmodat",
    "chown",
    "fchown",
    "lchown",
    "fchownat",
    "truncate",
    "utime",
    "utimes",
    "utimensat",
    "futimesat",
    "setxattr",
    "lsetxattr",
    "fsetxattr",
    "fallocate",
    "memfd_create",
    "memfd_secret",
    "splice",
    "tee",
    "vmsplice",
    "inotify_init",
    "inotify_init1",
    "fanotify_init",
    "name_to_handle_at",
    "open_by_handle_at",
    "mount",
    "umount2",
    "pivot_root",
    "chroot",
    "move_mount",
    "open_tree",
    "fsopen",
    "fsconfig",
    "fsmount",
    "fspick",
    "mount_setattr",
    "unshare",
    "setns",
    "setuid",
    "setgid",
    "setreuid",
    "setregid",
    "setresuid",
    "setresgid",
    "setgroups",
    "setfsuid",
    "setfsgid",
    "capset",
    "prctl",
    "seccomp",
    "bpf",
    "perf_event_open",
    "userfaultfd",
    "keyctl",
    "add_key",
    "request_key",
    "init_module",
    "finit_module",
    "delete_module",
    "kexec_load",
    "kexec_file_load",
    "reboot",
    "swapon",
    "swapoff",
    "acct",
    "quotactl",
    "sethostname",
    "setdomainname",
    "iopl",
    "ioperm",
    "personality",
    "syslog",
    "clock_settime",
    "settimeofday",
    "adjtimex",
    "clock_adjtime",
    "vhangup",
    "shmget",
    "shmat",
    "shmctl",
    "msgget",
    "semget",
    "mq_open",
    "setpriority",
    "sched_setaffinity",
    "sched_setscheduler",
    "sched_setparam",
    "sched_setattr",
    "ioprio_set",
    "mlock",
    "mlock2",
    "mlockall",
    "timer_create",
    "timerfd_create",
    "signalfd4",
    "io_setup",
    "flock",
};

// What making, changing and removing files in a folder takes. The mounts say where that is.
constexpr const char* kInFolder[] = {
    "mkdir",    "mkdirat",  "creat",     "unlink",          "unlinkat",  "rmdir",
    "rename",   "renameat", "renameat2", "truncate",        "chmod",     "fchmod",
    "fchmodat", "utime",    "utimes",    "utimensat",       "futimesat", "fallocate",
    "flock",    "fsync",    "fdatasync", "copy_file_range", "sendfile",
};

// Collects rules in libseccomp and compiles them to a program of BPF instructions. The first error
// is kept for finish().
class Builder {
 public:
  // The default is ENOSYS: a call that is newer than these lists looks as if the kernel lacked it,
  // and C libraries then use an older one. clone3 is such a call, so threads come by clone, whose
  // flags a filter can read.
  Builder() : context_(seccomp_init(SCMP_ACT_ERRNO(ENOSYS)), &seccomp_release) {}

  void add(std::uint32_t action, const char* name, std::initializer_list<scmp_arg_cmp> where = {}) {
    const int number = seccomp_syscall_resolve_name(name);
    if (number == __NR_SCMP_ERROR) return;
    const int result = seccomp_rule_add_array(context_.get(), action, number,
                                              static_cast<unsigned>(where.size()), where.begin());
    // -EDOM: this processor does not have the call.
    if (result < 0 && result != -EDOM && error_ == 0) error_ = -result;
  }

  // libseccomp writes the program only to a descriptor, so it goes through a file in memory.
  [[nodiscard]] Expected<std::vector<std::byte>> finish() const {
    if (error_ != 0) return system_error("seccomp filter", error_);
    const Descriptor file(memfd_create("filter", MFD_CLOEXEC));
    if (!file.is_open()) return system_error("memfd_create", errno);
    if (const int result = seccomp_export_bpf(context_.get(), file.get()); result < 0) {
      return system_error("seccomp filter", -result);
    }
    const off_t size = lseek(file.get(), 0, SEEK_END);
    std::vector<std::byte> bytes(static_cast<std::size_t>(std::max<off_t>(size, 0)));
    if (bytes.empty() || pread(file.get(), bytes.data(), bytes.size(), 0) != size) {
      return system_error("seccomp filter", EIO);
    }
    return bytes;
  }

 private:
  std::unique_ptr<void, decltype(&seccomp_release)> context_;
  int error_ = 0;
};

scmp_arg_cmp is(unsigned argument, std::uint64_t value) {
  return {.arg = argument, .op = SCMP_CMP_EQ, .datum_a = value, .datum_b = 0};
}
// Holds if (argument & mask) == value.
scmp_arg_cmp has(unsigned argument, std::uint64_t mask, std::uint64_t value) {
  return {.arg = argument, .op = SCMP_CMP_MASKED_EQ, .datum_a = mask, .datum_b = value};
}

}  // namespace

// What is not listed fails with ENOSYS, as on a kernel that lacks it; what is listed as refused
// fails with EPERM. Python's standard library goes on without either.
Expected<std::vector<std::byte>> make_filter(bool has_folder) {
  Builder filter;
  const auto is_given = [has_folder](std::string_view name) {
    return has_folder && std::ranges::find(kInFolder, name) != std::end(kInFolder);
  };
  for (const char* name : kAllowed) filter.add(SCMP_ACT_ALLOW, name);
  if (has_folder) {
    for (const char* name : kInFolder) filter.add(SCMP_ACT_ALLOW, name);
  }
  for (const char* name : kRefused) {
    if (!is_given(name)) filter.add(SCMP_ACT_ERRNO(EPERM), name);
  }
  // Allows threads, but no processes and no namespaces.
  filter.add(SCMP_ACT_ALLOW, "clone", {has(0, CLONE_THREAD, CLONE_THREAD)});
  filter.add(SCMP_ACT_ERRNO(EPERM), "clone", {has(0, CLONE_THREAD, 0)});
  // Allows a process to change its own limits, which it can only lower.
  filter.add(SCMP_ACT_ALLOW, "prlimit64", {is(0, 0)});
  for (const std::uint64_t request : {TCGETS, FIOCLEX, FIONCLEX, FIONBIO, FIONREAD}) {
    filter.add(SCMP_ACT_ALLOW, "ioctl", {is(1, request)});
  }
  // Without F_SETOWN and F_SETSIG, which send signals.
  for (const int command :
       {F_DUPFD, F_DUPFD_CLOEXEC, F_GETFD, F_SETFD, F_GETFL, F_SETFL, F_GETPIPE_SZ}) {
    filter.add(SCMP_ACT_ALLOW, "fcntl", {is(1, static_cast<std::uint64_t>(command))});
  }
  return filter.finish();
}

}  // namespace tenon::rlm
