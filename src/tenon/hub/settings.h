#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "tenon/base/expected.h"

namespace tenon::hub {

/// Where models come from and where they are kept.
struct Settings {
  std::string endpoint = "https://huggingface.co";  ///< Without a slash at its end.
  std::string token;                                ///< "": requests are anonymous.
  std::string token_place;                          ///< Where it was found, for messages.
  std::filesystem::path cache;                ///< The folder that the hub's own client uses, too.
  std::vector<std::filesystem::path> ollama;  ///< Stores of Ollama; the first is searched first.
  bool is_offline = false;                    ///< The hub is never asked.

  // How patient a download is.
  unsigned max_attempts = 6;                          ///< In a row without progress.
  std::chrono::milliseconds first_pause{1'000};       ///< Before the second; doubled each time.
  std::chrono::milliseconds max_pause{120'000};       ///< The longest wait that a hub may ask for.
  std::chrono::milliseconds connect_timeout{10'000};  ///< Name, connection, TLS.
  std::chrono::milliseconds silence_limit{30'000};    ///< Between two bytes.
  std::chrono::milliseconds slow_window{60'000};      ///< In each such time at least…
  std::uint64_t slow_bytes = 64 << 10;                ///< …this many bytes must come.
  std::uint64_t max_list_bytes = 16 << 20;            ///< Limit of one answer that lists files.
  unsigned max_list_pages = 100;
};

/// Reads the environment, by the variables of the hub's own client and of Ollama:
///
///   HF_ENDPOINT                       the hub's address
///   HF_TOKEN, HUGGING_FACE_HUB_TOKEN  the token; else the file HF_TOKEN_PATH or HF_HOME/token,
///                                     unless HF_HUB_DISABLE_IMPLICIT_TOKEN is 1
///   HF_HUB_CACHE, HUGGINGFACE_HUB_CACHE  the cache; else HF_HOME/hub
///   HF_HOME                           else XDG_CACHE_HOME/huggingface or ~/.cache/huggingface
///   HF_HUB_OFFLINE                    1: the hub is not asked
///   OLLAMA_MODELS                     Ollama's store; else ~/.ollama/models and the service's own
///
/// Fails with `invalid` if HF_ENDPOINT is not an HTTP address, or if the token has characters that
/// no token has.
[[nodiscard]] Expected<Settings> settings_from_environment();

}  // namespace tenon::hub
