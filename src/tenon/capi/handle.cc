#include "tenon/capi/handle.h"

#include <algorithm>
#include <cerrno>
#include <exception>
#include <filesystem>
#include <mutex>
#include <new>
#include <shared_mutex>
#include <system_error>

#include "tenon/base/log.h"
#include "tenon/base/utf8.h"
#include "tenon/json/lines.h"

// Handles, errors and the log of the C interface. No exception leaves it: guarded() (handle.h)
// turns what a function throws into a tenon_error, and what even that may throw into no_memory,
// which was made before it is needed. The log is the process's: one function of the caller at a
// time.

namespace tenon::capi {
namespace {

static_assert(static_cast<int>(Errc::invalid) + 1 == TENON_INVALID);
static_assert(static_cast<int>(Errc::unsupported) + 1 == TENON_UNSUPPORTED);
static_assert(static_cast<int>(Errc::limit_exceeded) + 1 == TENON_LIMIT_EXCEEDED);
static_assert(static_cast<int>(Errc::unsatisfiable) + 1 == TENON_UNSATISFIABLE);
static_assert(static_cast<int>(Errc::unavailable) + 1 == TENON_UNAVAILABLE);

// Made in advance. The message fits into the string object itself, so it needs no memory.
tenon_error no_memory{TENON_INTERNAL, "out of memory"};

// A message may quote the wrong text, for example a pattern of 100 kB. The beginning says what is
// wrong and the end how to put it right, so the middle goes.
constexpr std::size_t kMostMessage = 2'000;
constexpr std::size_t kKeptAtEnd = 500;

std::string shortened(std::string_view message) {
  if (message.size() <= kMostMessage) return std::string(message);
  std::string_view begin = message.substr(0, kMostMessage - kKeptAtEnd);
  begin.remove_suffix(utf8::open_tail(begin));
  std::string_view end = message.substr(message.size() - kKeptAtEnd);
  while (!end.empty() && (static_cast<unsigned char>(end.front()) & 0xC0U) == 0x80U) {
    end.remove_prefix(1);
  }
  const std::size_t left_out = message.size() - begin.size() - end.size();
  return std::string(begin) + " ... (" + std::to_string(left_out) + " bytes left out) ... " +
         std::string(end);
}

// If there is no memory for the error, the one that was made in advance says so.
tenon_error* new_error(tenon_code code, std::string_view message, std::string_view path = {},
                       std::uint32_t line = 0) noexcept try {
  return new tenon_error{code, shortened(message), shortened(path), line};
} catch (...) {
  return &no_memory;
}

}  // namespace

tenon_error* error_of(const Error& error) noexcept {
  return new_error(static_cast<tenon_code>(static_cast<int>(error.code) + 1), error.message,
                   error.path, error.line);
}

tenon_error* caught() noexcept {
  try {
    // Throws the present exception once more, to look at its type.
    throw;
  } catch (const std::bad_alloc&) {
    return &no_memory;
  } catch (const std::exception& exception) {
    return new_error(TENON_INTERNAL, exception.what());
  } catch (...) {
    return new_error(TENON_INTERNAL, "an unknown exception");
  }
}

tenon_error* missing(std::initializer_list<Given> given) noexcept try {
  for (const Given& one : given) {
    if (one.pointer != nullptr) continue;
    return error_of(null_array(one.name));
  }
  return nullptr;
} catch (...) {
  return caught();
}

// Asked before a file is opened, so that the error names the parameter and not a system call.
Status check_path(tenon_text path, std::string_view kinds) {
  const std::string_view name = view(path);
  if (name.empty()) {
    return Unexpected(Error{Errc::invalid, "path is empty: name " + std::string(kinds), "path"});
  }
  if (const std::size_t nul = name.find('\0'); nul != std::string_view::npos) {
    return Unexpected(
        Error{Errc::invalid, "path has a NUL behind " + std::to_string(nul) + " bytes", "path"});
  }
  std::error_code failed;
  if (std::filesystem::exists(name, failed)) return {};
  if (!failed) failed = std::make_error_code(std::errc::no_such_file_or_directory);
  return Unexpected(Error{Errc::unavailable, std::string(name) + ": " + failed.message(), "path"});
}

Error null_array(std::string_view name) {
  return {Errc::invalid, std::string(name) + " is NULL", std::string(name)};
}

Status write_ids(std::span<const std::int32_t> all, std::int32_t* ids, std::size_t capacity,
                 std::size_t* count) {
  if (ids == nullptr && capacity > 0) return Unexpected(null_array("ids"));
  std::copy_n(all.begin(), std::min(capacity, all.size()), ids);
  *count = all.size();
  return {};
}

Expected<json::Value> json_in(tenon_text text, std::string_view name) {
  auto value = json::parse(view(text));
  if (!value) {
    Error error = Error::at(value.error().code, std::string(name), value.error().message);
    error.line = value.error().line;
    return Unexpected(std::move(error));
  }
  return value;
}

// An unknown member is an error, since a misspelt option would have no effect.
Expected<json::Object> object_in(tenon_text text, std::string_view name,
                                 std::initializer_list<std::string_view> known) {
  if (view(text).empty()) return json::Object();
  auto value = json_in(text, name);
  if (!value) return Unexpected(value.error());
  json::Object* const object = value->if_object();
  if (object == nullptr) {
    return Unexpected(Error::at(Errc::invalid, std::string(name), "must be a JSON object"));
  }
  if (const Status checked = json::check_members(*object, known); !checked) {
    return Unexpected(Error{checked.error().code,
                            std::string(name) + ": " + checked.error().message,
                            checked.error().path});
  }
  return std::move(*object);
}

Expected<std::string> string_member(const json::Object& object, std::string_view member) {
  const json::Value* const value = object.find(member);
  if (value == nullptr || value->is_null()) return std::string();
  if (value->if_string() == nullptr) {
    return Unexpected(Error::at(Errc::invalid, std::string(member), "must be a string"));
  }
  return *value->if_string();
}

namespace {

// A line is passed on under the shared lock, so that a replaced log is not called any more.
struct Log {
  std::shared_mutex mutex;  // guards the members below
  tenon_log_fn function = nullptr;
  void* user = nullptr;
};

// Never destroyed, because threads may log while the program ends.
Log& current_log() {
  static Log* const log = new Log;
  return *log;
}

void write(log::Level level, std::string_view message) {
  Log& log = current_log();
  const std::shared_lock lock(log.mutex);
  if (log.function == nullptr) return;
  // A copy, since the caller may read one byte more: text_of() promises a NUL.
  log.function(log.user, static_cast<tenon_log_level>(level), text_of(std::string(message)));
}

}  // namespace

}  // namespace tenon::capi

using tenon::capi::text_of;

const char* tenon_version(void) {
  return TENON_VERSION;
}

tenon_text tenon_string_text(const tenon_string* string) {
  return string == nullptr ? text_of({}) : text_of(string->text);
}

void tenon_string_free(tenon_string* string) {
  delete string;
}

tenon_code tenon_error_code(const tenon_error* error) {
  return error == nullptr ? TENON_OK : error->code;
}

tenon_text tenon_error_message(const tenon_error* error) {
  return error == nullptr ? text_of({}) : text_of(error->message);
}

tenon_text tenon_error_path(const tenon_error* error) {
  return error == nullptr ? text_of({}) : text_of(error->path);
}

uint32_t tenon_error_line(const tenon_error* error) {
  return error == nullptr ? 0 : error->line;
}

void tenon_error_free(tenon_error* error) {
  if (error != &tenon::capi::no_memory) delete error;
}

void tenon_set_log(tenon_log_fn log, void* user, tenon_log_level least) try {
  namespace capi = tenon::capi;
  {
    capi::Log& current = capi::current_log();
    // Waits for lines that are being passed on, so that the old function is not called after this
    // returns.
    const std::unique_lock lock(current.mutex);
    current.function = log;
    current.user = user;
  }
  if (log == nullptr) return tenon::log::set_sink(nullptr, tenon::log::Level::error);
  tenon::log::set_sink(capi::write, static_cast<tenon::log::Level>(least));
} catch (...) {  // the lock failed, and nothing has changed
  return;
}
