#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

/// Inside the layer: what the recorder and the list of recordings both know of a folder's files.
namespace tenon::record {

/// Where the file of an answer lies in the folder: "2026-11-30/101500-042-resp_1.jsonl" in UTC,
/// with milliseconds. So names sort by time.
struct Name {
  std::string day;
  std::string file;
};

/// The name of an answer that began `us` microseconds after 1970. Characters of the id that could
/// lead out of the folder are left out.
[[nodiscard]] Name name_of(std::int64_t us, std::string_view id);

/// Whether name_of() gives such a name ("DAY/FILE"). The folder may have other files.
[[nodiscard]] bool is_name(std::string_view name);
/// Whether `day` is the first part of such a name.
[[nodiscard]] bool is_day(std::string_view day);

/// The names in a folder, the latest first, since names of days and files begin with their time.
/// After an `error` those that were read.
[[nodiscard]] std::vector<std::string> entries_of(const std::filesystem::path& folder,
                                                  std::error_code& error);

/// Whether the open file is one that a recorder has open: it holds a lock on it. On a file system
/// without locks, whether it was changed within the last minute.
[[nodiscard]] bool is_being_written(int file);

}  // namespace tenon::record
