#include "tenon/record/folder.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <ctime>
#include <functional>
#include <iterator>

#include <sys/file.h>
#include <sys/stat.h>

namespace tenon::record {
namespace {

constexpr std::size_t kMaxIdBytes = 80;
constexpr std::string_view kDay = "0000-00-00";    // 0: any digit
constexpr std::string_view kTime = "000000-000-";  // the id follows
constexpr std::string_view kEnding = ".jsonl";

bool is_plain(char c) {
  return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || c == '-' ||
         c == '_';
}

bool has_shape(std::string_view text, std::string_view shape) {
  return std::ranges::equal(text, shape, [](char c, char wanted) {
    return wanted == '0' ? c >= '0' && c <= '9' : c == wanted;
  });
}

}  // namespace

Name name_of(std::int64_t us, std::string_view id) {
  const std::time_t seconds = us / 1'000'000;
  std::tm utc{};
  gmtime_r(&seconds, &utc);
  char day[16];
  char time[24];
  std::strftime(day, sizeof day, "%Y-%m-%d", &utc);
  const std::size_t length = std::strftime(time, sizeof time, "%H%M%S", &utc);
  std::snprintf(time + length, sizeof time - length, "-%03d-", static_cast<int>(us / 1000 % 1000));
  std::string file = time;
  std::ranges::copy_if(id.substr(0, kMaxIdBytes), std::back_inserter(file), is_plain);
  return {.day = day, .file = file.append(kEnding)};
}

bool is_name(std::string_view name) {
  const std::size_t slash = name.find('/');
  if (slash == std::string_view::npos || !is_day(name.substr(0, slash))) return false;
  name.remove_prefix(slash + 1);
  if (name.size() < kTime.size() + kEnding.size() || !name.ends_with(kEnding)) return false;
  name.remove_suffix(kEnding.size());
  return has_shape(name.substr(0, kTime.size()), kTime) &&
         std::ranges::all_of(name.substr(kTime.size()), is_plain);
}

bool is_day(std::string_view day) {
  return has_shape(day, kDay);
}

std::vector<std::string> entries_of(const std::filesystem::path& folder, std::error_code& error) {
  std::vector<std::string> names;
  for (std::filesystem::directory_iterator each(folder, error), end; !error && each != end;
       each.increment(error)) {
    names.push_back(each->path().filename().string());
  }
  std::ranges::sort(names, std::greater<>());
  return names;
}

bool is_being_written(int file) {
  if (::flock(file, LOCK_SH | LOCK_NB) == 0) return false;
  if (errno == EWOULDBLOCK) return true;
  constexpr std::time_t kLongAgo = 60;
  struct stat about{};
  return ::fstat(file, &about) == 0 && std::time(nullptr) - about.st_mtime < kLongAgo;
}

}  // namespace tenon::record
