#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "tenon/base/expected.h"
#include "tenon/json/value.h"

/// The recordings of a folder, for the inspector.
namespace tenon::record {

struct Listed {
  std::vector<json::Value> recordings;  ///< Newest first, see list_recordings().
  bool has_more = false;
};

/// The recordings of `folder` before the one called `before` ("": the newest), at most `limit`:
/// the members of the first line without the request, of the last line, `name`, `status` and `live`
/// (it is being written). One that is neither live nor has a status was never finished: the server
/// was killed, or the file was full. Reads the two ends of each file only. `before` need not be
/// there any more. Fails with `invalid` if it is no name that a recorder gives, and with
/// `unavailable` if the folder cannot be read.
[[nodiscard]] Expected<Listed> list_recordings(const std::string& folder, std::string_view before,
                                               std::size_t limit);

/// The text of a recording from byte `from` on. Fails with `invalid` if `name` is not one that a
/// recorder gives, and with `unavailable` if there is no such file.
[[nodiscard]] Expected<std::string> read_recorded(const std::string& folder, std::string_view name,
                                                  std::uint64_t from);

}  // namespace tenon::record
