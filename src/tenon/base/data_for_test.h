#pragma once

#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <string>

/// Data that tests and benchmarks read. There are two sets with the same layout
/// (tests/samples/README.md): our own samples, which are in the tree, and the large reference data,
/// which are not. A test runs over each set, and is skipped for the large one if that is absent.
namespace tenon {

enum class Data : std::uint8_t { own, large };

/// The folder of a set. The large set is at TENON_DATA, or else at ../shared/data.
inline std::filesystem::path folder_of(Data data) {
  const std::filesystem::path root = TENON_SOURCE_DIR;
  if (data == Data::own) return root / "tests" / "samples";
  const char* named = std::getenv("TENON_DATA");  // NOLINT(concurrency-mt-unsafe): never set here
  return named != nullptr ? std::filesystem::path(named) : root / ".." / "shared" / "data";
}

inline bool is_there(Data data) {
  return std::filesystem::exists(folder_of(data));
}

/// Why a test over `data` is skipped if the data are absent.
inline std::string why_skipped(Data data) {
  return "NOT TESTED: the large reference data are not at " + folder_of(data).string() +
         " (TENON_DATA names their folder)";
}

/// For benchmarks: the large set if it is there, else our own, which a note on stderr says once.
inline Data largest_data() {
  static const Data kData = [] {
    if (is_there(Data::large)) return Data::large;
    std::cerr << "NOTE: the large reference data are not at " << folder_of(Data::large).string()
              << " (TENON_DATA names their folder): these are figures over our own samples\n";
    return Data::own;
  }();
  return kData;
}

/// For the names of tests: "Own" and "Large".
inline std::string name_of(Data data) {
  return data == Data::own ? "Own" : "Large";
}

}  // namespace tenon
